"""The pages: what was asked, the answer in a sentence, pictures that show why, and all numbers in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation import PAIRED, EvaluatedCandidate, Evaluation, LogEvaluation, Segmented
from comband.evaluation.ips import APPROXIMATE
from comband.page.problem import Problem
from comband.page.text import visible
from comband.show.charts import MISSING, STATIC, chart, plotly_script, scripts
from comband.statistics.results import (
    ComparedCandidate,
    Comparison,
    Dropped,
    Guarded,
    Lift,
    Selection,
    beside_table,
)
from comband.statistics.verdicts import DECIDED, LEADING, Verdict

_PLOTTED = 40  # rows of a chart, as in charts.js
_HOW_TO_READ = (
    "A dot is the estimated difference, the end of its line the most that the candidate can be better if it is the "
    "best of all; the dashed line is ε, which {} can pass."
)
_ROLES = {DECIDED: "the winner", LEADING: "the leader"}


def _text(text: object) -> str:
    """Text from outside as the page shows it: nothing in it is HTML, and nothing in it is unseen."""
    return escape(visible(text))


def page(title: str, body: Sequence[str], data: dict[str, Any]) -> str:
    """A complete page, whose charts draw `data`."""
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    drawn = [] if plotly_script() else [f'<p class="soft">{_text(MISSING)}.</p>']
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>\n<body>\n'
        + "\n".join([*body, *drawn])
        + f"\n{scripts(data)}</body></html>\n"
    )


def evaluation_page(answer: LogEvaluation | Evaluation, *, source: str) -> str:
    """The report of `comband evaluate`, or of what `evaluate` answered; `source` is what the log is called.

    Parameters
    ----------
    source:
        What the log is called.
    answer:
        What to report.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> from comband.show import evaluation_page
    >>> answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125)
    >>> page = evaluation_page(answer, source="last week")
    >>> "<h1>What last week says about 4 candidates</h1>" in page
    True
    """
    if isinstance(answer, Evaluation):
        answer = LogEvaluation(answer, "rounds", "propensities are those that the rounds have", {}, ())
    result, verdict = answer.evaluation, answer.verdict
    body = [
        f"<h1>What {_text(source)} says about {len(result.candidates):,} candidates</h1>",
        *_said(verdict),
        f'<p class="soft">{result.rounds:,} rounds, {result.rewarded_rounds:,} with a reward.</p>',
        *_notes(answer.notes),
    ]
    if answer.skipped:
        body.append('<p class="alarm">Faulty rows were skipped:</p><ul>')
        body += [f"<li>{_text(line)}</li>" for line in answer.skipped_examples]
        body.append("</ul>")
    comparison, comparable = result.comparison(), answer.trusted and result.has_best
    body += _comparison(comparison, verdict, comparable=comparable, safe=bool(result.metrics))
    body += ["<h2>All candidates</h2>", _evaluated_table(result.candidates, verdict, comparable=comparable)]
    body += _beside_table([one.name for one in result.candidates], result.lifts, result.guarded)
    data = {"comparison": _drawn(comparison, verdict)}
    if result.segmented is not None:
        body += _segments(result, result.segmented)
        forest = result.segmented.forest(result)
        data |= {} if forest is None else {"forest": forest}
    if result.usual is not None:
        body += ["<h2>The usual estimates</h2>", _usual_table(result), f'<p class="soft">They are {APPROXIMATE}.</p>']
    how = [
        *([result.promise.rstrip("."), PAIRED.rstrip(".")] if comparable else []),
        *(claim.text for claim in result.claims[1:]),
        f"{result.guarantee}; propensities are at least {result.min_propensity:.4g}",
        *answer.explained,
    ]
    body += _explained(how)
    return page(f"comband: {source}", body, data)


def _said(verdict: Verdict) -> list[str]:
    """The verdict: its kind and name, then its sentences."""
    kind = verdict.kind.replace(" ", "-")
    name = f" <strong>{_text(verdict.name)}</strong>" if verdict.name else ""
    lead, *others = verdict.sentences or ("",)
    return [
        f'<p class="lead"><span class="verdict {kind}">{verdict.kind.capitalize()}</span>{name}</p>',
        f"<p>{_text(lead)}</p>",
        *(f"<p>{_text(sentence)}</p>" for sentence in others),
    ]


def _notes(notes: Sequence[str]) -> list[str]:
    return [f'<p class="soft">Note: {_text(note)}.</p>' for note in notes]


def _explained(texts: Sequence[str]) -> list[str]:
    """How the numbers were found, folded away."""
    lines = "".join(f"<p>{_text(text[:1].upper() + text[1:])}.</p>" for text in texts)
    return [f"<details><summary>How this was found, and what it rests on</summary>{lines}</details>"] if texts else []


def _drawn(comparison: Comparison, verdict: Verdict) -> dict[str, Any]:
    """What charts draw: the first candidate is marked only if it is the winner."""
    data = comparison.as_dict()
    data["candidates"][0]["named"] = verdict.decided
    data["role"] = _ROLES.get(verdict.kind, "the highest estimate")
    return data


def _comparison(comparison: Comparison, verdict: Verdict, *, comparable: bool = True, safe: bool = False) -> list[str]:
    """Differences first: they are what was asked. Where nothing can be compared there are none."""
    n, role = len(comparison.candidates), _ROLES.get(verdict.kind, "the highest estimate")
    more = [f'<p class="soft">The first {_PLOTTED} of {n:,}; the table has all.</p>'] if n > _PLOTTED else []
    grey = (
        " Grey: dropped on the way, as not the best."
        if any(one.dropped is not None for one in comparison.candidates)
        else ""
    )
    differences = [
        f"<h2>Differences to {role}</h2>",
        chart("differences", of="comparison"),
        f'<p class="soft">{_HOW_TO_READ.format("no safe one" if safe else "none")}{grey}</p>',
    ]
    return [
        *(differences if comparable else []),
        *more,
        "<h2>Values with intervals</h2>",
        chart("values", of="comparison"),
    ]


@dataclass(frozen=True, slots=True)
class Needed:
    """How many rounds a method took to be certain to within `epsilon` (None: nothing is certain); not finished: it was
    given no more.

    >>> from comband.show import Needed
    >>> Needed("A/B/n test", rounds=40_000, finished=False, epsilon=None).method
    'A/B/n test'
    """

    method: str
    rounds: int
    finished: bool
    epsilon: float | None


def selection_page(
    result: Selection,
    history: Mapping[str, NDArray[Any]],
    *,
    problem: Problem,
    n_candidates: int,
    comparison: Comparison | None = None,
    dropped: Sequence[Dropped] = (),
    needed: Sequence[Needed] = (),
    stopped: bool = False,
    confirmation: str = "",
) -> str:
    """The report of a selection: the winner, how the field thinned out, and what others needed.

    Parameters
    ----------
    result, history:
        What a run came to, as `Run` has it.
    problem, n_candidates:
        What was asked.
    comparison:
        The winner beside the others; by default what the result knows of them.
    dropped, needed:
        Candidates that cannot be the best, in order; rounds that methods needed, this one first.
    stopped:
        Whether the run was stopped before its end.
    confirmation:
        What a `Confirmation` of the winner came to, in words; empty where there was none.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.show import selection_page
    >>> outcome = cb.run(cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3), shop, batch_size=500)
    >>> page = selection_page(outcome.result, outcome.history, problem=problem, n_candidates=4)
    >>> page.lower().startswith("<!doctype html>")
    True
    """
    comparison, verdict = result.comparison() if comparison is None else comparison, result.verdict
    body = [
        f"<h1>{n_candidates:,} candidates compared</h1>",
        *(['<p class="alarm">Stopped early: this is what was known by then.</p>'] if stopped else []),
        *_said(verdict),
        f'<p class="soft">{result.rounds:,} rounds; {problem.list_size} of {problem.n_actions:,} items are shown at '
        "once.</p>",
        *_confirmation(confirmation),
        *_notes(result.notes),
        *_comparison(comparison, verdict, safe=bool(result.guarded)),
    ]
    data: dict[str, Any] = {"comparison": _drawn(comparison, verdict)}
    if len(history["rounds"]) and (comparison.target is not None or _moved(history, n_candidates)):
        columns = {name: history[name] for name in ("rounds", "survivors", "certified", "forecast") if name in history}
        before = {"rounds": 0, "survivors": n_candidates, "certified": np.nan, "forecast": np.inf}
        data["history"] = {
            **{name: np.concatenate([[before[name]], column]) for name, column in columns.items()},
            "target": comparison.target,
        }
        body += [
            "<h2>Candidates that may still be the best</h2>",
            chart("field", of="history"),
            "<h2>What was certified at each moment</h2>",
            chart("certificate", of="history"),
        ]
        if np.isfinite(columns["forecast"]).any():
            body += ["<h2>When the end was expected</h2>", chart("forecast", of="history")]
    if len(needed) > 1:
        data["needed"] = [asdict(one) for one in needed]
        body += ["<h2>Rounds to the same certainty</h2>", chart("needed", of="needed"), _needed_table(needed)]
    body += ["<h2>All numbers</h2>", _compared_table(comparison.candidates, verdict)]
    named = dict.fromkeys([result.name, *(row.candidate for row in result.guarded)])
    body += _beside_table(list(named), [] if result.lift is None else [result.lift], result.guarded)
    if dropped:
        body += [_dropped_table(dropped)]
    if result.declared:
        body += [_declared_table(result.declared)]
    body += _explained([result.guarantee, PAIRED.rstrip("."), *result.explained])
    return page(f"comband: {result.name}", body, data)


def _confirmation(said: str) -> list[str]:
    """What whole lists said of the winner and production."""
    lines = "<br>".join(_text(line.strip()) for line in said.splitlines())
    return ["<h2>Confirmed in whole lists?</h2>", f"<p>{lines}.</p>"] if said else []


def _moved(history: Mapping[str, NDArray[Any]], n_candidates: int) -> bool:
    """Whether there was anything to see: learners of a fixed number of rounds know nothing before the end."""
    return bool((history["survivors"] != n_candidates).any() or np.isfinite(history["certified"][:-1]).any())


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, best: bool = False, folds: bool = False) -> str:
    """Cells are HTML. Each has its column's name too, for a window that is too narrow for columns."""
    head = "".join(f"<th>{name}</th>" for name in columns)
    lines = "".join(
        f"<tr{' class=best' if best and i == 0 else ''}>"
        + "".join(f'<td data-label="{name}">{cell}</td>' for name, cell in zip(columns, row, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    kind = ' class="folds"' if folds else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _needed_table(needed: Sequence[Needed]) -> str:
    rows = [
        (
            _text(one.method),
            f"{'' if one.finished else 'more than '}{one.rounds:,}",
            "nothing" if one.epsilon is None else f"{one.epsilon:.3g}",
        )
        for one in needed
    ]
    return _table(("method", "rounds", "certified by then"), rows)


def _compared_table(candidates: Sequence[ComparedCandidate], verdict: Verdict) -> str:
    rows = [
        (
            _text(one.name),
            f"{one.value:.4g}",
            f"{one.interval[0]:.4g}",
            f"{one.interval[1]:.4g}",
            "" if i == 0 else f"{one.difference:.4g}",
            "" if i == 0 else f"{one.bound:.4g}",
            "" if one.dropped is None else f"{one.dropped:,}",
        )
        for i, one in enumerate(candidates)
    ]
    columns = ("candidate", "value", "at least", "at most", "difference", "better by at most", "dropped after rounds")
    return (
        f"<details><summary>{len(candidates):,} candidates with their values and differences</summary>"
        f"{_table(columns, rows, best=verdict.decided)}</details>"
    )


def _dropped_table(dropped: Sequence[Dropped]) -> str:
    rows = [
        (
            _text(one.name),
            f"{one.round:,}",
            _text(one.leader),
            f"{exp(min(one.log_evidence, 50)):,.0f} to 1",
        )
        for one in dropped
    ]
    columns = ("candidate", "dropped after rounds", "does not beat", "evidence against its being best")
    return (
        f"<details><summary>{len(dropped):,} candidates were dropped on the way, in this order</summary>"
        f"{_table(columns, rows)}</details>"
    )


def _declared_table(declared: Sequence[tuple[str, str, str]]) -> str:
    rows = [tuple(_text(cell) for cell in row) for row in declared]
    return f"<details><summary>What was declared</summary>{_table(('setting', 'value', 'what it is'), rows)}</details>"


def _evaluated_table(candidates: Sequence[EvaluatedCandidate], verdict: Verdict, *, comparable: bool) -> str:
    """Where nothing can be compared there is nothing to be better than."""
    columns = {
        "candidate": [_text(one.name) for one in candidates],
        "value": [f"{one.value:.5g}" for one in candidates],
        "at least": [f"{one.interval[0]:.5g}" for one in candidates],
        "at most": [f"{one.interval[1]:.5g}" for one in candidates],
        "better than the first by at most": ["", *(f"{one.gap_bound:.5g}" for one in candidates[1:])],
        "standard error (approximate)": [f"{one.standard_error:.2g}" for one in candidates],
        "effective rewards": [
            "cannot be judged" if one.unjudged else f"{one.effective_rewards:,.0f}" for one in candidates
        ],
    }
    if not comparable:
        del columns["better than the first by at most"]
    return _table(tuple(columns), list(zip(*columns.values(), strict=True)), best=verdict.decided)


def _beside_table(names: Sequence[str], lifts: Sequence[Lift], guarded: Sequence[Guarded]) -> list[str]:
    """Candidates × metrics, where one is in production."""
    if not lifts and not guarded:
        return []
    columns, rows = beside_table(names, lifts, guarded)
    margins = dict.fromkeys(f"{row.metric}: {row.margin}" for row in guarded)
    what = f" Safe: certified to keep every margin ({_text('; '.join(margins))})." if margins else ""
    return [
        "<h2>Beside production</h2>",
        f'<p class="soft">More per round than with production, with intervals or (±) standard errors.{what}</p>',
        _table([_text(name) for name in columns], [[_text(cell) for cell in row] for row in rows], folds=True),
    ]


def _segments(result: Evaluation, found: Segmented) -> list[str]:
    """Who is named in each segment and in all, and one lift by segment."""
    columns, rows = found.table(result)
    body = ["<h2>By segment</h2>"]
    body += [f"<p>{_text(one.text[:1].upper() + one.text[1:])}.</p>" for one in found.claims(result)]
    body.append(_table([_text(name) for name in columns], [[_text(cell) for cell in row] for row in rows], folds=True))
    compared = found.compared(result)
    if compared is not None:
        body += [f"<h2>Lift of {_text(compared)} by segment</h2>", chart("forest", of="forest")]
    return body


def _usual_table(result: Evaluation) -> str:
    usual = result.usual
    assert usual is not None
    columns = {"candidate": [_text(one.name) for one in result.candidates]}
    order = [one.index for one in result.candidates]
    for method, estimates in usual.estimates.items():
        errors = usual.standard_errors[method]
        columns[f"{method} ± standard error"] = [f"{estimates[i]:.5g} ± {errors[i]:.2g}" for i in order]
    columns["effective sample size"] = [f"{usual.effective_sample_size[i]:,.0f}" for i in order]
    return _table(tuple(columns), list(zip(*columns.values(), strict=True)))
