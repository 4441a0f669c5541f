"""How many rows each class has, whether a head answers or a text does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from testigo.campaign import Campaign
from testigo.campaign.metrics import CLASS_KINDS
from testigo.corpus import Row
from testigo.gates.balance import BalanceEvidence
from testigo.tasks.classes import class_name, in_order


def balance(campaign: Campaign, raw: Mapping[str, Sequence[Row]]) -> tuple[BalanceEvidence, ...]:
    """One record where the task has classes, none where it has not."""
    task = campaign.task
    if task.kind not in CLASS_KINDS:
        return ()
    found = {split: Counter(class_name(row.fields[task.target]) or "" for row in rows) for split, rows in raw.items()}
    classes = task.labels or in_order(name for counts in found.values() for name in counts)
    return (
        BalanceEvidence(
            rows_by_class={split: {name: counts[name] for name in classes} for split, counts in found.items()},
            declared=task.labels or (),
        ),
    )
