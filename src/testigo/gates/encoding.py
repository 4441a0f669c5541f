"""The rules over the exact tensors that reach the loss (codes E): ids, masks, turn ends, lengths."""

from __future__ import annotations

from testigo.counting import counted
from testigo.gates.data import DataEvidence
from testigo.gates.measured import names, need, no_row
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@rule("E101", "id-out-of-range", "stop", phase="data")
def ids_are_in_the_vocabulary(evidence: DataEvidence) -> Finding | Passed:
    """Every token id has a row in the model's embedding.

    Why it matters: an id beyond the embedding ends the run with an error deep in a kernel, or reads foreign memory.

    What to do: let `model.base` name the model that the tokenizer belongs to; when tokens were added, resize the
    embedding and list it in `model.adapter.save_modules`.

    Source: torch.nn.Embedding asks for 0 <= id < num_embeddings.
    """
    size = f" (0 to {evidence.vocabulary_size - 1})" if evidence.vocabulary_size else ""
    return no_row(
        evidence.ids_out_of_range,
        "ids against the vocabulary",
        f"hold a token id out of range{size}",
        f"every token id is in range{size}",
    )


@rule("E102", "row-without-supervised-token", "stop", phase="data")
def every_row_teaches(evidence: DataEvidence) -> Finding | Passed:
    """Each row has at least one token in the loss.

    Why it matters: a row without one teaches nothing, and a batch of such rows has a loss of zero or 0/0.

    What to do: raise `encoding.maximum_length` when the answer was cut away; give the row a target in `task.target`;
    let the chat template mark the assistant's turn.

    Source: cross-entropy is a mean over supervised tokens; over none it is 0/0.
    """
    return no_row(
        evidence.unsupervised, "supervised tokens", "have no token in the loss", "every row has tokens in the loss"
    )


@rule("E103", "supervised-share", "warn", phase="data")
def share_is_plausible(evidence: DataEvidence, minimum: float = 0.0002, maximum: float = 1.0) -> Finding | Passed:
    """Some tokens are in the loss and some are not.

    Why it matters: a share of 0 means that every label is masked; a share of 1 that prompts and padding are learned
    too.

    What to do: look at a row with `testigo show`; mend the chat template's assistant marks, or `task.target`.

    Source: a prompt and its turn marks always precede the answer, so the share is below 1; the lower limit is one
    token in 5,000, less than a one-word answer to a document of ten pages.
    """
    share = need(evidence.supervised_share, "the supervised share")
    observed = f"{share:.2%} of the training tokens are in the loss"
    if share >= maximum or share < minimum:
        return found(observed)
    return passed(observed)


@rule("E104", "prompt-in-loss", "stop", phase="data", requires=("E102",))
def prompt_is_not_learned(evidence: DataEvidence) -> Finding | Passed:
    """No token of the prompt is in the loss.

    Why it matters: the model learns to write questions; the loss looks low because prompts repeat.

    What to do: look at the named rows with `testigo show`; the mask must begin where the assistant's turn begins.

    Source: the task's definition, target given prompt; measured effects in Shi et al. 2024, "Instruction tuning with
    loss over instructions".
    """
    return no_row(evidence.prompt_in_loss, "the prompt's mask", "learn prompt tokens", "no prompt token is in the loss")


@rule("E105", "target-not-whole", "stop", phase="data", requires=("E102",))
def target_is_whole(evidence: DataEvidence) -> Finding | Passed:
    """The tokens in the loss decode to the target, whole and nothing else.

    Why it matters: a first character lost at the seam, or an end cut away, is learned exactly so.

    What to do: look at the named rows with `testigo show`; raise `encoding.maximum_length` when the end is lost, clean
    control characters with `data.clean: [unicode, strip]` when the tokenizer changes them.

    Source: decode(encode(target)) = target is what a lossless byte-level tokenizer promises.
    """
    good = "in every row the tokens in the loss decode to the target"
    return no_row(evidence.target_lost, "decoding the target", "learn something else than their target", good)


@rule("E106", "seam-merged", "note", phase="data")
def seam_is_reported(evidence: DataEvidence) -> Finding | Passed:
    """The tokenizer would merge the prompt's last character with the answer's first.

    Why it matters: tokenised as one text there is no boundary between prompt and answer. Testigo tokenises both apart,
    so nothing leaks, but the model sees a pair of tokens that it rarely saw before.

    What to do: usually nothing; let the prompt end with a line break, or begin `task.target` without a space.

    Source: byte-pair encoding merges across any boundary that it does not know (Sennrich, Haddow and Birch 2016).
    """
    good = "no merge across the seam between prompt and answer"
    return no_row(evidence.seam_merged, "the seam", "would merge prompt and answer in one token", good)


