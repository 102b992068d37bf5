"""One HTML page with every claim, its verdict, the rule and the figure; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from comband.page.storage import write_text
from comband.paper.checks import Answer, Bound, Verdict, decide
from comband.paper.claim import Claim, Plan
from comband.paper.statistics import LEVEL, Estimate
from comband.show.charts import STATIC

_MARK = {"supported": "✓", "consistent": "≈", "not supported": "✗", "undecided": "?"}

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title>
<style>
{style}
section {{ border-top: 1px solid var(--line); margin-top: 2.2rem; padding-top: 1.4rem; }}
section h2 {{ margin: 0; font-size: 1.3rem; line-height: 1.3; }}
a {{ color: var(--mark); }}
.badge {{ display: inline-block; padding: .08rem .6rem; border-radius: 1rem; font-weight: 600; font-size: .9rem;
          white-space: nowrap; border: 1.5px solid; color: var(--soft); }}
.supported {{ color: var(--good); }}
.not-supported {{ color: var(--alarm); }}
.consistent {{ color: var(--mark); }}
th, td {{ text-align: left; vertical-align: top; }}
td.number {{ white-space: nowrap; }}
td:first-child {{ min-width: 12rem; }}
figure {{ margin: 1rem 0 0; break-inside: avoid; }}
figure div {{ overflow-x: auto; }}
figure img {{ width: 100%; min-width: 40rem; height: auto; background: #fff; border-radius: .4rem; padding: .5rem;
              box-sizing: border-box; }}
@media screen and (prefers-color-scheme: dark) {{ figure img {{ filter: invert(.92) hue-rotate(180deg); }} }}
@media print {{ figure img {{ min-width: 0; }} }}
</style>
</head>
<body>
<h1>The paper, reproduced</h1>
<p class="lead">Every claim of Erez &amp; Koren, <em>From Contextual Combinatorial Semi-Bandits to Bandit List
Classification: Improved Sample Complexity with Sparse Rewards</em>, as an experiment with a verdict.</p>
<p>The setting: for each visitor (context) a system shows a list of <i>m</i> out of <i>K</i> items, and sees the
rewards (clicks) of the shown items only. At most <i>s</i> of reward is to be had in one round, shown or not. A policy
decides which list to show; among |Π| candidate policies the best is to be found, up to <i>ε</i> of reward per
round.</p>
<p>How a verdict comes about: each claim has one or more checks, written down before the run. A check turns the runs
into an estimate with a {level:.0%} interval, and accepts a range. It is <b>supported</b> if the whole interval is
accepted, <b>not supported</b> if none of it is, and <b>undecided</b> otherwise. A bound that is so wide that
anything would pass proves nothing by being kept: such a check is <b>consistent</b> with the claim and no more, unless
something that must not pass (a contrast, measured in the same runs) does fail it. A claim is as good as its worst
check.
Slopes are those of straight lines through the logarithms: slope 2 means that doubling one quantity makes the other
four times as large.</p>
<div class="wide"><table>
<tr><th>claim</th><th>verdict</th></tr>
{summary}
</table></div>
<p class="soft">{how}</p>
{sections}
</body>
</html>
"""

_SECTION = """<section id="{name}">
<h2>{title} {badge}</h2>
<p class="soft">{source}</p>
<p>{statement}</p>
<p><b>What was run.</b> {method}</p>
<div class="wide"><table>
<tr><th>check</th><th>accepted</th><th>measured</th><th>verdict</th></tr>
{rows}
</table></div>
{remarks}<figure><div><img alt="{alt}" src="data:image/svg+xml;base64,{image}"></div>
<figcaption class="soft">Lines are means over seeds, bands
reach from the lowest to the highest seed. {runs}</figcaption></figure>
</section>
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with its verdict, the answers behind it, and the figure's file."""

    claim: Claim
    plan: Plan
    verdict: Verdict
    answers: Sequence[Answer]
    figure: Path


def write_report(findings: Sequence[Finding], path: Path, *, how: str) -> None:
    """Write the page; `how` says how the run was made."""
    summary = "\n".join(
        f'<tr><td><a href="#{f.claim.name}">{escape(f.claim.title)}</a></td><td>{_badge(f.verdict)}</td></tr>'
        for f in findings
    )
    page = _PAGE.format(
        style=(STATIC / "style.css").read_text(encoding="utf-8"),
        level=LEVEL,
        summary=summary,
        how=escape(how),
        sections="\n".join(_section(finding) for finding in findings),
    )
    write_text(path, page)


def _section(finding: Finding) -> str:
    claim, plan = finding.claim, finding.plan
    rows = "\n".join(
        f'<tr><td>{escape(a.check.text)}</td><td class="number">{_range(*a.check.accepted)}</td>'
        f'<td class="number">{_number(a.estimate.value)}{_interval(a.estimate)}</td><td>{_badge(a.verdict)}</td></tr>'
        f"{_contrast(a)}"
        for a in finding.answers
    )
    return _SECTION.format(
        name=claim.name,
        title=escape(claim.title),
        badge=_badge(finding.verdict),
        source=escape(claim.source),
        statement=escape(claim.statement),
        method=escape(claim.method),
        rows=rows,
        remarks=f"<p><b>How to read it.</b> {escape(claim.remarks)}</p>\n" if claim.remarks else "",
        alt=escape(f"Figure: {claim.title}. {claim.method}", quote=True),
        image=base64.b64encode(finding.figure.read_bytes()).decode(),
        runs=f"{len(plan.settings)} settings with {plan.n_seeds} seeds each.",
    )


def _badge(verdict: Verdict) -> str:
    return f'<span class="badge {verdict.replace(" ", "-")}">{_MARK[verdict]} {verdict}</span>'


def _contrast(answer: Answer) -> str:
    if not isinstance(answer.check, Bound) or answer.check.contrast is None or answer.contrast is None:
        return ""
    fails = decide(answer.contrast, answer.check.accepted) == "not supported"
    return (
        f'\n<tr class="soft"><td>for contrast: {escape(answer.check.contrast.text)}</td><td></td><td class="number">'
        f"{_number(answer.contrast.value)}{_interval(answer.contrast)}</td>"
        f"<td>{'fails, as it must' if fails else 'passes as well'}</td></tr>"
    )


def _interval(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    if math.isnan(low) or math.isnan(high):
        return " (no interval)"
    return "" if low == high else f" [{_number(low)}, {_number(high)}]"


def _range(low: float, high: float) -> str:
    if math.isinf(low):
        return f"≤ {_number(high)}"
    if math.isinf(high):
        return f"≥ {_number(low)}"
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
