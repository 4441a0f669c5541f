"""Every fixed text of the inspection, on the page and in the terminal, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from testigo.counting import counted

if TYPE_CHECKING:
    from testigo.inspection.seen import SeenRow, Segment

TITLE = "What the model sees"
SAMPLES = {
    kind: f"Samples of every {of}" for kind, of in (("text", "category"), ("class", "class"), ("image", "class"))
}
CHOSEN = "The rows that were asked for"
LONGEST = "The longest rows"
STRANGEST = "The strangest rows"
MICROBATCH = "A microbatch"
LENGTHS = "Lengths"
RAW = "Raw rows"

_BOXES = (
    "Each box is one token as it lies in the tensors that the loss is computed from. In a box stand its text, its id "
    "(below, left) and its position (below, right). {counts} "
    "A dashed box is a special token. A dot is a space, ⏎ a line end, ⇥ a tab; other signs that cannot be seen are "
    "written by number. Point at a box, or go to a row with the tab key and move with the arrow keys: what a token may "
    "see stays bright, and its facts are told in words."
)
ABOUT = {
    "text": _BOXES.format(counts="A box with ✓ counts in the loss: the model learns to write it."),
    "class": _BOXES.format(counts="No token counts in the loss: the class does, and it stands below the tokens."),
    "image": (
        "Each image is shown as the file is opened, and as the model's processor makes it into numbers: those numbers "
        "themselves, lowest black and highest white, and with the processor's mean and spread taken back. The class "
        "counts in the loss, by the number that lies in the tensors."
    ),
}
WHAT_TO_LOOK_AT = {
    "text": (
        "The answer is green from its first token to the token that ends the turn, and nothing else is.",
        "The prompt holds all that the answer needs, and nothing that gives it away.",
        "What is learned, as text, is the target letter for letter.",
        "Special tokens stand where the template puts them, and nowhere inside of the row's own text.",
    ),
    "class": (
        "The text is whole: nothing that the class depends on was cut.",
        "The text does not name its own class where a reader would have to find it.",
        "The class below is the one that you would give.",
        "Special tokens stand at the ends, and nowhere inside of the row's own text.",
    ),
    "image": (
        "The picture stands upright and shows what its class says.",
        "After the transformation it can still be told: nothing that matters is cut off, squeezed or too small.",
        "The values lie around zero when the processor normalises; black and white are not turned round.",
        "With mean and spread taken back it has the colours of the file.",
        "What training varies could be met in life: a mirrored letter is another letter.",
    ),
}
PICTURES = {
    "before": "into the processor",
    "after": "the tensor, lowest value black, highest white",
    "restored": "the tensor, mean and spread taken back",
    "varied": "varied, as training sees it in its first epoch",
}
NO_LENGTHS = "Images have no length in tokens"
SEALED = "The test rows are sealed: none is on this page, and their lengths are not counted."
STRANGE_OF_HEADS = "A head that is new gives the losses of the numbers that its seed drew: they say little."
STRANGE_ABOUT = (
    "Rows of highest loss under the base, before any training: here the data may say what it should not, or the "
    "template may be another than the base knows. Each ✓ box tells its own loss in nats."
)
RAW_ABOUT = "As they were read and cleaned, drawn at random with seed {seed}: reading ten rows comes before all else."
PACK_ABOUT = {
    False: (
        "The rows of the first microbatch of seed {seed} lie in one sequence without padding. Segment 0 is what all of "
        "them begin with, computed once; each other segment is a row's own rest."
    ),
    True: (
        "The rows of the first microbatch of seed {seed} lie one below the other, padded on the right. Padding is "
        "segment −1: nobody sees it, and it never counts."
    ),
}
LENGTHS_ABOUT = (
    "How many tokens rows have before any policy, prompt and answer together. Maximum length: {maximum:,}; what "
    "happens to longer rows: {longer}."
)
POLICIES = {
    "refuse": "refused, the campaign stops and names them",
    "drop": "left out, and counted",
    "truncate": "the input text is shortened, never the answer",
}
STATES = {
    "kept": "kept whole",
    "too long": "too long: the campaign refuses it",
    "dropped": "too long: left out and counted",
    "input shortened": "the input text was shortened to fit",
}
AGREEMENT = {
    "same": "What is learned, decoded, is the target letter for letter",
    "spaces": "What is learned, decoded, is the target but for white space around it",
    "other": "What is learned, decoded, is not the target",
    "call": "What the template writes for this answer is learned",
    "class": "The class that is learned is the row's own",
    "other class": "The class that is learned is not the row's own",
}
NOTHING = "Nothing is learned: no token counts in the loss"
MARKS = "▶ … ◀ counts in the loss; ⏎ ends a line. Lists: position, id, text (· is a space), ✓ counts in the loss."


def size(row: SeenRow) -> str:
    """How many tokens a row has, and how many of them count in the loss."""
    tokens = counted(row.n_tokens, "token")
    if any(turn.kind == "class" for turn in row.turns):
        return f"{tokens}, of which none counts: the class does"
    return f"{tokens}, {row.n_counting} count in the loss ({row.n_counting / max(row.n_tokens, 1):.1%})"


def loss(row: SeenRow) -> str:
    """What a row has under the base: over its tokens that count, or one for its class."""
    return f"{row.loss:.2f} nats{' per token' if row.n_counting else ''} under the base"


def category_name(category: str) -> str:
    """A category as it is shown; rows without one have a name too."""
    return category or "no category"


def ranges(runs: Sequence[tuple[int, int]]) -> str:
    """Ranges of places in words: 0–118 and 180–210."""
    return " and ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs) or "nothing"


def attention(segment: Segment) -> str:
    """What the tokens of a segment may see, in words."""
    if segment.number == -1:
        return "nobody sees it"
    if segment.looks == "whole":
        return "all of its row, or what stands before it: the mask hides padding alone, the architecture says which"
    if segment.looks != "back":
        return f"each of its tokens sees other places; the last one sees {ranges(segment.sees)}"
    *before, _own = segment.sees
    own = "itself and earlier places of its own segment"
    if not before:
        return own
    return f"places {ranges(before)}, and {own}"
