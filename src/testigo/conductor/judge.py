"""The comparison that the hypothesis asked for."""

from __future__ import annotations

import json
from typing import Any

from testigo.campaign import planned_runs
from testigo.conductor import measure
from testigo.conductor.grounds import Grounds
from testigo.corpus import unclean_rows
from testigo.disk import file_sha256, read_lines, write_atomically
from testigo.judgement import Comparison, compare
from testigo.judgement.openings import price_of
from testigo.ledger import kinds


def compare_runs(grounds: Grounds, split: str = "validation") -> Comparison | None:
    """Baseline against control and variants on the same rows. None when no run of the control ended well.

    The registered run of the control is that of the first seed in the file: never the best one.
    """
    outputs: dict[str, dict[int, list[dict[str, Any]]]] = {}
    runs: dict[tuple[str, int], str] = {}
    for planned in planned_runs(grounds.campaign):
        run = grounds.spec(planned).run_id
        made = grounds.workspace.run(run) / "predictions" / f"{split}.jsonl"
        if made.exists() and grounds.best_weights(planned) is not None:
            outputs.setdefault(planned.variant, {})[planned.seed] = read_lines(made)
            runs[planned.variant, planned.seed] = run
    control = outputs.pop("control", {})
    if not control:
        grounds.reporter.say("no run of the control ended well: there is nothing to compare")
        return None
    seed = _first(grounds, control)
    comparison = compare(
        read_lines(measure.baseline(grounds, split)),
        control[seed],
        metrics=dict(grounds.task.metrics),
        hypothesis=grounds.campaign.hypothesis,
        variants={name: by_seed[_first(grounds, by_seed)] for name, by_seed in outputs.items()},
        seeds=control if len(control) > 1 else None,
        unclean=unclean_rows(grounds.corpus.manifest, split),
    )
    document = {**comparison.to_json(), "split": split, "run": runs["control", seed]}
    p_value = comparison.improvement.p_value
    if split == "test":
        results = [e.body for e in grounds.ledger.events(kind=kinds.COMPARED) if e.body["split"] == "test"]
        earlier = [float(body.get("p_value", 0.0)) for body in results]  # one that was not kept counts as the smallest
        price = price_of([*earlier, p_value], comparison.improvement.verdict, grounds.campaign.hypothesis.alpha)
        document["openings"] = price.to_json()
    name = "comparison.json" if split == "validation" else f"comparison-{split}.json"
    path = grounds.workspace.root / name
    text = json.dumps(document, indent=1, ensure_ascii=False)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text)
    body: dict[str, Any] = {"split": split, "run": document["run"], "sha256": file_sha256(path)}
    if split == "test":
        body["p_value"] = p_value
        grounds.ledger.append(kinds.COMPARED, body)  # each opening has its result, though it be the same again
    else:
        grounds.record(kinds.COMPARED, body, about=("split",))
    return comparison


def _first(grounds: Grounds, by_seed: dict[int, Any]) -> int:
    """The first seed of the file that has outputs."""
    return next(seed for seed in grounds.campaign.seeds if seed in by_seed)
