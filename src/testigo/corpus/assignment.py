"""From rows and what joins them to three splits, and to the proof that nothing straddles them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from testigo.campaign.metrics import CLASS_KINDS
from testigo.corpus.pairs import Pair
from testigo.corpus.periods import Periods, moment_of, moments_of, split_by_time
from testigo.corpus.row import PlacedRow, Row
from testigo.corpus.splitting import ENOUGH, ORDER, TOLERANCE, join_components, split_rows, suggest_seed
from testigo.corpus.storage import FILES
from testigo.errors import DataError, Problem

if TYPE_CHECKING:
    from testigo.campaign import Campaign


@dataclass(frozen=True)
class Assigned:
    """The rows of each split, a line for each row that a time split leaves out, and what the manifest says of it."""

    splits: dict[str, list[Row]]
    dropped: list[dict[str, str]]
    facts: dict[str, Any]


def unit_of(campaign: Campaign) -> str:
    """What to call that which is never torn apart: the campaign's own word, its group's field, or "row"."""
    return campaign.data.unit or campaign.data.group or "row"


def assign(
    campaign: Campaign,
    kept: Sequence[PlacedRow],
    edges: Sequence[tuple[str, str]],
    copies: Sequence[Pair] = (),
    placed: Sequence[PlacedRow] = (),
) -> Assigned:
    """Each row's split: of given files as they are, of the source by its unit's number, or by its time.

    Parameters
    ----------
    edges
        Pairs of ids that belong together.
    copies, placed
        Exact copies (kept, copy) and all rows before the copies were left out: a copy ties its group to the kept row.

    Raises
    ------
    DataError
        For groups that stand in two given files, and for rows without a time where the split is made by time.
    """
    own = [one for one in kept if one.part == "source"]
    rows = [one.row for one in own]
    tied = _tied(copies, placed, rows)
    components = _components(rows, edges, tied)
    facts: dict[str, Any] = {"unit": unit_of(campaign), "units": len(set(components))}
    splits: dict[str, list[Row]] = {name: [] for name in FILES}
    dropped: list[dict[str, str]] = []
    names: Sequence[str | None] = ()
    if rows and campaign.data.split.time is not None:
        periods = _by_time(campaign, own, components)
        names = periods.split
        dropped = [
            {"where": one.where, "reason": reason, "row": one.row.id}
            for one, reason in zip(own, periods.reasons, strict=True)
            if reason
        ]
        facts["time"] = _told_time(campaign, own, periods)
    elif rows:
        names, told = _by_number(campaign, _in_strata(campaign, rows), components, tied)
        facts |= told
    for row, name in zip(rows, names, strict=True):
        if name is not None:
            splits[name].append(row)
    for one in kept:
        if one.part != "source":
            splits[one.part].append(one.row)
    _refuse_straddling(splits)
    facts["largest"] = _largest(rows, components, names)
    return Assigned(splits, dropped, facts)


def prove(splits: Mapping[str, Sequence[Row]], pairs: Sequence[Pair], time: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was compared between the splits as they are written, and what straddles them: nothing, or it is named.

    Computed from the finished splits alone, and not from how they were made.
    """
    split_of: dict[str, set[str]] = defaultdict(set)
    groups: dict[str, set[str]] = defaultdict(set)
    for name, rows in splits.items():
        for row in rows:
            split_of[row.id].add(name)
            groups[row.group].add(name)
    across: dict[str, list[list[str]]] = defaultdict(list)
    n_pairs: Counter[str] = Counter()
    for pair in pairs:
        if pair.is_joined and pair.one in split_of and pair.other in split_of:
            n_pairs[pair.kind] += 1
            if split_of[pair.one] != split_of[pair.other]:
                across[pair.kind].append([pair.one, pair.other])
    proofs: dict[str, Any] = {
        "ids": {"compared": len(split_of), "across": sorted(key for key, names in split_of.items() if len(names) > 1)},
        "groups": {"compared": len(groups), "across": sorted(key for key, own in groups.items() if len(own) > 1)},
    }
    for kind in ("exact", "near", "contained", "overlap", "conflicts"):
        proofs[kind] = {"compared": n_pairs[kind], "across": across[kind][:100], "n_across": len(across[kind])}
    if time is not None:
        proofs["periods"] = {"compared": 3, "across": _mixed_periods(splits, time)}
    return proofs


