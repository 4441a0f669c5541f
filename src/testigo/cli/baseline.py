"""`testigo baseline`."""

from __future__ import annotations

from dataclasses import asdict

from testigo.cli.opening import opened
from testigo.cli.output import (
    CampaignPath,
    JsonFlag,
    LedgerFlag,
    WorkspaceFlag,
    ending,
    named,
    print_json,
    short,
    show,
    show_table,
)


def baseline(
    campaign: CampaignPath, workspace: WorkspaceFlag = None, ledger: LedgerFlag = None, as_json: JsonFlag = False
) -> None:
    """Evaluate the base on the validation rows, and say which difference these rows can detect at all.

    Example: testigo baseline campaign.yaml
    """
    with opened(campaign, workspace, ledger) as grounds:
        from testigo.conductor import measure
        from testigo.conductor.weigh import CODES, evidence_of
        from testigo.disk import read_lines
        from testigo.judgement import detectable_effect, value_of
        from testigo.pilot.verdict import judge_evidence

        path = measure.baseline(grounds)
        lines = read_lines(path)
        weighed = evidence_of(grounds.campaign, lines, dict(grounds.task.metrics))
        verdict = judge_evidence([weighed], grounds.campaign, phases=("hypothesis",), also=CODES)
        hypothesis, metrics = grounds.campaign.hypothesis, grounds.task.metrics
    means = {name: value_of(lines, name, kind) for name, kind in metrics.items()}
    detectable = {name: detectable_effect(lines, name, kind, hypothesis.alpha) for name, kind in metrics.items()}
    margins = {hypothesis.improve.metric: hypothesis.improve.by, **{k.metric: k.within for k in hypothesis.keep}}
    if as_json:
        print_json({"ok": True, "rows": len(lines), "metrics": means, "detectable": detectable, "margins": margins,
                    "chance": weighed.chance, "shown_from": weighed.shown_from, "rows_needed": weighed.rows_needed,
                    "findings": [asdict(one) for one in verdict.findings], "predictions": path})  # fmt: skip
    else:
        show_table(
            ("metric", "baseline", "detectable", "registered"),
            [(name, f"{means[name]:.3f}", f"{detectable[name]:.3f}", f"{margins[name]:.3f}" if name in margins else "")
             for name in metrics],
        )  # fmt: skip
        for one in verdict.passed:
            show(f"{one.code}  {one.observed}", style="dim")
        for finding in verdict.findings:
            show(f"{finding.severity} {finding.code} {finding.name}: {finding.observed}")
    small = [name for name, margin in margins.items() if detectable[name] > margin]
    ending(
        checked=f"{len(lines)} validation rows; outputs are in {short(path)}",
        not_checked=f"too few rows for the registered margin of {', '.join(small)}" if small else "",
        next_command=f"testigo pilot {named(campaign, workspace)}",
    )
