"""What the data and forward phases see where a class head answers: names, numbers, texts and images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.functional import cross_entropy, log_softmax

from testigo.corpus import Row
from testigo.encoding import ClassEncoder, ImageEncoder, Labelled, LabelledRow, Lengths
from testigo.gates.classes import ClassesEvidence
from testigo.gates.data import DataEvidence
from testigo.gates.forward import ForwardEvidence
from testigo.model.code import running_code
from testigo.model.digest import weights_sha256
from testigo.model.head import are_names
from testigo.model.losses import supervised_logits
from testigo.pilot import class_texts
from testigo.pilot.data import conflicts, copies, longest, straddling
from testigo.pilot.numbers import output_dtypes
from testigo.training.loss import evaluating
from testigo.training.optimizer import autocast

N_LOOKED_AT = 8
N_JUDGED = 256
EPOCHS = (0, 1, 2)
SHUFFLES = 0
_ONE_SIZE = ("beit", "data2vec-vision", "deit", "vit", "vit_msn")
"""Architectures whose positions are those of one image size; others take any, whatever their configuration says."""


@dataclass(frozen=True)
class Seen:
    """What the data gate looks at; made with or without a model in memory."""

    encoder: ClassEncoder | ImageEncoder
    rows: Mapping[str, Sequence[LabelledRow]]
    raw: Mapping[str, Sequence[Row]]
    lengths: Mapping[str, Lengths]
    configuration: Any
    new_head: bool


def data(seen: Seen) -> DataEvidence:
    """Everything that is about rows; what is about a text's turns and marks does not apply."""
    every = [row for rows in seen.rows.values() for row in rows]
    encoder, split_lengths = seen.encoder, list(seen.lengths.values())
    evidence = DataEvidence(
        n_rows={split: len(rows) for split, rows in seen.rows.items()},
        too_long=tuple(row_id for own in split_lengths for row_id in own.too_long),
        truncated_target=(),
        dropped=tuple(row_id for own in split_lengths for row_id in own.dropped),
        straddling_groups=straddling(seen.raw),
        exact_copies=copies(encoder.task, seen.raw),
        conflicts=conflicts(encoder.task, seen.raw),
        duplicate_ids=tuple(row_id for row_id, n in Counter(row.id for row in every).items() if n > 1),
        longest={split: longest(rows) for split, rows in seen.rows.items() if rows},
    )
    if isinstance(encoder, ImageEncoder):
        return evidence
    size, unknown = int(seen.configuration.get_text_config().vocab_size), class_texts.unknown_id(encoder.tokenizer)
    texts = {row.id: str(encoder.task.messages(encoder.fitting(row.fields))[-1]["content"])
             for rows in seen.raw.values() for row in rows}  # fmt: skip
    return replace(
        evidence,
        vocabulary_size=size,
        ids_out_of_range=tuple(row.id for row in every if max(row.ids) >= size or min(row.ids) < 0),
        unknown_tokens=tuple(row.id for row in every if unknown is not None and unknown in row.ids),
        marks_in_input=class_texts.marks(encoder.tokenizer, every),
        changed_text=class_texts.changed(encoder.tokenizer, every, texts),
        attention_wrong=class_texts.wrongly_attended(encoder, every),
        truncated_input=tuple(row_id for own in split_lengths for row_id in own.truncated_input),
        longer=encoder.longer,
        maximum_length=encoder.maximum_length,
    )


def agreement(seen: Seen) -> ClassesEvidence:
    """Names and numbers of classes in campaign, rows, tensors and head; and what the images become."""
    encoder, labels = seen.encoder, seen.encoder.task.labels
    named = {int(number): str(name) for number, name in seen.configuration.id2label.items()}
    head = tuple(named[number] for number in sorted(named))
    raw = {row.id: row for rows in seen.raw.values() for row in rows}
    every = [row for rows in seen.rows.values() for row in rows]
    evidence = ClassesEvidence(
        labels=labels,
        head_labels=labels if seen.new_head else head,
        head_is_named=seen.new_head or are_names(head),
        head_is_new=seen.new_head,
        rows_by_class={split: _counted(encoder, rows) for split, rows in seen.raw.items()},
        other_number=tuple(row.id for row in every if not _says(labels, row, encoder.task.target(raw[row.id].fields))),
    )
    return _with_images(evidence, encoder, seen) if isinstance(encoder, ImageEncoder) else evidence


def _counted(encoder: ClassEncoder | ImageEncoder, rows: Sequence[Row]) -> dict[str, int]:
    counts = Counter(encoder.task.target(row.fields) for row in rows)
    return {name: counts.get(name, 0) for name in dict.fromkeys([*encoder.task.labels, *sorted(counts)])}


def _says(labels: Sequence[str], row: LabelledRow, target: str) -> bool:
    return 0 <= row.label < len(labels) and labels[row.label] == target


