"""Reports as one HTML page each, with plots as inline SVG: nothing to load, nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import exp, floor, log10

import numpy as np

from comband.evaluation import PAIRED, EvaluatedCandidate, Evaluation, LogEvaluation
from comband.problem import Problem
from comband.results import WARNING, Candidate, Dropped
from comband.running import Run
from comband.text import visible

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #6a7385; --line: #d8dde6; --mark: #1769c2; --page: #fff;
  --good: #1b7f4d; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #39414f; --mark: #6db3ff;
  --page: #14181f; --good: #5cd39a; --alarm: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.lead { font-size: 1.1rem; } .soft { color: var(--soft); } .alarm { color: var(--alarm); font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } tr.best td { color: var(--good); font-weight: 600; }
summary { cursor: pointer; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); }
svg .mark { stroke: var(--mark); fill: var(--mark); }
svg .best { stroke: var(--good); fill: var(--good); }
"""
_PLOTTED = 40
_OPEN_END = 'stroke-dasharray="4" fill-opacity="0.35"'


def _text(text: object) -> str:
    """Text from outside as the page shows it: nothing in it is HTML, and nothing in it is unseen."""
    return escape(visible(text))


def page(title: str, body: Sequence[str]) -> str:
    """A complete page."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def evaluation_page(answer: LogEvaluation, *, source: str) -> str:
    """The report of `comband evaluate`."""
    result = answer.evaluation
    alarm, notes = ([], answer.notes) if answer.trusted else (answer.notes[:1], answer.notes[1:])
    body = [
        f"<h1>What {_text(source)} says about {len(result.candidates):,} candidates</h1>",
        *(f'<p class="alarm">{_text(text)}.</p>' for text in alarm),
        *([_best(result)] if answer.trusted else []),
        f'<p class="soft">{result.rounds:,} rounds, {result.rewarded_rounds:,} with a reward; propensities of at least '
        f"{result.min_propensity:.4g}; {_text(answer.meaning)}. {_text(result.guarantee.capitalize())}.</p>",
    ]
    body += [f'<p class="soft">Note: {_text(note)}.</p>' for note in notes]
    if answer.skipped:
        body.append('<p class="alarm">Faulty rows were skipped:</p><ul>')
        body += [f"<li>{_text(line)}</li>" for line in answer.skipped_examples]
        body.append("</ul>")
    body += ["<h2>Values with simultaneous intervals</h2>", interval_plot(result.candidates[:_PLOTTED])]
    body.append(f'<p class="soft">{PAIRED}</p>')
    if len(result.candidates) > _PLOTTED:
        body.append(f'<p class="soft">The best {_PLOTTED} of {len(result.candidates):,}; the table has all.</p>')
    body += ["<h2>All candidates</h2>", _table(result.candidates)]
    return page(f"comband: {source}", body)


def _best(result: Evaluation) -> str:
    return (
        f'<p class="lead">Best: <strong>{_text(result.best.name)}</strong>, worth {result.best.value:.5g} rewards per '
        f"round. {_text(result.promise)}</p>"
    )


@dataclass(frozen=True, slots=True)
class Needed:
    """How many rounds a method took to be certain to within `epsilon`; not finished: it was given no more."""

    method: str
    rounds: int
    finished: bool
    epsilon: float


def selection_page(
    outcome: Run, dropped: Sequence[Dropped], needed: Sequence[Needed], *, problem: Problem, n_candidates: int
) -> str:
    """The report of a certified selection: the winner, how the field thinned out, and what others needed."""
    result, history = outcome.result, outcome.history
    rounds = [0, *history["rounds"].tolist()]
    left = [n_candidates, *history["survivors"].tolist()]
    certified = [problem.max_reward, *np.nan_to_num(history["certified"], nan=problem.max_reward).tolist()]
    body = [
        f"<h1>The best of {n_candidates:,} candidates</h1>",
        *(f'<p class="alarm">{WARNING}: {_text(text)}.</p>' for text in result.warnings),
        f'<p class="lead">Winner: <strong>{_text(result.name)}</strong>, worth {result.value:.4g} rewards per round. '
        f"With probability {1 - result.delta:g} no candidate is better by more than "
        f"<strong>{result.epsilon:.3g}</strong>, after {result.rounds:,} rounds.</p>",
        f'<p class="soft">{problem.list_size} of {problem.n_actions:,} items are shown at once. '
        f"{_text(result.guarantee.capitalize())}.</p>",
        *(f'<p class="soft">Note: {_text(note)}.</p>' for note in result.notes),
        "<h2>The first and the next</h2>",
        interval_plot([result.best, *result.runners_up]),
        f'<p class="soft">{PAIRED}</p>',
        "<h2>Candidates that may still be the best</h2>",
        line_plot(rounds, left, label="candidates left"),
        "<h2>What was certified at each moment</h2>",
        line_plot(rounds, certified, label="no candidate is better than the leader by more than (rewards per round)"),
    ]
    if len(needed) > 1:
        body += ["<h2>Rounds to the same certainty</h2>", bar_plot(needed)]
    if dropped:
        body += ["<h2>Dropped candidates</h2>", _dropped_table(dropped)]
    return page(f"comband: {result.name}", body)


def line_plot(x: Sequence[float], y: Sequence[float], *, label: str) -> str:
    """A stepped line over rounds."""
    width, height, left, bottom = 900, 260, 70, 40
    across, along = nice_ticks(max(x) or 1.0), nice_ticks(max(y) or 1.0)

    def place(a: float, b: float) -> str:
        right = left + (width - left - 20) * a / across[-1]
        down = (height - bottom) - (height - bottom - 20) * b / along[-1]
        return f"{right:.1f},{down:.1f}"

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{_text(label)}">']
    for tick in along:
        height_of = place(0, tick).split(",")[1]
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - 20}" y1="{height_of}" y2="{height_of}"/>'
            f'<text class="soft" x="{left - 8}" y="{float(height_of) + 4:.1f}" text-anchor="end">{tick:,g}</text>'
        )
    for tick in across:
        parts.append(
            f'<text class="soft" x="{place(tick, 0).split(",")[0]}" y="{height - bottom + 16}" '
            f'text-anchor="middle">{tick:,g}</text>'
        )
    corners = [place(x[0], y[0])]
    for i in range(1, len(x)):
        corners += [place(x[i], y[i - 1]), place(x[i], y[i])]
    parts.append(f'<polyline class="mark" style="fill:none" stroke-width="2" points="{" ".join(corners)}"/>')
    parts.append(f'<text class="soft" x="{left}" y="10">{_text(label)}</text>')
    parts.append(
        f'<text class="soft" x="{(left + width) / 2:.0f}" y="{height - 6}" text-anchor="middle">rounds</text></svg>'
    )
    return "".join(parts)


def bar_plot(needed: Sequence[Needed]) -> str:
    """A bar for each method's rounds; an open end where it was not finished."""
    row, left, width, top = 34, 220, 900, 8
    longest = max(one.rounds for one in needed)
    parts = [f'<svg viewBox="0 0 {width} {top + row * len(needed)}" role="img" aria-label="Rounds needed">']
    for i, one in enumerate(needed):
        y = top + row * i
        length = (width - left - 130) * one.rounds / longest
        text = f"{one.rounds:,}" if one.finished else f"more than {one.rounds:,}"
        parts.append(
            f'<text x="{left - 8}" y="{y + 18}" text-anchor="end">{_text(one.method)}</text>'
            f'<rect class="{"best" if i == 0 else "mark"}" x="{left}" y="{y + 4}" width="{max(length, 1):.1f}" '
            f'height="20" {"" if one.finished else _OPEN_END}/>'
            f'<text x="{left + length + 8:.1f}" y="{y + 18}">{_text(text)}</text>'
        )
    return "".join(parts) + "</svg>"