def refuse_empty(splits: Mapping[str, Sequence[Row]], rows: Sequence[Row], facts: Mapping[str, Any]) -> None:
    """A campaign needs rows in each split.

    Raises
    ------
    DataError
        When a split has none.
    """
    for name in FILES:
        if splits[name]:
            continue
        unit = facts["unit"]
        groups = Counter(row.group for row in rows)
        largest = f", the largest with {groups.most_common(1)[0][1]}" if groups else ""
        if "time" in facts:
            found = f"none: {len(rows)} rows; the periods begin at {_begins(facts['time'])}"
            action = "move the boundary, shorten the embargo, or name no `data.group` whose rows span all periods"
        else:
            found = f"none: {len(rows)} rows in {len(groups)} groups{largest}, some joined by near-duplicates"
            action = "give more rows or groups, another share, or a file; or raise `data.duplicates.near`"
        if unit not in ("row", "group"):
            found = found.replace(" groups", f" groups (unit: {unit})")
        raise DataError(expected=f"rows for {name}", found=found, where="data.split", action=action)


def _tied(copies: Sequence[Pair], placed: Sequence[PlacedRow], rows: Sequence[Row]) -> dict[str, set[str]]:
    """Id of a kept row -> groups of the copies of it that were left out."""
    group_of = {one.row.id: one.row.group for one in placed}
    staying = {row.id for row in rows}
    tied: dict[str, set[str]] = defaultdict(set)
    for pair in copies:
        if pair.one in staying and pair.other in group_of and pair.other not in staying:
            tied[pair.one].add(group_of[pair.other])
    return tied


def _components(rows: Sequence[Row], edges: Sequence[tuple[str, str]], tied: Mapping[str, set[str]]) -> tuple[int, ...]:
    place_of = {row.id: place for place, row in enumerate(rows)}
    first: dict[str, int] = {}
    for place, row in enumerate(rows):
        first.setdefault(row.group, place)
        for group in tied.get(row.id, ()):
            first.setdefault(group, place)
    pairs = [(place_of[one], place_of[other]) for one, other in edges if one in place_of and other in place_of]
    pairs += [(place_of[row], first[group]) for row, groups in tied.items() for group in groups]
    pairs += [(first[row.group], place) for place, row in enumerate(rows)]  # a group may begin with a tied row
    return join_components(rows, pairs)


def stratum_of(campaign: Campaign) -> str | None:
    """The field over whose values the splits are balanced: the category, or the class where none is named."""
    task = campaign.task
    return task.target if task.category is None and task.kind in CLASS_KINDS else task.category


def _in_strata(campaign: Campaign, rows: Sequence[Row]) -> list[Row]:
    field = stratum_of(campaign)
    if field is None or field == campaign.task.category:
        return list(rows)
    return [replace(row, category=str(row.fields[field])) for row in rows]


def _by_number(
    campaign: Campaign, rows: Sequence[Row], components: Sequence[int], tied: Mapping[str, set[str]]
) -> tuple[list[str], dict[str, Any]]:
    split = campaign.data.split
    shares: dict[str, float] = {
        name: getattr(split, name) for name in ORDER if not isinstance(getattr(split, name), str)
    }
    total = sum(shares.values())
    declared = {name: shares[name] / total for name in shares}
    cuts, moved = _cuts(campaign, len(set(components)), declared)
    names = split_rows(rows, components, shares, split.seed, cuts=cuts, tied=tied)
    empty = [name for name in shares if name not in names]
    if empty and cuts == "fixed":  # so few units that a cut at its share would leave a split without rows
        cuts, moved = "fitted", f"with fixed cuts {' and '.join(sorted(empty))} would have no rows"
        names = split_rows(rows, components, shares, split.seed, cuts=cuts, tied=tied)
    facts: dict[str, Any] = {"cuts": cuts, **({"moved": moved} if moved else {})}
    counts = Counter(names)
    facts["shares"] = {name: [declared[name], counts[name] / len(rows)] for name in FILES if name in shares}
    missed = any(abs(counts[name] / len(rows) - share) > TOLERANCE for name, share in declared.items())
    if split.cuts != "fitted" and (missed or moved or _lacks_category(rows, names, declared)):
        facts["better_seed"] = suggest_seed(rows, components, shares)
    return names, facts


