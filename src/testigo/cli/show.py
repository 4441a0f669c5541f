"""`testigo show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.generations import show_generations
from testigo.cli.lengths import show_lengths
from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, LedgerFlag, WorkspaceFlag, ending, named, print_json, say, short
from testigo.cli.output import show as write
from testigo.counting import counted
from testigo.errors import DataError, WorkspaceError
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.conductor.grounds import Grounds
    from testigo.inspection.choosing import Chosen
    from testigo.inspection.material import Material
    from testigo.inspection.seen import SeenRow


@dataclass(frozen=True)
class _Asked:
    """What the command line asked for."""

    ids: tuple[str, ...]
    split: str
    category: str | None
    n: int | None
    longest: bool
    strangest: bool
    at_most: int
    every_token: bool
    colour: bool
    as_json: bool

    @property
    def names_rows(self) -> bool:
        """Whether it names rows, so that samples of every category are not meant."""
        return bool(self.ids) or self.category is not None or self.longest or self.strangest or self.split != "train"


def show(
    campaign: CampaignPath,
    row: Annotated[
        list[str] | None, typer.Option("--row", metavar="ID", help="Show this row; may be given again.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train or validation.")] = "train",
    category: Annotated[str | None, typer.Option("--category", help="Rows of this category alone.")] = None,
    n: Annotated[
        int | None, typer.Option("-n", "--rows", help="How many rows; without other options, of each category.", min=1)
    ] = None,
    longest: Annotated[bool, typer.Option("--longest", help="The longest rows first.")] = False,
    strangest: Annotated[
        bool, typer.Option("--strangest", help="The rows of highest loss under the base first; it is measured once.")
    ] = False,
    at_most: Annotated[
        int, typer.Option("--at-most", metavar="N", help="Rows to measure for --strangest.", min=1)
    ] = 100,
    raw: Annotated[
        int | None, typer.Option("--raw", metavar="N", help="N random raw rows, as they were read and cleaned.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Which random rows --raw draws.")] = 0,
    lengths: Annotated[
        bool, typer.Option("--lengths", help="How long rows are, and what each maximum length would cut.")
    ] = False,
    microbatch: Annotated[bool, typer.Option("--microbatch", help="The first microbatch as it is laid out.")] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="List every token, not only those around the answer.")
    ] = False,
    generations: Annotated[
        bool, typer.Option("--generations", help="What each run wrote to its fixed prompts, validation by validation.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write all of it as one page that opens offline.")
    ] = None,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="NAME", help="Record in the ledger that NAME looked at these samples."),
    ] = None,
    color: Annotated[
        bool, typer.Option("--color", help="Keep colours when the output goes to a file or pipe.")
    ] = False,
    workspace: WorkspaceFlag = None,
    ledger: LedgerFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what the model really sees: each token, and whether it counts in the loss (green, between ▶ and ◀) or not.

    Without other options: a sample of every category.

    Example: testigo show campaign.yaml --longest
    """
    if generations:
        show_generations(campaign, workspace, n=n, as_json=as_json)
        return
    asked = _Asked(tuple(row or ()), split, category, n, longest, strangest, at_most, tokens, color, as_json)
    name = named(campaign, workspace)
    with opened(campaign, workspace, ledger, alone=strangest) as grounds:
        from testigo.conductor import samples
        from testigo.inspection.sights import kind_of

        material = samples.material(grounds)
        if html is not None:
            _page(grounds, material, asked, html, raw_seed=seed)
            end = "everything on the page", "everything else", f"open {short(html)} in a browser"
        elif raw is not None:
            _raw(material, asked, raw, seed)
            end = "nothing: reading is up to you", "the tensors that are made of these rows", f"testigo show {name}"
        elif lengths:
            _refuse_images(material, "--lengths")
            show_lengths(material, grounds.reporter, as_json=as_json)
            end = "the length of every training and validation row", "the sealed test rows", f"testigo pilot {name}"
        elif microbatch:
            _microbatch(material, asked)
            end = "the tensors of the first microbatch", "the other microbatches", f"testigo show {name} --lengths"
        else:
            shown = _rows(grounds, material, asked)
            end = (
                "the tensors of the rows above",
                "the other rows (testigo check looks at all)",
                _next(name, asked, kind_of(material)),
            )
            if confirm is not None:
                _confirm(grounds, shown, asked, confirm)
                end = (*end[:2], f"testigo run {name}")
    ending(checked=end[0], not_checked=end[1], next_command=end[2])


def _next(name: str, asked: _Asked, kind: str) -> str:
    """The next look of the checklist: samples, the longest, the strangest, lengths."""
    if kind == "image":
        return f"testigo show {name} --html samples.html"
    if asked.strangest:
        return f"testigo show {name} --lengths"
    return f"testigo show {name} " + ("--strangest" if asked.longest else "--longest")


