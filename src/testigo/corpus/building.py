"""From the campaign's sources to a corpus, told in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from testigo.corpus.assignment import assign, prove, refuse_empty, stratum_of, unit_of
from testigo.corpus.checking import check_rows, keys_of
from testigo.corpus.cleaning import Cleaned, clean
from testigo.corpus.images import examine, is_image
from testigo.corpus.leaks import drop_copies, settle_leaks
from testigo.corpus.pairs import Found
from testigo.corpus.reading import Reading, read_into
from testigo.corpus.row import Part, PlacedRow, Row, digest_of
from testigo.corpus.searching import find_duplicates
from testigo.corpus.splitting import TOLERANCE
from testigo.corpus.storage import FILES, FORMAT, Corpus, close_seal, find_fault, open_corpus, rename_unit, write_corpus
from testigo.corpus.telling import pairs_table, told_duplicates
from testigo.errors import DataError

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
        keys=keys_of(data, campaign.task),
    )
    if reading.problems or problems:
        raise DataError(problems=[*reading.problems, *problems])
    placed.sort(key=lambda one: one.row.id)  # nothing below may depend on the order of the files
    fingerprint = _fingerprint(campaign, placed, cleaned)
    folder = folder_for(fingerprint)
    fault = find_fault(folder, fingerprint) if folder.exists() else None
    if folder.exists() and fault is None:
        manifest = rename_unit(folder, open_corpus(folder).manifest, unit_of(campaign))
        note = f"reused {folder.name[:10]}: same rows, rules and split"
        return Corpus(fingerprint, folder, manifest, "; ".join(filter(None, [note, close_seal(folder)])))
    images, problems = examine(placed, campaign.task.input)
    if problems:
        raise DataError(problems=problems)
    copies = drop_copies(placed, campaign)
    found = find_duplicates(copies.kept, campaign)
    assigned = assign(campaign, copies.kept, found.edges, copies.exact, placed)
    settled = settle_leaks(assigned.splits, _between(found, assigned.splits), copies.kept, campaign)
    splits = settled.splits
    refuse_empty(splits, [one.row for one in copies.kept if one.part == "source"], assigned.facts)
    every = found.and_also(copies.exact)
    manifest = {
        "fingerprint": fingerprint,
        "sources": reading.sources,
        "ignored_files": reading.ignored,
        "clean": cleaned.steps,
        "dropped": [{"where": raw.where, "reason": reason} for raw, reason in cleaned.dropped]
        + copies.dropped
        + assigned.dropped
        + settled.dropped,
        "duplicates": told_duplicates(every, splits, placed, campaign, settled.leaks),
        "split_rule": _rule(campaign),
        "split": {**assigned.facts, "proofs": prove(splits, found.pairs, assigned.facts.get("time"))},
        **({"images": images} if images else {}),
    }
    roots = {one.row.id: one.root for one in copies.kept if one.root and is_image(one.row.fields[campaign.task.input])}
    manifest = write_corpus(folder, splits, manifest, roots, pairs_table(every, splits))
    note = f"rebuilt, because {fault}" if fault else "built"
    return Corpus(fingerprint, folder, manifest, note)


def _between(found: Found, splits: dict[str, list[Row]]) -> Found:
    """The pairs both of whose rows are in a split: a split by time leaves rows out."""
    ids = {row.id for rows in splits.values() for row in rows}
    return Found(tuple(pair for pair in found.pairs if pair.one in ids and pair.other in ids))


def _read_all(campaign: Campaign) -> Reading:
    reading = Reading()
    split = campaign.data.split
    field = campaign.task.input if str(campaign.task.kind) == "image-classification" else None
    read_into(reading, campaign.data.source, campaign.folder, "source", field)
    parts: tuple[Part, ...] = ("validation", "test")
    for part in parts:
        if file := split.file(part):
            read_into(reading, file, campaign.folder, part, field)
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
        "shares": {name: "a file" if data.split.file(name) else share for name, share in shares.items()},
        "seed": data.split.seed,
        "cuts": data.split.cuts,
        "time": data.split.time.model_dump() if data.split.time else None,
        "tolerance": TOLERANCE,
        **({"strata": stratum} if (stratum := stratum_of(campaign)) != task.category else {}),
    }


assert set(get_args(Part)) == {"source", *FILES}
