"""Where the first number that is not finite came from."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True)
class Origin:
    """What one replayed update showed."""

    update: int
    microbatch: int | None = None
    """Number of the microbatch, from 0 on; None where the replay was finite."""
    rows: tuple[str, ...] = ()
    """Rows that alone, one by one, give a loss or gradient that is not finite."""
    n_rows: int = 0
    """Rows of the update."""
    module: str = ""
    """Dotted name of the innermost module."""
    operation: str = ""
    """Name of the operation, such as `aten.log`."""
    is_backward: bool = False
    sick_parameters: tuple[str, ...] = ()
    """Parameters and buffers that were not finite before the update began."""


@rule("T123", "origin-of-not-finite", "note", phase="training")
def origin_is_known(origin: Origin) -> Finding | Passed:
    """An update that was not finite is finite when it is replayed.

    Why it matters: the operation, the module and the rows in which the first bad number arose tell a damaged row from a
    damaged weight, and both from a step too large.

    What to do: look at the named rows with `testigo show CAMPAIGN --row ID`; see `testigo explain T101`.

    Source: IEEE 754-2019, section 6.2: what is not finite spreads, so the first operation that gives it from finite
    inputs is where it began. The update was replayed once from the last good state, operation by operation, and each of
    its rows alone.
    """
    if origin.n_rows == 0:
        raise CannotCheck("nothing was replayed")
    if origin.microbatch is None:
        return passed(
            f"update {origin.update} is finite when it is replayed: it does not come from its rows or weights"
        )
    where = f"microbatch {origin.microbatch}, {'backward' if origin.is_backward else 'forward'}"
    what = f"{origin.operation or 'an operation'} in {origin.module or 'the model'}"
    seen = f"update {origin.update}: the first number that is not finite comes from {what} ({where})"
    if origin.sick_parameters:
        names = ", ".join(origin.sick_parameters[:3])
        more = f" and {len(origin.sick_parameters) - 3} more" if len(origin.sick_parameters) > 3 else ""
        return found(f"{seen}; {names}{more} were not finite before it", remedy=_WEIGHTS)
    alone = f"; alone, {len(origin.rows)} of {origin.n_rows} rows give it"
    if origin.rows and len(origin.rows) < origin.n_rows:
        return found(seen + alone, rows=origin.rows, remedy=_ROWS)
    return found(seen + alone, rows=origin.rows[:3], remedy=_NUMBERS)


_WEIGHTS = (
    "Cause, tested: weights that were not finite before the update began. Go on from the last checkpoint before it; "
    "see what wrote them (a base that was damaged, code of your own, a device that failed)."
)
_ROWS = (
    "Cause, tested: the named rows; without them the update is finite. Look at them with `testigo show CAMPAIGN --row "
    "ID`, and mend or remove them in `data.source`."
)
_NUMBERS = (
    "Cause, tested: the numbers of the model, whatever the row. Not tested, likeliest first: a step too large before "
    "this update, so lower `training.learning_rate` and go on from an earlier checkpoint; a range too small, so set "
    "`model.precision: fp32` or `bf16`; `training.clip: 1.0`."
)
