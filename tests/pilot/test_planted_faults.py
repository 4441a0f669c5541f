"""Faults planted into a tiny model, its tensors or its loop: the pilot's evidence shows each, and the rules name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tiny import Tiny

    from testigo.encoding import EncodedRow, Pack
    from testigo.pilot.bench import Bench
    from testigo.rules import Verdict

MakeBench = Callable[..., "Bench"]
RunPilot = Callable[..., "Verdict"]
Found = Callable[..., dict[str, Any]]


def test_an_optimizer_that_was_built_before_the_adapter_is_named_as_such(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:  # C24
    from testigo.pilot import update
    from testigo.pilot.phases import Phases
    from testigo.training import optimizer

    build = optimizer.build_optimizer
    frozen: dict[str, Any] = {}
    monkeypatch.setattr(optimizer, "build_optimizer", lambda parameters, **options: build(frozen, **options))
    made = bench(after_loading=lambda model: frozen.update(_frozen(model)))
    findings = found(made, update.collect(made, Phases()))
    assert "holds 0 of 28 trained tensors and 20 others" in findings["U101"].observed
    assert not {"U105", "U106"} & set(findings), "that nothing moved follows from it and is not told again"
    assert "learning rate" not in findings["U101"].remedy
    assert "learning_rate" not in findings["U101"].remedy


def test_an_optimizer_over_copies_of_the_weights_is_found(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import nn

    from testigo.pilot import update
    from testigo.pilot.phases import Phases
    from testigo.training import optimizer

    build = optimizer.build_optimizer

    def over_copies(parameters: dict[str, Any], **options: Any) -> Any:
        name, parameter = next(iter(parameters.items()))
        return build({**parameters, name: nn.Parameter(parameter.detach().clone())}, **options)

    monkeypatch.setattr(optimizer, "build_optimizer", over_copies)
    made = bench()
    findings = found(made, update.collect(made, Phases()))
    assert {"U102", "U103"} <= set(findings)


def test_a_frozen_tensor_that_moves_is_found_by_name(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from testigo.pilot import update
    from testigo.pilot.phases import Phases

    made = bench()
    name, weight = next((n, p) for n, p in _frozen(made.model).items() if "q_proj" in n)
    step = made.session.optimizer.step

    def with_slip(*arguments: Any, **options: Any) -> Any:
        with torch.no_grad():
            weight.view(-1)[7] += 1e-6
        return step(*arguments, **options)

    monkeypatch.setattr(made.session.optimizer, "step", with_slip)
    findings = found(made, update.collect(made, Phases()))
    assert name in findings["U107"].observed


def test_a_part_that_moves_from_the_second_update_on_is_found_and_the_a_of_lora_is_exempt(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.pilot import update
    from testigo.pilot.phases import Phases

    healthy = bench()
    seen = update.collect(healthy, Phases())
    assert {name.rsplit(".", 3)[1] for name in seen.due_first or ()} == {"lora_B"}
    assert not found(healthy, seen)

    made = bench()
    late = [p for name, p in made.session.parameters.items() if "layers.1" in name and "lora_B" in name]
    step, taken = made.session.optimizer.step, []

    def later(*arguments: Any, **options: Any) -> Any:
        result = step(*arguments, **options)
        if not taken:
            for p in late:
                p.data.zero_()
        taken.append(1)
        return result

    monkeypatch.setattr(made.session.optimizer, "step", later)
    findings = found(made, update.collect(made, Phases()))
    assert set(findings) == {"U106", "U126"}, "without B, its A has no gradient at the second update either"
    assert "7 of 14 tensors" in findings["U126"].observed
    assert "lora_A" in findings["U106"].observed


def test_trained_weights_in_half_precision_lose_their_updates(bench: MakeBench, found: Found) -> None:
    import torch

    from testigo.pilot import update
    from testigo.pilot.phases import Phases

    full = {"model.adapter": {"method": "full"}, "training.learning_rate": 1e-5}
    healthy, sick = bench(full), bench(full, after_loading=lambda model: model.to(torch.bfloat16))
    assert update.collect(healthy, Phases()).half_precision == 0
    assert "half-precision weights" in found(sick, update.collect(sick, Phases()))["U125"].observed


def test_a_precision_that_is_not_computed_in_is_found(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextlib

    import torch

    from testigo.pilot import forward

    stayed = bench(after_loading=lambda model: model.get_base_model().to(torch.bfloat16))
    assert "in bfloat16" in found(stayed, forward.collect(stayed, weights_before=""))["F121"].observed
    declared = bench({"model.precision": "bf16"})
    assert "F121" not in found(declared, forward.collect(declared, weights_before=""))
    plain = bench({"model.precision": "bf16", "model.adapter": {"method": "full"}})
    monkeypatch.setattr(forward, "autocast", lambda *_: contextlib.nullcontext())
    assert "bf16 is declared" in found(plain, forward.collect(plain, weights_before=""))["F121"].observed


def test_an_adapter_of_which_a_part_stays_frozen_is_listed(bench: MakeBench, found: Found) -> None:
    from testigo.pilot import backward

    def freeze(model: Any) -> None:
        for name, parameter in model.named_parameters():
            if "layers.1" in name and "lora_B" in name:
                parameter.requires_grad_(False)

    made = bench(after_loading=freeze)
    finding = found(made, backward.collect(made))["B102"]
    assert "layers.1" in finding.observed
    assert "lora_B" in finding.observed


def test_a_base_that_is_trained_beside_its_adapter_is_found(bench: MakeBench, found: Found) -> None:
    from testigo.pilot import backward

    made = bench(after_loading=lambda model: model.get_input_embeddings().requires_grad_(True))
    assert "embed_tokens" in found(made, backward.collect(made))["B102"].observed


def test_a_gradient_that_is_not_cleared_is_found(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:  # C27
    from testigo.pilot import backward

    made = bench()
    monkeypatch.setattr(made.session.optimizer, "zero_grad", lambda **options: None)
    assert "B110" in found(made, backward.collect(made))


def test_a_mean_of_means_is_found_by_accumulation(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:  # C01
    from testigo.pilot import backward
    from testigo.training import loop

    real = loop.token_losses

    def as_means(model: Any, pack: Pack, *others: Any) -> Any:
        losses = real(model, pack, *others)
        return losses.mean().expand(len(losses)) * (10.0 / len(losses))

    monkeypatch.setattr(loop, "token_losses", as_means)
    made = bench()
    assert "B108" in found(made, backward.collect(made))


def test_a_row_that_sees_its_neighbour_in_the_pack_is_found(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:  # C20
    import torch

    from testigo.pilot import forward

    def leaking(until: torch.Tensor, n_before: int) -> torch.Tensor:
        return torch.ones(len(until), n_before + len(until)).tril(n_before).bool()[None, None]

    made = bench()
    healthy = forward.collect(made, weights_before=_weights(made))
    assert healthy.perturbed_neighbour is not None
    assert healthy.perturbed_neighbour <= 1e-5
    monkeypatch.setattr(import_module("testigo.encoding.pack"), "_seen", leaking)
    findings = found(made, forward.collect(made, weights_before=_weights(made)))
    assert "F104" in findings


def test_dropout_that_stays_active_in_evaluation_is_found(bench: MakeBench, found: Found) -> None:  # C29
    from torch.nn.functional import dropout

    from testigo.pilot import forward, validation

    made = bench()
    layer = made.model.get_submodule("base_model.model.model.layers.0.mlp")
    layer.register_forward_hook(lambda module, inputs, output: dropout(output, 0.2, training=True))
    findings = found(made, forward.collect(made, weights_before=_weights(made)), validation.collect(made))
    assert {"F112", "V103"} <= set(findings)


def test_labels_that_were_shifted_before_are_found(
    bench: MakeBench, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:  # C21
    from testigo.pilot import bench as benches
    from testigo.pilot import forward, update

    made = bench({"model.base": "path:qwen2"})
    update.overfit(made)  # labels that are off show on a model that knows its rows
    real = benches.pack

    def shifted(rows: Any) -> Pack:
        packed = real(rows)
        return replace(packed, places=packed.places - 1)

    assert "F110" not in found(made, forward.collect(_on_learned(made), weights_before=_weights(made)))
    monkeypatch.setattr(benches, "pack", shifted)
    assert "F110" in found(made, forward.collect(_on_learned(made), weights_before=_weights(made)))


def test_an_answer_whose_turn_never_ends_is_found_with_its_rows(bench: MakeBench, found: Found) -> None:  # C11, C14
    from testigo.pilot import data

    made = bench()
    session = made.session
    cut = [_without_end(row, made) if number % 2 else row for number, row in enumerate(session.rows)]
    session.rows = cut
    finding = found(made, data.collect(made.tensors()))["E107"]
    assert set(finding.rows) == {row.id for row in cut[1::2]}


def test_a_prompt_that_counts_in_the_loss_is_found(bench: MakeBench, found: Found) -> None:
    from testigo.pilot import data

    made = bench()
    made.session.rows = [replace(row, n_prompt=row.n_prompt - 2) for row in made.session.rows]
    assert {"E104", "E105", "E110"} & set(found(made, data.collect(made.tensors())))


def test_the_longest_row_of_every_split_is_run_and_one_that_is_not_is_found(
    bench: MakeBench, found: Found, pilot: RunPilot, phases: Callable[[], dict[str, dict[str, Any]]]
) -> None:  # C17
    from testigo.pilot import data

    made = bench()
    longest = {split: min(rows, key=lambda row: (-row.n_tokens, row.id)) for split, rows in made.tensors().rows.items()}
    assert longest["train"] in made.worst
    assert longest["validation"] in made.worst_validation
    others = tuple(row.id for row in made.session.rows if row not in longest.values())
    finding = found(made, data.collect(made.tensors(), longest_run=others))["E116"]
    assert longest["validation"].id in finding.observed
    assert pilot().ok
    for phase, split in (("backward", "train"), ("validation", "validation")):
        assert f"up to {longest[split].n_tokens} tokens" in phases()[phase]["inputs"]


def test_memory_that_runs_out_names_phase_and_rows_and_what_was_not_reached(
    pilot: RunPilot,
    phases: Callable[[], dict[str, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    tiny: Tiny,
    tmp_path: Path,
) -> None:
    import torch

    from testigo.pilot import backward
    from testigo.pilot.verdict import judge_pilot

    def too_much(bench: Bench) -> None:
        bench.run.update(row.id for row in bench.worst)
        torch.empty(1 << 60)

    monkeypatch.setattr(backward, "worst_case", too_much)
    verdict = pilot()
    (finding,) = (f for f in verdict.stops if f.code == "M101")
    assert finding.observed.startswith("out of memory in backward, rows ")
    assert finding.rows
    assert "- {name: half-microbatch, set: {training.microbatch: " in finding.remedy
    for _ in range(2):  # judged again, as a later start does
        table = phases()
        assert table["backward"]["verdict"] == "failed"
        assert table["forward"]["verdict"] == "passed"
        assert table["resume"] == {"phase": "resume", "inputs": "not reached", "verdict": "could not be checked"}
        judge_pilot(tmp_path / "pilot", tiny.campaign())


def test_a_loop_that_cannot_learn_is_found_by_the_overfit_alone(
    pilot: RunPilot, phases: Callable[[], dict[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.pilot import update

    monkeypatch.setattr(update, "OVERFIT_UPDATES", 1)
    verdict = pilot()
    assert [finding.code for finding in verdict.stops] == ["U122"]
    table = phases()
    assert table["overfit"]["verdict"] == "failed"
    assert table["update-1"]["verdict"] == table["update-2"]["verdict"] == "passed"


def test_a_resume_that_forgets_the_moments_is_found(pilot: RunPilot, monkeypatch: pytest.MonkeyPatch) -> None:
    from testigo.training import checkpoint

    restore = checkpoint.restore

    def forgetful(kept: Any, parameters: Any, optimizer: Any) -> None:
        restore(kept, parameters, optimizer)
        optimizer.state.clear()

    monkeypatch.setattr(checkpoint, "restore", forgetful)
    assert "R105" in {finding.code for finding in pilot().stops}


def test_weights_that_are_lost_on_the_way_to_the_device_are_found(
    pilot: RunPilot, monkeypatch: pytest.MonkeyPatch
) -> None:  # C50
    import torch
    from peft import PeftModel

    def lossy(model: Any, *where: Any, **options: Any) -> Any:
        moved = torch.nn.Module.to(model, *where, **options)
        with torch.no_grad():
            next(p for name, p in moved.named_parameters() if "up_proj" in name).zero_()
        return moved

    monkeypatch.setattr(PeftModel, "to", lossy)
    assert "F113" in {finding.code for finding in pilot().stops}


def test_an_export_that_loses_a_tensor_is_found(pilot: RunPilot, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from testigo.model import export

    save = export._save

    def zeroed(model: Any, loaded: Any, folder: Any, stop_ids: Any) -> None:
        lora = next(p for name, p in model.named_parameters() if "lora_B" in name)
        kept = lora.detach().clone()
        with torch.no_grad():
            lora.zero_()
            save(model, loaded, folder, stop_ids)
            lora.copy_(kept)

    monkeypatch.setattr(export, "_save", zeroed)
    assert {finding.code for finding in pilot().stops} & {"X102", "X103"}


def _frozen(model: Any) -> dict[str, Any]:
    return {name: p for name, p in model.named_parameters() if not p.requires_grad}


def _weights(bench: Bench) -> str:
    from testigo.model.digest import weights_sha256

    return weights_sha256(dict(bench.model.named_parameters()))


def _without_end(row: EncodedRow, bench: Bench) -> EncodedRow:
    return replace(row, ids=row.ids[: -len(bench.encoder.frame.turn_end_ids)])


def _on_learned(bench: Bench) -> Bench:
    """A bench whose sample is what the overfit learned."""
    learned = replace(bench)
    learned.__dict__["sample"] = bench.sample[:2]
    return learned


def test_an_output_too_short_for_the_answers_is_told_before_anything_is_generated(tmp_path: Path, tiny: Tiny) -> None:
    import whole

    place = whole.make(tmp_path / "short", {"evaluation.max_new_tokens": 2})
    answer = place.testigo("check", "--json")
    assert answer.code == 1
    (finding,) = (one for one in answer.document["findings"] if one["severity"] == "stop")
    assert finding["code"] == "V109"
    assert "max_new_tokens is 2" in finding["observed"]


def test_an_adapter_that_is_drawn_without_the_seed_is_found_by_the_fresh_process(
    pilot: RunPilot, monkeypatch: pytest.MonkeyPatch
) -> None:  # C52
    from itertools import count

    from testigo.model import prepare

    attach, others = prepare.attach, count(100)
    drawn = lambda model, adapter, seed, head=(): attach(model, adapter, seed=next(others), head=head)  # noqa: E731
    monkeypatch.setattr(prepare, "attach", drawn)
    assert [finding.code for finding in pilot().stops] == ["U114"]
