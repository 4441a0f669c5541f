"""No gate rule fires on models, rows and machines that are healthy in an unusual way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from healthy_evidence import GPU, HEALTHY

from testigo.gates import (
    BackwardEvidence,
    DataEvidence,
    ExportEvidence,
    ForwardEvidence,
    OverfitEvidence,
    ResumeEvidence,
    UpdateEvidence,
    ValidationEvidence,
    gate_rules,
)
from testigo.rules import judge

RULES = {rule.code: rule for rule in gate_rules()}

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
