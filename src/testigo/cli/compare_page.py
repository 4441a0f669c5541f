"""A comparison as one offline HTML page: what the terminal tells, with a drawn forest plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from testigo.cli.beside import told_beside
from testigo.cli.forest import Branch, branches_of

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fdfdfb; --line: #8a8a86; --strong: #1f5f8b; --by: #a2541b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9e9e4; --paper: #161719; --line: #8d8f92; --strong: #7fbde8; --by: #e0a070; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .zero { stroke: var(--line); } svg .by { stroke: var(--by); stroke-dasharray: 4 3; }
svg .bar { stroke: var(--strong); stroke-width: 2; } svg circle { fill: var(--strong); }
"""
_ROW, _LEFT, _WIDTH = 26, 200, 820


def page_of(document: Mapping[str, Any], campaign: str) -> str:
    """The page. Nothing is fetched, and no text of the data is markup."""
    improvement = document["improvement"]
    parts = [
        Markup("<h1>{}</h1><p><strong>{}</strong></p>").format(campaign, document["conclusion"]),
        *(Markup("<p>{}</p>").format(text) for text in _sentences(document)),
        Markup("<h2>Metrics</h2>{}").format(_metrics(document)),
        Markup("<h2>{}: difference to the baseline</h2>{}").format(
            improvement["metric"], _picture(branches_of(document), float(improvement["by"]))
        ),
        Markup("<p>{}, p = {:.2g}; interval: {}</p>").format(
            improvement["test"], improvement["p_value"], improvement["interval"]
        ),
    ]
    if document.get("balance"):
        parts.append(Markup("<h2>Every run</h2>{}").format(_balance(document["balance"])))
    title = escape(f"{campaign}: comparison")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main>{''.join(map(str, parts))}</main></body></html>\n"
    )


def _sentences(document: Mapping[str, Any]) -> list[str]:
    forgotten = (document.get("forgetting") or {}).get("conclusion", "")
    told = [f"{text[0].upper()}{text[1:]}." for text in told_beside(document)]
    return [forgotten, *told] if forgotten else told


def _metrics(document: Mapping[str, Any]) -> Markup:
    verdicts = {document["improvement"]["metric"]: document["improvement"]["verdict"]}
    verdicts |= {guard["metric"]: guard["verdict"] for guard in document["guards"]}
    rows = [
        (name, f"{one['before']:.3f}", f"{one['after']:.3f}", f"{one['difference']:+.3f}",
         f"{one['low']:+.3f} to {one['high']:+.3f}", verdicts.get(name, ""))
        for name, one in document["metrics"].items()
    ]  # fmt: skip
    for one in (document.get("forgetting") or {}).get("guards") or ():
        name = f"{one['metric']} of {one['task']}" if one["task"] else f"{one['metric']} (nats per token)"
        rows.append(
            (name, f"{one['before']:.3f}", f"{one['after']:.3f}", f"{one['difference']:+.3f}",
             f"{one['low']:+.3f} to {one['high']:+.3f}", one["verdict"])
        )  # fmt: skip
    return _table(("metric", "before", "after", "difference", "interval", "verdict"), rows)


def _balance(balance: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [
        (f"{one['variant']}, seed {one['seed']}", one["state"], str(one["consequences"]["updates"]),
         str(one["consequences"]["examples"]), one["counted"], one["cause"] if one["state"] != "completed" else "")
        for one in balance
    ]  # fmt: skip
    return _table(("run", "state", "updates", "examples", "counted", "cause"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup('<td class="n">{}</td>').format(cell) for cell in row))
        for row in rows
    )
    wide = '<div class="wide" tabindex="0"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(wide).format(head, body)


def _picture(branches: Sequence[Branch], by: float) -> Markup:
    reach = max([abs(end) for one in branches for end in (one.low, one.high)] + [by, 1e-9]) * 1.05

    def across(value: float) -> float:
        return _LEFT + 60 + (value / reach + 1) / 2 * (_WIDTH - _LEFT - 200)

    height = _ROW * (len(branches) + 1)
    told = "; ".join(
        f"{one.name.strip()} {one.difference:+.3f} ({one.low:+.3f} to {one.high:+.3f})" for one in branches
    )
    marks = [
        Markup('<line class="zero" x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="{1}"/>').format(across(0), height - _ROW),
        Markup('<line class="by" x1="{0:.1f}" x2="{0:.1f}" y1="4" y2="{1}"/>').format(across(by), height - _ROW),
        Markup('<text x="{:.1f}" y="{}" text-anchor="middle">0</text>').format(across(0), height - 8),
        Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{:+g}</text>').format(across(by), height - 8, by),
    ]
    for n, one in enumerate(branches):
        y = _ROW * n + 18
        marks += [
            Markup('<text x="0" y="{}">{}</text><text x="{}" y="{}" text-anchor="end">{}</text>').format(
                y, one.name, _LEFT + 40, y, one.n
            ),
            Markup('<line class="bar" x1="{0:.1f}" x2="{1:.1f}" y1="{2}" y2="{2}"/>').format(
                across(one.low), across(one.high), y - 5
            ),
            Markup('<circle cx="{:.1f}" cy="{}" r="4.5"/>').format(across(one.difference), y - 5),
            Markup('<text x="{}" y="{}">{}</text>').format(_WIDTH - 130, y, one.word),
        ]
    whole = '<div class="wide" tabindex="0"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div>'
    return Markup(whole).format(_WIDTH, height, told, Markup("").join(marks))
