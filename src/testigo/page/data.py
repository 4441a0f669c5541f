"""The rows as the corpus has them: the dossier's own section, lengths, and rows that are alike side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from testigo.dossier import pictures, units
from testigo.dossier.corpus_facts import data_from, samples_confirmed
from testigo.dossier.drawing import svg
from testigo.dossier.files import words
from testigo.dossier.language import _, later
from testigo.dossier.picture import Picture
from testigo.dossier.record import Data
from testigo.gates.duplicates import in_words
from testigo.ledger import kinds
from testigo.page.curves import without_style
from testigo.page.site import Site

_BINS = 30
_PAIRS = 60
_PARTS = {"prompt": later("prompt"), "answer": later("answer"), "both": later("prompt and answer")}
_SPLITS = ("train", "validation")


@dataclass(frozen=True)
class AlikeSide:
    """One of two rows that are alike. Without a text a test row says it, and it is not shown."""

    row: str
    split: str
    text: str | None


@dataclass(frozen=True)
class Alike:
    """Two rows that are alike: of what kind, in which part, how much from 0 to 1."""

    kind: str
    part: str
    similarity: float
    sides: tuple[AlikeSide, ...]


@dataclass(frozen=True)
class DataPage:
    """What the page of the rows shows."""

    data: Data | None
    lengths: tuple[Picture, ...]
    pairs: tuple[Alike, ...]
    n_pairs: int
    is_opened: bool


def data_page(site: Site, *, with_pictures: bool = True) -> DataPage:
    """The corpus that was built last. Sealed rows are counted, never read."""
    corpus = site.corpus
    if corpus is None:
        return DataPage(None, (), (), 0, False)
    by_kind: dict[str, list[Any]] = {}
    for event in site.events:
        by_kind.setdefault(event.kind, []).append(event)
    samples = samples_confirmed(by_kind.get(kinds.SAMPLES_CONFIRMED, []), by_kind.get(kinds.RUN_STARTED, []))
    told = corpus.manifest.get("duplicates")
    shown = told.get("shown") if isinstance(told, Mapping) else None
    pairs = [pair for pair in shown or () if isinstance(pair, Mapping)]
    return DataPage(
        data=data_from(corpus.manifest, samples),
        lengths=tuple(_lengths(site, with_pictures)),
        pairs=tuple(_alike(pair) for pair in pairs[:_PAIRS]),
        n_pairs=len(pairs),
        is_opened=kinds.TEST_OPENED in by_kind,
    )


def _alike(pair: Mapping[str, Any]) -> Alike:
    sides = zip(pair.get("rows", ()), pair.get("splits", ()), pair.get("texts", ()), strict=False)
    return Alike(
        kind=in_words(str(pair.get("kind", ""))),
        part=_(_PARTS[part]) if (part := str(pair.get("part", ""))) in _PARTS else part,
        similarity=float(pair.get("similarity", 0.0)),
        sides=tuple(AlikeSide(str(row), str(split or ""), text) for row, split, text in sides),
    )


def _lengths(site: Site, with_pictures: bool) -> list[Picture]:
    """Histograms of the characters of input and target, where rows have both as texts."""
    campaign = site.campaign
    if campaign is None:
        return []
    made = []
    titles = {
        campaign.task.input or "": _("Characters of the input"),
        campaign.task.target: _("Characters of the target"),
    }
    for field, title in titles.items():
        counted = {}
        for split in _SPLITS:
            values = [row.fields.get(field) for row in site.rows(split).values()]
            counted[split] = [len(words(value)) for value in values if isinstance(value, str | dict | list)]
        if any(counted.values()):
            made.append(_histogram(title, counted, with_pictures))
    return made


def _histogram(title: str, counted: Mapping[str, Sequence[int]], with_picture: bool) -> Picture:
    longest = max((length for lengths in counted.values() for length in lengths), default=1)
    width = max(1, -(-(longest + 1) // _BINS))
    n_bins = longest // width + 1
    bins = {split: [0] * n_bins for split in counted}
    for split, lengths in counted.items():
        for length in lengths:
            bins[split][length // width] += 1
    rows = [{"low": n * width, "high": (n + 1) * width, "split": split, "share": count / max(len(counted[split]), 1)}
            for split, counts in bins.items() for n, count in enumerate(counts) if count]  # fmt: skip
    told = "; ".join(f"{split}: {min(lengths):,} – {max(lengths):,}" for split, lengths in counted.items() if lengths)
    return Picture(
        title=title,
        caption=_("The share of each split's rows by length."),
        wide=without_style(svg(_bars(rows, title), alternative=f"{title}: {told}"))
        if with_picture
        else svg_of_nothing(),
        narrow=svg_of_nothing(),
        head=(_("Characters"), *counted),
        rows=tuple(
            (f"{n * width:,}–{(n + 1) * width - 1:,}", *(units.count(bins[split][n]) for split in counted))
            for n in range(n_bins)
            if any(counts[n] for counts in bins.values())
        ),
    )


def svg_of_nothing() -> Any:
    """No picture."""
    from markupsafe import Markup

    return Markup("")


@pictures.unchecked
def _bars(rows: Sequence[Mapping[str, Any]], title: str) -> pictures.Specification:
    """A histogram for each split, one over the other."""
    base = alt.Chart(alt.InlineData(values=list(rows))).mark_bar(opacity=0.85, binSpacing=1)
    drawn = base.encode(
        x=alt.X("low:Q", bin="binned", title=title, axis=alt.Axis(grid=False, tickCount=6)),
        x2="high:Q",
        y=alt.Y("share:Q", title=_("share of the rows"), axis=alt.Axis(format="%", tickCount=4)),
        color=alt.Color("split:N", scale=alt.Scale(domain=list(_SPLITS), range=list(pictures.SERIES[:2])), legend=None),
    )
    faceted = [drawn.transform_filter(f"datum.split == '{split}'") for split in _SPLITS]
    return pictures.dressed(alt.layer(*faceted), 320, 150)
