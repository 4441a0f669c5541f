"""The class head of a base: kept where it has one for these classes, new otherwise; its names, and what is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification

from testigo.errors import ModelError
from testigo.model.device import random_state_kept

_SPREAD = 0.02  # of new weights, where the configuration names none: Devlin et al. 2018, arXiv 1810.04805
_KINDS = {
    "text": (AutoModelForSequenceClassification, "ForSequenceClassification"),
    "image": (AutoModelForImageClassification, "ForImageClassification"),
}


@dataclass(frozen=True)
class Head:
    """The head that a campaign asks for.

    Attributes
    ----------
    labels
        The names of the classes, in order.
    reads
        What stands before it: a text or an image.
    wanted
        `auto` keeps a head that the base has for these classes; `new` makes a new one in any case.
    seed
        Of a new head's initial values.
    """

    labels: tuple[str, ...]
    reads: Literal["text", "image"]
    wanted: Literal["auto", "new"] = "auto"
    seed: int = 0

    @property
    def auto_class(self) -> Any:
        """What transformers loads such a model with."""
        return _KINDS[self.reads][0]

    def own_names(self, configuration: Any) -> tuple[str, ...] | None:
        """The classes of the head that a base comes with, in its order; None where it has none."""
        suffix = _KINDS[self.reads][1]
        if not any(str(name).endswith(suffix) for name in configuration.architectures or ()):
            return None
        names = {int(number): str(name) for number, name in configuration.id2label.items()}
        return tuple(names[number] for number in sorted(names))

    def is_new(self, configuration: Any) -> bool:
        """Whether the base's own head is replaced, or there is none.

        Raises
        ------
        ModelError
            When the base has a head for other classes, and the campaign does not ask for a new one.
        """
        own = self.own_names(configuration)
        if self.wanted == "new" or own is None:
            return True
        if len(own) != len(self.labels) or (are_names(own) and set(own) != set(self.labels)):
            raise ModelError(
                expected=f"a head for {len(self.labels)} classes: {_shown(self.labels)}",
                found=f"the base's own head, for {len(own)}: {_shown(own)}",
                where="model.base",
                action="set `model.head: new` to replace it, or list the head's own classes in `task.labels`",
            )
        return False

    def configure(self, configuration: Any) -> bool:
        """Write the classes into a configuration. Says whether the head is new.

        The names of a head that is kept stay as they are: its order is what its weights mean.

        Raises
        ------
        ModelError
            As for `is_new`.
        """
        new = self.is_new(configuration)
        if new or not are_names(self.own_names(configuration) or ()):
            configuration.num_labels = len(self.labels)
            configuration.id2label = dict(enumerate(self.labels))
            configuration.label2id = {name: number for number, name in enumerate(self.labels)}
        configuration.problem_type = "single_label_classification"
        return new


def are_names(names: Sequence[str]) -> bool:
    """Whether a head's classes have names, and not the numbers that transformers writes where nobody named them."""
    return bool(names) and any(name != f"LABEL_{number}" for number, name in enumerate(names))


def head_modules(model: Any) -> tuple[str, ...]:
    """The modules with weights that stand on top of the model without a head."""
    top = model.base_model_prefix
    return tuple(
        name for name, module in model.named_children() if name != top and any(True for _ in module.parameters())
    )


def is_of_head(name: str, heads: Sequence[str]) -> bool:
    """Whether a tensor belongs to the head. A pooler, which stands between, is part of it where a base has none."""
    return any(name == head or name.startswith(f"{head}.") for head in heads) or "pooler" in name.split(".")


def begin_anew(model: nn.Module, names: Sequence[str], *, seed: int) -> None:
    """Initial values for tensors of a new head: normal ones for matrices, one for scales, zero for the rest.

    The spread is the configuration's `initializer_range`. The global random state is left alone.
    """
    configuration: Any = getattr(model, "config", None)
    spread = float(getattr(configuration, "initializer_range", None) or _SPREAD)
    wanted = set(names)
    with random_state_kept(), torch.no_grad():
        torch.manual_seed(seed)
        for name, parameter in model.named_parameters():
            if name not in wanted:
                continue
            if parameter.ndim >= 2:
                parameter.copy_(torch.empty(parameter.shape).normal_(0.0, spread))
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)


def keep_statistics(model: nn.Module) -> None:
    """Let batch normalisation use the base's own statistics, in training too.

    With those of the batch a row's gradient would depend on its neighbours, and accumulation would be another
    training than one large batch.
    """
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.eval()
            module.train = lambda mode=True, own=module: own  # type: ignore[method-assign, misc]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
