"""The metrics of each kind of task."""

from __future__ import annotations

from typing import Literal

METRICS: dict[str, dict[str, Literal["binary", "bounded", "corpus"]]] = {
    "extraction": {
        "valid_json": "binary",
        "schema_valid": "binary",
        "required_fields": "binary",
        "exact_match": "binary",
        "field_f1": "bounded",
    },
    "generation": {"exact_match": "binary", "token_f1": "bounded"},
    "classification": {"accuracy": "binary", "macro_f1": "corpus"},
    "image-classification": {"accuracy": "binary", "macro_f1": "corpus"},
    "chat": {"exact_match": "binary", "token_f1": "bounded"},
    "tool-calling": {
        "valid_call": "binary",
        "name_match": "binary",
        "arguments_match": "binary",
        "exact_match": "binary",
    },
}
"""Kind of task -> metric -> whether a row's score is yes/no, lies between 0 and 1, or belongs to all rows together."""

CLASS_KINDS = ("classification", "image-classification")
"""Kinds of task whose answer is one of a few classes."""

GENERAL_LOSS = "general_loss"
"""The loss of the general text that comes with Testigo, in nats per token: a guard of every task that writes text."""
