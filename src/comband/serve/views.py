"""What people are told about an experiment, as plain values for JSON."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec

from comband.certify.claims import INTERVALS
from comband.page.declaring import shown
from comband.page.text import rough, visible
from comband.serve.learning import Learning
from comband.serve.wire import AUDITED, SETTINGS, DeclaredSetting, Spec
from comband.statistics import order_guard, place_guard
from comband.statistics.results import Comparison, Dropped, Selection
from comband.statistics.verdicts import CANNOT_TELL, DECIDED, NOT_VALID, Verdict

ADVICE = {  # what the library says to programs, and what people who use the service can do instead
    place_guard.ADVICE: 'Create another experiment that states how places work: "places": [1, 0.6, …] with a factor '
    'for each place, or "places": "pairs"',
    order_guard.ADVICE: "so create another experiment, which counts rounds from then on",
}

NOTHING_YET = Verdict(CANNOT_TELL, "", ("No decision has been settled yet.",), None, None, 0)
_DAY = 86_400_000  # milliseconds
_STALE = 10  # minutes


_OWN = {  # what the service adds to what learners take
    "candidates": "Which candidates there were at first.",
    "window_seconds": "How long a decision waits for its rewards; later ones do not count.",
    "metric_windows": "How many seconds a decision waits for the values of a metric.",
    "fallback": "What counts where a candidate does not answer.",
    "models": "Policies that the service itself asks.",
    "block": "Decisions enter the evidence in blocks of so many.",
    "after_harm": "What follows when visitors are proven to be harmed (max_harm).",
    "digests": "By which the candidates' models are known again.",
    "tickets": "Whether rewards must name decisions by their tickets.",
}


def declared_rows(spec: Spec) -> list[DeclaredSetting]:
    """What was declared, in words."""
    defaults = {
        one.name: one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()
        for one in msgspec.structs.fields(Spec)
    }
    defaults["audited"] = AUDITED
    texts = {name: (one.setting.says, one.setting.unit) for name, one in SETTINGS.items()}
    rows = []
    for name, (text, unit) in {**{name: (text, "") for name, text in _OWN.items()}, **texts}.items():
        value = getattr(spec, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        words = f"{shown(value)} {unit}" if unit and number else shown(value)
        rows.append(DeclaredSetting(name, words, text, value != defaults[name]))
    return rows


def view_of(learning: Learning, *, clock: int) -> dict[str, Any]:
    """Where an experiment stands, in full; `comband.serve.wire.Status` has the fields."""
    learner, spec = learning.learner, learning.experiment.spec
    names, field = learner.policies.names, set(learner.field)
    status = learner.progress()  # the verdict is that of `selection`, with its days
    comparison = learner.comparison()
    winner = comparison.winner
    leader, value, (low, high) = winner.index, winner.value, winner.interval
    dropped = {one.index: one for one in status.dropped}
    done, certified = learner.done, learner.verdict.certified is not None
    selection = _paced(learner.result(), learning, clock) if learner.rounds else None
    harmed = learner.stopped_by_harm
    verdict = NOTHING_YET if selection is None else _spent(selection.verdict, done, harmed=harmed)
    rows = []
    for one in sorted(comparison.candidates, key=lambda one: one.index):
        gone = dropped.get(one.index) if one.dropped is not None else None
        rows.append(
            {
                "index": one.index,
                "name": one.name,
                "state": "dropped" if gone is not None else "leader" if one.index == leader else "candidate",
                "value": one.value,
                "low": one.interval[0],
                "high": one.interval[1],
                "difference": one.difference,
                "bound": one.bound,
                "share": _number(learning.shares[one.index])
                if not done
                else 1.0
                if one.index == learning.winner
                else None,
                "dropped_after": None if gone is None else gone.round,
                "dropped_by": None if gone is None else gone.leader,
            }
        )
    return {
        "lift": None if selection is None else _lift(spec.production, comparison, selection),
        "answer": _advised(verdict.as_dict()["text"]),
        "verdict": _advised(verdict.as_dict()),
        "done": done,
        "is_certified": certified,
        "winner": verdict.name if verdict.decided else None,
        "shown": names[learning.winner] if learning.winner is not None else None,
        "stopped_by_harm": learner.stopped_by_harm,
        "leader": status.leader,
        "certified": _number(status.certified),
        "epsilon": spec.epsilon,
        "delta": spec.delta,
        "survivors": status.survivors,
        "n_candidates": len(learner.field),
        "forecast_decisions": _number(status.forecast),
        "rounds": learner.rounds,
        "reward": float(learner.evidence.reward),
        "reward_lost": _number(status.reward_lost),
        "value": value,
        "low": low,
        "high": high,
        "epoch": len(learner.epochs) - 1,
        "guards": [
            {"name": name, "watches": guard.WATCHES, "warning": _advised(guard.warning)}
            for name, guard in learner.watch.own.items()
        ],
        "warnings": _advised(list(status.warnings)),
        "candidates": rows,
        "dropped": [_dropped(one) for one in status.dropped],
        "withdrawn": [name for name in names if name not in field],
        "guarded": [
            {
                "name": one.candidate,
                "metric": one.metric,
                "difference": _number(one.difference),
                "error": _number(one.error),
                "margin": one.margin,
                "standing": one.standing,
            }
            for one in (() if selection is None else selection.guarded)
        ],
        "result": None if selection is None else _advised(_result(selection, verdict, done)),
        "time": clock,
    }


def _lift(production: str | None, comparison: Comparison, selection: Selection) -> dict[str, Any] | None:
    """How much better the leader is than production, where another one is: all values lie in their intervals together,
    so that differences lie between those of their ends, and production exceeds the leader by no more than is certified
    of any candidate, which is part of the same promise.
    """
    leader = comparison.winner
    promise = next((one for one in selection.claims if one.kind == INTERVALS.name and one.holds), None)
    if production in (None, leader.name) or promise is None or promise.delta is None:
        return None
    now = next(one for one in comparison.candidates if one.name == production)
    estimate = leader.value - now.value
    low = max(leader.interval[0] - now.interval[1], -comparison.epsilon)
    high = leader.interval[1] - now.interval[0]
    return {
        "leader": leader.name,
        "production": now.name,
        "estimate": estimate,
        "low": low,
        "high": high,
        "relative": estimate / now.value if now.value > 0 else None,
        "text": f"{visible(leader.name)} brings {_signed(estimate)} rewards per round beside {visible(now.name)}, "
        f"which is in production; with probability {1 - promise.delta:g} the difference lies between "
        f"{_signed(low)} and {_signed(high)}, at all times.",
    }


def next_step(summary: dict[str, Any], production: str | None, idle: int = 0) -> str:
    """What to do now, in a sentence or two, if nothing has come in for `idle` minutes."""
    verdict, state = summary["verdict"] or {"kind": CANNOT_TELL}, summary["state"]
    if summary["learning_stopped"] is not None:
        return "Start a process again, so that learning goes on; its log says more. Decisions go on meanwhile."
    if verdict["kind"] == NOT_VALID:
        return "Do not act on it. Mend what the warning names, and clone the experiment: its evidence begins anew."
    if state == "ended":
        return "Nothing more comes in. Archive it; clone it to compare the same candidates again."
    if verdict["kind"] == DECIDED:
        if summary["winner"] == production:
            return "Keep what is in production, and end the experiment."
        return (
            "Its lists are what requests are answered with from now on. Confirm it beside production in whole lists if "
            "much depends on it, let your pages show its lists themselves, and then end the experiment."
        )
    if state == "paused":
        return "Resume it, or end it: nothing is decided or learnt while it is paused."
    if summary.get("stopped_by_harm"):
        return (
            f"Production's list is shown to all. See what harmed visitors before you go on: {production} stays, and "
            "this experiment is over; end it."
        )
    if summary["done"]:
        return "The budget is spent, and nothing is decided. End it, and clone it with a larger epsilon or budget."
    if not summary["decisions"]:
        return f"Ask for decisions: POST /v1/experiments/{summary['name']}/decisions."
    if not summary["settled"]:
        return "Post rewards, or wait: decisions count when all their items are answered, or their window is over."
    if idle >= _STALE:
        return f"Nothing has come in for {idle:,} minutes: see whether your pages still ask for decisions."
    more = summary["forecast_decisions"]
    return (
        "Let it run." if more is None else f"Let it run: it takes some {rough(more)} decisions more, by a rough guess."
    )


def _paced(selection: Selection, learning: Learning, clock: int) -> Selection:
    """The same with how many rounds a day has brought so far, once an hour has passed."""
    days = (clock - learning.experiment.created) / _DAY
    return replace(selection, rounds_per_day=selection.rounds / days) if days > 1 / 24 else selection


def _spent(verdict: Verdict, done: bool, *, harmed: bool = False) -> Verdict:
    """The verdict of an experiment that has ended undecided says so."""
    if not done or (verdict.decided and not harmed):
        return verdict
    why = "Visitors were proven to be harmed: production's list is shown to all." if harmed else "The budget is spent."
    return replace(verdict, sentences=(*verdict.sentences, why))


def _result(selection: Selection, verdict: Verdict, final: bool) -> dict[str, Any]:
    best = selection.best
    return {
        "verdict": verdict.as_dict(),
        "best": best.name,
        "value": best.value,
        "low": best.interval[0],
        "high": best.interval[1],
        "epsilon": selection.epsilon,
        "delta": selection.delta,
        "rounds": selection.rounds,
        "final": final,
        "guarantee": selection.guarantee,
        "claims": [claim.as_dict() for claim in selection.claims],
        "text": str(selection),
        "runners_up": [one.name for one in selection.runners_up],
        "notes": list(selection.notes),
        "explained": list(selection.explained),
        "warnings": list(selection.warnings),
    }


def point_of(view: dict[str, Any]) -> dict[str, Any]:
    """What a history keeps of a view."""
    names = ("rounds", "survivors", "certified", "forecast_decisions", "leader", "value", "low", "high", "reward_lost")
    return {name: view[name] for name in (*names, "reward", "epoch", "done", "time")}


def _advised(value: Any) -> Any:
    """The same with advice for people who use the service."""
    if isinstance(value, dict):
        return {name: _advised(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_advised(part) for part in value]
    if isinstance(value, str):
        for of_library, of_service in ADVICE.items():
            value = value.replace(of_library, of_service)
    return value


def _dropped(one: Dropped) -> dict[str, Any]:
    return {"name": one.name, "after": one.round, "leader": one.leader}


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def _number(value: Any) -> float | None:
    """A finite number, or nothing."""
    return None if value is None or not math.isfinite(value) else float(value)
