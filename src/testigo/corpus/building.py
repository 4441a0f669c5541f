"""From the campaign's sources to a corpus, told in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from testigo.corpus.checking import check_rows
from testigo.corpus.cleaning import Cleaned, clean
from testigo.corpus.images import examine, is_image
from testigo.corpus.leaks import drop_copies, settle_leaks, told_duplicates
from testigo.corpus.reading import Reading, read_into
from testigo.corpus.row import Part, PlacedRow, Row, digest_of
from testigo.corpus.searching import find_duplicates
from testigo.corpus.splitting import ORDER, TOLERANCE, join_components, split_rows
from testigo.corpus.storage import FILES, FORMAT, Corpus, find_fault, open_corpus, write_corpus
from testigo.errors import DataError, Problem

if TYPE_CHECKING:
    from testigo.campaign import Campaign


def build(campaign: Campaign, folder_for: Callable[[str], Path], check: Callable[[Row], list[str]]) -> Corpus:
    """Read, clean, check and split the rows of a campaign; write them once, and find them again.

    Parameters
    ----------
    folder_for
        Fingerprint -> the folder of that corpus.
    check
        What the task has to say about a row, in words; empty when it can be used.

    Raises
    ------
    DataError
        With all bad rows at once, with file and line; for copies where the campaign refuses them; for groups that stand
        in two given files; for a split without rows.
    WorkspaceError
        When the corpus cannot be written.
    """
    data = campaign.data
    reading = _read_all(campaign)
    needed = (campaign.task.input, campaign.task.target)
    cleaned = clean(reading.rows, data.clean, needed)
    placed, problems = check_rows(
        cleaned.rows,
        id_field=data.id,
        group_field=data.group,
        category_field=campaign.task.category,
        needed=needed,
        check=check,
    )
    if reading.problems or problems:
        raise DataError(problems=[*reading.problems, *problems])
    placed.sort(key=lambda one: one.row.id)  # nothing below may depend on the order of the files
    fingerprint = _fingerprint(campaign, placed, cleaned)
    folder = folder_for(fingerprint)
    fault = find_fault(folder, fingerprint) if folder.exists() else None
    if folder.exists() and fault is None:
        whole = open_corpus(folder)
        return Corpus(fingerprint, folder, whole.manifest, f"reused {folder.name[:10]}: same rows, rules and split")
    images, problems = examine(placed, campaign.task.input)
    if problems:
        raise DataError(problems=problems)
    copies = drop_copies(placed, campaign)
    found = find_duplicates(copies.kept, campaign)
    settled = settle_leaks(_split(campaign, copies.kept, found.edges), found, copies.kept, campaign)
    splits = settled.splits
    _refuse_empty(splits, [one.row for one in copies.kept if one.part == "source"])
    manifest = {
        "fingerprint": fingerprint,
        "sources": reading.sources,
        "ignored_files": reading.ignored,
        "clean": cleaned.steps,
        "dropped": [{"where": raw.where, "reason": reason} for raw, reason in cleaned.dropped]
        + copies.dropped
        + settled.dropped,
        "duplicates": told_duplicates(found.and_also(copies.exact), splits, placed, campaign),
        "split_rule": _rule(campaign),
        **({"images": images} if images else {}),
    }
    roots = {one.row.id: one.root for one in copies.kept if one.root and is_image(one.row.fields[campaign.task.input])}
    manifest = write_corpus(folder, splits, manifest, roots)
    note = f"rebuilt, because {fault}" if fault else "built"
    return Corpus(fingerprint, folder, manifest, note)


def _read_all(campaign: Campaign) -> Reading:
    reading = Reading()
    split = campaign.data.split
    field = campaign.task.input if str(campaign.task.kind) == "image-classification" else None
    read_into(reading, campaign.data.source, campaign.folder, "source", field)
    if isinstance(split.validation, str):
        read_into(reading, split.validation, campaign.folder, "validation", field)
    if isinstance(split.test, str):
        read_into(reading, split.test, campaign.folder, "test", field)
    return reading


def _fingerprint(campaign: Campaign, placed: Sequence[PlacedRow], cleaned: Cleaned) -> str:
    """One hash of rows, rules and split. File names, order of rows and order of keys do not count."""
    rows = sorted((one.part, one.row.digest) for one in placed)
    left_out = sorted((raw.part, digest_of(raw.fields)) for raw, _ in cleaned.dropped)
    return digest_of({"format": FORMAT, "rows": rows, "left_out": left_out, "rule": _rule(campaign)})


def _rule(campaign: Campaign) -> dict[str, Any]:
    data, task = campaign.data, campaign.task
    shares = {name: getattr(data.split, name) for name in ("train", "validation", "test")}
    return {
        "id": data.id,
        "group": data.group,
        "category": task.category,
        "input": task.input,
        "target": task.target,
        "clean": list(data.clean),
        "duplicates": data.duplicates.model_dump(),
        "near": data.duplicates.near,
        "shares": {name: "a file" if isinstance(share, str) else share for name, share in shares.items()},
        "seed": data.split.seed,
        "tolerance": TOLERANCE,
    }


def _split(campaign: Campaign, kept: Sequence[PlacedRow], pairs: Sequence[tuple[str, str]]) -> dict[str, list[Row]]:
    split = campaign.data.split
    shares = {name: getattr(split, name) for name in ORDER if not isinstance(getattr(split, name), str)}
    own = [place for place, one in enumerate(kept) if one.part == "source"]
    rows = [kept[place].row for place in own]
    position = {row.id: number for number, row in enumerate(rows)}
    inside = [(position[a], position[b]) for a, b in pairs if a in position and b in position]
    names = split_rows(rows, join_components(rows, inside), shares, split.seed) if rows else []
    splits: dict[str, list[Row]] = {name: [] for name in FILES}
    for row, name in zip(rows, names, strict=True):
        splits[name].append(row)
    for one in kept:
        if one.part != "source":
            splits[one.part].append(one.row)
    _refuse_straddling(splits)
    return splits


def _refuse_straddling(splits: dict[str, list[Row]]) -> None:
    """Splits made here never straddle; files that the user gave may."""
    where: dict[str, set[str]] = defaultdict(set)
    for name, rows in splits.items():
        for row in rows:
            where[row.group].add(name)
    problems = [
        Problem(
            "a group in one split only",
            f"the group '{group}' in {' and '.join(sorted(names))}",
            "data.split",
            "move the group's rows into one file",
        )
        for group, names in sorted(where.items())
        if len(names) > 1
    ]
    if problems:
        raise DataError(problems=problems)


def _refuse_empty(splits: dict[str, list[Row]], rows: Sequence[Row]) -> None:
    for name in FILES:
        if not splits[name]:
            groups = Counter(row.group for row in rows)
            largest = f", the largest with {groups.most_common(1)[0][1]}" if groups else ""
            raise DataError(
                expected=f"rows for {name}",
                found=f"none: {len(rows)} rows in {len(groups)} groups{largest}, some joined by near-duplicates",
                where="data.split",
                action="give more rows or groups, another share, or a file; or raise `data.duplicates.near`",
            )


assert set(get_args(Part)) == {"source", *FILES}
