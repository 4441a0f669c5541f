"""The memory of a step before a class head: every phase, from the configuration alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testigo.model.head import Head
from testigo.model.load import load_base
from testigo.sizing import size
from testigo.sizing.architecture import source_of
from testigo.sizing.lengths import Meeting, worst
from testigo.sizing.rehearse import PHASES, rehearse
from testigo.sizing.rows import read_lengths

if TYPE_CHECKING:
    from tiny import Tiny


@pytest.mark.parametrize(("kind", "method"), [("bert", "full"), ("llama", "lora"), ("vit", "lora"), ("resnet", "full")])
def test_every_phase_of_a_class_head_is_sized(kind: str, method: str, texts: Tiny, images: Tiny) -> None:
    tiny = images if kind in ("vit", "resnet") else texts
    campaign = tiny.campaign({"model.base": f"path:{kind}", "model.adapter": {"method": method}})
    lengths = read_lengths(campaign, lambda _: tiny.folder / "corpus")
    assert lengths.n_classes == 3
    assert lengths.pixels == ((3, 16, 16) if tiny is images else None)
    configuration = source_of(campaign).configuration()
    peaks = rehearse(campaign, configuration, worst(lengths, Meeting(2, 2, 4, is_packed=False)))
    missing = {"samples"} | ({"merge"} if method == "full" else set())
    assert tuple(peaks) == tuple(phase for phase in PHASES if phase not in missing)
    labels = tuple(map(str, range(3)))
    whole = load_base(tiny.base(kind), head=Head(labels, "image" if tiny is images else "text")).model
    n_bytes = sum(p.numel() * p.element_size() for p in whole.parameters())
    assert peaks["load"].n_bytes >= n_bytes
    assert peaks["forward"].n_bytes > peaks["load"].n_bytes
    if method == "full":
        kinds = {str(kind): n for kind, n in peaks["update-2"].by_kind.items()}
        assert kinds["optimizer_state"] >= 2 * n_bytes


def test_recomputing_is_no_remedy_where_the_architecture_does_not_offer_it(images: Tiny) -> None:
    campaign = images.campaign({"model.base": "path:resnet", "model.adapter": {"method": "full"}})
    lengths = read_lengths(campaign, lambda _: images.folder / "corpus")
    remedies = size(campaign, gpu_bytes=None, lengths=lengths).remedies
    assert list(remedies[0].change) == ["training.microbatch", "training.accumulation"]
    assert not any("training.activation_checkpointing" in remedy.change for remedy in remedies)
