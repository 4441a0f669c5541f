"""Rows and microbatches in the terminal: marks that survive without colour, 80 columns where nobody says otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from testigo.inspection import wording
from testigo.inspection.letters import LINE_END, SPACE
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from testigo.inspection.images import SeenImage
    from testigo.inspection.seen import SeenPack, SeenRow, SeenToken, Segment, Turn

_WIDTH = 80
_CELL = 26
_TEXT = 12
_BEFORE = 3  # tokens of the prompt that are listed before the answer
_FLOW_AT_MOST = 1_500


def screen(*, results: bool = True, colour: bool = False) -> Console:
    """Standard output, or standard error; `colour` keeps colours where no terminal is."""
    from testigo.cli.screen import Screen

    file = sys.stdout if results else sys.stderr
    width = None if file.isatty() else _WIDTH
    return Screen(file=file, width=width, force_terminal=True if colour else None)


def print_rows(out: Console, rows: Sequence[SeenRow], *, every_token: bool = False) -> None:
    """Each row as text with what counts marked, and as a list of tokens: those that count, or all."""
    for row in rows:
        _print_row(out, row, every_token=every_token)
    if any(row.segments for row in rows):
        out.print(wording.MARKS, style="dim")


def _print_row(out: Console, row: SeenRow, *, every_token: bool) -> None:
    names = (row.id, row.split, *([row.category] if row.category else []))
    out.print(" · ".join(map(in_one_line, names)), style="bold")
    loss = f"; {wording.loss(row)}" if row.loss is not None else ""
    if row.image is not None:
        _print_image(out, row.image)
    else:
        out.print(f"{wording.size(row)}; {wording.STATES[row.state]}{loss}")
        out.print(_flow(row.tokens, apart=not row.n_counting))
    tokens = row.tokens if every_token or not row.n_counting else _around_the_answer(row.tokens)
    for segment in row.segments:
        own = [token for token in tokens if token.segment == segment.number]
        first, last = segment.tokens[0], segment.tokens[-1]
        out.print(
            f"segment {segment.number}, positions {first.position}–{last.position}; "
            f"each token sees {wording.attention(segment)}",
            style="dim",
        )
        out.print(_table(own, out.width))
    _print_turns(out, row)
    out.print()


def _print_image(out: Console, image: SeenImage) -> None:
    converted = f"; converted: {', '.join(image.conversions)}" if image.conversions else ""
    shape = " × ".join(map(str, image.shape))
    out.print(f"file: {image.name}, {image.width} × {image.height} pixels, mode {image.mode}{converted}")
    out.print(f"tensor: {shape}, values from {image.low:.3f} to {image.high:.3f}, mean {image.mean:.3f}")
    out.print("the pictures stand on the page: testigo show CAMPAIGN --html FILE", style="dim")


def _print_turns(out: Console, row: SeenRow) -> None:
    if not row.turns:
        out.print(f"{wording.NOTHING}.", style="bold red")
    for number, turn in enumerate(row.turns, 1):
        of = f"Turn {number}: " if len(row.turns) > 1 else ""
        is_other = turn.agreement in ("other", "other class")
        out.print(f"{of}{wording.AGREEMENT[turn.agreement]}.", style="bold red" if is_other else "green")
        if turn.kind == "class":
            out.print(f"class in the tensors: {turn.learned}; of the row: {turn.target}")
            continue
        if is_other:
            out.print(_differences(turn))
        if not turn.end:
            out.print("No token that ends the turn is learned.", style="bold red")


def print_pack(out: Console, pack: SeenPack) -> None:
    """A microbatch, segment by segment, with all its tokens."""
    for segment in pack.segments:
        out.print(_segment_head(segment), style="bold")
        out.print(f"each token sees {wording.attention(segment)}", style="dim")
        out.print(_table(segment.tokens, out.width))
    out.print(wording.MARKS, style="dim")


def _segment_head(segment: Segment) -> str:
    of = {0: "shared prefix", -1: "padding"}.get(segment.number, f"row {in_one_line(segment.row_id)}")
    first, last = segment.tokens[0], segment.tokens[-1]
    return (
        f"segment {segment.number} · {of} · places {first.place}–{last.place} · positions {first.position}–"
        f"{last.position} · {segment.n_counting} count in the loss"
    )


def _flow(tokens: Sequence[SeenToken], *, apart: bool) -> Text:
    """The row as text; what counts stands between marks, so that it is seen without colour too.

    `apart` puts a space between tokens: those that a class head reads often carry none of their own.
    """
    from rich.text import Text

    text, was_counting = Text(), False
    for token in _without_middle(tokens):
        if token is None:
            text.append(" […] ", style="dim")
            continue
        if token.counts != was_counting:
            text.append("▶" if token.counts else "◀", style="bold green")
            was_counting = token.counts
        text.append(token.text.replace(SPACE, " ").replace(LINE_END, f"{LINE_END}\n"), style=_style(token))
        text.append(" " if apart else "")
    if was_counting:
        text.append("◀", style="bold green")
    return text


def _without_middle(tokens: Sequence[SeenToken]) -> Iterable[SeenToken | None]:
    if len(tokens) <= _FLOW_AT_MOST:
        return tokens
    half = _FLOW_AT_MOST // 2
    return (*tokens[:half], None, *tokens[-half:])


def _around_the_answer(tokens: Sequence[SeenToken]) -> list[SeenToken]:
    counting = [place for place, token in enumerate(tokens) if token.counts]
    near = {place - back for place in counting for back in range(_BEFORE + 1)}
    return [token for place, token in enumerate(tokens) if place in near]


def _table(tokens: Sequence[SeenToken], width: int) -> Text:
    """`position id text ✓`, in as many columns as there is room for, read downwards."""
    from rich.text import Text

    n_columns = max((width + 1) // (_CELL + 1), 1)
    n_lines = -(-len(tokens) // n_columns)
    text = Text(no_wrap=True)
    for line in range(n_lines):
        for column in range(n_columns):
            place = column * n_lines + line
            if place < len(tokens):
                text.append_text(_cell(tokens[place]))
                text.append(" " if column < n_columns - 1 else "")
        text.append("\n" if line < n_lines - 1 else "")
    return text


def _cell(token: SeenToken) -> Text:
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    shown = token.text if cell_len(token.text) <= _TEXT else set_cell_size(token.text, _TEXT - 1) + "…"
    cell = Text(f"{token.position:>5} {token.id:>6} ", style="dim")
    cell.append(set_cell_size(shown, _TEXT), style=f"not dim {_style(token)}".strip())
    cell.append("✓" if token.counts else " ", style="not dim bold green")
    return cell


def _style(token: SeenToken) -> str:
    if token.counts:
        return "bold black on green" if token.special else "black on green"
    return "bold magenta" if token.special else "dim"


def _differences(turn: Turn) -> Text:
    from rich.text import Text

    text = Text("learned with its difference from the target ({+more+}, [-missing-]): ")
    for piece in turn.differences:
        if piece.kind == "same":
            text.append(piece.text)
        elif piece.kind == "other":
            text.append(f"{{+{piece.text}+}}", style="bold red")
        else:
            text.append(f"[-{piece.text}-]", style="bold yellow")
    return text
