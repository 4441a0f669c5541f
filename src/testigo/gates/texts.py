"""The rules over what became of a row's text on its way to ids (codes E): marks that texts bring in, what is lost."""

from __future__ import annotations

from collections.abc import Sequence

from testigo.counting import counted
from testigo.gates.data import DataEvidence
from testigo.gates.measured import names, need
from testigo.rules import Finding, Passed, found, passed, rule


@rule("E120", "mark-in-input", "warn", phase="data")
def inputs_hold_no_marks(evidence: DataEvidence) -> Finding | Passed:
    """No text of a prompt turns into a special token that frames conversations.

    Why it matters: a text that holds "<|im_end|>" or "</s>" ends its own turn; what follows is read as instructions,
    and a row with two turns was meant to have one.

    What to do: take the marks out of the named rows or write them in another way (`data.clean` does not); keep them
    only when the task is to read such marks.

    Source: transformers' `apply_chat_template` turns the text of a special token into that token wherever it stands
    (`sanitize_control_tokens` is off); Jiang et al. 2024, "ChatBug" (arXiv 2406.12935), on marks in user text.
    """
    return _no_pair(
        evidence.marks_in_input,
        "marks in prompts",
        "text of the prompt became a special token",
        "no text of a prompt became a special token",
    )


@rule("E121", "mark-in-target", "stop", phase="data")
def targets_hold_no_marks(evidence: DataEvidence) -> Finding | Passed:
    """No learned text turns into a special token that frames conversations.

    Why it matters: a target that holds the turn's end teaches to stop in the middle; what stands after it is learned
    and never written, because generation has stopped.

    What to do: take the marks out of the targets of the named rows; a mark of the task's own is no fault when it is
    added to the tokenizer as a token that the template does not use.

    Source: generation stops at the first stop token, wherever a target holds it.
    """
    return _no_pair(
        evidence.marks_in_target,
        "marks in targets",
        "text of the target became a special token",
        "no text of a target became a special token",
    )


@rule("E122", "text-changed-by-tokenizer", "warn", phase="data")
def texts_survive(evidence: DataEvidence) -> Finding | Passed:
    """The text of each prompt survives tokenising and decoding; white space and case do not count.

    Why it matters: a tokenizer that rewrites or drops letters (² to 2, ñ to n, characters that it never saw) shows the
    model another text than the row's, and two rows that differ may become one.

    What to do: look at the named rows with `testigo show`; rewrite what the task needs in letters that survive, or use
    a base with a byte-level tokenizer.

    Source: Unicode Standard Annex 15: NFKC does not keep all differences; Kudo and Richardson 2018, "SentencePiece",
    which normalises by NFKC unless told otherwise.
    """
    return _no_pair(
        evidence.changed_text,
        "decoding the prompts",
        "the tokenizer changes the prompt",
        "every prompt survives tokenising and decoding",
    )


@rule("E123", "untrained-token", "stop", phase="data")
def tokens_were_trained(evidence: DataEvidence) -> Finding | Passed:
    """No row holds a token whose row of the embedding was never trained and is frozen.

    Why it matters: such a row is zero or a copy of another's, so the model cannot tell the token from nothing, or from
    the other, and no update will ever change that.

    What to do: list the embedding in `model.adapter.save_modules`, or write the text with tokens that the base knows;
    a base that is not an instruct model may carry a chat template whose marks it never saw.

    Source: Land and Bartolo 2024, "Fishing for Magikarp" (arXiv 2405.05417), on tokens that training never reached.
    """
    return _no_pair(
        evidence.untrained_tokens,
        "the rows of the embedding",
        "stands a token that was never trained",
        "every token's row of the embedding is trained, or will be",
    )


@rule("E126", "turn-end-count", "stop", phase="data")
def ends_are_counted(evidence: DataEvidence) -> Finding | Passed:
    """The token that ends a turn is learned once an assistant's turn, not more often.

    Why it matters: an end in the middle teaches to stop there; two in a row teach to write one more token.

    What to do: look at the named rows with `testigo show`; where the template closes the turn, leave the end out of
    the text (`add_eos` and the like).

    Source: by definition of a turn, which ends once.
    """
    return _no_pair(
        evidence.turn_ends_miscounted,
        "the ends of turns",
        "the turn's end is learned more often than there are assistant's turns",
        "the turn's end is learned once an assistant's turn",
    )


@rule("E129", "prompt-depends-on-the-day", "stop", phase="data")
def prompts_do_not_age(evidence: DataEvidence) -> Finding | Passed:
    """The chat template does not write the day on which a prompt is rendered.

    Why it matters: a campaign that runs over midnight asks the baseline and the tuned model different questions, and
    nobody can make the same prompts again.

    What to do: declare the date, so that every prompt has the same: `encoding.template_options: {date_string: "26 Jul
    2024"}`.

    Source: transformers' chat-templating guide: templates may call `strftime_now`.
    """
    reads = need(evidence.reads_clock, "whether the template asks for the date")
    if reads:
        return found("the chat template writes today's date into each prompt")
    return passed("no prompt depends on the day on which it is rendered")


@rule("E130", "words-not-in-prompt", "stop", phase="data")
def prompts_hold_every_message(evidence: DataEvidence) -> Finding | Passed:
    """The words of every message stand in the prompt that the chat template writes.

    Why it matters: some templates pass over roles that they do not know, a system message or a tool's result, without
    an error; the model never sees what the campaign says it was told.

    What to do: put the words into a message that the template writes (`task.system` into the input), or use the
    template of a model that knows the role.

    Source: transformers' chat-templating guide: a template is a program that writes what it asks for, and nothing
    else of a message.
    """
    return _no_pair(
        evidence.lost_words,
        "the words of messages",
        "the prompt lacks a message's words",
        "every message's words stand in the prompt",
    )


def _no_pair(pairs: Sequence[tuple[str, str]] | None, what: str, fault: str, good: str) -> Finding | Passed:
    pairs = need(pairs, what)
    if not pairs:
        return passed(good)
    seen = names((f"{row}: {what_was_seen}" for row, what_was_seen in pairs), 3)
    return found(f"in {counted(len(pairs), 'row')} {fault}: {seen}", rows=[row for row, _ in pairs])
