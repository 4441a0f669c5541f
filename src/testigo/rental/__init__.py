"""The rental plan: from what the pilot measured to what fits into three, seven or thirty days, and what it costs.

Pure arithmetic on frozen values; it starts nothing and reads no file::

    plan = plan_rental(Measured(seconds_per_update=2.1, ...), runs, baseline_rows=200, days=(3, 7), price_per_hour=2.10)
    [(package.days, package.left_out) for package in plan.packages]
"""

from __future__ import annotations

from testigo.rental.plan import MARGIN, Measured, Package, Piece, RentalPlan, RunWork, plan_rental

__all__ = ["MARGIN", "Measured", "Package", "Piece", "RentalPlan", "RunWork", "plan_rental"]
