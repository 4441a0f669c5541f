"""The comparison that the hypothesis asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testigo.campaign import planned_runs
from testigo.campaign.withdrawn import superseded_by, withdrawn_by, without_control
from testigo.conductor import beside, measure
from testigo.conductor.balance import Entry, balance_of
from testigo.conductor.grounds import Grounds
from testigo.corpus import unclean_rows
from testigo.disk import file_sha256, read_lines, write_atomically
from testigo.judgement import Comparison, compare
from testigo.judgement.choice import CONTROL
from testigo.judgement.openings import price_of
from testigo.ledger import Run, kinds


def compare_runs(grounds: Grounds, split: str = "validation") -> Comparison | None:
    """Baseline against control and variants on the same rows. None when no run of the control ended well.

    The registered run of the control is that of the first seed in the file: never the best one. Seeds that diverged
    count as the hypothesis declares. To the sealed test goes one choice, the control or one variant.
    """
    outputs, ids = _outputs(grounds, split)
    chosen = chosen_variant(grounds) if split == "test" else CONTROL
    tuned = outputs.pop(chosen, {})
    others = outputs if split != "test" else {}
    if not tuned:
        why = (
            without_control(grounds.ledger.runs())
            if chosen == CONTROL
            else f"no run of the {_named(chosen)} ended well"
        )
        grounds.reporter.say(f"{why}; there is nothing to compare")
        return None
    seed, runs = _first(grounds, tuned), {run.id: run for run in grounds.ledger.runs()}
    lost = [
        number
        for number in grounds.campaign.seeds
        if (run := runs.get(ids[chosen, number])) and run.state == "diverged"
    ]
    baseline = measure.baseline(grounds, split)
    hypothesis = grounds.campaign.hypothesis
    comparison = compare(
        read_lines(baseline),
        read_lines(tuned[seed]),
        metrics=dict(grounds.task.metrics),
        hypothesis=hypothesis,
        variants={name: read_lines(by_seed[_first(grounds, by_seed)]) for name, by_seed in others.items()},
        seeds={number: read_lines(path) for number, path in tuned.items()} if len(tuned) + len(lost) > 1 else None,
        unclean=unclean_rows(grounds.corpus.manifest, split),
        lost=lost,
        lost_as=hypothesis.divergence,
    )
    firsts = {chosen: tuned[seed]} | {name: by_seed[_first(grounds, by_seed)] for name, by_seed in others.items()}
    comparison = beside.with_beside(comparison, grounds.campaign, baseline, firsts, dict(grounds.task.metrics))
    document = {**comparison.to_json(), "split": split, "run": ids[chosen, seed]}
    if split == "validation":
        document["choice"] = beside.choice_of(comparison).to_json()
        compared = {ids[name, number] for name, made in {chosen: tuned, **others}.items() for number in made}
        document["balance"] = [one.to_json() for one in _balance(grounds, ids, runs, compared)]
    else:
        document["choice"] = {"variant": chosen, "because": "chosen on the validation rows"}
        document["openings"] = _price(grounds, comparison)
    _record(grounds, comparison, document)
    return comparison


def chosen_variant(grounds: Grounds) -> str:
    """The choice of the last comparison on the validation rows: the control where there was none that still stands."""
    path = grounds.workspace.comparison_path
    document = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if superseded_by("validation", grounds.ledger.events()) or withdrawn_by(document, grounds.ledger.runs()):
        return CONTROL
    return str(document.get("choice", {}).get("variant", CONTROL))


def _outputs(grounds: Grounds, split: str) -> tuple[dict[str, dict[int, Path]], dict[tuple[str, int], str]]:
    """Variant -> seed -> predictions of a run that ended well; and the id of every planned run."""
    outputs: dict[str, dict[int, Path]] = {}
    ids: dict[tuple[str, int], str] = {}
    for planned in planned_runs(grounds.campaign):
        run = ids[planned.variant, planned.seed] = grounds.spec(planned).run_id
        made = grounds.workspace.run(run) / "predictions" / f"{split}.jsonl"
        if made.exists() and grounds.best_weights(planned) is not None:
            outputs.setdefault(planned.variant, {})[planned.seed] = made
    return outputs, ids


def _balance(
    grounds: Grounds, ids: dict[tuple[str, int], str], runs: dict[str, Run], compared: set[str]
) -> tuple[Entry, ...]:
    tokens = {id: beside.tokens_of(grounds.workspace.run(id)) for id in ids.values()}
    return balance_of(grounds.campaign, ids, runs, compared, tokens)


def _price(grounds: Grounds, comparison: Comparison) -> dict[str, Any]:
    results = [e.body for e in grounds.ledger.events(kind=kinds.COMPARED) if e.body["split"] == "test"]
    earlier = [float(body.get("p_value", 0.0)) for body in results]  # one that was not kept counts as the smallest
    own = comparison.improvement
    return price_of([*earlier, own.p_value], own.verdict, grounds.campaign.hypothesis.alpha).to_json()


def _record(grounds: Grounds, comparison: Comparison, document: dict[str, Any]) -> None:
    split = document["split"]
    name = "comparison.json" if split == "validation" else f"comparison-{split}.json"
    path = grounds.workspace.root / name
    text = json.dumps(document, indent=1, ensure_ascii=False)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text)
    body: dict[str, Any] = {"split": split, "run": document["run"], "sha256": file_sha256(path)}
    if split == "test":
        body["p_value"] = comparison.improvement.p_value
        grounds.ledger.append(kinds.COMPARED, body)  # each opening has its result, though it be the same again
    else:
        grounds.record(kinds.COMPARED, body, about=("split",))


def _named(variant: str) -> str:
    return variant if variant == CONTROL else f"variant {variant}"


def _first(grounds: Grounds, by_seed: dict[int, Any]) -> int:
    """The first seed of the file that has outputs."""
    return next(seed for seed in grounds.campaign.seeds if seed in by_seed)
