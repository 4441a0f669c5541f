"""`testigo diagnose`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.findings import print_verdict
from testigo.cli.output import JsonFlag, ending, print_json, short, show, show_table
from testigo.counting import counted

if TYPE_CHECKING:
    from testigo.watch.logs import Log

_WORDS = (
    "remedies name settings of a campaign file: `training.clip` is a Trainer's `max_grad_norm`, "
    "`training.accumulation` its `gradient_accumulation_steps`, `training.schedule.warmup` its `warmup_steps`"
)


def diagnose(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A trainer_state.json, a Trainer's output or checkpoint folder, a TensorBoard folder, a run folder of "
            "Testigo, or a file of steps (.jsonl, .json, .csv).",
        ),
    ],
    vocabulary_size: Annotated[
        int | None, typer.Option("--vocabulary-size", metavar="N", help="Tokens or classes to choose from.", min=2)
    ] = None,
    base_loss: Annotated[
        float | None, typer.Option("--base-loss", metavar="NATS", help="Loss of the untouched base on such rows.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what went wrong in a finished run, whoever trained it: the watch's diagnoses over its log.

    Exit code 1 when a diagnosis is one that would have stopped the run.

    Example: testigo diagnose outputs/checkpoint-500
    """
    from testigo.gates.trainer_remedies import for_trainers
    from testigo.pilot.verdict import verdict_to_json
    from testigo.watch import all_rules
    from testigo.watch.afterwards import diagnose as judge_log
    from testigo.watch.logs import read_log

    log = read_log(path)
    verdict = judge_log(log, all_rules(), vocabulary_size=vocabulary_size, base_loss=base_loss)
    if _is_of_a_trainer(log):
        verdict = replace(verdict, findings=for_trainers(verdict.findings))
    if as_json:
        print_json({**verdict_to_json(verdict), "read": _document(log)})
    else:
        _print_log(log)
        print_verdict(verdict)
        if verdict.findings and not _is_of_a_trainer(log) and log.path.name != "steps.jsonl":
            show(_WORDS, style="dim")
    ending(
        checked=f"{_lines(log)} and {counted(log.n_validations, 'validation')} of {short(log.path)}",
        not_checked="rows, tokens, weights and outputs, which a log does not hold",
        next_command=f"testigo explain {verdict.findings[0].code}" if verdict.findings else "testigo explain",
    )
    if not verdict.ok:
        raise typer.Exit(1)


def _is_of_a_trainer(log: Log) -> bool:
    return log.source.startswith("trainer_state")


def _document(log: Log) -> dict[str, Any]:
    updates = log.updates
    return {
        "source": log.source,
        "path": str(log.path),
        "lines": len(updates),
        "first_update": updates[0] if updates else None,
        "last_update": updates[-1] if updates else None,
        "validations": log.n_validations,
        "columns": dict(log.columns),
        "ignored": list(log.ignored),
    }


def _lines(log: Log) -> str:
    return counted(len(log.updates), "training loss", "training losses")


def _print_log(log: Log) -> None:
    updates = log.updates
    span = f", updates {updates[0]} to {updates[-1]}" if updates else ""
    show(f"{log.source}: {_lines(log)}{span}; {counted(log.n_validations, 'validation')}", style="bold")
    if updates and updates[-1] - updates[0] >= len(updates):
        show("Not every update is in this log: what is said of so many updates is said of so many lines.", style="dim")
    show_table(("read as", "column"), [(word, name) for word, name in log.columns.items()])
    if log.ignored:
        more = f" and {len(log.ignored) - 8} more" if len(log.ignored) > 8 else ""
        show(f"not looked at: {', '.join(log.ignored[:8])}{more}", style="dim")
    show()
