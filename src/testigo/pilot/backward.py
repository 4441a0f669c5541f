"""Backward: gradients where they belong and nowhere else; many microbatches give the gradient of the one big batch."""

from __future__ import annotations

from dataclasses import replace

from torch.nn.functional import cross_entropy

from testigo.gates.backward import BackwardEvidence
from testigo.model.activations import checkpoint_activations
from testigo.model.adapter import declared_names, is_zero_gradient_expected_first
from testigo.model.losses import supervised_logits
from testigo.model.tying import untied
from testigo.pilot.bench import Bench, gradients, relative_error
from testigo.training.optimizer import autocast, gradient_scaler


def worst_case(bench: Bench) -> None:
    """One forward and backward pass of the longest microbatch, for the counters alone."""
    session = bench.session
    session.model.train()
    session.optimizer.zero_grad(set_to_none=True)
    session.backward([session.lay_out(bench.worst)], update=1)
    session.optimizer.zero_grad(set_to_none=True)
    bench.run.update(row.id for row in bench.worst)


def collect(bench: Bench) -> BackwardEvidence:
    """Gradients of a small sample, without dropout, so that the same rows must give the same gradient."""
    session, model, rows = bench.session, bench.model, bench.sample
    scaler, session.scaler = session.scaler, gradient_scaler("fp32", session.device)  # gradients as they are
    model.eval()

    def gradient(parts: list[list[int]]) -> tuple[dict[str, object], float]:
        session.optimizer.zero_grad(set_to_none=True)
        loss, _ = session.backward([session.lay_out([rows[k] for k in part]) for part in parts], update=1)
        return gradients(session.parameters), loss  # type: ignore[return-value]

    together = [list(range(len(rows)))]
    one, loss_one = gradient(together)
    elsewhere = [name for name, p in model.named_parameters() if p.grad is not None and name not in session.parameters]
    twice, _ = gradient(together)
    apart, loss_apart = gradient([[k] for k in range(len(rows))])
    laid_out = None if bench.has_head or session.layout.most_tokens is None else _layout_error(bench)
    checkpointing = None
    if bench.settings.training.activation_checkpointing:
        checkpointing = _checkpointing_error(bench)
    session.optimizer.zero_grad(set_to_none=True)
    session.scaler = scaler
    return BackwardEvidence(
        precision=bench.settings.model.precision,
        trained=tuple(session.parameters),
        declared=tuple(declared_names(model, bench.settings.model.adapter, bench.loaded.head)),
        with_gradient=tuple(one),
        nonzero_gradient=tuple(name for name, g in one.items() if bool((g != 0).any())),  # type: ignore[attr-defined]
        exempt=tuple(name for name in session.parameters if is_zero_gradient_expected_first(name)),
        gradient_elsewhere=tuple(elsewhere),
        nonfinite=tuple(name for name, g in one.items() if not bool(g.isfinite().all())),  # type: ignore[attr-defined]
        loss_accumulated=loss_apart,
        loss_one_batch=loss_one,
        accumulation_error=relative_error(apart, one),  # type: ignore[arg-type]
        gradient_twice_error=relative_error(twice, one),  # type: ignore[arg-type]
        layout_error=laid_out,
        checkpointing_error=checkpointing,
        new_tokens_frozen=None,  # no campaign adds tokens yet
        untied=untied(model),
    )


def _layout_error(bench: Bench) -> float:
    """Packs as short as they come, so that there are several, against each row alone with all of its logits at once."""
    session, rows = bench.session, bench.sample
    layout = replace(session.layout, most_tokens=max(row.n_tokens for row in rows), least_saved=1)
    groups = layout.of_update(rows)
    session.optimizer.zero_grad(set_to_none=True)
    session.backward([session.lay_out(own, groups.before) for own in groups.rows], update=1)
    made = gradients(session.parameters)
    session.optimizer.zero_grad(set_to_none=True)
    for row in rows:
        pack = bench.packed([row])
        with autocast(bench.settings.model.precision, session.device):
            losses = cross_entropy(supervised_logits(bench.model, pack), pack.targets, reduction="sum")
        (losses / sum(row.n_supervised for row in rows)).backward()
    return relative_error(made, gradients(session.parameters))


def _checkpointing_error(bench: Bench) -> float:
    """With and without, in training mode: elsewhere activations are kept anyway. Dropout draws from the same seed."""
    session, made = bench.session, []
    session.model.train()
    for on in (False, True):
        checkpoint_activations(session.model, on=on)
        session.optimizer.zero_grad(set_to_none=True)
        session.backward([session.lay_out(bench.sample)], update=1)
        made.append(gradients(session.parameters))
    session.model.eval()
    return relative_error(made[1], made[0])
