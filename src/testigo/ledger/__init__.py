"""The ledger: what happened, in order, and nothing is ever taken back.

Events are only appended; each carries the digest of the one before, so that a changed or missing event is found.
Runs and their states are folded from the events. SQLite without any set-up; many processes may write at once::

    with Ledger.open("orders.testigo/ledger.sqlite") as ledger:
        ledger.append(kinds.NOTE, {"text": "the loss is noisy"})
        faults = ledger.verify()
"""

from __future__ import annotations

from testigo.ledger import kinds
from testigo.ledger.anchor import Head
from testigo.ledger.event import Event
from testigo.ledger.export import verify_export
from testigo.ledger.journal import Ledger
from testigo.ledger.process import ProcessMark, process_is_alive, this_process
from testigo.ledger.runs import END_STATES, STATES, TRANSITIONS, Run, campaign_state

__all__ = [
    "END_STATES",
    "STATES",
    "TRANSITIONS",
    "Event",
    "Head",
    "Ledger",
    "ProcessMark",
    "Run",
    "campaign_state",
    "kinds",
    "process_is_alive",
    "this_process",
    "verify_export",
]
