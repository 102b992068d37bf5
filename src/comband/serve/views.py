"""What people are told about an experiment, as plain values for JSON."""

from __future__ import annotations

import math
from typing import Any

from comband.claims import Claim
from comband.estimates import order_guard, place_guard
from comband.results import Dropped, Selection
from comband.serve.learning import Learning

GUARDS = {
    "draws": "items are drawn as often as the propensities say",
    "unanswered": "answers are not lost selectively",
    "change": "rewards come as often late in an epoch as early",
    "places": "places on the page do not matter beyond what was stated",
    "orders": "differences between candidates stay the same over time",
}


ADVICE = {  # what the library says to programs, and what people who use the service can do instead
    place_guard.ADVICE: 'Create another experiment that states how places work: "places": [1, 0.6, …] with a factor '
    'for each place, or "places": "pairs"',
    order_guard.ADVICE: "so create another experiment, which counts rounds from then on",
}


def view_of(learning: Learning, *, clock: int) -> dict[str, Any]:
    """Where an experiment stands, in full; `comband.serve.wire.Status` has the fields."""
    learner, spec = learning.learner, learning.experiment.spec
    names, field = learner.policies.names, set(learner.field)
    status = learner.status()
    comparison = learner.comparison()
    winner = comparison.winner
    leader, value, (low, high) = winner.index, winner.value, winner.interval
    dropped = {one.index: one for one in status.dropped}
    done, certified = learner.done, learner.verdict.certified is not None
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
                "share": _number(learning.shares[one.index]) if not done else 1.0 if one.index == leader else None,
                "dropped_after": None if gone is None else gone.round,
                "dropped_by": None if gone is None else gone.leader,
            }
        )
    return {
        "answer": sentence(names[leader], comparison.claim, status.certified, learner.rounds, done, certified),
        "done": done,
        "is_certified": certified,
        "winner": names[leader] if done else None,
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
            {"name": name, "watches": text, "warning": _advised(getattr(learner.watch, name).warning)}
            for name, text in GUARDS.items()
        ],
        "warnings": _advised(list(status.warnings)),
        "candidates": rows,
        "dropped": [_dropped(one) for one in status.dropped],
        "withdrawn": [name for name in names if name not in field],
        "result": _advised(_result(learner.result(), done)) if learner.rounds else None,
        "time": clock,
    }


def _result(selection: Selection, final: bool) -> dict[str, Any]:
    best = selection.best
    return {
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
        "warnings": list(selection.warnings),
    }


def point_of(view: dict[str, Any]) -> dict[str, Any]:
    """What a history keeps of a view."""
    names = ("rounds", "survivors", "certified", "forecast_decisions", "leader", "value", "low", "high", "reward_lost")
    return {name: view[name] for name in (*names, "reward", "epoch", "done", "time")}


def sentence(
    leader: str, claim: Claim | None, certified: float | None, rounds: int, done: bool, is_certified: bool
) -> str:
    """The answer as a person would say it; `certified` is None where nothing is promised that says anything."""
    if rounds == 0:
        return "No decision has been settled yet."
    if claim is not None and not claim.holds:
        return f"{leader} leads after {rounds:,} decisions; {claim.text}."
    if claim is None or claim.delta is None or certified is None:
        so_far = "nothing is certified yet"
    else:
        so_far = (
            f"with probability {1 - claim.delta:g} no candidate is better by more than {certified:.3g} reward per "
            "decision"
        )
        if is_certified:
            return f"{leader} is the winner: {so_far} (after {rounds:,} decisions)."
    end = "The budget is spent: " if done else ""
    return f"{end}{leader} leads after {rounds:,} decisions; {so_far}."


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


def _number(value: Any) -> float | None:
    """A finite number, or nothing."""
    return None if value is None or not math.isfinite(value) else float(value)