@rule("E107", "turn-end-not-learned", "stop", phase="data", requires=("E102",))
def turn_end_is_learned(evidence: DataEvidence) -> Finding | Passed:
    """The token that ends the assistant's turn is in the loss.

    Why it matters: a model that never learns to stop writes until the limit. It happens when padding is masked by its
    id and pad is the same token as EOS; the validation loss even gets better.

    What to do: mask padding by position, not by id; let the chat template close the assistant's turn; raise
    `encoding.maximum_length` when the end was cut away.

    Source: masking by pad id with pad = EOS lowered the validation loss from 0.98 to 0.79 while EOS was never learned.
    """
    end = evidence.turn_end or "the turn's end"
    return no_row(
        evidence.turn_end_unlearned,
        "the turn's end",
        f"do not learn {end!r}",
        f"every row learns {end!r}, which ends the turn",
    )


@rule("E108", "turn-end-does-not-stop", "stop", phase="data")
def turn_end_stops_generation(evidence: DataEvidence) -> Finding | Passed:
    """Generation stops at the token that training puts at the turn's end.

    Why it matters: the model stops where it learned to, generation goes on, and each output ends in rubbish.

    What to do: add the token to the base's `generation_config.json` as `eos_token_id`, or use the chat template that
    belongs to `model.base`.

    Source: transformers stops at `generation_config.eos_token_id`, which need not be the template's own end of turn.
    """
    turn_end = need(evidence.turn_end_id, "the turn's end")
    stops = need(evidence.stop_ids, "the stop tokens")
    seen = f"the turn ends with {evidence.turn_end or ''!r} (id {turn_end}); generation stops at {list(stops)}"
    return passed(seen) if turn_end in stops else found(seen)


@rule("E109", "begin-of-text-count", "stop", phase="data")
def begin_of_text_once(evidence: DataEvidence) -> Finding | Passed:
    """Each row begins with the right number of begin-of-text tokens: one, or none.

    Why it matters: the template writes one and the tokenizer adds another; the model never saw two, and serving may
    send one.

    What to do: tokenise rendered chat text without special tokens; take the token out of the template or out of
    `task.system`.

    Source: transformers' chat-templating guide: use `add_special_tokens=False` on rendered templates.
    """
    counts = need(evidence.bos_counts, "begin-of-text tokens")
    expected = need(evidence.bos_expected, "the expected number of begin-of-text tokens")
    wrong = {count: n for count, n in counts.items() if int(count) != expected and n > 0}
    if wrong:
        seen = ", ".join(f"{counted(n, 'row')} with {count}" for count, n in sorted(wrong.items()))
        return found(f"{seen}; expected {expected} begin-of-text tokens in front")
    return passed(f"all {sum(counts.values())} rows have {expected} begin-of-text tokens in front")


@rule("E110", "prompt-differs-in-evaluation", "stop", phase="data")
def prompts_are_equal(evidence: DataEvidence) -> Finding | Passed:
    """The prompt in training is, token for token, the prompt in evaluation.

    Why it matters: the model is examined on something else than it learned, and the difference is blamed on training.

    What to do: compare both with `testigo show`; use one template and one `task.system` for both.

    Source: train-serve skew, rule 29 of Zinkevich, "Rules of machine learning".
    """
    good = "every prompt is the same tokens in training and evaluation"
    return no_row(evidence.prompt_mismatch, "prompts of training and evaluation", "have two different prompts", good)


@rule("E111", "padding-in-loss", "stop", phase="data")
def padding_is_not_learned(evidence: DataEvidence) -> Finding | Passed:
    """No padding place is in the loss.

    Why it matters: the model learns to write padding, and long rows count less than short ones.

    What to do: set labels to the ignored index by position, after the row's length; with pad = EOS the row's own EOS
    stays in the loss.

    Source: torch.nn.CrossEntropyLoss counts every place whose label is not `ignore_index`.
    """
    return no_row(evidence.padding_in_loss, "padding", "have padding in the loss", "no padding place is in the loss")


@rule("E112", "row-too-long", "stop", phase="data")
def long_rows_are_declared(evidence: DataEvidence) -> Finding | Passed:
    """No row is longer than the maximum, unless the campaign declares what happens to it.

    Why it matters: a row that silently loses its answer has nothing to learn; one that is dropped changes the data.

    What to do: raise `encoding.maximum_length`, or declare `encoding.longer: drop` or `truncate`.

    Source: in a public case every row lost its answer at a maximum length of 32, and the loss was 0.
    """
    rows = need(evidence.too_long, "row lengths")
    most = f" {evidence.maximum_length} tokens" if evidence.maximum_length else " the maximum length"
    seen = f"{counted(len(rows), 'row is', 'rows are')} longer than{most}"
    if rows and evidence.longer in (None, "refuse"):
        return found(f"{seen}: {names(rows)}", rows=rows)
    return passed(seen + (f"; declared: {evidence.longer}" if rows else ""))


