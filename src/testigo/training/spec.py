"""What a run is: one frozen JSON file, from which any process anywhere makes the same run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.disk import write_atomically
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
        """Freeze the spec in a run folder.

        Raises
        ------
        ResumeRefused
            When the folder already holds another spec: a run with anything changed is another run.
        """
        path = folder / "spec.json"
        text = json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False)
        if path.exists():
            if path.read_text(encoding="utf-8") != text:
                raise ResumeRefused(
                    expected="the spec with which this run began",
                    found=f"other values in {', '.join(_differences(path, text)) or 'it'}",
                    where=str(path),
                    action="run the changed settings as a new variant; this run stays as it is",
                )
            return path
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
        return path

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


def _differences(path: Path, text: str) -> list[str]:
    try:
        old, new = json.loads(path.read_text(encoding="utf-8")), json.loads(text)
    except ValueError:
        return []
    return [name for name in new if old.get(name) != new[name]]
