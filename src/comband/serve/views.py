"""What people are told about an experiment, as plain values for JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from comband.results import Dropped, Selection
from comband.serve.learning import Learning

GUARDS = {
    "draws": "items are drawn as often as the propensities say",
    "unanswered": "answers are not lost selectively",
    "change": "rewards come as often late in an epoch as early",
    "places": "places on the page do not matter beyond what was stated",
}


def view_of(learning: Learning, *, clock: int) -> dict[str, Any]:
    """Where an experiment stands, in full; see `docs/howto_serve.md` for the fields."""
    learner, spec = learning.learner, learning.experiment.spec
    status = learner.status()
    claim = learner.verdict.claim()
    values = learner.evidence.values.means
    low, high = learner.intervals()
    scores = learner.evidence.scores(learner.verdict.alive)
    dropped = {one.index: one for one in status.dropped}
    leader = claim.leader
    done, certified = learner.done, learner.verdict.certified is not None
    rows = []
    for i, name in enumerate(spec.candidates):
        gone = dropped.get(i)
        gap = float(scores[leader] - scores[i]) if gone is None else math.nan
        rows.append(
            {
                "index": i,
                "name": name,
                "state": "dropped" if gone is not None else "leader" if i == leader else "candidate",
                "value": _number(float(np.clip(values[i], low[i], high[i]))),
                "low": _number(low[i]),
                "high": _number(high[i]),
                "gap": _number(gap),
                "share": _number(learning.shares[i]),
                "dropped_after": None if gone is None else gone.round,
                "dropped_by": None if gone is None else gone.leader,
            }
        )
    return {
        "answer": sentence(spec.candidates[leader], status.certified, learner.rounds, done, certified, spec.delta),
        "done": done,
        "is_certified": certified,
        "winner": spec.candidates[leader] if done else None,
        "leader": status.leader,
        "certified": _number(status.certified),
        "epsilon": spec.epsilon,
        "delta": spec.delta,
        "survivors": status.survivors,
        "n_candidates": len(spec.candidates),
        "forecast_decisions": _number(status.forecast),
        "rounds": learner.rounds,
        "reward": float(learner.evidence.reward),
        "reward_lost": _number(status.reward_lost),
        "value": _number(float(np.clip(values[leader], low[leader], high[leader]))),
        "low": _number(low[leader]),
        "high": _number(high[leader]),
        "epoch": len(learner.epochs) - 1,
        "guards": [
            {"name": name, "watches": text, "warning": getattr(learner.watch, name).warning}
            for name, text in GUARDS.items()
        ],
        "warnings": list(status.warnings),
        "candidates": rows,
        "dropped": [_dropped(one) for one in status.dropped],
        "result": _result(learner.result(), done) if learner.rounds else None,
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
        "text": str(selection),
        "runners_up": [one.name for one in selection.runners_up],
        "notes": list(selection.notes),
        "warnings": list(selection.warnings),
    }


def point_of(view: dict[str, Any]) -> dict[str, Any]:
    """What a history keeps of a view."""
    names = ("rounds", "survivors", "certified", "forecast_decisions", "leader", "value", "low", "high", "reward_lost")
    return {name: view[name] for name in (*names, "reward", "epoch", "done", "time")}


def sentence(leader: str, certified: float | None, rounds: int, done: bool, is_certified: bool, delta: float) -> str:
    """The answer as a person would say it."""
    if rounds == 0:
        return "No decision has been settled yet."
    if is_certified and certified is not None:
        return (
            f"{leader} is the winner: with probability {1 - delta:g} no candidate is better by more than "
            f"{certified:.3g} reward per decision (after {rounds:,} decisions)."
        )
    so_far = (
        "nothing is certified yet"
        if certified is None
        else f"no candidate is better by more than {certified:.3g} reward per decision, with probability {1 - delta:g}"
    )
    end = "The budget is spent: " if done else ""
    return f"{end}{leader} leads after {rounds:,} decisions; {so_far}."


def _dropped(one: Dropped) -> dict[str, Any]:
    return {"name": one.name, "after": one.round, "leader": one.leader}


def _number(value: Any) -> float | None:
    """A finite number, or nothing."""
    return None if value is None or not math.isfinite(value) else float(value)
