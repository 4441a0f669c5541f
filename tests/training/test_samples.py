"""Fixed prompts at each validation: kept, compared with the base, found when they degenerate, without a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from tiny import updates

from testigo.corpus import Row
from testigo.disk import read_lines
from testigo.model.digest import weights_sha256
from testigo.training.samples import fixed_prompts

if TYPE_CHECKING:
    from tiny import Tiny


def row(name: str, category: str) -> Row:
    return Row(name, name, category, {}, "")


def test_the_prompts_are_the_same_in_any_order_and_of_all_categories() -> None:
    rows = [row(f"r{at}", "abc"[at % 3]) for at in range(30)]

    chosen = fixed_prompts(rows, 6)

    assert chosen == fixed_prompts(rows[::-1], 6)
    assert sorted(one.category for one in chosen) == [*"aabbcc"]
    assert fixed_prompts(rows, 0) == ()
    assert len(fixed_prompts(rows[:2], 8)) == 2


def test_outputs_of_the_base_and_of_each_validation_are_kept(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"evaluation.samples": 3})

    assert run.run().state == "completed"

    lines = read_lines(tmp_path / "samples.jsonl")
    assert [line["update"] for line in lines] == [0] * 3 + [3] * 3 + [6] * 3
    assert len({line["row"] for line in lines}) == 3
    assert all(set(line["scores"]) == {"exact_match", "token_f1"} for line in lines)


# C51
def test_samples_change_no_loss_and_no_weight(tiny: Tiny, tmp_path: Path) -> None:
    made = []
    for n in (0, 3):
        run = tiny.session(tmp_path / str(n), {"evaluation.samples": n, "model.adapter.dropout": 0.3})
        state = torch.get_rng_state()
        if run.samples is not None:
            run.samples.begin(run.model, 0)
            run.samples.take(run.model, 0)
        assert torch.equal(torch.get_rng_state(), state)
        assert run.run().state == "completed"
        losses = [line["loss"] for line in updates(tmp_path / str(n))]
        made.append((losses, weights_sha256(run.parameters), run.model.training))
    assert made[0] == made[1]
    assert not (tmp_path / "0" / "samples.jsonl").exists()


def test_a_run_that_goes_on_has_each_sample_once(tiny: Tiny, tmp_path: Path) -> None:
    changes = {"evaluation.samples": 2, "training.checkpoint": {"every": 2, "keep": 9}}
    first = tiny.session(tmp_path, changes)
    first.stop_requested = lambda: first.progress.update == 5
    assert first.run().state == "interrupted"
    (tmp_path / "checkpoints" / "000005").rename(tmp_path / "gone")
    (tmp_path / "checkpoints" / "000004").rename(tmp_path / "gone too")
    (tmp_path / "checkpoints" / "000003").rename(tmp_path / "gone three")
    again = tiny.session(tmp_path, changes)
    again.resume(2)
    assert again.progress.update == 2
    assert again.run().state == "completed"

    assert [line["update"] for line in read_lines(tmp_path / "samples.jsonl")] == [0, 0, 3, 3, 6, 6]


def test_a_base_that_was_half_asked_is_asked_again(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"evaluation.samples": 2})
    assert run.samples is not None
    run.samples.path.write_text('{"update": 0, "row": "r1", "output": "cut", "scores": {}}\n{"upd')

    run.samples.begin(run.model, 0)

    lines = read_lines(run.samples.path)
    assert [line["update"] for line in lines] == [0, 0]
    assert "cut" not in {line["output"] for line in lines}


# C48
def test_outputs_that_begin_to_loop_are_found_at_the_next_validation(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"evaluation": {"max_new_tokens": 24, "batch_size": 4, "samples": 4}})
    samples = run.samples
    assert samples is not None
    samples.begin(run.model, 0)
    said = [line | {"token_ids": [1, 2], "output": "two words", "stop": "end"} for line in read_lines(samples.path)]
    samples.path.write_text("".join(json.dumps(line) + "\n" for line in said))
    always = torch.zeros(run.model.get_output_embeddings().weight.shape[0])
    always[100] = 99.0
    run.model.get_output_embeddings().register_forward_hook(lambda module, inputs, logits: logits + always)

    found, seconds = samples.take(run.model, 3)
    again, _ = samples.take(run.model, 6)

    assert "O101" in {finding.code for finding in found}
    assert seconds > 0
    assert again == (), "told once"


def test_a_base_that_loops_by_itself_is_not_blamed_on_the_training(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"evaluation": {"max_new_tokens": 24, "batch_size": 4, "samples": 4}})
    samples = run.samples
    assert samples is not None
    samples.begin(run.model, 0)

    found, _ = samples.take(run.model, 3)

    assert {finding.code for finding in found} <= {"O102"}