def interval_plot(candidates: Sequence[EvaluatedCandidate | Candidate]) -> str:
    """A dot for each value and a line for its interval, best first."""
    row, left, width, top = 20, 220, 900, 12
    height = top + row * len(candidates) + 34
    end = max(candidate.interval[1] for candidate in candidates) or 1.0
    ticks = nice_ticks(end)
    end = max(end, ticks[-1])

    def across(value: float) -> float:
        return left + (width - left - 20) * value / end

    bottom = top + row * len(candidates)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Values with intervals">']
    for tick in ticks:
        x = across(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for i, candidate in enumerate(candidates):
        y = top + row * (i + 0.5)
        kind = "best" if i == 0 else "mark"
        name = visible(candidate.name)
        name = name if len(name) <= 30 else name[:29] + "…"
        low, high = (across(value) for value in candidate.interval)
        parts.append(
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{_text(name)}</text>'
            f'<line class="{kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke-width="2"/>'
            f'<circle class="{kind}" cx="{across(candidate.value):.1f}" cy="{y:.1f}" r="4">'
            f"<title>{_text(str(candidate))}</title></circle>"
        )
    parts.append(
        f'<text class="soft" x="{(left + width) / 2:.0f}" y="{height - 2}" text-anchor="middle">'
        "rewards per round</text></svg>"
    )
    return "".join(parts)


def nice_ticks(end: float, about: int = 6) -> list[float]:
    """Round numbers from 0 to at least `end`.

    >>> nice_ticks(0.23)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    raw = end / about
    scale = 10.0 ** floor(log10(raw))
    step = next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= raw)
    count = 1
    while count * step < end * (1 - 1e-9):
        count += 1
    return [float(f"{i * step:.12g}") for i in range(count + 1)]


def _dropped_table(dropped: Sequence[Dropped]) -> str:
    names = ("candidate", "dropped after rounds", "does not beat", "evidence against its being best")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(
        f"<tr><td>{_text(one.name)}</td><td>{one.round:,}</td><td>{_text(one.leader)}</td>"
        f"<td>{exp(min(one.log_evidence, 50)):,.0f} to 1</td></tr>"
        for one in dropped
    )
    return (
        f"<details><summary>{len(dropped):,} candidates were dropped on the way, in this order</summary>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _table(candidates: Sequence[EvaluatedCandidate]) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in ("candidate", "value", "at least", "at most", "better than best by at most", "effective rewards")
    )
    rows = "".join(
        f"<tr{' class=best' if i == 0 else ''}><td>{_text(c.name)}</td><td>{c.value:.5g}</td>"
        f"<td>{c.interval[0]:.5g}</td><td>{c.interval[1]:.5g}</td><td>{'' if i == 0 else f'{c.gap_bound:.5g}'}</td>"
        f"<td>{'cannot be judged' if c.unjudged else f'{c.effective_rewards:,.0f}'}</td></tr>"
        for i, c in enumerate(candidates)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