def _with_images(evidence: ClassesEvidence, encoder: ImageEncoder, seen: Seen) -> ClassesEvidence:
    rows = [row for own in seen.rows.values() for row in own[:N_LOOKED_AT]]
    apart = [row.id for row in rows if not _same_in_evaluation(encoder, row)]
    values = encoder.lay_out(rows).inputs["pixel_values"]  # (B, C, H, W)
    one_size = getattr(seen.configuration, "model_type", "") in _ONE_SIZE
    size = getattr(seen.configuration, "image_size", None) if one_size else None
    height, width = size if isinstance(size, list | tuple) else (size, size)
    evidence = replace(
        evidence,
        pixel_shape=tuple(values.shape[1:]),
        expected_shape=(getattr(seen.configuration, "num_channels", None), height, width),
        pixel_range=(float(values.min()), float(values.max())),
        transforms_differ=tuple(apart),
    )
    if encoder.augment is None:
        return evidence
    varied = [(row, replace(row, variation=(0, epoch))) for row in rows for epoch in EPOCHS]
    unstable = {row.id for row, new in varied if encoder.picture(new).tobytes() != encoder.picture(new).tobytes()}
    changed = sum(encoder.picture(new).tobytes() != encoder.picture(row).tobytes() for row, new in varied)
    return replace(evidence, augmentation_unstable=tuple(sorted(unstable)), augmented=(changed, len(varied)))


def _same_in_evaluation(encoder: ImageEncoder, row: LabelledRow) -> bool:
    """Alone and by the way of evaluation, against a batch by the way of training."""
    assert row.image is not None
    evaluated = encoder.pixels([encoder.opened(row.image)])
    return torch.equal(encoder.lay_out([row, row]).inputs["pixel_values"][1], evaluated[0])


# ---- the forward phase --------------------------------------------------------------------------------------------


def forward(bench: Any, *, weights_before: str) -> ForwardEvidence:
    """Forward passes on a small sample, in evaluation mode, without gradients: together, alone, and by another path."""
    rows, model, session = bench.sample, bench.model, bench.session

    def logits(chosen: Sequence[LabelledRow]) -> torch.Tensor:
        return supervised_logits(model, session.lay_out(chosen))

    def alone() -> torch.Tensor:
        return torch.cat([logits([row]) for row in rows])

    with evaluating(model), autocast(bench.settings.model.precision, session.device):
        with output_dtypes(model) as dtypes:
            together = logits(rows)  # (S, classes)
        again, apart = logits(rows), alone()
        base = apart if not hasattr(model, "disable_adapter") else _of_the_base(model, alone)
        change = _neighbour_change(bench, rows)
    with evaluating(model):
        exact = alone()
    batch = session.lay_out(rows)
    targets, loss = batch.targets, float(cross_entropy(together, batch.targets))
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(SHUFFLES))
    knows = not bench.loaded.new_head  # a new head may begin worse than guessing, and prefers no order of labels
    return ForwardEvidence(
        rows=batch.row_ids,
        precision=bench.settings.model.precision,
        loss=loss,
        loss_fp32=-float(log_softmax(exact.double(), -1)[torch.arange(len(targets)), targets].mean()),
        logits_finite=bool(torch.isfinite(together).all()),
        base_row_loss=float(cross_entropy(base, targets)),
        vocabulary_size=together.shape[1] if knows else None,
        padded_vs_alone=float((together - apart).abs().max()) / float(apart.abs().max()),
        perturbed_neighbour=change,
        shuffled_label_loss=float(cross_entropy(together, targets[order])) if knows else None,
        evaluation_twice=abs(loss - float(cross_entropy(again, targets))),
        zero_loss=loss == 0.0,
        weights_intact=weights_sha256(dict(model.named_parameters())) == weights_before,
        output_dtypes=dict(dtypes),
        own_code=running_code(model, bench.loaded.tokenizer, bench.loaded.processor),
    )


def of_the_head(evidence: ClassesEvidence, bench: Any) -> ClassesEvidence:
    """How many logits the head gives; and what the base's own head chooses on some validation rows."""
    session, model = bench.session, bench.model
    with evaluating(model):
        n_logits = supervised_logits(model, session.lay_out(bench.sample)).shape[1]
        if bench.loaded.new_head or n_logits != len(bench.loaded.labels):
            return replace(evidence, n_logits=n_logits)
        counts = [[0] * n_logits for _ in range(n_logits)]
        rows, size = session.validation_rows[:N_JUDGED], bench.settings.evaluation.batch_size
        for start in range(0, len(rows), size):
            batch = session.lay_out(rows[start : start + size])
            chosen = supervised_logits(model, batch).argmax(-1)
            for target, own in zip(batch.targets.tolist(), chosen.tolist(), strict=True):
                counts[target][own] += 1
    return replace(evidence, n_logits=n_logits, confusion=tuple(map(tuple, counts)))


def _of_the_base(model: Any, alone: Any) -> torch.Tensor:
    with model.disable_adapter():
        made: torch.Tensor = alone()
    return made


def _neighbour_change(bench: Any, rows: Sequence[LabelledRow]) -> float | None:
    """Largest change of the last row's logits when what its neighbours read is replaced."""
    if len(rows) < 2:
        return None
    batch: Labelled = bench.session.lay_out(rows)
    name = "pixel_values" if "pixel_values" in batch.inputs else "input_ids"
    values = batch.inputs[name].clone()
    if name == "input_ids":
        mask = batch.inputs["attention_mask"][:-1] == 1
        values[:-1] = torch.where(mask, values[:-1].roll(1, dims=1), values[:-1])
    else:
        values[:-1] = -values[:-1]
    changed = replace(batch, inputs={**batch.inputs, name: values})
    before, after = (supervised_logits(bench.model, own)[-1] for own in (batch, changed))
    return float((before - after).abs().max())
