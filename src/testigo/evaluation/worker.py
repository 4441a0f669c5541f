"""The process of one evaluation: ``python -m testigo.evaluation.worker SPEC.json``.

It loads the base, and the adapter of a checkpoint when one is named, and writes ``<split>.jsonl`` with the outputs and
``<split>.meta.json`` with how they were made.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.campaign import Campaign
from testigo.corpus import open_corpus, open_sealed
from testigo.disk import working_in, write_atomically, write_json
from testigo.errors import exit_code_of
from testigo.model.starter import end_with_starter
from testigo.room import Notice, patient, when_there_is_room

if TYPE_CHECKING:
    from testigo.model.load import Loaded

PROGRESS = "progress.json"


@dataclass(frozen=True)
class EvaluationSpec:
    """What to evaluate.

    Attributes
    ----------
    weights
        The trained tensors of a checkpoint (safetensors); None evaluates the base.
    split
        `validation`, or `test`, which the conductor alone may ask for after it recorded the opening.
    """

    campaign: dict[str, Any]
    campaign_folder: str
    corpus: str
    base_digest: str
    weights: str | None
    seed: int
    split: str
    out: str

    def write(self, path: Path) -> Path:
        """As JSON."""
        write_json(path, asdict(self))
        return path


def evaluate(spec: EvaluationSpec) -> None:
    """Write predictions and how they were made; whole or not at all.

    Raises
    ------
    WorkspaceError
        When the disk is full or not writable.
    """
    began = time.perf_counter()
    out = Path(spec.out)
    with working_in(out), patient(Notice(out)):
        _evaluate(spec, began)


def _evaluate(spec: EvaluationSpec, began: float) -> None:
    import torch

    from testigo.disk import file_sha256
    from testigo.encoding import Encoder
    from testigo.evaluation.beside import FILE, measure_beside
    from testigo.evaluation.predict import lines, predict
    from testigo.model.device import device, versions
    from testigo.model.encoder import encoder_of
    from testigo.model.prepare import load_exactly
    from testigo.tasks import labels_of

    settings = Campaign.from_json(spec.campaign, folder=Path(spec.campaign_folder))
    out = Path(spec.out)
    out.mkdir(parents=True, exist_ok=True)
    weights = Path(spec.weights) if spec.weights else None
    corpus = open_corpus(Path(spec.corpus))
    labels = labels_of(settings, corpus)
    loaded, model = load_exactly(settings, spec.base_digest, seed=spec.seed, weights=weights, labels=labels)
    model.to(device())
    rows = open_sealed(corpus) if spec.split == "test" else corpus.rows(spec.split)

    def on_batch(n_done: int) -> None:
        told = json.dumps({"done": n_done, "of": len(rows)})
        when_there_is_room(lambda: (out / PROGRESS).write_text(told), out)

    on_batch(0)
    evaluation = settings.evaluation
    encoder = encoder_of(settings, loaded, corpus.folder)
    with torch.inference_mode():
        predictions = predict(
            model,
            encoder,
            rows,
            max_new_tokens=evaluation.max_new_tokens,
            batch_size=evaluation.batch_size,
            on_batch=on_batch,
        )
    meta = {
        "split": spec.split,
        "rows": len(rows),
        "max_new_tokens": evaluation.max_new_tokens,
        "batch_size": evaluation.batch_size,
        "greedy": True,
        **_head(loaded, spec),
        "base": loaded.files.identity.to_json(),
        "weights_sha256": file_sha256(weights) if weights else None,
        "seconds": time.perf_counter() - began,
        "tokens": sum(len(p.token_ids) for p in predictions),
        "versions": versions(),
    }
    if spec.split == "validation" and isinstance(encoder, Encoder):
        write_json(out / FILE, measure_beside(model, encoder, corpus))
    write_json(out / f"{spec.split}.meta.json", meta)
    write_atomically(out / f"{spec.split}.jsonl", lines(predictions))


def _head(loaded: Loaded, spec: EvaluationSpec) -> dict[str, Any]:
    """Which class head answered; nothing where a text is written."""
    if not loaded.head:
        return {}
    untrained = loaded.new_head and spec.weights is None
    return {"classes": list(loaded.labels), "head": f"new, as seed {spec.seed} draws it" if untrained else "trained"}


def main(arguments: list[str]) -> int:
    """Evaluate one spec; a user's error is one JSON line on standard error."""
    end_with_starter()
    return exit_code_of(lambda: evaluate(EvaluationSpec(**json.loads(Path(arguments[0]).read_text(encoding="utf-8")))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
