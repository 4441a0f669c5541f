"""Lengths in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testigo.cli.output import print_json, show, show_table
from testigo.counting import counted
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.inspection.lengths import Lengths
    from testigo.inspection.material import Material
    from testigo.training.start import Reporter

_NAMED_IDS = 20


def show_lengths(material: Material, reporter: Reporter, *, as_json: bool) -> None:
    """By split and category, what each maximum length would cut, and the rows that the policy touches."""
    from testigo.inspection.sights import measured

    lengths = measured(material, reporter)
    if as_json:
        print_json(lengths.to_json())
        return
    _summaries(lengths)
    _cuts(lengths)
    _touched(lengths)


def _summaries(lengths: Lengths) -> None:
    from testigo.inspection import wording
    from testigo.inspection.lengths import summaries

    policy = wording.POLICIES[lengths.longer]
    show(wording.LENGTHS_ABOUT.format(maximum=lengths.maximum_length, longer=policy))
    show_table(
        ("split", "category", "rows", "shortest", "median", "p95", "longest", "longest row", "longest answer"),
        [
            (s.split, "all" if s.category is None else wording.category_name(s.category), str(s.rows), str(s.shortest),
             f"{s.median:.0f}", f"{s.p95:.0f}", str(s.longest), in_one_line(s.longest_row), str(s.longest_answer))
            for s in summaries(lengths)
        ],
    )  # fmt: skip


def _cuts(lengths: Lengths) -> None:
    from testigo.inspection.lengths import cuts

    show("\nWhat each maximum length would cut", "bold")
    splits = list(lengths.rows)
    show_table(
        ("maximum length", *(f"{split} rows" for split in splits)),
        [
            (f"{cut.maximum_length}{' (campaign)' if cut.maximum_length == lengths.maximum_length else ''}",
             *(f"{cut.rows[split]} ({cut.shares[split]:.1%})" for split in splits))
            for cut in cuts(lengths)
        ],
    )  # fmt: skip


def _touched(lengths: Lengths) -> None:
    from testigo.inspection import wording

    every = [(split, state, lengths.ids(split, state)) for split in lengths.rows for state in list(wording.STATES)[1:]]
    for split, state, ids in every:
        if ids:
            more = f" and {len(ids) - _NAMED_IDS} more (--json names all)" if len(ids) > _NAMED_IDS else ""
            names = ", ".join(map(in_one_line, ids[:_NAMED_IDS]))
            show(f"{split}, {state}: {counted(len(ids), 'row')}: {names}{more}", "yellow")
    if not any(ids for _, _, ids in every):
        show("Every row is kept whole.")
