"""The events of a dossier by kind, the campaign that its file says, and the evidence that lies in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from testigo.campaign import Campaign
from testigo.campaign.alone import load_alone
from testigo.campaign.registration import set_since
from testigo.dossier import evidence
from testigo.ledger import Event, kinds
from testigo.ledger.runs import fold


class Found:
    """The events of a dossier by kind, and the campaign that its file says."""

    def __init__(self, folder: Path, events: Sequence[Event]) -> None:
        self.folder, self.events = folder, tuple(events)
        self.of_kind: dict[str, list[Event]] = {}
        for event in events:
            self.of_kind.setdefault(event.kind, []).append(event)
        # A run's name is a folder's: one that would lead elsewhere is no name of ours.
        self.runs = {
            name: run for name, run in fold(events).items() if PurePath(name).name == name and "\\" not in name
        }
        freezes = [event for event in events if event.kind in kinds.FREEZES]
        self.freeze = freezes[-1] if freezes else None
        path = folder / "campaign.yaml"
        frozen = self.freeze.body.get("frozen") if self.freeze else None
        self.frozen: Mapping[str, Any] = frozen if isinstance(frozen, Mapping) else {}
        self.evidence = folder / evidence.FOLDER
        self.bound = evidence.recorded(events)
        self.campaign: Campaign | None = None
        if path.is_file() and not path.is_symlink():
            self.campaign = load_alone(path, self.frozen)

    @property
    def set_since(self) -> tuple[str, ...]:
        """Settings of which the version that registered the campaign knew nothing."""
        return set_since(self.freeze.body, self.campaign) if self.freeze and self.campaign else ()

    @property
    def has_evidence(self) -> bool:
        """Whether the dossier carries what it was drawn from; earlier versions carried none."""
        return self.evidence.is_dir()

    def of(self, kind: str) -> list[Event]:
        """The events of a kind, in their order."""
        return self.of_kind.get(kind, [])
