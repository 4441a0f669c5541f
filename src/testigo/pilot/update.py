"""Update: the optimizer holds what is trained, two updates move it all, and nothing else moves, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from testigo.evaluation.predict import Prediction, predict
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.update import UpdateEvidence
from testigo.model.digest import digests
from testigo.model.quantised import all_weights
from testigo.pilot.bench import Bench
from testigo.pilot.movement import due, in_half_precision, rounded_away
from testigo.pilot.phases import Phases
from testigo.training import optimizer
from testigo.training.loop import MAX_SKIPS_IN_A_ROW

OVERFIT_ROWS = 2
OVERFIT_UPDATES = 40
OVERFIT_RATE = 2e-3
OVERFIT_LOSS = 0.02


def collect(
    bench: Bench, phases: Phases, tell: Callable[[int, Mapping[str, Any]], object] = lambda update, line: None
) -> UpdateEvidence:
    """The first and the second update, each measured apart: the first allocates the optimizer's state.

    Parameters
    ----------
    tell
        Is told of each update, while its gradient is still there.
    """
    session, model = bench.session, bench.model
    own = {id(p): name for name, p in model.named_parameters()}
    held = [p for group in session.optimizer.param_groups for p in group["params"]]
    frozen = [(n, t) for n, t in [*all_weights(model).items(), *model.named_buffers()] if n not in session.parameters]
    before_frozen, before = digests(frozen), digests(session.parameters.items())
    applied, lines, moved_first = [], [], {}
    due_first: tuple[str, ...] = ()
    rows = [session.rows[k].id for k in session.order.rows_of(1)]
    model.train()
    for update in (1, 2):
        with phases.measure(f"update-{update}", f"{len(rows)} rows of the plan", rows=tuple(rows)):
            lines += _step(bench, update)
        tell(update, lines[-1])
        applied.append(session.optimizer.param_groups[0]["lr"])
        if update == 1:
            moved_first = digests(session.parameters.items())
            due_first = due(session.parameters, dict.fromkeys(session.parameters, session.learning_rate(update)))
    after, after_frozen = digests(session.parameters.items()), digests(frozen)
    clip = bench.settings.training.clip
    return UpdateEvidence(
        trained=tuple(session.parameters),
        in_optimizer=tuple(own[id(p)] for p in held if id(p) in own),
        foreign_in_optimizer=sum(id(p) not in own for p in held),
        duplicates_in_optimizer=len(held) - len({id(p) for p in held}),
        moved_first=tuple(name for name in before if moved_first[name] != before[name]),
        due_first=due_first,
        moved=tuple(name for name in before if after[name] != before[name]),
        frozen_changed=tuple(name for name in before_frozen if after_frozen[name] != before_frozen[name]),
        learning_rate_expected=tuple(session.learning_rate(update) for update in (1, 2)),
        learning_rate_applied=tuple(applied),
        updates_expected=2,
        updates_counted=_counted(bench),
        schedule_length=session.order.n_updates,
        planned_updates=session.order.n_updates,
        skipped=sum(line["skipped"] for line in lines),
        clip=clip,
        gradient_norm_before_clip=lines[-1]["gradient_norm"],
        gradient_norm_after_clip=optimizer.clip(list(session.parameters.values()), None),
        half_precision=len(in_half_precision(session.parameters)),
        rounded_away=_rounded_away(bench),
    )


def _rounded_away(bench: Bench) -> float | None:
    halves = in_half_precision(bench.session.parameters)  # none in a sound run: it keeps trained weights in fp32
    nonzero = {name: p.grad != 0 for name, p in halves.items() if p.grad is not None}
    return rounded_away(halves, bench.initial, nonzero)


def _step(bench: Bench, update: int) -> list[dict[str, Any]]:
    """One update that really happens: under fp16 a first overflow is skipped by the scaler, which then scales less."""
    lines = [bench.session.step(update)]
    while lines[-1]["skipped"] and len(lines) < MAX_SKIPS_IN_A_ROW:
        lines.append(bench.session.step(update))
    return lines


def _counted(bench: Bench) -> int:
    """Updates that the optimizer itself counted."""
    states = bench.session.optimizer.state.values()
    return int(max((float(state["step"]) for state in states if "step" in state), default=0))


def overfit(bench: Bench) -> OverfitEvidence:
    """Learn a tiny subset by heart, to control the mechanics. It proves nothing about quality.

    The campaign's own rows and loss, at a learning rate of its own (or the campaign's, where that is higher), so that
    the proof ends in seconds.
    """
    session, model = bench.session, bench.model
    rows = bench.sample[:OVERFIT_ROWS]
    packed = session.lay_out(rows)
    bench.back_to_start()
    model.eval()  # without dropout: what is controlled is whether the loop can learn at all
    losses: list[float] = []
    norms: list[float] = []
    rate = max(OVERFIT_RATE, bench.settings.training.learning_rate)
    learner = optimizer.build_optimizer(session.parameters, learning_rate=rate, weight_decay=0.0)
    for _ in range(OVERFIT_UPDATES):
        learner.zero_grad(set_to_none=True)
        loss, _ = session.backward([packed], update=1)
        losses.append(loss)
        if loss < OVERFIT_LOSS:
            break
        if session.scaler.is_enabled():
            session.scaler.unscale_(learner)
        norm = optimizer.clip(list(session.parameters.values()), 1.0)
        scale = session.scaler.get_scale()
        session.scaler.step(learner)
        session.scaler.update()
        if session.scaler.get_scale() >= scale:  # an overflow that the scaler skipped is no update
            norms.append(norm)
    learner.zero_grad(set_to_none=True)
    predictions = predict(
        model,
        bench.encoder,
        bench.raw("train", rows),
        max_new_tokens=0 if bench.has_head else max(row.n_answer for row in rows) + 8,
        batch_size=len(rows),
    )
    right = _right_answers(bench, rows, predictions)
    return OverfitEvidence(
        rows=len(rows),
        updates=len(norms),
        first_loss=losses[0],
        last_loss=losses[-1],
        supervised_tokens=packed.n_supervised,
        right_answers=right,
        answers=len(predictions),
        answers_ended=None if bench.has_head else sum(p.stop == "end" for p in predictions),
        finite=all(value == value and abs(value) != float("inf") for value in [*losses, *norms]),
    )


def _right_answers(bench: Bench, rows: Sequence[Any], predictions: Sequence[Prediction]) -> int:
    if bench.has_head:
        return sum(p.output == p.target for p in predictions)
    targets = [row.ids[row.n_before_answer :][:-1] for row in rows]
    return sum(p.token_ids == target for p, target in zip(predictions, targets, strict=True))
