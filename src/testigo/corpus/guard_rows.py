"""The rows of a guard task: read and checked as the campaign's own, and never split."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from testigo.corpus.checking import check_rows, keys_of
from testigo.corpus.reading import Reading, read_into
from testigo.corpus.row import Row, digest_of
from testigo.errors import DataError

if TYPE_CHECKING:
    from testigo.campaign import Campaign
    from testigo.campaign.sections import GuardTask


def guard_rows(campaign: Campaign, guard: GuardTask, check: Callable[[Row], list[str]]) -> tuple[tuple[Row, ...], str]:
    """The rows in the order of their ids, and one digest of them.

    Parameters
    ----------
    check
        What the guard's task has to say about a row, in words.

    Raises
    ------
    DataError
        With all bad rows at once, with file and line.
    """
    reading = Reading()
    read_into(reading, guard.source, campaign.folder, "source")
    placed, problems = check_rows(
        reading.rows,
        id_field=guard.id,
        group_field=guard.group,
        category_field=guard.task.category,
        needed=(guard.task.input, guard.task.target),
        check=check,
        keys=keys_of(guard, guard.task, under="guards."),
    )
    if reading.problems or problems:
        raise DataError(problems=[*reading.problems, *problems])
    rows = tuple(sorted((one.row for one in placed), key=lambda row: row.id))
    return rows, digest_of([row.digest for row in rows])
