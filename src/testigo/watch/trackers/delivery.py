"""Whether a tracker heard everything."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True)
class Delivery:
    """What came of telling one tracker of a run: lines are updates and validations."""

    tracker: str
    lines: int = 0
    dropped: int = 0
    error: str = ""


@rule("M131", "tracker-left-behind", "warn", phase="training")
def tracker_heard_everything(delivery: Delivery) -> Finding | Passed:
    """A tracker was told of every update and validation.

    Why it matters: a curve with a gap there looks like a run that stood still or ended. The run itself lost nothing:
    `steps.jsonl` has every line, and neither its speed nor its numbers depend on a tracker.

    What to do: not tested, likeliest first: see in the run's `log.txt` whether server, network or login is at fault;
    write to a place on this machine (`wandb: {mode: offline}`, `mlflow: {uri: sqlite:///mlflow.db}`). The end of the
    campaign tells the tracker once more, from the journal.

    Source: a thousand lines may wait for a tracker; what comes above that, or after it failed, is dropped and counted.
    """
    told = f"{delivery.tracker} was told of {delivery.lines} lines"
    if delivery.dropped or delivery.error:
        why = f": {delivery.error}" if delivery.error else ": it was too slow"
        return found(f"{told}, {delivery.dropped} were dropped{why}")
    return passed(told)