def _cuts(campaign: Campaign, n_units: int, declared: Mapping[str, float]) -> tuple[str, str]:
    """Fixed or fitted; and when the campaign leaves it open and they are fitted, why."""
    if campaign.data.split.cuts != "auto":
        return campaign.data.split.cuts, ""
    least = min((share * n_units for name, share in declared.items() if name != "train"), default=math.inf)
    if least >= ENOUGH:
        return "fixed", ""
    return "fitted", f"validation or test can expect {least:.3g} of the {n_units} {_many(unit_of(campaign))} only"


def _many(unit: str) -> str:
    return "rows" if unit == "row" else f"units ({unit})"


def _lacks_category(rows: Sequence[Row], names: Sequence[str], shares: Mapping[str, float]) -> bool:
    found = Counter(zip((row.category for row in rows), names, strict=True))
    counts = Counter(row.category for row in rows)
    return any(n * share >= 1 and not found[c, name] for c, n in counts.items() for name, share in shares.items())


def _by_time(campaign: Campaign, own: Sequence[PlacedRow], components: Sequence[int]) -> Periods:
    split = campaign.data.split
    assert split.time is not None
    begins = {name: split.begin(name) or getattr(split, name) for name in ("validation", "test")}
    return split_by_time(moments_of(own, split.time.field), components, begins, split.time.embargo, unit_of(campaign))


def _told_time(campaign: Campaign, own: Sequence[PlacedRow], periods: Periods) -> dict[str, Any]:
    time = campaign.data.split.time
    assert time is not None
    reasons = Counter("embargo" if "embargo" in reason else "unit" for reason in periods.reasons if reason)
    told: dict[str, Any] = {
        "field": time.field,
        "embargo": time.embargo,
        "begins": {name: str(begin) for name, begin in periods.boundaries.items()},
        "left_out": {name: reasons[name] for name in ("embargo", "unit")},
        "periods": {},
    }
    moments = moments_of(own, time.field)
    for name in FILES:
        inside = sorted(
            (moment.value, str(moment)) for moment, split in zip(moments, periods.split, strict=True) if split == name
        )
        if inside:
            told["periods"][name] = [inside[0][1], inside[-1][1]]
    return told


def _begins(time: Mapping[str, Any]) -> str:
    return ", ".join(f"{begin} ({name})" for name, begin in sorted(time["begins"].items()))


def _mixed_periods(splits: Mapping[str, Sequence[Row]], time: Mapping[str, Any]) -> list[str]:
    """Ids of rows that lie in another period than their split's."""
    begins = {name: moment_of(begin) for name, begin in time["begins"].items()}
    bounds = {
        "train": (None, begins["validation"]),
        "validation": (begins["validation"], begins["test"]),
        "test": (begins["test"], None),
    }
    mixed = []
    for name, rows in splits.items():
        low, high = bounds[name]
        for row in rows:
            moment = moment_of(row.fields.get(time["field"]))
            if moment is None or (low and moment.value < low.value) or (high and moment.value >= high.value):
                mixed.append(row.id)
    return sorted(mixed)


def _largest(rows: Sequence[Row], components: Sequence[int], names: Sequence[str | None]) -> dict[str, Any]:
    """Of each split made here the largest unit: its rows, and by how many groups it is joined."""
    largest: dict[str, Any] = {}
    members: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row, component, name in zip(rows, components, names, strict=True):
        if name is not None:
            members[name, component].append(row)
    for (name, _), own in sorted(members.items()):
        if len(own) > largest.get(name, {"rows": 0})["rows"]:
            groups = {row.group for row in own}
            largest[name] = {"rows": len(own), "groups": len(groups)}
            if name != "test":
                largest[name]["group"] = min(groups)
    return largest


def _refuse_straddling(splits: Mapping[str, Sequence[Row]]) -> None:
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
