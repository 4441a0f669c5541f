"""The process that exports a run: ``python -m testigo.model.export_worker SPEC.json``."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.corpus import open_corpus
from testigo.disk import write_json
from testigo.errors import exit_code_of
from testigo.model.starter import end_with_starter


@dataclass(frozen=True)
class ExportSpec:
    """Which trained tensors become which export, and the validation rows that serve as control inputs."""

    campaign: dict[str, Any]
    campaign_folder: str
    corpus: str
    base_digest: str
    weights: str
    seed: int
    control_rows: tuple[str, ...]
    out: str
    merged: bool = False

    def write(self, path: Path) -> Path:
        """As JSON."""
        write_json(path, asdict(self))
        return path


def progress_of(spec: Path) -> Path:
    """The small file in which the process of a spec tells how far it is."""
    return spec.with_name(f"{spec.stem}-progress.json")


def run(spec: ExportSpec, progress: Path) -> None:
    """Load and export; `progress` gets how many control inputs are answered."""
    from testigo.encoding import Encoder
    from testigo.model.encoder import control_input, encoder_of
    from testigo.model.export import export
    from testigo.model.prepare import load_exactly
    from testigo.model.quantised import on_device
    from testigo.tasks import labels_of

    settings = Campaign.from_json(spec.campaign, folder=Path(spec.campaign_folder))
    if spec.merged:  # an adapter is merged into the base in full, whatever bits it was held in beside it
        settings = settings.model_copy(update={"model": settings.model.model_copy(update={"quantise": None})})
    corpus = open_corpus(Path(spec.corpus))
    weights, labels = Path(spec.weights), labels_of(settings, corpus)
    loaded, model = load_exactly(settings, spec.base_digest, seed=spec.seed, weights=weights, labels=labels)
    on_device(model)
    encoder = encoder_of(settings, loaded, corpus.folder)
    rows = {row.id: row for row in corpus.rows("validation")}
    prompts = {row_id: control_input(encoder, rows[row_id]) for row_id in spec.control_rows}
    written: dict[str, Any] = {}
    if isinstance(encoder, Encoder):
        written = {"stop_ids": encoder.frame.stop_ids, "max_new_tokens": settings.evaluation.max_new_tokens}

    def on_input(done: int, of: int) -> None:
        with suppress(OSError):  # a full disk is told where the export itself is written
            progress.write_text(json.dumps({"done": done, "of": of}), encoding="utf-8")

    export(model, loaded, Path(spec.out), prompts=prompts, merged=spec.merged, on_input=on_input, **written)


def main(arguments: list[str]) -> int:
    """Export one spec; a user's error is one JSON line on standard error."""
    end_with_starter()
    spec = Path(arguments[0])
    wanted = ExportSpec(**json.loads(spec.read_text(encoding="utf-8")))
    return exit_code_of(lambda: run(wanted, progress_of(spec)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
