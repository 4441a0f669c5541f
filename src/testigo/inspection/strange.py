"""The loss of rows under the base, measured once by a worker over a bounded number of rows: what is strange to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testigo.corpus import Row
from testigo.disk import write_json
from testigo.inspection.material import Material
from testigo.training.start import Reporter, follow, to_end

AT_MOST = 100
PROGRESS = "progress.json"


@dataclass(frozen=True)
class LossSpec:
    """Which rows to measure.

    Attributes
    ----------
    rows
        Ids of rows of the split, in the order in which they are measured.
    """

    campaign: dict[str, Any]
    campaign_folder: str
    corpus: str
    base_digest: str
    split: str
    rows: tuple[str, ...]
    out: str

    def write(self, path: Path) -> Path:
        """As JSON."""
        write_json(path, asdict(self))
        return path


@dataclass(frozen=True)
class Losses:
    """Token losses under the base by row id [nats]; `of` is how many rows were asked about, measured or not."""

    tokens: dict[str, tuple[float, ...]]
    of: int

    @property
    def rows(self) -> dict[str, float]:
        """The mean of each row [nats per token]."""
        return {row_id: sum(own) / len(own) for row_id, own in self.tokens.items() if own}


def losses(
    material: Material, split: str, rows: Sequence[Row], *, folder: Path, reporter: Reporter, at_most: int = AT_MOST
) -> Losses:
    """The losses of up to `at_most` of these rows; what was measured before is not measured again.

    Which rows are taken where there are more follows from their content alone. `folder` is that of the encoding.
    """
    chosen = sorted(rows, key=lambda row: (row.digest, row.id))[:at_most]
    chosen = [row for row in chosen if material.encoded(row).n_tokens <= material.encoder.maximum_length]
    known = _known(folder, split)
    missing = tuple(row.id for row in chosen if row.id not in known)
    if missing:
        spec = LossSpec(
            campaign=material.campaign.to_json(),
            campaign_folder=str(material.campaign.folder),
            corpus=str(material.corpus.folder.resolve()),
            base_digest=material.base.digest,
            split=split,
            rows=missing,
            out=str(folder.resolve()),
        )
        path = spec.write(folder / f"losses-{split}.spec.json")
        step = "losses under the base"
        progress = folder / PROGRESS
        to_end(follow("testigo.inspection.worker", path, progress=progress, step=step, reporter=reporter))
        known = _known(folder, split)
    return Losses({row.id: known[row.id] for row in chosen if row.id in known}, len(rows))


def kept(folder: Path, split: str, rows: Sequence[Row]) -> Losses:
    """What was measured before; nothing is measured now."""
    known = _known(folder, split)
    return Losses({row.id: known[row.id] for row in rows if row.id in known}, len(rows))


def losses_path(folder: Path, split: str) -> Path:
    """Where the losses of a split are kept."""
    return folder / f"losses-{split}.json"


def _known(folder: Path, split: str) -> dict[str, tuple[float, ...]]:
    try:
        document = json.loads(losses_path(folder, split).read_text(encoding="utf-8"))
        return {str(row_id): tuple(map(float, own)) for row_id, own in document["rows"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # measured again
