"""`testigo show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, console, ending, named, print_json
from testigo.cli.output import show as write
from testigo.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testigo.encoding import EncodedRow, Encoder
    from testigo.encoding.show import Token
    from testigo.pilot.check import Checked


def show(
    campaign: CampaignPath,
    row: Annotated[
        list[str] | None, typer.Option("--row", metavar="ID", help="Show this row; may be given again.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train or validation.")] = "train",
    category: Annotated[str | None, typer.Option("--category", help="Rows of this category alone.")] = None,
    n: Annotated[int, typer.Option("-n", "--rows", help="How many rows.", min=1)] = 3,
    longest: Annotated[bool, typer.Option("--longest", help="The longest rows first.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Ten random raw rows, as they were read and cleaned.")] = False,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what the model really sees: each token, and whether it counts in the loss (green) or not.

    Example: testigo show campaign.yaml --longest
    """
    with opened(campaign, workspace) as grounds:
        from testigo.pilot.check import check as check_data

        checked = check_data(grounds.campaign, grounds.corpus, grounds.base)
    if raw:
        _raw(checked, split, as_json)
    else:
        chosen = _chosen(checked, row, split, category, n, longest)
        if as_json:
            print_json({"rows": [_document(checked.encoder, one) for one in chosen]})
        else:
            print_rows(checked.encoder, chosen)
    ending(
        checked="the tensors of the rows above",
        not_checked="the other rows (testigo check looks at all)",
        next_command=f"testigo pilot {named(campaign, workspace)}",
    )


def _chosen(
    checked: Checked, ids: list[str] | None, split: str, category: str | None, n: int, longest: bool
) -> list[EncodedRow]:
    if split not in checked.rows:
        raise DataError(
            expected="train or validation",
            found=f"'{split}'" + (", which is sealed" if split == "test" else ""),
            where="--split",
            action="name one of the two",
        )
    if ids:
        known = {row.id: row for rows in checked.rows.values() for row in rows}
        missing = [row_id for row_id in ids if row_id not in known]
        if missing:
            raise DataError(
                expected="ids of training or validation rows",
                found=f"unknown: {', '.join(missing)}",
                where="--row",
                action="look the id up in the rows; test rows are sealed and not shown",
            )
        return [known[row_id] for row_id in ids]
    rows = [row for row in checked.rows[split] if category is None or row.category == category]
    if not rows:
        names = sorted({row.category for row in checked.rows[split]})
        raise DataError(
            expected=f"one of the categories {', '.join(names)}",
            found=f"'{category}'",
            where="--category",
            action="name one of them",
        )
    if longest:
        return sorted(rows, key=lambda row: (-row.n_tokens, row.id))[:n]
    step = max(len(rows) // n, 1)
    return rows[::step][:n]


def _raw(checked: Checked, split: str, as_json: bool) -> None:
    import json
    import random

    rows = list(checked.raw[split])
    chosen = random.sample(rows, min(10, len(rows)))
    if as_json:
        print_json(
            {"rows": [{"id": r.id, "group": r.group, "category": r.category, "fields": r.fields} for r in chosen]}
        )
        return
    for r in chosen:
        write(f"{r.id} (group {r.group}{', ' + r.category if r.category else ''})", "bold")
        write(json.dumps(r.fields, ensure_ascii=False, indent=1))


def _document(encoder: Encoder, row: EncodedRow) -> dict[str, Any]:
    from testigo.encoding.show import tokens

    shown = [token.to_json() for token in tokens(encoder, row)]
    return {"id": row.id, "category": row.category, "n_tokens": row.n_tokens, "n_supervised": row.n_supervised,
            "tokens": shown}  # fmt: skip


def print_rows(encoder: Encoder, rows: Sequence[EncodedRow], *, results: bool = True) -> None:
    """Each row's tokens; green ones count in the loss. On standard output, or beside the prose when no result."""
    from rich.text import Text

    from testigo.encoding.show import tokens

    for row in rows:
        place = f", {row.category}" if row.category else ""
        out = console(results=results)
        out.print(f"{row.id}{place}: {row.n_tokens} tokens, {row.n_supervised} count in the loss", style="bold")
        text, seen = Text(), tokens(encoder, row)
        for token in seen:
            text.append(_visible(token), style=_style(token))
        out.print(text, soft_wrap=False)
        last = [token for token in seen if token.counts][-6:]
        out.print("last that count: " + "  ".join(f"{token.id} {_visible(token)}" for token in last))
        out.print()


def _visible(token: Token) -> str:
    return token.text.replace("\n", "⏎\n") if token.text else f"<{token.id}>"


def _style(token: Token) -> str:
    if token.counts:
        return "bold black on green" if token.special else "black on green"
    return "bold magenta" if token.special else "dim"
