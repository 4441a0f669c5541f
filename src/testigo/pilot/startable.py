"""Whether a campaign can start at all, by configuration and libraries alone: before anything of it is registered."""

from __future__ import annotations

from torch import nn

from testigo.campaign import Campaign, planned_runs
from testigo.campaign.sections import Base
from testigo.corpus import Corpus
from testigo.errors import ModelError
from testigo.model.base import BaseFiles
from testigo.model.load import load_config
from testigo.model.quantised import require
from testigo.sizing.architecture import shape
from testigo.sizing.few_bits import FewBits
from testigo.tasks import labels_of


def refuse_unstartable(campaign: Campaign, corpus: Corpus, base: BaseFiles) -> None:
    """Refuse what could not be loaded or trained, in the file as written and in each variant.

    The model is built as a shape, without a value, and only where modules are named one by one.

    Raises
    ------
    MissingExtra
        When a base in few bits is declared and the library for it is not installed.
    ModelError
        When the base is quantised already, or an adapter's targets or saved modules are none of its modules, or none
        that few bits leave trainable.
    """
    configuration = load_config(base)
    seen: list[Base] = []
    for planned in planned_runs(campaign):
        model = planned.campaign.model
        adapter = model.adapter
        if model in seen:
            continue
        seen.append(model)
        require(model.quantise)
        if adapter.method == "lora" and (adapter.targets != "all-linear" or adapter.save_modules):
            _refuse_unknown_modules(planned.campaign, configuration, len(labels_of(campaign, corpus)))


def _refuse_unknown_modules(campaign: Campaign, configuration: object, n_classes: int) -> None:
    try:
        if campaign.model.quantise is not None and campaign.model.adapter.targets != "all-linear":
            _refuse_in_full(shape(campaign, configuration, adapted=False, n_classes=n_classes), campaign)
        shape(campaign, configuration, adapted=True, n_classes=n_classes)
    except ValueError as error:  # transformers' own, for an architecture that cannot do the task
        raise ModelError(
            expected="a base whose architecture transformers builds for this kind of task",
            found=str(error).splitlines()[0][:200],
            where=f"model.base: {campaign.model.base}",
            action="name another base",
        ) from error


def _refuse_in_full(model: nn.Module, campaign: Campaign) -> None:
    named = tuple(f".{name}" for name in campaign.model.adapter.targets)
    in_full = sorted(
        path for path, module in model.named_modules() if f".{path}".endswith(named) and not isinstance(module, FewBits)
    )
    if in_full:
        raise ModelError(
            expected="targets that are held in few bits beside `quantise`",
            found=f"{', '.join(in_full[:5])}, which stays in full",
            where="model.adapter.targets",
            action="leave it out of the targets, or remove model.quantise",
        )
