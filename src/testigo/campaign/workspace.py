"""Where a campaign's files lie."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testigo.campaign.campaign import Campaign
from testigo.campaign.document import read_document
from testigo.campaign.loading import load
from testigo.errors import WorkspaceError

FORMAT = 1
MARKER = "workspace.json"


@dataclass(frozen=True)
class Workspace:
    """A campaign's folder: ledger, corpus, baseline, pilots, runs and dossier."""

    root: Path

    @property
    def ledger_path(self) -> Path:
        """The record of all that happened."""
        return self.root / "ledger.sqlite"

    @property
    def dossier(self) -> Path:
        """The folder that is given to others."""
        return self.root / "dossier"

    @property
    def comparison_path(self) -> Path:
        """The last comparison, as JSON."""
        return self.root / "comparison.json"

    def corpus(self, fingerprint: str) -> Path:
        """Folder of a corpus."""
        return self.root / "corpus" / fingerprint

    def baseline(self, fingerprint: str) -> Path:
        """Folder of an evaluation of the base."""
        return self.root / "baseline" / fingerprint

    def pilot(self, fingerprint: str) -> Path:
        """Folder of a pilot."""
        return self.root / "pilot" / fingerprint

    def run(self, run_id: str) -> Path:
        """Folder of a run."""
        return self.root / "runs" / run_id

    @property
    def campaign_path(self) -> Path | None:
        """The campaign file that made this workspace; None when it was never created."""
        path = _marker(self.root).get("path")
        return Path(path) if isinstance(path, str) else None

    @property
    def campaign_name(self) -> str | None:
        """The name of the campaign that made this workspace; None when it was never created."""
        name = _marker(self.root).get("campaign")
        return name if isinstance(name, str) else None

    @property
    def exists(self) -> bool:
        """Whether the folder is a workspace."""
        return (self.root / MARKER).is_file()

    @classmethod
    def for_campaign(cls, campaign: Campaign, given: Path | None = None) -> Workspace:
        """The given folder, or `NAME.testigo` in the current folder."""
        return cls(given if given is not None else Path.cwd() / f"{campaign.name}.testigo")

    @classmethod
    def find(cls, path: Path, given: Path | None = None) -> Workspace:
        """The workspace that a campaign file or a workspace folder stands for. It has to exist.

        The campaign file's other settings are not checked, so that a record can be read on any machine.

        Raises
        ------
        WorkspaceError
            There is no workspace.
        CampaignError
            The file is no campaign file.
        """
        if given is not None:
            found = cls(given)
        elif path.is_dir():
            found = cls(path)
        else:
            name = read_document(path).data.get("campaign")
            found = cls(Path.cwd() / f"{name if isinstance(name, str) else load(path).name}.testigo")
        if not found.exists:
            hint = _campaign_file(path)
            raise WorkspaceError(
                expected="a workspace, which `testigo run` or `testigo baseline` makes",
                found=f"no {MARKER} in it" if found.root.is_dir() else "no such folder",
                where=str(found.root),
                action=f"run `testigo run {hint}`, or name the workspace with --workspace",
            )
        _marker(found.root)
        return found

    def create(self, campaign: Campaign) -> Workspace:
        """Make the folder, or use it when it is this campaign's.

        Raises
        ------
        WorkspaceError
            The folder cannot be written, or belongs to another campaign, or is full of something else.
        """
        marker = self.root / MARKER
        if marker.exists():
            self._refuse_another(campaign)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not marker.exists() and any(self.root.iterdir()):
                raise WorkspaceError(
                    expected="an empty folder, or this campaign's workspace",
                    found="a folder with other files",
                    where=str(self.root),
                    action="name another folder with --workspace",
                )
            _write(marker, {"campaign": campaign.name, "format": FORMAT, "path": str(campaign.path.resolve())})
        except OSError as error:
            raise WorkspaceError(
                expected="a folder that can be written",
                found=error.strerror or str(error),
                where=str(self.root),
                action="free space or change the permissions, or name another folder with --workspace",
            ) from error
        return self

    def _refuse_another(self, campaign: Campaign) -> None:
        name = _marker(self.root).get("campaign")
        if name != campaign.name:
            raise WorkspaceError(
                expected=f"the workspace of the campaign `{campaign.name}`",
                found=f"that of the campaign `{name}`",
                where=str(self.root),
                action="name another folder with --workspace",
            )


def _campaign_file(path: Path) -> str:
    return "campaign.yaml" if path.is_dir() or not path.exists() else str(path)


def _marker(root: Path) -> dict[str, Any]:
    path = root / MARKER
    if not path.is_file():
        return {}
    try:
        marker = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(marker, dict):
            raise ValueError("not a mapping")
    except (OSError, ValueError) as error:
        raise WorkspaceError(
            expected="a workspace's mark",
            found=f"it cannot be read: {error}",
            where=str(path),
            action="restore this file from a copy, or name another folder with --workspace",
        ) from error
    if marker.get("format") != FORMAT:
        raise WorkspaceError(
            expected=f"a workspace of format {FORMAT}",
            found=f"format {marker.get('format')}",
            where=str(path),
            action="use the version of Testigo that made it, or name another folder with --workspace",
        )
    return marker


def _write(path: Path, marker: dict[str, Any]) -> None:
    text = json.dumps(marker, sort_keys=True, ensure_ascii=False, indent=2) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
