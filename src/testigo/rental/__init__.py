"""The rental plan: from what the pilot measured to what fits into three, seven or thirty days, and what it costs.

`plan` is pure arithmetic on frozen values, `measuring` reads them off a workspace, `gpus` compares machines by a table,
`calendar` writes the plan for a calendar, and `real` holds it against the ledger afterwards::

    plan = plan_rental(Measured(seconds_per_update=2.1, ...), runs, baseline_rows=200, days=(3, 7), price_per_hour=2.10)
    [(package.days, package.left_out) for package in plan.packages]
"""

from __future__ import annotations

from testigo.rental.measuring import NotMeasured, Sizes, checkpoint_every, measured_in, plan_in, sizes_in, work_of
from testigo.rental.plan import MARGIN, Measured, Package, Piece, RentalPlan, RunWork, duration, plan_rental
from testigo.rental.real import Held, held_against, held_in, of_all, told_difference

__all__ = [
    "MARGIN",
    "Held",
    "Measured",
    "NotMeasured",
    "Package",
    "Piece",
    "RentalPlan",
    "RunWork",
    "Sizes",
    "checkpoint_every",
    "duration",
    "held_against",
    "held_in",
    "measured_in",
    "of_all",
    "plan_in",
    "plan_rental",
    "sizes_in",
    "told_difference",
    "work_of",
]
