"""A run that is not finite says which operation, module, row or weight it came from."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from testigo.disk import read_lines
from testigo.model.digest import weights_sha256
from testigo.training.loop import Session
from testigo.training.replay import trace_origin

if TYPE_CHECKING:
    from tiny import Tiny


UNUSED = 399


class Divides(torch.nn.Module):
    """Divides by zero where the pass holds a certain token, in its forward or in its backward pass."""

    def __init__(self, run: Session, inner: torch.nn.Module, *, backward: bool) -> None:
        super().__init__()
        self.inner, self.backward = inner, backward
        self.ids = torch.zeros(0)
        run.model.get_base_model().get_decoder().register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(self, module: Any, args: Any, kwargs: Any) -> None:
        self.ids = kwargs["input_ids"]

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.inner(states)
        if not bool((self.ids == UNUSED).any()):
            return made
        if self.backward:  # the slope of a root at zero is infinite, and zero times infinity is none
            return made + (made * 0).sqrt()
        return made / torch.zeros(())


def with_a_bad_row(run: Session, update: int, *, backward: bool) -> str:
    """Put the token into one row of an update, and the module into the second layer. Returns the row's id."""
    assert all(UNUSED not in row.ids for row in run.rows)
    chosen = run.rows[run.order.rows_of(update)[1]]
    bad = replace(chosen, ids=(chosen.ids[0], UNUSED, *chosen.ids[2:]))
    run.rows = [bad if row.id == bad.id else row for row in run.rows]
    layer = layers(run)[1]
    layer.mlp = Divides(run, layer.mlp, backward=backward)
    return bad.id


def layers(run: Session) -> Any:
    return run.model.base_model.model.model.layers


def findings(folder: Path) -> dict[str, dict[str, Any]]:
    return {line["code"]: line for line in read_lines(folder / "findings.jsonl")}


# C04
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_poisoned_weight_is_named(tiny: Tiny, tmp_path: Path, kind: str) -> None:
    run = tiny.session(tmp_path, {"model.base": f"path:{kind}"})

    def poison() -> bool:
        if run.progress.update == 2:
            with torch.no_grad():
                run.model.get_input_embeddings().weight[5:300] = math.nan
        return False

    run.stop_requested = poison
    assert run.run().state == "diverged"

    origin = run.origin
    assert origin is not None
    assert (origin.update, origin.microbatch, origin.is_backward) == (3, 0, False)
    assert any("embed" in name or "wte" in name for name in origin.sick_parameters)
    assert "embedding" in origin.operation
    told = findings(tmp_path)["T123"]
    assert "Cause, tested: weights" in told["remedy"]
    assert told["update"] == 3


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_the_row_the_module_and_the_operation_are_named(tiny: Tiny, tmp_path: Path, layout: str) -> None:
    run = tiny.session(tmp_path, {"encoding.layout": layout})
    bad = with_a_bad_row(run, 2, backward=False)

    outcome = run.run()

    assert outcome.state == "diverged"
    origin = run.origin
    assert origin is not None
    assert origin.rows == (bad,)
    assert (origin.update, origin.n_rows, origin.is_backward) == (2, 4, False)
    assert origin.operation == "aten.div"
    assert origin.module.endswith("layers.1.mlp")
    told = findings(tmp_path)["T123"]
    assert told["rows"] == [bad]
    assert "Cause, tested: the named rows" in told["remedy"]
    assert "aten.div in base_model.model.model.layers.1.mlp" in told["observed"]


def test_a_gradient_that_is_not_finite_is_traced_in_the_backward_pass(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path)
    bad = with_a_bad_row(run, 2, backward=True)

    assert run.run().state == "diverged"

    origin = run.origin
    assert origin is not None
    assert origin.is_backward
    assert origin.rows == (bad,)
    assert "div" in origin.operation or "mul" in origin.operation or "sqrt" in origin.operation


def test_a_replay_leaves_weights_moments_and_gradients_as_they_were(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path)
    run.step(1)
    before, moments = weights_sha256(run.parameters), len(run.optimizer.state)

    origin = trace_origin(run, 2)

    assert origin.microbatch is None, "a healthy update is finite when it is replayed"
    assert weights_sha256(run.parameters) == before
    assert len(run.optimizer.state) == moments
    assert all(parameter.grad is None for parameter in run.parameters.values())


def test_a_healthy_run_replays_nothing(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path)

    assert run.run().state == "completed"
    assert run.origin is None
    assert "T123" not in findings(tmp_path)


def test_the_result_of_the_worker_holds_the_origin(tiny: Tiny, tmp_path: Path) -> None:
    from testigo.training.loop import Outcome
    from testigo.training.worker import _result

    run = tiny.session(tmp_path)
    with torch.no_grad():
        next(iter(run.parameters.values())).fill_(math.nan)
    outcome = run.run()

    result = json.loads(json.dumps(_result(run, outcome)))

    assert result["state"] == "diverged"
    assert result["origin"]["update"] == 1
    assert result["origin"]["sick_parameters"]
    assert isinstance(outcome, Outcome)
