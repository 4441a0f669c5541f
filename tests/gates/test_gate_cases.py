"""Each gate rule fires on its fault, and is silent on healthy evidence and on the healthy twin of its fault."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from testigo.gates import (
    BackwardEvidence,
    BalanceEvidence,
    ClassesEvidence,
    DataEvidence,
    DuplicateEvidence,
    ExportEvidence,
    ForwardEvidence,
    MemoryEvidence,
    OverfitEvidence,
    ResumeEvidence,
    SplitEvidence,
    UpdateEvidence,
    ValidationEvidence,
    gate_rules,
)
from testigo.gates.resume import RepeatedUpdate
from testigo.gates.trainer import TrainerEvidence
from testigo.gates.trainer_resume import CheckpointEvidence
from testigo.rules import CannotCheck, Finding, Passed, Rule, judge

NAN = float("nan")
LORA = ("q.lora_A", "q.lora_B")

HEALTHY: dict[type, Any] = {
    TrainerEvidence: TrainerEvidence(
        n_rows=40,
        labels_shifted=0,
        loss_shift=1,
        assistant_mask_empty=(),
        template_marks_assistant=True,
        class_names_data=("food", "other"),
        class_names_model=("food", "other"),
        adapter=True,
        declared_by_user=False,
        trained_matrices=8,
        trained_vectors=0,
        frozen=("q.weight",),
        trained_share=0.02,
        eval_loss_of_batches=2.1,
        eval_loss_of_tokens=2.1,
        failed_step="",
        class_runs=30,
        class_runs_expected=33.0,
        class_runs_spread=3.0,
        pixel_range=(-2.1, 2.6),
        pixel_spread=0.9,
        n_answers=40,
        n_answers_ended=40,
        n_batches=20,
        learning_rate=1e-3,
        peak_learning_rate=1e-3,
        schedule_is_the_optimizers=True,
        decayed_vectors=0,
        adapter_inside_adapter=False,
        trained_not_saved=(),
        labels_own_share=1.0,
    ),
    CheckpointEvidence: CheckpointEvidence(
        checkpoint="checkpoint-40",
        files_lacking=(),
        files_damaged=(),
        keys_missing=(),
        keys_unexpected=(),
        changed=(),
        patience_used=0,
        order_repeats=True,
    ),
    BalanceEvidence: BalanceEvidence(
        rows_by_class={"train": {"bill": 60, "login": 20}, "validation": {"bill": 12, "login": 4}},
        declared=("bill", "login"),
    ),
    DataEvidence: DataEvidence(
        n_rows={"train": 40, "validation": 10},
        smallest_effect=0.6,
        alpha=0.05,
        vocabulary_size=49152,
        ids_out_of_range=(),
        unsupervised=(),
        supervised_share=0.15,
        turn_end="<|im_end|>",
        turn_end_id=2,
        turn_end_unlearned=(),
        stop_ids=(2, 0),
        prompt_mismatch=(),
        bos_counts={"1": 50},
        bos_expected=1,
        prompt_in_loss=(),
        target_lost=(),
        seam_merged=(),
        padding_in_loss=(),
        too_long=(),
        truncated_target=(),
        dropped=(),
        longer="refuse",
        maximum_length=512,
        longest={"train": ("a", 466), "validation": ("b", 473)},
        longest_run=("a", "b", "c"),
        straddling_groups=(),
        duplicate_ids=(),
        exact_copies=(),
        near_copies=(),
        conflicts=(),
        unknown_tokens=(),
        marks_in_input=(),
        marks_in_target=(),
        changed_text=(),
        lost_words=(),
        untrained_tokens=(),
        target_gone=(),
        end_cut=(),
        truncated_input=(),
        turn_ends_miscounted=(),
        attention_wrong=(),
        segments_mixed=(),
        reads_clock=False,
    ),
    ClassesEvidence: ClassesEvidence(
        labels=("a", "b", "c"),
        head_labels=("a", "b", "c"),
        head_is_named=True,
        head_is_new=False,
        n_logits=3,
        rows_by_class={"train": {"a": 20, "b": 10, "c": 9}, "validation": {"a": 4, "b": 3, "c": 2}},
        other_number=(),
        confusion=((4, 0, 0), (1, 2, 0), (0, 1, 1)),
        pixel_shape=(3, 16, 16),
        expected_shape=(3, 16, 16),
        pixel_range=(-1.0, 1.0),
        transforms_differ=(),
        augmentation_unstable=(),
        augmented=(40, 48),
    ),
    ForwardEvidence: ForwardEvidence(
        rows=("a", "b"),
        precision="fp32",
        loss=2.1,
        loss_fp32=2.100001,
        logits_finite=True,
        base_row_loss=2.1000001,
        vocabulary_size=49152,
        packed_vs_alone=2e-6,
        padded_vs_alone=2e-6,
        perturbed_neighbour=0.0,
        shuffled_label_loss=9.5,
        shifted_label_loss=8.7,
        evaluation_twice=0.0,
        zero_loss=False,
        weights_intact=True,
        output_dtypes={"float32": 28},
    ),
    BackwardEvidence: BackwardEvidence(
        precision="fp32",
        trained=LORA,
        declared=LORA,
        with_gradient=LORA,
        nonzero_gradient=("q.lora_B",),
        exempt=("q.lora_A",),
        gradient_elsewhere=(),
        nonfinite=(),
        loss_accumulated=2.1,
        loss_one_batch=2.1000001,
        accumulation_error=2e-6,
        gradient_twice_error=0.0,
        checkpointing_error=0.0,
        new_tokens_frozen=(),
        untied=(),
    ),
    UpdateEvidence: UpdateEvidence(
        trained=LORA,
        in_optimizer=LORA,
        foreign_in_optimizer=0,
        duplicates_in_optimizer=0,
        moved_first=("q.lora_B",),
        due_first=("q.lora_B",),
        moved=LORA,
        frozen_changed=(),
        learning_rate_expected=(1e-5, 2e-5),
        learning_rate_applied=(1e-5, 2e-5),
        updates_expected=2,
        updates_counted=2,
        schedule_length=200,
        planned_updates=200,
        skipped=0,
        clip=1.0,
        gradient_norm_before_clip=3.0,
        gradient_norm_after_clip=0.9999997,
        replica_digests=("abc", "abc"),
        half_precision=2,
        rounded_away=0.02,
        seed_twice_equal=True,
    ),
    OverfitEvidence: OverfitEvidence(
        rows=4,
        updates=30,
        first_loss=3.0,
        last_loss=0.01,
        supervised_tokens=100,
        right_answers=4,
        answers=4,
        finite=True,
    ),
    DuplicateEvidence: DuplicateEvidence(
        left_training=(), left_kinds={}, passages=(), chosen_and_tested=(), unclean={"validation": 0, "test": 0}
    ),
    SplitEvidence: SplitEvidence(
        unit="customer",
        rows={"train": 40, "validation": 10, "test": 10},
        categories={"train": {"": 40}, "validation": {"": 10}, "test": {"": 10}},
        shares={"train": (0.7, 0.68), "validation": (0.15, 0.16), "test": (0.15, 0.16)},
        largest={"train": 4, "validation": 2, "test": 3},
        moved="",
        compared={"ids": 60, "groups": 31},
        across={"ids": (), "groups": ()},
    ),
    ValidationEvidence: ValidationEvidence(
        precision="fp32",
        training_mode_during=False,
        losses_by_batch={"1": 2.31, "4": 2.310001},
        twice_difference=0.0,
        weights_changed=False,
        random_state_changed=False,
        outputs_expected=10,
        outputs_written=10,
        empty_outputs=(),
        longest_generated=64,
        max_new_tokens=64,
        stopped=9,
        target_longest_tokens=60,
    ),
    ExportEvidence: ExportEvidence(
        precision="fp32",
        fresh_process=True,
        control_rows=4,
        outputs_equal=4,
        first_logits_error=0.0,
        base_sha256_bound="a" * 64,
        base_sha256_found="a" * 64,
        keys_missing=(),
        keys_unexpected=(),
        finite=True,
        equals_base=False,
        merged_error=3e-6,
        free_disk_bytes=10**10,
        checkpoint_bytes=10**8,
        checkpoints_kept=3,
    ),
    ResumeEvidence: ResumeEvidence(
        fresh_process=True,
        device="cpu",
        updates_before=2,
        updates_after=2,
        zero_updates=False,
        rows_equal=True,
        losses_equal=True,
        learning_rates_equal=True,
        gradient_norms_equal=True,
        weights_equal=True,
        optimizer_equal=True,
        max_loss_difference=0.0,
        grade="bit for bit",
        bad_moments=(),
        passed_over=(),
    ),
    RepeatedUpdate: RepeatedUpdate(update=7, recorded=1.25, repeated=1.25, rows_equal=True),
    MemoryEvidence: MemoryEvidence(phase="backward", failed=False, rows=("a",), tokens=466),
}

GPU = {"device": "cuda:0", "grade": "within tolerance", "losses_equal": False, "weights_equal": False}

# code: (what makes the healthy evidence sick, what makes it a healthy twin of that fault)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "D101": ({"duplicate_ids": ("a",)}, {"exact_copies": (("a", "b"),)}),
    "D102": ({"straddling_groups": ("customer 7",)}, {"n_rows": {"train": 1, "validation": 1}}),
    "D103": ({"exact_copies": (("a", "v"),)}, {"near_copies": (("a", "v"),)}),
    "D104": ({"near_copies": (("a", "v"),)}, {"exact_copies": (("a", "v"),)}),
    "D105": ({"conflicts": (("a", "b"),)}, {"exact_copies": (("a", "b"),)}),
    "D131": ({"left_training": (("t1", "v1"),), "left_kinds": {"near": 1}}, {"unclean": {"validation": 2, "test": 0}}),
    "D132": ({"passages": (("t1", "v1"),)}, {"left_training": (("t1", "v1"),), "left_kinds": {"exact": 1}}),
    "D133": ({"chosen_and_tested": (("v1", "x1"),)}, {"passages": (("t1", "x1"),)}),
    "D141": (
        {"shares": {"train": (0.7, 0.62), "validation": (0.15, 0.22), "test": (0.15, 0.16)}, "better_seed": 12},
        {"shares": {"train": (0.7, 0.66), "validation": (0.15, 0.19), "test": (0.15, 0.15)}},
    ),
    "D142": (
        {"categories": {"train": {"a": 9, "b": 30}, "validation": {"a": 4}, "test": {"a": 7, "b": 2}}},
        {"categories": {"train": {"a": 9, "b": 19}, "validation": {"a": 4}, "test": {"a": 7}}},
    ),
    "D143": ({"largest": {"train": 4, "test": 6}}, {"largest": {"train": 30, "test": 5}}),
    "D144": ({"across": {"ids": (), "groups": ("ana",)}}, {"across": {"ids": (), "groups": (), "periods": ()}}),
    "D145": ({"moved": "with fixed cuts test would have no rows"}, {"moved": ""}),
    "D161": ({"smallest_effect": 0.5}, {"n_rows": {"train": 1, "validation": 6}, "smallest_effect": 1.0}),
    "D106": ({"n_rows": {"train": 3, "validation": 0}}, {"n_rows": {"train": 1, "validation": 1}}),
    "D150": (
        {"rows_by_class": {"train": {"bill": 80, "login": 0}, "validation": {"bill": 20, "login": 0}}},
        {"rows_by_class": {"train": {"bill": 1, "login": 1}, "validation": {"bill": 1, "login": 1}}},
    ),
    "D151": (
        {"rows_by_class": {"train": {"bill": 40, "login": 20, "spy": 0}, "validation": {"login": 9, "spy": 1}}},
        {"rows_by_class": {"train": {"bill": 40, "login": 20, "spy": 0}, "validation": {"bill": 9, "spy": 0}}},
    ),
    "D152": (
        {"rows_by_class": {"train": {"bill": 40, "login": 20}, "validation": {"bill": 9, "login": 0}}},
        {"rows_by_class": {"train": {"bill": 40, "login": 20}, "validation": {"bill": 9, "login": 1}}},
    ),
    "D153": (
        {"rows_by_class": {"train": {"bill": 80, "login": 20}, "validation": {"bill": 8, "login": 2}}},
        {"rows_by_class": {"train": {"bill": 79, "login": 20, "spy": 0}, "validation": {"bill": 8, "login": 2}}},
    ),
    "D154": ({"declared": ("bill", "login", "Login")}, {"declared": ()}),
    "E101": ({"ids_out_of_range": ("a",)}, {"vocabulary_size": 10}),
    "E102": ({"unsupervised": ("a",)}, {"supervised_share": 0.001}),
    "E103": ({"supervised_share": 0.0}, {"supervised_share": 0.001}),
    "E104": ({"prompt_in_loss": ("a",)}, {"seam_merged": ("a",)}),
    "E105": ({"target_lost": ("a",)}, {"seam_merged": ("a",)}),
    "E106": ({"seam_merged": ("a",)}, {}),
    "E107": ({"turn_end_unlearned": ("a", "b")}, {"turn_end": "</s>", "turn_end_id": 2, "stop_ids": (2,)}),
    "E108": ({"turn_end_id": 7}, {"turn_end_id": 0}),
    "E109": ({"bos_counts": {"1": 48, "2": 2}}, {"bos_expected": 0, "bos_counts": {"0": 50}}),
    "E110": ({"prompt_mismatch": ("a",)}, {"seam_merged": ("a",)}),
    "E111": ({"padding_in_loss": ("a",)}, {"turn_end": "<pad>", "turn_end_id": 0}),
    "E112": ({"too_long": ("a",)}, {"too_long": ("a",), "dropped": ("a",), "longer": "drop"}),
    "E113": (
        {"truncated_target": ("a",)},
        {"too_long": ("a",), "truncated_target": ("a",), "longer": "truncate"},
    ),
    "E114": ({"dropped": ("a",)}, {"too_long": ("a",), "dropped": ("a",), "longer": "drop"}),
    "E115": (
        {"dropped": tuple("abcdefgh"), "longer": "drop"},
        {"dropped": ("a",), "longer": "drop"},
    ),
    "E116": ({"longest_run": ("a",)}, {"longest": {"train": ("a", 9)}, "longest_run": ("a",)}),
    "E117": ({"unknown_tokens": ("a",)}, {}),
    "E120": ({"marks_in_input": (("a", "<|im_end|>"),)}, {"unknown_tokens": ("a",)}),
    "E121": ({"marks_in_target": (("a", "</s>"),)}, {"marks_in_input": (("a", "</s>"),)}),
    "E122": ({"changed_text": (("a", "'x²' became 'x2'"),)}, {"unknown_tokens": ("a",)}),
    "E123": ({"untrained_tokens": (("a", "'<|new|>' (id 9, all zeros)"),)}, {"unknown_tokens": ("a",)}),
    "E124": ({"target_gone": ("a",)}, {"truncated_input": ("a",), "longer": "truncate"}),
    "E125": ({"end_cut": ("a",)}, {"truncated_target": ("a",)}),
    "E126": ({"turn_ends_miscounted": (("a", "3 ends in 2 turns"),)}, {"turn_end_unlearned": ("a",)}),
    "E127": ({"attention_wrong": ("a",)}, {"padding_in_loss": ("a",)}),
    "E128": ({"segments_mixed": ("a",)}, {"attention_wrong": ("a",)}),
    "E129": ({"reads_clock": True}, {}),
    "E130": ({"lost_words": (("a", "system: 'Be short.'"),)}, {"changed_text": (("a", "'ñ' became 'n'"),)}),
    "F101": ({"logits_finite": False}, {"precision": "fp16"}),
    "F102": ({"loss": NAN}, {"loss": 12.0}),
    "F103": (
        {"loss": 2.2},
        {"precision": "bf16", "loss": 2.12},
    ),
    "F104": ({"packed_vs_alone": 1e-3}, {"precision": "bf16", "packed_vs_alone": 0.01}),
    "F105": ({"padded_vs_alone": NAN}, {"precision": "fp16", "padded_vs_alone": 0.004}),
    "F106": ({"perturbed_neighbour": 0.02}, {"perturbed_neighbour": 8e-6}),
    "F107": ({"loss": 12.4}, {"loss": 10.83}),
    "F108": ({"loss": 3.4}, {"precision": "bf16", "loss": 2.13}),
    "F109": (
        {"loss": 9.3, "shuffled_label_loss": 9.2},
        {"loss": 10.83, "shuffled_label_loss": 10.82},
    ),
    "F110": (
        {"loss": 8.7, "shifted_label_loss": 2.1},
        {"vocabulary_size": 40, "loss": 3.72, "shifted_label_loss": 2.6},
    ),
    "F111": ({"zero_loss": True, "loss": 0.0}, {"loss": 1e-9}),
    "F112": ({"evaluation_twice": 0.01}, {"precision": "bf16", "evaluation_twice": 1e-4}),
    "F113": ({"weights_intact": False}, {}),
    "F121": (
        {"output_dtypes": {"bfloat16": 24, "float32": 4}},  # a base that stayed in bf16, beside an adapter in fp32
        {"precision": "bf16", "output_dtypes": {"bfloat16": 24, "float32": 4}},
    ),
    "F131": (  # C49
        {"head_labels": ("b", "a", "c")},
        {"head_labels": ("b", "a", "c"), "labels": ("b", "a", "c")},
    ),
    "F132": ({"n_logits": 4}, {"n_logits": 2, "labels": ("a", "b")}),
    "F133": ({"other_number": ("r7",)}, {}),
    "F134": (
        {"confusion": ((0, 20, 1), (18, 1, 0), (0, 0, 19))},
        {"confusion": ((6, 5, 8), (9, 6, 7), (6, 8, 5))},  # a base that guesses: another order is better by luck alone
    ),
    "F135": ({"pixel_shape": (1, 16, 16)}, {"pixel_shape": (3, 40, 30), "expected_shape": (3, None, None)}),
    "F136": ({"pixel_range": (0.0, 255.0)}, {"pixel_range": (-2.2, 2.7)}),
    "F137": ({"transforms_differ": ("r7",)}, {}),
    "F138": ({"augmentation_unstable": ("r7",)}, {}),
    "F139": ({"augmented": (0, 48)}, {"augmented": (1, 48)}),
    "B101": ({"trained": ()}, {"trained": ("head",), "declared": ("head",)}),
    "B102": ({"declared": (*LORA, "norm")}, {"trained": LORA[::-1]}),
    "B103": ({"with_gradient": ("q.lora_B",)}, {"nonzero_gradient": ("q.lora_B",)}),
    "B104": ({"nonzero_gradient": ()}, {"nonzero_gradient": ("q.lora_B",)}),
    "B105": ({"exempt": None}, {"nonzero_gradient": ("q.lora_B",), "exempt": ("q.lora_A",)}),
    "B106": ({"gradient_elsewhere": ("embed",)}, {}),
    "B107": ({"nonfinite": ("q.lora_B",)}, {"precision": "fp16"}),
    "B108": ({"accumulation_error": 0.3}, {"precision": "bf16", "accumulation_error": 0.008}),
    "B109": ({"loss_accumulated": 2.2}, {"precision": "bf16", "loss_accumulated": 2.11}),
    "B110": ({"gradient_twice_error": 1.0}, {"gradient_twice_error": 1e-6}),
    "B111": ({"checkpointing_error": 0.2}, {"checkpointing_error": 1e-6}),
    "B112": ({"new_tokens_frozen": ("<call>",)}, {}),
    "U101": ({"in_optimizer": ("q.weight",)}, {"in_optimizer": (*LORA, "q.weight")}),
    "U102": ({"in_optimizer": ("q.lora_A",)}, {"in_optimizer": (*LORA, "q.weight")}),
    "U103": ({"foreign_in_optimizer": 3}, {}),
    "U104": ({"duplicates_in_optimizer": 1}, {}),
    "U105": (
        {"moved": ()},
        {"moved": (), "learning_rate_applied": (0.0, 0.0), "learning_rate_expected": (0.0, 0.0)},
    ),
    "U106": (
        {"moved": ("q.lora_B",)},
        {"moved": ("q.lora_B",), "learning_rate_applied": (0.0, 1e-5), "learning_rate_expected": (0.0, 1e-5)},
    ),
    "U107": ({"frozen_changed": ("embed",)}, {}),
    "U108": (
        {"learning_rate_applied": (1e-5, 4e-5)},
        {"learning_rate_expected": (1e-4, 1e-4), "learning_rate_applied": (1e-4, 1e-4)},
    ),
    "U109": ({"updates_counted": 1}, {"updates_expected": 3, "updates_counted": 3}),
    "U110": ({"schedule_length": 1600}, {"schedule_length": 201, "planned_updates": 201}),
    "U111": (
        {"gradient_norm_after_clip": 3.0},
        {"clip": None, "gradient_norm_after_clip": 3.0},
    ),
    "U112": ({"skipped": 2}, {"skipped": 1}),
    "U113": ({"replica_digests": ("abc", "abd")}, {"replica_digests": ("abc",)}),
    "U114": ({"seed_twice_equal": False}, {}),
    "U121": ({"finite": False}, {}),
    "U122": ({"last_loss": 2.95, "right_answers": 2}, {"last_loss": 2.95}),
    "U123": ({"right_answers": 0}, {"right_answers": 0, "last_loss": 0.5}),
    "U124": ({"right_answers": 1, "last_loss": 0.05}, {"right_answers": 3}),
    "V101": ({"training_mode_during": True}, {}),
    "V102": (
        {"losses_by_batch": {"1": 2.31, "2": 2.4, "6": 2.7}},
        {"precision": "bf16", "losses_by_batch": {"1": 2.31, "4": 2.32}},
    ),
    "V103": ({"twice_difference": 0.02}, {"precision": "bf16", "twice_difference": 1e-4}),
    "V104": ({"weights_changed": True}, {}),
    "V105": ({"random_state_changed": True}, {}),
    "V106": ({"outputs_written": 8}, {"outputs_expected": 1, "outputs_written": 1}),
    "V107": ({"empty_outputs": tuple("abcdefg")}, {"empty_outputs": ("a",)}),
    "V108": ({"stopped": 0}, {"outputs_written": 1, "outputs_expected": 1, "stopped": 0}),
    "V109": ({"target_longest_tokens": 65}, {"target_longest_tokens": 64}),
    "V110": ({"longest_generated": 65}, {"longest_generated": 64}),
    "V111": ({"losses_by_batch": {"1": NAN, "4": 2.3}}, {"losses_by_batch": {"1": 1e-9, "4": 1e-9}}),
    "X101": ({"fresh_process": False}, {}),
    "X102": ({"outputs_equal": 3}, {"control_rows": 1, "outputs_equal": 1}),
    "X103": ({"first_logits_error": 0.2}, {"precision": "bf16", "first_logits_error": 0.01}),
    "X104": ({"base_sha256_found": "b" * 64}, {"base_sha256_found": "c" * 64, "base_sha256_bound": "c" * 64}),
    "X105": ({"keys_missing": ("q",), "keys_unexpected": ("_orig_mod.q",)}, {}),
    "X106": ({"finite": False}, {}),
    "X107": ({"equals_base": True}, {"first_logits_error": 0.0}),
    "X108": ({"merged_error": 0.4}, {"precision": "bf16", "merged_error": 0.01}),
    "X109": ({"free_disk_bytes": 4 * 10**8}, {"free_disk_bytes": 4 * 10**8, "checkpoints_kept": 1}),
    "R101": ({"fresh_process": False}, {}),
    "R102": ({"updates_after": 0, "zero_updates": True}, {"updates_before": 0}),
    "R103": ({"rows_equal": False}, {}),
    "R104": ({"learning_rates_equal": False}, {}),
    "R105": ({"optimizer_equal": False, "grade": "differs"}, GPU | {"max_loss_difference": 1e-4}),
    "R106": (GPU | {"grade": "differs", "max_loss_difference": 0.4}, GPU | {"max_loss_difference": 1e-3}),
    "R107": ({"bad_moments": ("q.lora_A.exp_avg_sq",)}, {}),
    "R109": ({"repeated": 1.3}, {"repeated": 1.2500001}),
    "R108": ({"passed_over": ("step-40",)}, {}),
    "M101": ({"failed": True, "phase": "validation", "message": "tried to allocate 2 GiB"}, {"tokens": None}),
    "D201": ({"class_names_model": ("other", "food")}, {"class_names_model": ("food", "other", "spare")}),
    "E201": ({"labels_shifted": 1}, {"labels_shifted": 1, "loss_shift": 0}),
    "E202": ({"assistant_mask_empty": ("a",)}, {"template_marks_assistant": None}),
    "F201": ({"failed_step": "backward: RuntimeError: shapes"}, {}),
    "B201": ({"adapter": False, "trained_matrices": 0, "trained_vectors": 5}, {"trained_matrices": 0}),
    "B202": ({"adapter": False}, {"adapter": False, "declared_by_user": True}),
    "V201": ({"eval_loss_of_batches": 2.4}, {"eval_loss_of_batches": 2.1001}),
    "D202": ({"class_runs": 3}, {"class_runs": 26}),
    "E203": ({"pixel_range": (0.0, 255.0)}, {"pixel_range": (0.0, 1.0), "pixel_spread": 0.2}),
    "E205": ({"n_answers_ended": 0}, {"n_answers": 4, "n_answers_ended": 0}),
    "E206": ({"labels_own_share": 0.2}, {"labels_own_share": 0.85}),
    "B125": ({"untied": ("embed_tokens.weight", "lm_head.weight")}, {}),
    "B203": ({"adapter_inside_adapter": True}, {"adapter": False}),
    "U125": ({"rounded_away": 0.98}, {"rounded_away": 0.98, "learning_rate_applied": (0.0, 0.0), "skipped": 0}),
    "U126": (
        {"moved_first": ()},
        {"moved_first": (), "learning_rate_applied": (0.0, 1e-5), "learning_rate_expected": (0.0, 1e-5)},
    ),
    "U201": ({"peak_learning_rate": 2e-5}, {"peak_learning_rate": 9e-4}),
    "U202": ({"peak_learning_rate": 0.0}, {"peak_learning_rate": 1e-9}),
    "U203": ({"schedule_is_the_optimizers": False}, {}),
    "U204": ({"n_batches": 0}, {"n_batches": 1}),
    "U205": ({"decayed_vectors": 9}, {}),
    "X201": ({"trained_not_saved": ("embed_tokens.weight",)}, {}),
    "R201": ({"files_lacking": ("optimizer.pt",)}, {}),
    "R202": ({"keys_missing": ("q.lora_A",), "keys_unexpected": ("attention.q.lora_A",)}, {}),
    "R203": ({"changed": (("learning_rate", "0.001", "0.005"),)}, {}),
    "R204": ({"patience_used": 2}, {}),
    "R205": ({"order_repeats": False}, {}),
}

RULES = {rule.code: rule for rule in gate_rules()}


def outcome(rule: Rule, changes: dict[str, Any]) -> Finding | Passed | CannotCheck:
    try:
        return rule(replace(HEALTHY[rule.evidence], **changes))
    except CannotCheck as reason:
        return reason


def test_every_gate_rule_has_its_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("code", CASES)
def test_the_rule_fires_on_its_fault(code: str) -> None:
    finding = outcome(RULES[code], CASES[code][0])

    assert isinstance(finding, Finding)
    assert (finding.code, finding.severity) == (code, RULES[code].severity)
    assert finding.observed
    assert finding.remedy


@pytest.mark.parametrize("code", CASES)
def test_the_rule_is_silent_on_the_healthy_twin(code: str) -> None:
    assert not isinstance(outcome(RULES[code], CASES[code][1]), Finding)


@pytest.mark.parametrize("code", sorted(set(CASES) - {"R106"}))
def test_the_rule_passes_healthy_evidence_and_says_what_it_saw(code: str) -> None:
    seen = outcome(RULES[code], {})

    assert isinstance(seen, Passed)
    assert seen.observed


@pytest.mark.parametrize("code", sorted(set(CASES) - {"M101"}))
def test_nothing_measured_cannot_be_checked(code: str) -> None:
    with pytest.raises(CannotCheck, match="not measured"):
        RULES[code](RULES[code].evidence())


@pytest.mark.parametrize("code", CASES)
def test_the_sick_case_is_sick_by_this_rule_and_its_kin_alone(code: str) -> None:
    """A fault is named by its own rule; others may join in only where the same numbers show it."""
    kin = {
        "D150": {"D154"},
        "D151": {"D152", "D154"},
        "D152": {"D154"},
        "E102": {"E104", "E105", "E107"},
        "E113": {"E115"},
        "E114": {"E115"},
        "F102": {"F103", "F108", "F109", "F110", "F107"},
        "F103": {"F108"},
        "F107": {"F103", "F108", "F109", "F110"},
        "F108": {"F103"},
        "F109": {"F103", "F108", "F110"},
        "F110": {"F103", "F108"},
        "F111": {"F103", "F108"},
        "B101": {"B102"},
        "U112": {"U106"},
        "U123": {"U124"},
        "B201": {"B202"},
        "U202": {"U201"},
    }
    evidence = [replace(HEALTHY[RULES[code].evidence], **CASES[code][0])]

    fired = {finding.code for finding in judge(RULES.values(), evidence).findings}

    assert code in fired
    assert fired - {code} <= kin.get(code, set())


def test_healthy_evidence_as_a_whole_has_no_finding_and_leaves_out_only_the_gpu_rule() -> None:
    verdict = judge(RULES.values(), HEALTHY.values())

    assert verdict.findings == ()
    assert [skipped.code for skipped in verdict.not_checked] == ["R106"]


TWINS: dict[str, dict[type, dict[str, Any]]] = {
    "a random tiny model": {
        DataEvidence: {
            "vocabulary_size": 40,
            "n_rows": {"train": 4, "validation": 2},
            "smallest_effect": None,
        },
        ForwardEvidence: {
            "vocabulary_size": 40,
            "loss": 3.71,
            "loss_fp32": 3.71,
            "base_row_loss": 3.71,
            "shuffled_label_loss": 3.70,
            "shifted_label_loss": 2.9,
        },
        OverfitEvidence: {"first_loss": 3.71, "last_loss": 1.2, "right_answers": 3},
    },
    "one row": {
        DataEvidence: {
            "n_rows": {"train": 1, "validation": 1},
            "smallest_effect": None,
            "longest": {"train": ("a", 9), "validation": ("b", 9)},
        },
        ForwardEvidence: {"rows": ("a",), "packed_vs_alone": None, "shuffled_label_loss": 2.1},
        OverfitEvidence: {"rows": 1, "right_answers": 1, "answers": 1, "supervised_tokens": 5},
        ValidationEvidence: {"outputs_expected": 1, "outputs_written": 1, "stopped": 0, "losses_by_batch": {"1": 2.3}},
        ExportEvidence: {"control_rows": 1, "outputs_equal": 1},
    },
    "pad is EOS and the template has its own end of turn": {
        DataEvidence: {
            "turn_end": "<|im_end|>",
            "turn_end_id": 2,
            "stop_ids": (2,),
            "bos_expected": 0,
            "bos_counts": {"0": 50},
        },
    },
    "bf16 on a GPU": {
        ForwardEvidence: {
            "precision": "bf16",
            "loss": 2.11,
            "loss_fp32": 2.1,
            "packed_vs_alone": 0.012,
            "padded_vs_alone": 0.011,
            "perturbed_neighbour": 0.0,
            "output_dtypes": {"bfloat16": 40},
        },
        BackwardEvidence: {"precision": "bf16", "accumulation_error": 0.006, "checkpointing_error": 0.002},
        ValidationEvidence: {"precision": "bf16", "losses_by_batch": {"1": 2.31, "4": 2.318}},
        ExportEvidence: {"precision": "bf16", "merged_error": 0.012},
        ResumeEvidence: GPU | {"max_loss_difference": 0.002, "gradient_norms_equal": False, "optimizer_equal": False},
    },
    "fp16 whose scaler skipped the first update": {
        UpdateEvidence: {"skipped": 1, "moved": ("q.lora_B",), "moved_first": ()},
        ForwardEvidence: {"precision": "fp16", "packed_vs_alone": 0.003, "output_dtypes": {"float16": 40}},
    },
    "constant learning rate, no warm-up, no clipping": {
        UpdateEvidence: {
            "learning_rate_expected": (1e-4, 1e-4),
            "learning_rate_applied": (1e-4, 1e-4),
            "clip": None,
            "gradient_norm_after_clip": 3.0,
            "schedule_length": None,
        },
    },
    "warm-up that begins at zero": {
        UpdateEvidence: {
            "learning_rate_expected": (0.0, 1e-5),
            "learning_rate_applied": (0.0, 1e-5),
            "moved_first": (),
            "moved": ("q.lora_B",),
        },
    },
    "full fine-tuning": {
        BackwardEvidence: {
            "trained": ("w", "b"),
            "declared": ("b", "w"),
            "with_gradient": ("w", "b"),
            "nonzero_gradient": ("w", "b"),
            "exempt": (),
        },
        UpdateEvidence: {
            "trained": ("w", "b"),
            "in_optimizer": ("b", "w"),
            "moved": ("w", "b"),
            "due_first": ("w",),
            "moved_first": ("b", "w"),
            "half_precision": 0,
            "rounded_away": None,
        },
    },
    "a base that already knows the rows": {
        ForwardEvidence: {"loss": 0.004, "loss_fp32": 0.004, "base_row_loss": 0.004},
        OverfitEvidence: {"first_loss": 0.004, "last_loss": 0.0039},
    },
    "a gradient below the clip": {UpdateEvidence: {"gradient_norm_before_clip": 0.3, "gradient_norm_after_clip": 0.3}},
}


@pytest.mark.parametrize("name", TWINS)
def test_no_rule_fires_on_a_healthy(name: str) -> None:
    evidence = [replace(record, **TWINS[name].get(kind, {})) for kind, record in HEALTHY.items()]

    assert judge(RULES.values(), evidence).findings == ()


def test_an_optimizer_of_before_the_adapter_is_named_as_such_and_nothing_advises_the_learning_rate() -> None:
    evidence = replace(HEALTHY[UpdateEvidence], in_optimizer=("q.weight",), moved=(), moved_first=())

    verdict = judge(RULES.values(), [evidence])

    assert [(finding.code, finding.name) for finding in verdict.findings] == [
        ("U101", "optimizer-holds-other-parameters")
    ]
    assert "no learning rate" in RULES["U101"].why
    assert "learning_rate" not in verdict.findings[0].remedy


def test_out_of_memory_names_phase_and_rows_and_keeps_the_examples_per_update() -> None:
    evidence = MemoryEvidence(phase="validation", failed=True, rows=("b",), tokens=473, message="no room")

    (finding,) = judge(RULES.values(), [evidence]).findings

    assert finding.rows == ("b",)
    assert "validation" in finding.observed
    assert "473 tokens" in finding.observed
    for setting in ("training.microbatch", "training.accumulation", "activation_checkpointing"):
        assert setting in finding.remedy
    assert "truncate" not in finding.remedy


def test_a_limit_of_the_campaign_replaces_the_default() -> None:
    evidence = [replace(HEALTHY[BackwardEvidence], accumulation_error=3e-4)]

    assert "B108" in {finding.code for finding in judge(RULES.values(), evidence).findings}
    assert judge(RULES.values(), evidence, limits={"B108": {"relative": 1e-3}}).findings == ()


def test_every_measured_error_of_nan_fails_its_rule() -> None:
    for code, rule in RULES.items():
        for field in fields(rule.evidence):
            if field.name.endswith(("_error", "_alone", "_twice", "_difference", "_neighbour")):
                seen = outcome(rule, {field.name: NAN} | (GPU if code == "R106" else {}))
                others = outcome(rule, {field.name: None} | (GPU if code == "R106" else {}))
                used = isinstance(others, CannotCheck)
                assert isinstance(seen, Finding) == (used and code != "R105"), (code, field.name)
