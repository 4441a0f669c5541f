"""What a run is: one frozen JSON file, from which any process anywhere makes the same run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign, PlannedRun, run_id
from testigo.disk import write_json
from testigo.errors import ResumeRefused, WorkspaceError


@dataclass(frozen=True)
class RunSpec:
    """Everything that a worker needs.

    Attributes
    ----------
    campaign
        The campaign with the variant's settings, as JSON.
    campaign_folder
        What the campaign's relative paths start from.
    corpus
        Folder of the corpus.
    base_digest
        Of all files of the base that change a result; checked before loading.
    rows, validation_rows
        Row ids to restrict the splits to, as the pilot does. None takes all.
    """

    run_id: str
    variant: str
    seed: int
    campaign: dict[str, Any]
    campaign_folder: str
    corpus: str
    base_digest: str
    rows: tuple[str, ...] | None = None
    validation_rows: tuple[str, ...] | None = None

    def settings(self) -> Campaign:
        """The campaign as typed values again."""
        return Campaign.from_json(self.campaign, folder=Path(self.campaign_folder))

    def write(self, folder: Path) -> Path:
        """Put the spec into a run folder. What does not define the run, such as places, may have changed since.

        Raises
        ------
        ResumeRefused
            When the folder belongs to another run: a run with anything changed is another run.
        """
        path = folder / "spec.json"
        if path.exists() and (known := RunSpec.read(path)).run_id != self.run_id:
            raise ResumeRefused(
                expected=f"the folder of run {self.run_id}",
                found=f"that of run {known.run_id}",
                where=str(path),
                action="run the changed settings as a new variant; this run stays as it is",
            )
        write_json(path, asdict(self))
        return path

    def check(self, corpus_fingerprint: str) -> None:
        """Hold the settings against the run's own name.

        Raises
        ------
        ResumeRefused
            When settings were changed in the file: batch, learning rate, seed, data or anything else that defines it.
        """
        planned = PlannedRun(self.variant, self.seed, self.settings())
        named = run_id(planned, corpus=corpus_fingerprint, base=self.base_digest)
        if self.rows is None and named != self.run_id:
            raise ResumeRefused(
                expected=f"the settings of run {self.run_id}",
                found=f"settings of another run, {named}",
                where="spec.json",
                action="change the campaign file instead, as a variant with a reason; specs are not edited",
            )

    @classmethod
    def read(cls, path: Path) -> RunSpec:
        """The frozen spec.

        Raises
        ------
        WorkspaceError
            When the file is missing or is not a spec.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            for name in ("rows", "validation_rows"):
                values[name] = None if values[name] is None else tuple(values[name])
            return cls(**values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkspaceError(
                expected="a run's spec.json",
                found=f"{type(error).__name__}: {error}",
                where=str(path),
                action="start the campaign again with testigo run; specs are written by it",
            ) from error
