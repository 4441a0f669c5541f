"""Silent errors: each is planted into a training that runs without an exception, and has a healthy twin.

Reading order: `record.py` says what a case is; then a file a kind of fault: `rows`, `labels`, `losses`, `parameters`,
`optimizers`, `evaluations`, `checkpoints`, `curves` (the watch), `sft` (trl.SFTTrainer), `own_loop`; `page.py` writes
the table of docs/silent-errors.md.
"""

from __future__ import annotations

from silent_errors import (
    checkpoints,
    curves,
    evaluations,
    labels,
    losses,
    optimizers,
    own_loop,
    parameters,
    rows,
    sft,
)
from silent_errors.record import CASES, Case

FILES = (rows, labels, losses, parameters, optimizers, evaluations, checkpoints, curves, sft, own_loop)

__all__ = ["CASES", "FILES", "Case"]
