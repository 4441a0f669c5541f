"""The pilot and the watch on a `transformers.Trainer` or `trl.SFTTrainer` that the user already has.

::

    report = testigo.pilot(trainer)
    report.raise_if_stopped()
    trainer.add_callback(testigo.Watch())
    trainer.train()

The pilot takes its evidence from the live collator, model and optimizer, and the rules of `testigo.gates` judge it. It
leaves everything as it found it (`keeping`). The watch feeds each update to `testigo.watch`.
"""

from __future__ import annotations

from testigo.attach.pilot import pilot
from testigo.attach.report import Report
from testigo.attach.watch import Watch

__all__ = ["Report", "Watch", "pilot"]