@rule("E113", "target-truncated", "stop", phase="data")
def targets_are_not_cut(evidence: DataEvidence) -> Finding | Passed:
    """No expected output is cut, unless the campaign declares it.

    Why it matters: learning half an answer is a different experiment, and its end is learned wrongly.

    What to do: raise `encoding.maximum_length` or shorten the input; declare `encoding.longer: truncate` when half
    answers are meant.

    Source: by definition: the metric compares whole outputs.
    """
    rows = need(evidence.truncated_target, "cut targets")
    if rows and evidence.longer != "truncate":
        return found(f"the expected output of {counted(len(rows), 'row')} is cut: {names(rows)}", rows=rows)
    return passed(f"{len(rows)} expected outputs are cut" + ("; declared: truncate" if rows else ""))


@rule("E114", "row-dropped-silently", "stop", phase="data")
def drops_are_declared(evidence: DataEvidence) -> Finding | Passed:
    """No row is left out, unless the campaign declares it.

    Why it matters: fewer rows, and not a random choice of them, reach the training than the report says.

    What to do: raise `encoding.maximum_length`, or declare `encoding.longer: drop`; then the count stands in the
    report.

    Source: a known trainer drops rows whose answer was cut away, without a count.
    """
    rows = need(evidence.dropped, "dropped rows")
    if rows and evidence.longer != "drop":
        return found(f"{counted(len(rows), 'row')} dropped without being declared: {names(rows)}", rows=rows)
    return passed(f"{counted(len(rows), 'row')} dropped" + ("; declared: drop" if rows else ""))


@rule("E115", "many-rows-lost", "warn", phase="data")
def few_rows_are_lost(evidence: DataEvidence, share: float = 0.05) -> Finding | Passed:
    """Only few rows are dropped or cut, even where that is declared.

    Why it matters: long rows are not like short ones; without them the result speaks of another population.

    What to do: raise `encoding.maximum_length`, or say in `question` that only short rows are meant.

    Source: 5 % is the usual bound under which missing rows hardly bias an estimate (Schafer 1999, "Multiple
    imputation: a primer").
    """
    kept = sum(need(evidence.n_rows, "the number of rows").values())
    cut = (*(evidence.truncated_target or ()), *(evidence.truncated_input or ()))
    lost = tuple(dict.fromkeys((*need(evidence.dropped, "dropped rows"), *cut)))
    total = kept + len(need(evidence.dropped, "dropped rows"))
    if total == 0:
        raise CannotCheck("there are no rows")
    seen = f"{len(lost)} of {total} rows ({len(lost) / total:.1%}) dropped or cut"
    return found(seen, rows=lost) if len(lost) / total > share else passed(seen)


@rule("E116", "longest-row-not-run", "stop", phase="data")
def longest_rows_were_run(evidence: DataEvidence) -> Finding | Passed:
    """The pilot ran the longest row of every split.

    Why it matters: memory runs out at the longest row; better now than in the validation of hour five.

    What to do: run the pilot again without leaving rows out; raise the machine's memory, or lower
    `training.microbatch` with a higher `training.accumulation`.

    Source: peak memory grows with the longest row, not with the mean (a real case: 466 tokens in training, 473 in
    validation).
    """
    longest = need(evidence.longest, "the longest rows")
    run = need(evidence.longest_run, "the rows that the pilot ran")
    missing = {split: row for split, (row, _) in longest.items() if row not in run}
    if missing:
        seen = ", ".join(f"{split} {row} ({longest[split][1]} tokens)" for split, row in missing.items())
        return found(f"not run: {seen}", rows=missing.values())
    return passed("run: " + ", ".join(f"{split} {row} ({n} tokens)" for split, (row, n) in longest.items()))


@rule("E117", "unknown-token", "warn", phase="data")
def no_unknown_tokens(evidence: DataEvidence) -> Finding | Passed:
    """No row holds the tokenizer's unknown token.

    Why it matters: what becomes unknown cannot be read, and in a target it can never be written.

    What to do: clean such characters with `data.clean: [unicode]`, or use a base with a byte-level tokenizer.

    Source: Kudo and Richardson 2018, "SentencePiece": byte fallback exists to avoid unknown tokens.
    """
    return no_row(evidence.unknown_tokens, "unknown tokens", "hold unknown tokens", "no row holds an unknown token")
