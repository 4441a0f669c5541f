"""A row and a pack as a person can read them: values alone, whatever they were taken from."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, Literal

from testigo.inspection.images import SeenImage

Agreement = Literal["same", "spaces", "other", "call", "class", "other class"]
Looks = Literal["back", "whole", "other"]
"""What a token may see of its segment's ranges: earlier places and itself, all that the architecture takes, or else."""
_PIECE = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class SeenToken:
    """One place of the tensors.

    Attributes
    ----------
    place
        Where it lies in its sequence, from 0.
    position
        The position id that the model is given.
    segment
        0 the shared prefix, k the k-th row of the microbatch, -1 padding.
    counts
        Whether it is a target of the loss.
    special
        Whether the tokenizer treats it as a mark.
    """

    place: int
    id: int
    text: str
    counts: bool
    special: bool
    segment: int
    position: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """A piece of what is learned: the `same` as the target, `other` than it, or target text that is `absent`."""

    kind: Literal["same", "other", "absent"]
    text: str


@dataclass(frozen=True)
class Turn:
    """One answer of the assistant that is learned, beside what it should be.

    Attributes
    ----------
    learned
        What the loss is computed against, decoded, without what the template puts around an answer.
    end
        The token that ends the turn; empty where none is learned.
    target
        What the row says that the answer is; of a tool's call its name and arguments.
    kind
        A text, a tool's call, or the class of a head. What a template writes for a call is not compared by letter.
    """

    learned: str
    end: str
    target: str
    kind: Literal["text", "call", "class"] = "text"

    @property
    def agreement(self) -> Agreement:
        """Whether both say the same: to the letter, but for white space around it, not, or not to be compared."""
        if self.kind == "call":
            return "call"
        if self.kind == "class":
            return "class" if self.learned == self.target else "other class"
        if self.learned == self.target:
            return "same"
        return "spaces" if self.learned.strip() == self.target.strip() else "other"

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """What is learned beside the target, piece by piece; white space counts."""
        return compared(self.learned, self.target) if self.kind == "text" else (Difference("same", self.learned),)


@dataclass(frozen=True)
class Segment:
    """Places that belong together: the prefix that rows share, one row, or the padding behind it.

    Attributes
    ----------
    sees
        What its last place may see, as ranges of places, first and last one included; read off the attention mask.
    looks
        `back` where each of its places sees exactly the earlier ones of these, and itself; `whole` before a class head,
        where the mask hides padding alone and the architecture says whether a token sees later ones.
    """

    number: int
    row_id: str
    tokens: tuple[SeenToken, ...]
    sees: tuple[tuple[int, int], ...]
    looks: Looks

    @property
    def n_counting(self) -> int:
        """How many of its tokens are targets of the loss."""
        return sum(token.counts for token in self.tokens)


@dataclass(frozen=True)
class SeenPack:
    """A microbatch as the model sees it."""

    segments: tuple[Segment, ...]
    row_ids: tuple[str, ...]
    n_prefix: int
    is_padded: bool

    @property
    def tokens(self) -> tuple[SeenToken, ...]:
        """All places, in their order."""
        return tuple(token for segment in self.segments for token in segment.tokens)


@dataclass(frozen=True)
class SeenRow:
    """A row alone as the model sees it, and what it should have been.

    Attributes
    ----------
    turns
        What is learned, an answer each.
    image
        What a class head reads, where that is an image.
    state
        `kept`, or what the length policy does to it: `too long`, `dropped`, `input shortened`.
    losses
        Under the base [nats], of each token that counts; empty when it was not measured.
    """

    id: str
    split: str
    category: str
    group: str
    segments: tuple[Segment, ...]
    turns: tuple[Turn, ...]
    state: str = "kept"
    image: SeenImage | None = None
    losses: tuple[float, ...] = field(default=())

    @property
    def tokens(self) -> tuple[SeenToken, ...]:
        """All places, in their order."""
        return tuple(token for segment in self.segments for token in segment.tokens)

    @property
    def n_tokens(self) -> int:
        """Places [tokens]."""
        return len(self.tokens)

    @property
    def n_counting(self) -> int:
        """How many of its tokens are targets of the loss."""
        return sum(token.counts for token in self.tokens)

    @property
    def loss(self) -> float | None:
        """Mean over the tokens that count [nats per token]; None when it was not measured."""
        return sum(self.losses) / len(self.losses) if self.losses else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        head = {name: getattr(self, name) for name in ("id", "split", "category", "group", "state", "n_tokens")}
        return {
            **head,
            "n_supervised": self.n_counting,
            "loss": self.loss,
            "image": self.image.to_json() if self.image else None,
            "turns": [{**asdict(turn), "agreement": turn.agreement} for turn in self.turns],
            "attention": [{"segment": s.number, "sees": s.sees, "looks": s.looks} for s in self.segments],
            "tokens": [token.to_json() for token in self.tokens],
        }


def compared(learned: str, target: str) -> tuple[Difference, ...]:
    """The first text cut into pieces that agree with the second and pieces that do not; white space counts."""
    if learned == target:
        return (Difference("same", learned),) if learned else ()
    ours, theirs = _PIECE.findall(learned), _PIECE.findall(target)
    found: list[Difference] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(a=theirs, b=ours, autojunk=False).get_opcodes():
        if kind in ("delete", "replace"):
            found.append(Difference("absent", "".join(theirs[i1:i2])))
        if kind != "delete":
            found.append(Difference("same" if kind == "equal" else "other", "".join(ours[j1:j2])))
    return tuple(found)
