"""The process of one evaluation: ``python -m testigo.evaluation.worker SPEC.json``.

It loads the base, and the adapter of a checkpoint when one is named, and writes ``<split>.jsonl`` with the outputs and
``<split>.meta.json`` with how they were made.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.campaign import Campaign
from testigo.corpus import open_corpus, open_sealed
from testigo.disk import working_in, write_atomically, write_json
from testigo.errors import exit_code_of
from testigo.evaluation.prediction import LOSSES, prompted_name, twice_name
from testigo.model.starter import end_with_starter
from testigo.room import Notice, patient, when_there_is_room

if TYPE_CHECKING:
    from testigo.evaluation.more import Tell
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
    twice, prompted
        Of the base: how many rows to answer again, and how many examples to try it with.
    guards
        Name of a guard task -> the file of its answers.
    """

    campaign: dict[str, Any]
    campaign_folder: str
    corpus: str
    base_digest: str
    weights: str | None
    seed: int
    split: str
    out: str
    twice: int = 0
    prompted: int = 0
    guards: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        """All that it makes."""
        out = Path(self.out)
        names = [f"{self.split}.jsonl", *self.guards.values()]
        names += [twice_name(self.split, self.twice)] if self.twice else []
        names += [prompted_name(self.split, self.prompted)] if self.prompted else []
        return tuple(out / name for name in names)

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

    from testigo.evaluation.more import answer_guard, answer_prompted, answer_twice
    from testigo.model.encoder import encoder_of
    from testigo.model.prepare import load_exactly
    from testigo.model.quantised import on_device
    from testigo.tasks import labels_of

    settings = Campaign.from_json(spec.campaign, folder=Path(spec.campaign_folder))
    out = Path(spec.out)
    out.mkdir(parents=True, exist_ok=True)
    weights = Path(spec.weights) if spec.weights else None
    corpus = open_corpus(Path(spec.corpus))
    labels = labels_of(settings, corpus)
    loaded, model = load_exactly(settings, spec.base_digest, seed=spec.seed, weights=weights, labels=labels)
    on_device(model)
    rows = open_sealed(corpus) if spec.split == "test" else corpus.rows(spec.split)
    own, *more = spec.files
    every = [(path, *_meaning(path, spec)) for path in more if not path.exists()]

    def tell(n_done: int, n_rows: int, part: str = "") -> None:
        told = {"done": min(n_done, n_rows), "of": n_rows} | ({"part": part} if part else {})
        when_there_is_room(lambda: (out / PROGRESS).write_text(json.dumps(told)), out)

    tell(0, len(rows) * (not own.exists()))
    encoder: Any = encoder_of(settings, loaded, corpus.folder)
    with torch.inference_mode():
        if not own.exists():
            _answer_split(spec, settings, loaded, model, encoder, corpus, rows, tell, began)
        for path, what, name in every:
            if what == "twice":
                answer_twice(model, encoder, rows, spec.twice, settings, path, partial(tell, part="twice"))
            elif what == "prompted":
                examples = partial(tell, part=f"with {spec.prompted} examples")
                answer_prompted(model, encoder, rows, spec.prompted, settings, corpus, path, examples)
            else:
                began = time.perf_counter()
                answer_guard(model, loaded, name, settings, path, partial(tell, part=f"guard {name}"))
                _took(out / f"{spec.split}.meta.json", time.perf_counter() - began)


def _took(meta: Path, seconds: float) -> None:
    """A guard task's time beside the split's own, for the plan of what is to come."""
    told = json.loads(meta.read_text(encoding="utf-8")) if meta.is_file() else {}
    write_json(meta, {**told, "beside_seconds": float(told.get("beside_seconds") or 0.0) + seconds})


def _meaning(path: Path, spec: EvaluationSpec) -> tuple[str, str]:
    """What a file besides the split's own holds: `twice`, `prompted`, or `guard` and its name."""
    name = next((name for name, file in spec.guards.items() if file == path.name), "")
    return ("guard", name) if name else ("twice" if ".twice-" in path.name else "prompted", "")


def _answer_split(
    spec: EvaluationSpec, settings: Campaign, loaded: Loaded, model: Any, encoder: Any, corpus: Any, rows: Any,
    tell: Tell, began: float,
) -> None:  # fmt: skip
    from testigo.disk import file_sha256
    from testigo.encoding import Encoder
    from testigo.evaluation.beside import measure_beside
    from testigo.evaluation.predict import lines, predict
    from testigo.model.device import versions

    out, evaluation = Path(spec.out), settings.evaluation
    predictions = predict(
        model,
        encoder,
        rows,
        max_new_tokens=evaluation.max_new_tokens,
        batch_size=evaluation.batch_size,
        on_batch=lambda n_done: tell(n_done, len(rows)),
    )
    meta = {
        "split": spec.split,
        "rows": len(rows),
        "max_new_tokens": evaluation.max_new_tokens,
        "batch_size": evaluation.batch_size,
        "greedy": True,
        **_head(loaded, spec),
        "base": loaded.files.identity.to_json(),
        "weights_sha256": file_sha256(Path(spec.weights)) if spec.weights else None,
        "seconds": time.perf_counter() - began,
        "tokens": sum(len(p.token_ids) for p in predictions),
        "versions": versions(),
    }
    if spec.split == "validation" and isinstance(encoder, Encoder):
        began = time.perf_counter()
        write_json(out / LOSSES, measure_beside(model, encoder, corpus))
        meta["beside_seconds"] = time.perf_counter() - began
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
