"""Frank-Wolfe over policies: one loop, into which step rules and stopping rules are put."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from comband._kernels.search import line_search
from comband.explore.solvers.columns import ActiveSet, ColumnOracle, Columns
from comband.explore.solvers.potential import Floats, LogBarrier
from comband.explore.solvers.stopping import Outcome, State, Stopping, sentence


class Rule(Protocol):
    """Moves the weights, given the columns just found; says whether anything moved."""

    def __call__(self, potential: LogBarrier, active: ActiveSet, found: Columns, state: State, step: int) -> bool:
        """Update `active` in place; `step` counts from 1."""
        ...


@dataclass(frozen=True)
class Solution:
    """A mixture over columns and what is known about it (see `State`)."""

    keys: list[Hashable]
    bits: npt.NDArray[Any]
    weights: Floats
    state: State
    status: Outcome
    message: str
    exact: bool


def minimise(
    potential: LogBarrier,
    oracle: ColumnOracle,
    *,
    rule: Rule,
    stopping: Stopping,
    n_columns: int = 1,
    start: tuple[Columns, Sequence[float] | Floats] | None = None,
    callback: Callable[[State], None] | None = None,
) -> Solution:
    """Minimise the potential over the simplex of the oracle's columns.

    Each turn makes one oracle call at the current p, which yields the Frank-Wolfe gap and the
    largest variance proxy, tests the stopping rules, and lets the rule move p.

    Parameters
    ----------
    potential : LogBarrier
        With one weight per event, padded with zeros to 64 · oracle.n_words.
    oracle : ColumnOracle
        Answers with the best columns for given gains.
    rule : Rule
        `PrintedStep`, `ExactStep` or `FullyCorrective`.
    stopping : Stopping
        Tested after every oracle call.
    n_columns : int
        How many columns to ask for in one call (only a class given in full has more than one).
    start : (columns, weights), optional
        p_1. Without it one oracle call at p = 0 (counted) gives the columns, weighted equally: with
        n_columns = 1 the delta distribution on the policy of largest estimated reward.
    callback : callable, optional
        Receives the `State` after every oracle call.
    """
    begin = time.perf_counter()
    calls = 0
    if start is None:
        columns = oracle.best(potential.gains(np.zeros(64 * oracle.n_words)), n=n_columns)
        calls, weights = 1, [1.0] * len(columns.keys)
    else:
        columns, weights = start[0], list(start[1])
    active = ActiveSet(oracle.n_words)
    places = active.add(columns)
    p = np.zeros(len(active.keys))
    np.add.at(p, places, np.asarray(weights, dtype=np.float64))
    active.set_weights(p / p.sum())
    mass = potential.mass
    steps = 0
    while True:
        gains = potential.gains(active.coverage)
        average = float(gains @ active.coverage)
        found = oracle.best(gains, n=n_columns, average=average)
        calls += 1
        maximum = float(found.scores[0])
        if not oracle.exact:  # the support's own columns may beat what the oracle found
            maximum = max(maximum, float(active.scores(gains).max()))
        state = State(
            steps=steps,
            calls=calls,
            seconds=time.perf_counter() - begin,
            value=potential.value(active.coverage),
            gap=max(0.0, (1.0 - potential.floor) * (maximum - average)),
            average=average,
            maximum=maximum,
            gradient_norm=(1.0 - potential.floor) * maximum,
            support=int(np.count_nonzero(active.weights)),
            mass=mass,
        )
        if callback is not None:
            callback(state)
        status = stopping.check(state)
        steps += 1
        if status is None and not rule(potential, active, found, state, steps):
            status = Outcome.STALLED
        if status is not None:
            active.drop_zeros()
            message = sentence(status, state, exact=oracle.exact)
            return Solution(active.keys, active.bits, active.weights, state, status, message, oracle.exact)


class PrintedStep:
    """Algorithm 2 as printed: p_{t+1} = (1−η_t) p_t + η_t e_π, η_t = 2/(2+t), t from 1 on."""

    def __call__(self, potential: LogBarrier, active: ActiveSet, found: Columns, state: State, step: int) -> bool:
        """Move towards the best column, whether or not it improves."""
        (place,) = active.add(_first(found))
        eta = 2.0 / (2.0 + step)
        weights = (1.0 - eta) * active.weights
        weights[place] += eta
        column = active.cover(_unit(len(weights), place))
        active.set_weights(weights, (1.0 - eta) * active.coverage + eta * column)
        return True


@dataclass(frozen=True)
class ExactStep:
    """Frank-Wolfe with exact line search; optionally with away or pairwise steps.

    direction "towards" moves to the best column; "away" takes the better of that and moving away
    from the support's worst column (Guélat & Marcotte 1986); "pairwise" shifts weight from the
    worst to the best (Lacoste-Julien & Jaggi 2015).
    """

    direction: str = "towards"

    def __call__(self, potential: LogBarrier, active: ActiveSet, found: Columns, state: State, step: int) -> bool:
        """Move along the direction by the step that minimises the potential."""
        if self.direction == "towards" and found.scores[0] <= state.average:
            return False
        (place,) = active.add(_first(found))
        p = active.weights
        move, limit = _unit(len(p), place) - p, 1.0
        if self.direction != "towards":
            scores = active.scores(potential.gains(active.coverage))
            best = int(np.argmax(scores))  # an approximate oracle may do worse than the support
            worst = int(np.argmin(np.where(p > 0.0, scores, np.inf)))
            towards, away = scores[best] - state.average, state.average - scores[worst]
            if self.direction == "pairwise":
                move, limit = _unit(len(p), best) - _unit(len(p), worst), float(p[worst])
            elif towards >= away or p[worst] == 1.0:
                move = _unit(len(p), best) - p
            else:
                move, limit = p - _unit(len(p), worst), float(p[worst] / (1.0 - p[worst]))
        change = potential.change(active.cover(move))
        Q = potential.mix(active.coverage)
        t = line_search(potential.weights, Q, change, 0.0, limit)
        weights = np.maximum(p + t * move, 0.0)
        if self.direction != "towards" and t == limit and limit != 1.0:
            weights[worst] = 0.0  # a full step empties the column: rounding must not keep it
        active.set_weights(weights / weights.sum())
        active.drop_zeros()
        return bool(t > 0.0)


def _first(found: Columns) -> Columns:
    return Columns(found.keys[:1], found.bits[:1], found.scores[:1])


def _unit(n: int, place: int) -> Floats:
    unit = np.zeros(n)
    unit[place] = 1.0
    return unit
