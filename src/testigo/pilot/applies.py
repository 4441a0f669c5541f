"""Which rules have nothing to say of a campaign, because of what it answers with and what it reads."""

from __future__ import annotations

from testigo.campaign import Campaign
from testigo.rules import DOES_NOT_APPLY, NotChecked, Rule
from testigo.tasks import is_answered_by_head

NOT_OF_A_HEAD = frozenset(
    {"E102", "E103", "E104", "E105", "E106", "E107", "E108", "E109", "E110", "E111", "E121", "E124", "E125", "E126",
     "E128", "E129", "E130", "B150", "F104", "F110", "V107", "V108", "V109", "V110"}
)  # fmt: skip
"""They speak of the tokens of an answer, of turns and of packs."""
_OF_TOKENS = frozenset({"E101", "E117", "E120", "E122", "E123", "E127"})


def applying(rules: tuple[Rule, ...], campaign: Campaign) -> tuple[tuple[Rule, ...], tuple[NotChecked, ...]]:
    """The rules that can be judged, and those that do not apply, each with the reason."""
    why = {"B112": "a campaign adds no tokens to its base"}
    if not campaign.training.activation_checkpointing:
        why["B111"] = "activation checkpointing is not declared"
    if campaign.machine.processes == 1:
        why["U113"] = "one process trains"
    if is_answered_by_head(campaign):
        why |= dict.fromkeys(NOT_OF_A_HEAD, "a class head answers, and no text is written")
        if campaign.task.kind == "image-classification":
            why |= dict.fromkeys(_OF_TOKENS, "an image has no tokens")
        if campaign.training.augment is None:
            why |= dict.fromkeys(("F138", "F139"), "no augmentation is declared")
    kept = tuple(rule for rule in rules if rule.code not in why)
    return kept, tuple(NotChecked(rule.code, DOES_NOT_APPLY + why[rule.code]) for rule in rules if rule.code in why)