def _chosen(grounds: Grounds, material: Material, asked: _Asked) -> tuple[Chosen, ...]:
    from testigo.conductor.samples import folder
    from testigo.inspection import choosing, strange
    from testigo.inspection.sights import progress_over
    from testigo.inspection.wording import STRANGE_OF_HEADS

    if asked.ids:
        return choosing.by_id(material, asked.ids)
    if not asked.names_rows:
        return choosing.each_category(material, asked.n or 1)
    rows, n = choosing.of_category(material, asked.split, asked.category), asked.n or 3
    if asked.strangest:
        measured = strange.losses(
            material, asked.split, rows, folder=folder(grounds), reporter=grounds.reporter, at_most=asked.at_most
        )
        grounds.reporter.say(f"losses under the base: {len(measured.tokens)} of {measured.of} rows measured")
        if material.encoder.task.labels and grounds.campaign.task.answer == "head":
            grounds.reporter.say(f"  {STRANGE_OF_HEADS}")
        return choosing.strangest(asked.split, rows, measured.rows, n)
    if asked.longest:
        _refuse_images(material, "--longest")
        return choosing.longest(material, asked.split, rows, n, progress_over(material, grounds.reporter, len(rows)))
    return choosing.spread(asked.split, rows, n)


def _seen(grounds: Grounds, material: Material, asked: _Asked) -> tuple[SeenRow, ...]:
    from testigo.conductor.samples import folder
    from testigo.inspection.seeing import see_row
    from testigo.inspection.strange import kept

    chosen = _chosen(grounds, material, asked)
    losses = {
        row_id: own
        for split in sorted({one.split for one in chosen})
        for row_id, own in kept(folder(grounds), split, [one.row for one in chosen]).tokens.items()
    }
    return tuple(see_row(material, one, losses.get(one.row.id, ())) for one in chosen)


def _rows(grounds: Grounds, material: Material, asked: _Asked) -> tuple[SeenRow, ...]:
    from testigo.cli.tokens import print_rows, screen

    seen = _seen(grounds, material, asked)
    if asked.as_json:
        print_json({"rows": [row.to_json() for row in seen]})
    else:
        print_rows(screen(colour=asked.colour), seen, every_token=asked.every_token)
    return seen


def _confirm(grounds: Grounds, shown: tuple[SeenRow, ...], asked: _Asked, name: str) -> None:
    from testigo.conductor.samples import record

    if not name.strip() or asked.names_rows:
        raise WorkspaceError(
            expected="a name, and samples of every category",
            found="no name" if not name.strip() else "rows that were chosen by hand",
            where="--confirm",
            action="testigo show CAMPAIGN --confirm NAME, without options that choose rows",
        )
    record(grounds, how="show", by=name.strip(), shown=shown)
    say(f"recorded: {name.strip()} looked at these samples and confirms them")


def _page(grounds: Grounds, material: Material, asked: _Asked, file: Path, *, raw_seed: int) -> None:
    from testigo.conductor.samples import folder, in_words
    from testigo.disk import write_atomically
    from testigo.inspection.page import html
    from testigo.inspection.sights import sight

    if file.is_dir() or not file.parent.is_dir():
        raise WorkspaceError(
            expected="a file in a folder that exists",
            found="a folder" if file.is_dir() else "no such folder",
            where=str(file),
            action="name a file, such as samples.html",
        )
    seen = sight(
        material,
        _chosen(grounds, material, asked),
        folder=folder(grounds),
        are_chosen=asked.names_rows,
        raw_seed=raw_seed,
        confirmed=in_words(grounds),
        reporter=grounds.reporter,
    )
    text = html(seen)
    write_atomically(file, text)
    n_bytes = len(text.encode())
    if asked.as_json:
        print_json({"page": file, "bytes": n_bytes, "rows": [row.id for row in seen.samples]})
    else:
        write(f"{short(file)} ({n_bytes / 1e6:.1f} MB)")


def _raw(material: Material, asked: _Asked, n: int, seed: int) -> None:
    from testigo.inspection.choosing import of_category, random_rows
    from testigo.inspection.raw import raw_text

    rows = random_rows(of_category(material, asked.split, asked.category), n, seed)
    if asked.as_json:
        print_json({"seed": seed, "rows": [{"id": r.id, "group": r.group, "category": r.category, "fields": r.fields}
                                           for r in rows]})  # fmt: skip
        return
    for r in rows:
        place = f", {r.category}" if r.category else ""
        write(in_one_line(f"{r.id}{'' if r.group == r.id else f' (group {r.group})'}{place}"), "bold")
        write(raw_text(r))


def _refuse_images(material: Material, option: str) -> None:
    from testigo.inspection.sights import kind_of
    from testigo.inspection.wording import NO_LENGTHS

    if kind_of(material) == "image":
        raise DataError(
            expected="rows of text",
            found=f"images. {NO_LENGTHS}",
            where=option,
            action="leave the option out; testigo show CAMPAIGN --html FILE shows the images",
        )


def _microbatch(material: Material, asked: _Asked) -> None:
    from testigo.cli.tokens import print_pack, screen
    from testigo.inspection.sights import first_microbatch

    _refuse_images(material, "--microbatch")
    seed = material.campaign.seeds[0]
    pack = first_microbatch(material, seed)
    if pack is None:
        raise DataError(
            expected="training rows that fit",
            found="none",
            where="encoding.maximum_length",
            action="raise it, or declare encoding.longer",
        )
    if asked.as_json:
        segments: list[dict[str, Any]] = [
            {"segment": s.number, "row": s.row_id, "sees": s.sees, "looks": s.looks,
             "tokens": [token.to_json() for token in s.tokens]} for s in pack.segments
        ]  # fmt: skip
        print_json({"seed": seed, "rows": pack.row_ids, "padded": pack.is_padded, "segments": segments})
    else:
        write(f"the first microbatch of seed {seed}: {counted(len(pack.row_ids), 'row')}", "bold")
        print_pack(screen(colour=asked.colour), pack)
