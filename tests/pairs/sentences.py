"""Which sentences a run may print, computed from its options and its twin alone.

A premise of a printed claim that is not listed here, or a note that matches no entry, is a fault: whoever adds a
sentence says here when it may be printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import comband as cb
from tests.pairs.following import GuardedPairsTwin

if TYPE_CHECKING:
    from tests.pairs.runs import Run

# ---- premises: whether each holds in a run, as far as can be seen from outside ---------------------------------------


def _whole_periods(run: Run) -> bool:
    twin, period = run.twin, run.learner.spec.period
    assert twin is not None
    return all(number % period == 0 for number in (twin.front, *twin.first_ids))


def _levels(run: Run) -> bool:
    """What each stretch spends, by the evidence that it asks for: together no more than δ, in each field of the plan;
    and something is left.
    """
    return sum(run.levels) <= run.learner.spec.delta * (1 + 1e-9) and run.learner.spec.delta * run.fields < 1


# Claims that have not been proved with an argument.
UNPROVED = {"loss": "recent", "cover": "metrics"}
UNPROVED_FITTED = ("loss",)  # nor with factors that are fitted

PREMISES: dict[str, Callable[[Run], bool]] = {
    "order": lambda run: True,  # the twin counts in the order of decisions, and agrees
    "period": _whole_periods,
    "field": lambda run: run.plan.changes != "chosen" or run.learner.spec.open_field or not (run.came or run.withdrawn),
    "delta": _levels,
    "factors": lambda run: not run.learner.epochs.current.fitting,
    "guards": lambda run: not run.learner.watch.warnings,
    "places": lambda run: run.case.reading in ("items", "total", "natural"),
    "present": lambda run: not any(i < len(run.world.policies) for i in run.withdrawn),
    "stretches": lambda run: run.stretches == 1,
    "options": lambda run: True,
    "safety": lambda run: isinstance(run.twin, GuardedPairsTwin) and run.twin.is_safe(run.learner.result().index),
}


# ---- notes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """A note: how it begins or what it holds, whether it may be printed, and whether it must be."""

    pattern: str
    may: Callable[[Run], bool]
    must: bool = False  # whenever it may


def _says(number: Callable[[Run], int]) -> Callable[[Run], bool]:
    return lambda run: number(run) > 0


def _first_awaited(run: Run) -> int:
    """The first decision that is neither told nor overdue."""
    twin = run.twin
    assert twin is not None
    ids = range(twin.front, len(twin.asked))
    return next((i for i in ids if i not in twin.told and not twin.overdue(i)), len(twin.asked))


def _behind(run: Run) -> int:
    """Answers that wait for an older one."""
    assert run.twin is not None
    return sum(i > _first_awaited(run) for i in run.twin.answers)


def _in_period(run: Run) -> int:
    """Answers that wait for the end of their period alone."""
    assert run.twin is not None
    return sum(run.twin.front <= i < _first_awaited(run) for i in run.twin.answers)


def _twin(name: str) -> Callable[[Run], int]:
    return lambda run: int(getattr(run.twin, name))


def _certified(run: Run) -> bool:
    return run.twin is not None and run.twin.certified is not None


def _loss_allowed(run: Run) -> float | None:
    return run.arguments().get("max_loss")


def _guarded(run: Run) -> bool:
    return bool(run.learner.spec.metrics) and not PREMISES["safety"](run)


NOTES = (
    Note(r"^most is certified of", lambda run: not _certified(run)),
    Note(
        r"^not certified to [\d.]+ yet; this is the best epsilon known after",
        lambda run: not _certified(run) and run.learner.spec.epsilon is not None,
        must=True,
    ),
    Note(
        r"^this is the best epsilon known after",
        lambda run: not _certified(run) and run.learner.spec.epsilon is None,
        must=True,
    ),
    Note(r"proven to get less than production's list would bring", lambda run: "max_harm" in run.arguments()),
    Note(r"may be lost beside the candidate in production \(max_loss\) is spent", lambda run: bool(_loss_allowed(run))),
    Note(r"answers do not count yet, because decision", _says(_behind), must=True),
    Note(r"answers count when their period of 7 decisions is over", _says(_in_period), must=True),
    Note(r"decisions were not answered in time and count as without reward", _says(_twin("missing")), must=True),
    Note(r"answers? came too late to count", _says(_twin("late")), must=True),
    Note(r"^only the [\d,]+ rounds from decision", lambda run: run.stretches > 1, must=True),
    Note(r"^the field has changed", lambda run: bool(run.came or run.withdrawn), must=True),
    Note(r"^within ε \+ ρη = .* of every blend", lambda run: run.plan.contexts == "cover"),
    Note(r"^if .* is safe, it is within [\d.e-]+ of the best safe candidate", lambda run: _guarded(run)),
    Note(r"^until then show .*, which is safe", lambda run: _guarded(run)),
    Note(r"^no promise about every blend", lambda run: run.plan.contexts == "cover"),
)


def numbers_said(run: Run, note: str) -> bool:
    """Whether a number in a note is the one that the twin has counted."""
    expected = {
        r"([\d,]+) answers do not count yet": _behind,
        r"because decision ([\d,]+) before them": _first_awaited,
        r"([\d,]+) answers count when their period": _in_period,
        r"([\d,]+) decisions were not answered": _twin("missing"),
        r"([\d,]+) answers came too late": _twin("late"),
        r"known after ([\d,]+) rounds": _twin("front"),
    }
    for pattern, count in expected.items():
        found = re.search(pattern, note)
        if found is not None and int(found[1].replace(",", "")) != count(run):
            return False
    return "set a patience" not in note or run.learner.spec.patience is None


# ---- all of it -------------------------------------------------------------------------------------------------------


def not_allowed(run: Run) -> list[str]:
    """What the learner prints and may not, or does not and should."""
    learner, found = run.learner, []
    if learner.rounds == 0:
        return []
    result, status = learner.result(), learner.status()
    kinds = {claim.kind for claim in result.claims}
    if ("cover" in kinds) != (run.plan.contexts == "cover"):
        found.append(f"claims about a cover: {sorted(kinds)}")
    for claim in result.claims:
        for premise in claim.premises:
            if premise.name not in PREMISES:
                found.append(f"the premise {premise.name!r} of the {claim.kind} is not known to the suite")
                continue
            holds = PREMISES[premise.name](run)
            if premise.name == "options":
                holds = UNPROVED.get(claim.kind) not in run.arguments()
                holds &= run.case.reading != "fit" or claim.kind not in UNPROVED_FITTED
            if holds != (not premise.failure):
                found.append(
                    f"{claim.kind}: the premise {premise.name!r} does {_hold(holds)}, and is said to do otherwise"
                )
        printed = claim.text in str(result)
        if claim.kind == "certificate" and (not printed or claim.delta != min(run.fields * learner.spec.delta, 1)):
            found.append(f"the certificate is printed otherwise: {claim.text!r}, δ = {claim.delta}")
    promised = result.claim is not None and result.claim.holds
    if (status.certified is not None) != (promised and learner.verdict.claim().epsilon < learner.problem.max_reward):
        found.append(f"the status says {status.certified}, and the promise {'holds' if promised else 'does not hold'}")
    said = bool(re.search("certified: (it is safe, and no safe|no) candidate is better by more than", str(status)))
    if said != (status.certified is not None):
        found.append("the status does not print what it knows")
    for note in result.notes:
        matching = [one for one in NOTES if re.search(one.pattern, note)]
        if len(matching) != 1 or not matching[0].may(run):
            found.append(f"a note that nothing allows: {note!r}")
        elif not numbers_said(run, note):
            found.append(f"a note with a wrong number or advice: {note!r}")
    for one in NOTES:
        if one.must and one.may(run) and not any(re.search(one.pattern, note) for note in result.notes):
            found.append(f"a note is missing: {one.pattern!r}")
    return found


def _hold(holds: bool) -> str:
    return "hold" if holds else "not hold"


def level(learner: cb.certify.CertifyingLearner) -> float:
    """What a stretch spends of δ: by the evidence against a candidate that was there from the start, to which an open
    field adds as much for all that may come and go.
    """
    enough = float(learner.verdict.enough(np.array([learner.epochs.current.leader]))[0])
    return float(np.exp(-enough)) * (2 if learner.spec.open_field else 1)
