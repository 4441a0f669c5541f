"""Where a campaign's files lie."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.campaign.campaign import Campaign
from testigo.campaign.document import read_document
from testigo.campaign.loading import load
from testigo.errors import WorkspaceError

if TYPE_CHECKING:
    from testigo.ledger import Ledger

FORMAT = 1
MARKER = "workspace.json"


@dataclass(frozen=True)
class Workspace:
    """A campaign's folder: ledger, corpus, baseline, pilots, runs and dossier.

    Attributes
    ----------
    ledger_url
        A database server that keeps the ledger, as the user gave it, a password with it. It is written down without.
    """

    root: Path
    ledger_url: str | None = field(default=None, repr=False)

    @property
    def ledger_path(self) -> Path:
        """The record of all that happened, where it is a file."""
        return self.root / "ledger.sqlite"

    @property
    def ledger_place(self) -> str | None:
        """The server that keeps the ledger, without a password; None where it is the file."""
        place = _marker(self.root).get("ledger")
        return place if isinstance(place, str) else None

    def open_ledger(self, *, create: bool = False, wait_seconds: float = 60.0) -> Ledger:
        """The ledger, on the server that the workspace names, or in its file.

        Raises
        ------
        LedgerError
            When it is missing, or cannot be read or written.
        """
        from testigo.ledger import Ledger  # brings SQLAlchemy, which most commands do without

        where = self.ledger_url or self.ledger_place or self.ledger_path
        return Ledger.open(where, create=create, wait_seconds=wait_seconds, anchor=self.root / "ledger.head")

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
    def for_campaign(cls, campaign: Campaign, given: Path | None = None, ledger: str | None = None) -> Workspace:
        """The given folder, or `NAME.testigo` in the current folder, with its ledger on a server where one is named."""
        from testigo.ledger.place import with_schema

        root = given if given is not None else Path.cwd() / f"{campaign.name}.testigo"
        return cls(root, with_schema(ledger, campaign.name) if ledger else None)

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
            own = {"campaign": campaign.name, "format": FORMAT, "path": str(campaign.path.resolve())}
            place = self._settled_ledger()
            _write(marker, own | ({"ledger": place} if place else {}))
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

    def _settled_ledger(self) -> str | None:
        """Where the ledger lies from now on. It is settled by the first command and never moves.

        Raises
        ------
        WorkspaceError
            When another place is named than the one in which the record lies.
        """
        from testigo.ledger.place import without_password

        known, wanted = self.ledger_place, without_password(self.ledger_url) if self.ledger_url else None
        if wanted is None or wanted == known:
            return known
        if known is not None or self.ledger_path.exists():
            raise WorkspaceError(
                expected=f"the ledger of this workspace, {known or self.ledger_path.name}",
                found=wanted,
                where=str(self.root),
                action="leave --ledger out, or name another folder with --workspace",
            )
        return wanted


def is_marker(path: Path) -> bool:
    """Whether a file of that name is a workspace's mark, and not something else that is called so."""
    try:
        marker = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and {"campaign", "format"} <= set(marker)


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
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # else the folder would be one with other files
        raise
