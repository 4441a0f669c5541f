"""Runs of one campaign with other settings and other lengths, none of them twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from testigo.campaign import Campaign
from testigo.errors import ModelError
from testigo.sizing.formula import by_formula
from testigo.sizing.journey import Journey
from testigo.sizing.layers import ByLayers
from testigo.sizing.lengths import Inputs, Meeting, RowLength, RowLengths, can_lie_in_one, typical, worst
from testigo.sizing.rehearse import Part, rehearse
from testigo.sizing.tracker import Peak

MOST_ROWS = 256
"""Larger microbatches are of no interest: they no longer make a GPU faster."""

Order = Literal["length", "target", "one pack"]
Peaks = Mapping[str, Peak]


@dataclass
class Bench:
    """One campaign, its rows by length, and what was found so far.

    Attributes
    ----------
    order
        Whether the longest rows take the most memory, those with the most supervised tokens, by their logits, or
        an update that lies in one pack with what its rows share.
    whole
        Every phase of the campaign as it is, with the rows that take the most.
    why_formula
        Why the model could not be run; empty when it was.
    """

    campaign: Campaign
    configuration: Any
    lengths: RowLengths
    journey: Journey = field(default_factory=Journey)
    order: Order = "length"
    whole: Peaks = field(default_factory=dict)
    why_formula: str = ""
    _seen: dict[tuple[bool, str, Inputs], Peaks] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_layers = ByLayers(self.configuration, self._later)
        try:
            self._run_whole()
        except ModelError as error:
            self.why_formula = error.problems[0].found
            self.whole = by_formula(self.campaign, self.configuration, self.inputs())

    def _run_whole(self) -> None:
        self._follow("the longest rows")
        self._by_layers.prove(self.campaign, self.inputs(), self.whole)
        if self._most_supervised_take_more():
            self.order = "target"
            self._follow("the most supervised tokens, whose logits take more")
        elif self._one_pack_takes_more():
            self.order = "one pack"
            self._follow("an update in one pack, which takes more")

    def _follow(self, words: str) -> None:
        self.journey.goes(f"every phase with {words}")
        self.whole = rehearse(self.campaign, self.configuration, self.inputs())

    def _most_supervised_take_more(self) -> bool:
        """Whether an update of the rows with the most supervised tokens takes more than one of the longest rows."""
        most, longest = self.inputs(order="target"), self.inputs(order="length")
        counts = [sum(row.n_supervised for row in inputs.microbatches[-1]) for inputs in (most, longest)]
        return counts[0] > counts[1] and highest(
            self.later(self.campaign, most, "the most supervised tokens")
        ) > highest(self.whole)

    def _one_pack_takes_more(self) -> bool:
        if not can_lie_in_one(self.lengths, self._meeting(self.campaign)):
            return False
        one = self.inputs(order="one pack")
        return highest(self.later(self.campaign, one, "an update in one pack")) > highest(self.whole)

    def inputs(self, campaign: Campaign | None = None, *, order: Order | None = None) -> Inputs:
        """The rows that take the most, of this campaign or a changed one."""
        meeting, order = self._meeting(campaign or self.campaign), order or self.order
        if order == "one pack":
            longest = worst(self.lengths, meeting)
            return replace(longest, microbatches=longest.microbatches[-1:], n_more=0)
        return worst(self.lengths, meeting, by=order)

    def usual_inputs(self) -> Inputs:
        """Rows of median length."""
        return typical(self.lengths, self._meeting(self.campaign))

    def _meeting(self, campaign: Campaign) -> Meeting:
        training = campaign.training
        return Meeting(
            training.microbatch,
            training.accumulation,
            campaign.evaluation.batch_size,
            campaign.machine.processes,
            is_packed=campaign.encoding.layout == "packed" and not self.lengths.n_classes,
        )

    def n_rows(self, campaign: Campaign) -> int:
        """Rows of a microbatch: where rows are packed no more than there are."""
        return self._meeting(campaign).rows_of(self.lengths)

    def most_rows(self, campaign: Campaign) -> int:
        """Rows of the largest microbatch that is of interest."""
        return max(min(len(self.lengths.train), MOST_ROWS), self.n_rows(campaign))

    def inputs_of(self, campaign: Campaign, n_tokens: int) -> Inputs:
        """Rows that are all this long, with as large a part supervised as in the longest."""
        longest = self.inputs(campaign).microbatches[-1][-1]
        n_supervised = max(round(longest.n_supervised * n_tokens / longest.n_tokens), 1)
        row = RowLength(max(n_tokens - n_supervised, 1), n_tokens)
        meeting = self._meeting(campaign)
        rows = (row,) * meeting.rows_of(self.lengths)
        batch = (row,) * min(meeting.batch_size, len(self.lengths.validation))
        return worst(RowLengths(rows, batch, 0, self.lengths.n_classes, self.lengths.pixels), meeting)

    def later(self, campaign: Campaign, inputs: Inputs, words: str, *, surely: bool = False) -> Peaks:
        """A later update and a validation: forward, backward, step, update-2, validation, and load.

        Parameters
        ----------
        words
            What is asked, told while it is followed.
        """
        if self.why_formula:
            return by_formula(campaign, self.configuration, inputs)
        changes = (campaign.model, campaign.encoding, campaign.training, campaign.evaluation, campaign.machine)
        key = (surely, repr(changes), inputs)
        if key not in self._seen:
            run = self._by_layers.surely if surely else self._by_layers.peaks
            self.journey.goes(words)
            try:
                self._seen[key] = run(campaign, inputs)
            except ModelError:  # larger inputs than are followed
                self._seen[key] = by_formula(campaign, self.configuration, inputs)
        return self._seen[key]

    def _later(self, campaign: Campaign, configuration: Any, inputs: Inputs) -> Peaks:
        parts: tuple[Part, ...] = ("later",)
        return rehearse(campaign, configuration, inputs, parts=parts)

    def peak(self, campaign: Campaign, words: str, *, surely: bool = False) -> int:
        """The highest phase of a changed campaign [bytes].

        Phases outside of an update and its validation are those of the campaign as it is, on the weights as changed.
        """
        later = self.later(campaign, self.inputs(campaign), words, surely=surely)
        lighter = later["load"].n_bytes - self.whole["load"].n_bytes if _other_weights(campaign, self.campaign) else 0
        rest = [self.whole[name].n_bytes + lighter for name in ("evaluation", "export", "merge") if name in self.whole]
        return max(highest(later), *rest)


def highest(peaks: Peaks) -> int:
    """The most bytes of all phases."""
    return max(peak.n_bytes for peak in peaks.values())


def changed(campaign: Campaign, settings: Mapping[str, Any]) -> Campaign:
    """The campaign with other values for some dotted keys."""
    plain = campaign.to_json()
    for key, value in settings.items():
        *sections, name = key.split(".")
        place = plain
        for section in sections:
            place = place[section]
        place[name] = value
    return Campaign.from_json(plain, folder=campaign.folder)


def _other_weights(one: Campaign, other: Campaign) -> bool:
    return bool(one.model != other.model)
