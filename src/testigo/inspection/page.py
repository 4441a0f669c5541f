"""All that a person looks at as one offline HTML file: nothing is fetched, and no text of the data is markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from testigo import __version__
from testigo.corpus import Row
from testigo.dossier import units
from testigo.inspection import pictures, wording
from testigo.inspection.boxes import attention_picture, boxes
from testigo.inspection.lengths import Bin, Lengths, bins, cuts, summaries
from testigo.inspection.letters import LINE_END, shown_lines
from testigo.inspection.raw import raw_text
from testigo.inspection.seen import SeenPack, SeenRow

# A page of 200 rows stays small enough to be mailed: 6 MB at about 55 bytes a token.
AT_MOST_TOKENS = 80_000
AT_MOST_ROWS = 200
AT_MOST_IMAGES = 60
_AT_LEAST_TOKENS = 120
_NAMED_IDS = 300
_FOLDED_TOKENS = 24


Kind = Literal["text", "class", "image"]
"""What counts in the loss: tokens of a text, the class of a text, or the class of an image."""


@dataclass(frozen=True)
class Fact:
    """One line of the page's head."""

    name: str
    value: str


@dataclass(frozen=True)
class Sight:
    """What a page shows; a part that was not asked for or not measured is empty."""

    campaign: str
    facts: tuple[Fact, ...]
    samples: tuple[SeenRow, ...]
    kind: Kind = "text"
    are_chosen: bool = False
    n_left_out: int = 0
    longest: tuple[SeenRow, ...] = ()
    strangest: tuple[SeenRow, ...] = ()
    strangest_note: str = ""
    microbatch: SeenPack | None = None
    seed: int = 0
    lengths: Lengths | None = None
    raw: tuple[Row, ...] = ()
    raw_split: str = "train"
    raw_seed: int = 0
    confirmed: str = ""


@dataclass(frozen=True)
class _Drawn:
    """The lengths of a split: picture, legend, table."""

    split: str
    n_rows: int
    picture: Markup
    legend: Sequence[tuple[str, str]]
    head: Sequence[str]
    table: Sequence[Sequence[str]]


def html(sight: Sight) -> str:
    """The whole page. The same sight gives the same text."""
    templates = _environment()
    rows = (*sight.samples, *sight.longest, *sight.strangest)
    share = max(AT_MOST_TOKENS // max(len(rows) + len(_rows_of(sight.microbatch)), 1), _AT_LEAST_TOKENS)
    script = _source("inspection.js")
    return templates.get_template("inspection.html").render(
        sight=sight,
        wording=wording,
        style=Markup(_source("report.css") + _source("inspection.css")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=__version__,
        boxes_of=partial(_boxes, first=rows[0] if rows else None, at_most=share),
        pack_boxes=_pack_boxes(sight.microbatch, share),
        mask=_mask(sight.microbatch),
        drawn=_drawn(sight.lengths) if sight.lengths else (),
        summaries=summaries(sight.lengths) if sight.lengths else (),
        cuts=cuts(sight.lengths) if sight.lengths else (),
        named_ids=_NAMED_IDS,
        raw_text=raw_text,
    )


def _boxes(row: SeenRow, *, first: SeenRow | None, at_most: int) -> Markup:
    same = (0, "") if first is None or first is row else (_n_same(row, first), shown_lines(first.id))
    return boxes(row.segments, name=shown_lines(row.id), at_most=at_most, losses=row.losses, same=same)


def _n_same(row: SeenRow, first: SeenRow) -> int:
    """How many leading tokens of a row can be folded away: whole lines of the prompt that the first row has too."""
    n = 0
    for place, (own, other) in enumerate(zip(row.tokens, first.tokens, strict=False)):
        if own != other or own.counts:
            break
        n = place + 1 if own.text.endswith(LINE_END) else n
    return n if n >= _FOLDED_TOKENS else 0


def _pack_boxes(pack: SeenPack | None, share: int) -> Markup:
    if pack is None:
        return Markup("")
    at_most = share * max(len(pack.row_ids), 1)
    return boxes(pack.segments, name="the microbatch", at_most=at_most, with_heads=True, is_padded=pack.is_padded)


def _rows_of(pack: SeenPack | None) -> tuple[str, ...]:
    return pack.row_ids if pack is not None else ()


def _mask(pack: SeenPack | None) -> Markup:
    if pack is None or pack.is_padded:
        return Markup("")
    words = "; ".join(
        f"segment {segment.number} sees {wording.attention(segment)}"
        for segment in pack.segments
        if segment.number >= 0
    )
    return attention_picture(pack.segments, alternative=f"Which place may see which, from the attention mask: {words}")


def _drawn(lengths: Lengths) -> list[_Drawn]:
    made = []
    for split, own in bins(lengths).items():
        rows = lengths.rows[split]
        if not rows:
            continue
        names = [wording.category_name(name) for name in lengths.categories]
        low, high = min(row.n_tokens for row in rows), max(row.n_tokens for row in rows)
        alternative = f"Lengths of the {len(rows)} {split} rows: from {low} to {high} tokens; the table has all numbers"
        made.append(
            _Drawn(
                split=split,
                n_rows=len(rows),
                picture=pictures.drawn(
                    own, lengths.categories, maximum=lengths.maximum_length, alternative=alternative
                ),
                legend=pictures.legend(own, lengths.categories),
                head=["tokens", "rows", *(names if len(names) > 1 else [])],
                table=[_table_row(one, len(names)) for one in own],
            )
        )
    return made


def _table_row(one: Bin, n_names: int) -> list[str]:
    counts = list(one.rows.values())
    return [f"{one.low}–{one.high - 1}", str(sum(counts)), *(map(str, counts) if n_names > 1 else [])]


@cache
def _environment() -> Environment:
    """The templates. Autoescaping is on for all of them."""
    loader = ChoiceLoader(
        [PackageLoader("testigo.inspection", "templates"), PackageLoader("testigo.dossier", "templates")]
    )
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(share=units.share, number=units.number, shown=shown_lines)
    return made


def _source(name: str) -> str:
    """A file of this package or of the dossier's: the only texts that are put in as markup."""
    templates = _environment()
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]
