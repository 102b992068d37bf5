"""Candidates beside the one in production: how much more they collect, and which of them are safe by further metrics.

For production p and D_t(π) = X_t(π) − s·X_t(p), whose mean is V(π) − s·V(p) where all items of both had a propensity of
at least q, D lies in [−sρ/q, ρ/q]. So betting bounds hold on both sides at all numbers of rounds at once
(`ValueHistograms.signed_bounds`), with a union over candidates as candidates are compared on the same rounds.

**Lifts** are with s = 1, for all P − 1 others at once and both sides, each at δ/(2(P − 1)).

**Guardrails.** With σ, s and m_j of a metric as in `comband.statistics.guardrails`, π is safe if h_j = σ·E D_j ≥ −m_j
for every j. Of δ three parts are spent:

- *safe*, .3δ: a candidate is declared safe where the lower bound of every h_j, each at .3δ/(P − 1), is −m_j or more.
  One that is not safe violates one j, and is declared safe only if that bound is wrong: no factor for the metrics.
- *harmful*, .21δ: one is called harmful where the upper bound of some h_j, at .21δ/J, is below −m_j. That a best safe
  candidate π* is called so has probability .21δ at most: it is one candidate, so there is no factor for their number.
  Of a *given* safe one this may be said wrongly with that probability, of any of them with P − 1 times as much.
- *the best of them*, .49δ: bounds on V(π) − V(b) for the named b and every π that is not called harmful, each at
  .49δ/(P − 1). The named one is chosen on the same rounds; whichever it is, π* is compared with one of P − 1.

Named is, of those declared safe (production always is), the one of highest estimate. So with probability 1 − δ it is
safe, as is all that is declared so, and no safe candidate exceeds it by more than ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.cluster import Work
from comband.evaluation.parts import Facts, Part, facts
from comband.page.metrics import Metric
from comband.page.problem import InputError
from comband.statistics.exact import ExactValueSums
from comband.statistics.guardrails import MAIN_SHARE, REWARD_WEIGHT, Rail
from comband.statistics.histograms import ValueHistograms
from comband.statistics.results import Guarded, Lift

Floats = NDArray[np.float64]
SAFE_SHARE = 1 - MAIN_SHARE
BEST_SHARE = MAIN_SHARE * REWARD_WEIGHT
HARM_SHARE = MAIN_SHARE * (1 - REWARD_WEIGHT)


@dataclass(frozen=True, eq=False, slots=True)
class Production:
    """What candidates are compared with.

    index:
        Its number among the candidates.
    metrics:
        Further metrics, each with the parts of the log in which its values, in units of the largest, are the rewards.
    """

    index: int
    metrics: tuple[tuple[Metric, Sequence[Any]], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Beside:
    """What is known of all candidates beside production: (P,) declared safe, called harmful; lifts, rows by metric."""

    safe: NDArray[np.bool_]
    harmful: NDArray[np.bool_]
    lifts: tuple[Lift, ...]
    guarded: tuple[Guarded, ...]


def find_production(name: str, names: Sequence[str]) -> int:
    """Its number among the candidates."""
    if name not in names:
        listed = ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")
        raise InputError(f"production must be the name of a candidate, one of {listed}; got {name!r}.")
    return list(names).index(name)


@dataclass(frozen=True, eq=False, slots=True)
class ValueLook:
    """X_t(π) over rounds with rewards; `a + b` is of both."""

    values: ValueHistograms
    sums: ExactValueSums

    def __add__(self, other: ValueLook) -> ValueLook:
        return ValueLook(self.values + other.values, self.sums + other.sums)


def value_look(parts: Sequence[Part], bound: float) -> ValueLook:
    """X lies in [0, bound]."""
    P, n = parts[0].n_policies, sum(part.n_rounds for part in parts)
    values = ValueHistograms.zero(P, bound=bound, n_rounds=n)
    sums = ExactValueSums.zero(P, bound=bound, n_rounds=n)
    for part in parts:
        for block in part.blocks:
            values.add_shared(block, part.weights, sums=sums)
    return ValueLook(values, sums)


def beside_look(parts: Sequence[Part], production: int, share: float, bound: float) -> ValueHistograms:
    """X_t(π) − share·X_t(production) over rounds with rewards, in [−bound, bound]."""
    result = ValueHistograms.zero(parts[0].n_policies, bound=bound, n_rounds=sum(part.n_rounds for part in parts))
    for part in parts:
        earned = part.weights
        for block in part.blocks:
            result.add_shared(block, earned, offsets=-share * block.sums_of(production, earned))
    return result


def beside_production(
    work: Work,
    parts: Sequence[Any],
    names: Sequence[str],
    production: Production,
    *,
    values: tuple[Floats, Floats],
    uncovered: NDArray[np.bool_],
    rounds: int,
    max_reward: float,
    min_propensity: float,
    delta: float,
    alarm: float,
) -> Beside:
    """Lifts and standings of all candidates; `values` are the ends of the intervals of their values, and of those that
    are `uncovered` nothing is said. `alarm` is what the check of coverage has of δ.
    """
    P, p = len(names), production.index
    others = max(P - 1, 1)
    known = ~uncovered & ~uncovered[p]
    known[p] = True
    spend = delta - alarm
    look = work.total("lifts", beside_look, parts, p, 1.0, max_reward / min_propensity)
    low, high = _ends(look, known, p, 2 * others / spend, max_reward)
    least, most = float(values[0][p]), float(values[1][p])
    lifts = tuple(
        Lift(name, float(low[i]), float(high[i]), delta, _relative(float(low[i]), float(high[i]), least, most))
        for i, name in enumerate(names)
    )
    safe, harmful, found = np.ones(P, dtype=np.bool_), np.zeros(P, dtype=np.bool_), []
    for metric, own in production.metrics:
        rail = Rail.within(metric, metric.most(max_reward))
        told: Facts = work.total(f"counting {metric.name}", facts, own, rail.most)
        _check_metric(metric, told, rounds, min_propensity)
        bound = rail.most / min_propensity
        seen: ValueLook = work.total(f"values of {metric.name}", value_look, own, bound)
        gains: ValueHistograms = work.total(f"{metric.name} beside production", beside_look, own, p, 1.0, bound)
        guard, widest = gains, rail.most
        if rail.share != 1:
            widest = rail.most * max(1.0, rail.share)
            guard = work.total(
                f"margin of {metric.name}", beside_look, own, p, rail.share, bound * max(1.0, rail.share)
            )
        guard = guard if rail.sign > 0 else guard.negated()  # of h = σ·E D
        not_worse = guard.signed_bounds(threshold=others / (SAFE_SHARE * spend), largest=widest)[0]
        worse = guard.signed_bounds(threshold=len(production.metrics) / (HARM_SHARE * spend), largest=widest)[1]
        safe &= known & (not_worse >= -rail.margin)
        harmful |= known & (worse < -rail.margin)
        ends = _ends(gains, known, p, 2 * others / spend, rail.most)
        found.append((metric, seen, gains.means_and_errors(), ends, rail.most))
    safe[p] = True
    harmful &= ~safe
    standing = np.where(safe, "safe", np.where(harmful, "harmful", "not shown"))
    return Beside(
        safe,
        harmful,
        lifts,
        tuple(
            row
            for metric, seen, estimates, ends, largest in found
            for row in _rows(metric, names, seen, estimates, ends, standing, threshold=2 * P / spend, largest=largest)
        ),
    )


def _rows(
    metric: Metric,
    names: Sequence[str],
    seen: ValueLook,
    estimates: tuple[Floats, Floats],
    ends: tuple[Floats, Floats],
    standing: NDArray[np.str_],
    *,
    threshold: float,
    largest: float,
) -> list[Guarded]:
    size, margin = metric.largest, str(metric).partition(": ")[2]
    means = np.minimum(seen.sums.rounded().means, largest)
    low, high = seen.values.bounds(threshold=threshold, largest=largest)
    low, high = np.minimum(low, means), np.maximum(high, means)
    return [
        Guarded(
            name,
            metric.name,
            float(estimates[0][i]) * size,
            float(estimates[1][i]) * size,
            margin,
            str(standing[i]),
            (float(ends[0][i]) * size, float(ends[1][i]) * size),
            float(means[i]) * size,
            (float(low[i]) * size, float(high[i]) * size),
        )
        for i, name in enumerate(names)
    ]


def _ends(
    look: ValueHistograms, known: NDArray[np.bool_], production: int, threshold: float, largest: float
) -> tuple[Floats, Floats]:
    """Of E D for all candidates: nothing but the range where nothing is known, and 0 for production."""
    low, high = look.signed_bounds(threshold=threshold, largest=largest)
    low, high = np.where(known, low, -largest), np.where(known, high, largest)
    low[production] = high[production] = 0.0
    return low, high


def _relative(low: float, high: float, least: float, most: float) -> tuple[float, float] | None:
    """As a share of a value in [least, most]; None while that may be 0."""
    if least <= 0:
        return None
    return min(low / least, low / most), max(high / least, high / most)


def _check_metric(metric: Metric, told: Facts, rounds: int, min_propensity: float) -> None:
    if told.rounds != rounds:
        raise InputError(
            f"{metric.name} is known of {told.rounds:,} rounds and the rewards of {rounds:,}: all must have both."
        )
    if min_propensity > told.shared * (1 + 1e-9):
        raise InputError(
            f"min_propensity must not exceed that of any item that a candidate shows, got {min_propensity:g} where "
            f"{metric.name} came with {told.shared:g}."
        )
