"""The rules over what lies around a row in its batch, and what is cut off at its end (codes E)."""

from __future__ import annotations

from testigo.gates.data import DataEvidence
from testigo.gates.measured import no_row
from testigo.rules import Finding, Passed, rule


@rule("E124", "target-cut-away", "stop", phase="data")
def targets_are_there(evidence: DataEvidence) -> Finding | Passed:
    """No row ends before its expected output begins.

    Why it matters: the prompt alone filled the maximum length, so the row has nothing to learn; a batch of such rows
    has a loss of zero.

    What to do: raise `encoding.maximum_length`, or declare `encoding.longer: truncate`, which shortens the input
    and keeps room for the answer.

    Source: in a public case every row lost its answer at a maximum length of 32, and the loss was 0.
    """
    fault, good = "end before their expected output begins", "every row reaches its expected output"
    return no_row(evidence.target_gone, "where rows are cut", fault, good)


@rule("E125", "turn-end-cut-away", "stop", phase="data")
def ends_are_there(evidence: DataEvidence) -> Finding | Passed:
    """No row whose expected output is whole lost the end of its turn.

    Why it matters: everything looks right but the model never learns to stop on its longest rows.

    What to do: raise `encoding.maximum_length` by the length of the turn's end, usually one token.

    Source: truncation by length counts the end like any other token.
    """
    fault, good = "have a whole output whose turn's end was cut away", "no row lost its turn's end alone"
    return no_row(evidence.end_cut, "where rows are cut", fault, good)


@rule("E127", "attention-mask-wrong", "stop", phase="data")
def attention_fits_the_rows(evidence: DataEvidence) -> Finding | Passed:
    """The attention mask shows every token of a row and no padding.

    Why it matters: a mask that was made from the padding's id hides real tokens where pad is EOS; one that shows
    padding lets rows see what is not theirs, and a row's loss depends on its neighbours' lengths.

    What to do: make the mask by length and not by id, or pass the one that the tokenizer made.

    Source: transformers' padding guide: `attention_mask` is 1 for real tokens and 0 for padding.
    """
    fault, good = "have an attention mask that is not theirs", "every attention mask shows its row and nothing else"
    return no_row(evidence.attention_wrong, "attention masks", fault, good)


@rule("E128", "segments-mixed", "stop", phase="data")
def rows_of_a_pack_are_apart(evidence: DataEvidence) -> Finding | Passed:
    """Each row of a pack sees exactly itself, with positions that count from its own start.

    Why it matters: a row that sees its neighbour learns from text that it will not have later; wrong positions make
    the same row another one in each pack.

    What to do: set `encoding.layout: padded` and report it; with a Trainer, see that packed rows carry
    `position_ids` and an attention that keeps them apart.

    Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination" (arXiv 2107.02027).
    """
    fault, good = "do not see exactly themselves in a pack", "each row of a pack sees exactly itself"
    return no_row(evidence.segments_mixed, "what rows of a pack see", fault, good)
