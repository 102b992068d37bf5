"""A log by segments: a winner in each, one for all of them, and how lifts differ, with a joint promise.

A round belongs to the segment of its context, so the rounds of one segment are a log of it. Of S segments each is
evaluated at δ/S by the bounds of `comband.evaluation.judging`: those on V_s(π) − V_s(b) hold for the best π of a
segment and *whichever* b it is compared with, all P − 1 of them at δ/(S(P − 1)). So on one event of probability 1 − δ

- the one named in each segment is within its ε of the best there, and
- the one named for all is within the largest of its ε in every segment, although it was chosen on the same rounds: of
  those that are safe in each, the one whose largest estimated distance to a segment's best is smallest.

A product of the segments' wealths would be no evidence for either: stakes differ, and it tests whether the one is
better *in every segment*.

**A share of wrong ones.** Where it is enough that few of the segments that are declared are wrong, e-BH: let e_s be the
evidence that the one named in s is within ε. R segments are declared where R of them have e_s ≥ S/(Rδ), for the largest
such R; of the declared ones the expected share of wrong ones is δ at most, whatever the segments have in common, since
E e_s ≤ 1 where the claim is wrong. Evidence of that size is what a bound at Rδ/S of at most ε says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.answers import Evaluation, Segment, Segmented
from comband.page.problem import InputError
from comband.page.rounds import Events, Rounds

Codes = NDArray[np.int64]
Judge = Callable[[int, float, int | None], Evaluation]


@dataclass(frozen=True, eq=False, slots=True)
class Split:
    """To which segment rounds belong: all of them, by number (S,); those with a reward, with a value of each metric,
    and of the sample.
    """

    names: tuple[str, ...]
    rounds: Codes
    events: Codes
    sample: Codes
    further: tuple[Codes, ...] = ()

    @classmethod
    def of_rounds(
        cls, names: Sequence[str], codes: Codes, sample: NDArray[np.int64], events: Sequence[Rounds]
    ) -> Split:
        """Of rounds with these codes (n,): the sample is those at `sample`; the rewards, and then further values, are
        those of `events`.
        """
        rewarded = [codes[np.flatnonzero(one.rewards.any(axis=1))] for one in events]
        counts = np.bincount(codes, minlength=len(names))
        return cls(tuple(names), counts, rewarded[0], codes[sample], tuple(rewarded[1:]))

    @classmethod
    def of_contexts(
        cls, names: Sequence[str], codes: Codes, rounds: Codes, events: Sequence[Events], sample: Rounds | None
    ) -> Split:
        """Where contexts are numbers: their segments (N,), and how many rounds each has (N,)."""
        counts = np.bincount(codes, weights=rounds, minlength=len(names)).astype(np.int64)
        rewarded = [codes[np.asarray(one.contexts, dtype=np.int64) % len(codes)] for one in events]
        shown = np.empty(0, dtype=np.int64)
        if sample is not None:
            shown = codes[np.asarray(sample.decisions.contexts, dtype=np.int64) % len(codes)]
        return cls(tuple(names), counts, rewarded[0], shown, tuple(rewarded[1:]))

    def check(self) -> None:
        """Refuse a segment without rounds: of it nothing can be said."""
        if not self.rounds.all():
            empty = self.names[int(np.flatnonzero(self.rounds == 0)[0])]
            raise InputError(f"the log has no round of the segment {empty!r}: leave it out, or look later.")


def events_of(events: Events, codes: Codes, segment: int, n_rounds: int) -> Events:
    """Those of one segment, of so many rounds."""
    needed = codes == segment
    chosen = np.flatnonzero(needed[events.rows])
    rows = (np.cumsum(needed) - 1)[events.rows[chosen]]
    return replace(events.taken(np.flatnonzero(needed), rows, chosen), n_rounds=n_rounds)


def segmented(split: Split, whole: Evaluation, judge: Judge, *, delta: float, target: float | None) -> Segmented:
    """All segments; `judge` evaluates one at some δ, with a candidate to be named or none. With a `target` segments are
    declared by e-BH too.
    """
    S, n = len(split.names), int(split.rounds.sum())
    found = [judge(s, delta / S, None) for s in range(S)]
    chosen = _for_all(found)
    exceeded = [whole.max_reward] * S
    if chosen is not None:
        exceeded = [
            one.epsilon if one.candidates[0].index == chosen else judge(s, delta / S, chosen).epsilon
            for s, one in enumerate(found)
        ]
    segments = tuple(
        Segment(name, one, int(rounds) / n, at_most)
        for name, one, rounds, at_most in zip(split.names, found, split.rounds, exceeded, strict=True)
    )
    name = None if chosen is None else next(one.name for one in whole.candidates if one.index == chosen)
    declared = None if target is None else _declared(split, judge, delta, target)
    epsilon = whole.max_reward if chosen is None else max(exceeded)
    return Segmented(segments, name, epsilon, delta, target, declared)


def _for_all(found: Sequence[Evaluation]) -> int | None:
    """The candidate to be named for all segments; None where none is safe in each."""
    values = np.array([[one.value for one in sorted(each.candidates, key=lambda c: c.index)] for each in found])
    allowed = np.ones(values.shape[1], dtype=np.bool_)
    for each in found:
        if each.metrics:
            safe = {one.candidate for one in each.guarded if one.standing == "safe"}
            allowed &= [one.name in safe for one in sorted(each.candidates, key=lambda c: c.index)]
    if not allowed.any():
        return None
    best = np.where(allowed, values, -np.inf).max(axis=1)
    return int(np.where(allowed, (best[:, None] - values).max(axis=0), np.inf).argmin())


def _declared(split: Split, judge: Judge, delta: float, target: float) -> tuple[tuple[str, str], ...]:
    """e-BH: segments with the one named in each."""
    S = len(split.names)
    for R in range(S, 0, -1):
        looks = [judge(s, R * delta / S, None) for s in range(S)]
        within = [s for s, look in enumerate(looks) if look.has_best and look.trusted and look.epsilon <= target]
        if len(within) >= R:
            return tuple((split.names[s], looks[s].candidates[0].name) for s in within)
    return ()
