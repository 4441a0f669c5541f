"""What the campaign file says and promises, as the record holds it."""

from __future__ import annotations

from testigo.campaign import Campaign
from testigo.campaign.metrics import METRICS
from testigo.dossier.files import finite
from testigo.dossier.record import Guard, Hypothesis, Plan, Variant


def plan_from(campaign: Campaign) -> Plan:
    """What the campaign file says, read."""
    budget = campaign.budget
    try:
        text = campaign.path.read_text(encoding="utf-8")
        # Somebody may have edited it since it was read: the settings below are those of the text that was read.
        text = text if not campaign.text or text.removeprefix("\ufeff") == campaign.text else campaign.text
    except (OSError, ValueError):
        text = ""
    return Plan(
        name=campaign.name,
        question=campaign.question,
        identity=campaign.identity(),
        task=campaign.task.kind,
        metrics=dict(METRICS[campaign.task.kind]),
        base=campaign.model.base,
        settings=finite(campaign.canonical()),
        seeds=tuple(campaign.seeds),
        variants=tuple(Variant(v.name, finite(dict(v.set)), v.because) for v in campaign.variants),
        price_per_hour=budget.price_per_hour if budget else None,
        currency=(budget.currency or "") if budget else "",
        language=campaign.language,
        text=text,
    )


def hypothesis_from(campaign: Campaign) -> Hypothesis:
    """What the campaign file promises."""
    registered = campaign.hypothesis
    return Hypothesis(
        metric=registered.improve.metric,
        by=registered.improve.by,
        guards=tuple(Guard(guard.metric, guard.within) for guard in registered.keep),
        alpha=registered.alpha,
    )
