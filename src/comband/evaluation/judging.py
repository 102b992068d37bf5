"""From what the parts of a log contribute to values, bounds and a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.cluster import Work
from comband.evaluation.answers import Evaluation, Hint, ranked_candidates
from comband.evaluation.beside import BEST_SHARE, Beside, Production, beside_production
from comband.evaluation.coverage import ItemWeights, LeastPropensity, bounds_without_overlap
from comband.evaluation.normal import upper_quantile
from comband.evaluation.parts import Facts, FirstLook, SecondLook, facts, first_look, second_look
from comband.page.problem import InputError, check_fraction, check_positive
from comband.statistics.histograms import ValueHistograms
from comband.statistics.importance import ValueSums

# A propensity check that fails by chance once in a million logs.
ALARM = 1e-6
NEED_PROPENSITY = (
    "lifts over production and further metrics are about what candidates' lists bring, and of items that could not be "
    "shown the log tells nothing: state min_propensity, what your logging ensures for every candidate's items."
)


def evaluate_parts(
    work: Work,
    parts: Sequence[Any],
    names: Sequence[str],
    *,
    slots: int,
    max_reward: float,
    min_propensity: float | None,
    delta: float,
    per_item: float = 1.0,
    losing: float | None = None,
    production: Production | None = None,
    leader: int | None = None,
) -> Evaluation:
    """Values and bounds of the candidates `names` from the parts of a log, wherever these are: `evaluate` says how.

    `slots` is m, the number of items that a round of the sample shows; `per_item` is as for `LeastPropensity`; a list
    can lose what `losing` items bring at most, or else what m can. With `production` all are compared with it, and
    `comband.evaluation.beside` says which may be named; `leader` names one beforehand, or by other rounds.
    """
    delta, max_reward = check_fraction("delta", delta), check_positive("max_reward", max_reward)
    known: Facts = work.total("counting", facts, parts, max_reward)
    if known.rounds == 0:
        raise InputError("there must be at least one round to evaluate, got none.")
    stated = min_propensity is not None
    if min_propensity is None:
        min_propensity = known.smallest
    elif check_positive("min_propensity", min_propensity) > known.shared * (1 + 1e-9):
        raise InputError(
            f"min_propensity must not exceed that of any item that a candidate shows, got {min_propensity:g} where the "
            f"log has {known.shared:g}."
        )
    least = LeastPropensity(float(min_propensity), stated, per_item)
    P, bound = len(names), max_reward / min_propensity
    look: FirstLook = work.total("values", first_look, parts, bound, max(slots, 1) / min_propensity)
    sums = look.sums.rounded()
    # A candidate that is called unjudged though it is not, by chance, takes its part of delta.
    alarm = min(ALARM, delta / 100)
    weights = None
    if known.sampled is not None:
        weights = ItemWeights.of(look.weights, look.weight_sums, slots=slots, least=least, alarm=alarm)
    uncovered = np.zeros(P, dtype=bool) if weights is None else weights.uncovered
    sides = 2 * P / (delta - alarm)
    low, high = look.values.bounds(threshold=sides, largest=max_reward)
    beside: Beside | None = None
    if production is not None:
        if not stated:
            raise InputError(NEED_PROPENSITY)
        beside = beside_production(
            work,
            parts,
            names,
            production,
            values=(low, high),
            uncovered=uncovered,
            rounds=known.rounds,
            max_reward=max_reward,
            min_propensity=float(min_propensity),
            delta=delta,
            alarm=alarm,
        )
    share = BEST_SHARE if production is not None and production.metrics else 1.0
    counted = np.ones(P, dtype=bool) if beside is None else ~beside.harmful
    best = _leader(sums, None if beside is None else beside.safe) if leader is None else leader
    rivals = max(P - 1, 1) / (share * (delta - alarm))
    doubted = uncovered if stated else np.ones(P, dtype=bool)
    weighed = known.weighed if known.sampled is not None and doubted.any() else None
    compared: SecondLook = work.total("differences", second_look, parts, best, bound, max_reward, weighed)
    known_before = np.zeros(P) if P == 1 else compared.differences.upper_bounds(threshold=rivals, largest=max_reward)
    known_before[best] = 0.0
    gaps = known_before
    if P > 1 and not stated:
        powers = least.powers(max_reward)
        gaps = compared.differences.upper_bounds(threshold=rivals, largest=max_reward, powers=powers)
        gaps[best] = 0.0
    surely_uncovered = np.zeros(P, dtype=bool) if weights is None else weights.surely_uncovered
    covered = float(gaps[~surely_uncovered & counted].max(initial=0.0))
    if compared.losses is not None and compared.both is not None:
        most, lead = bounds_without_overlap(
            compared.losses,
            compared.both,
            best,
            slots=slots if losing is None else losing,
            max_reward=max_reward,
            value_threshold=sides,
            gap_threshold=rivals,
        )
        high, gaps = np.where(doubted, most, high), np.where(doubted, lead, gaps)
    epsilon = float(gaps[counted].max(initial=0.0))
    # Those that cannot be judged are bounded without overlap, whatever is stated.
    beyond = float(gaps[uncovered & counted].max(initial=0.0))
    hints = []
    if not stated and known.rewards:
        then = max(float(known_before[~uncovered].max(initial=0.0)), beyond)
        hints.append(Hint("min_propensity", least.of_items, then))
    sparsity = float(max(1, np.ceil(known.most - 1e-9)))
    if P > 1 and sparsity < max_reward and known.rewards:
        sparse: SecondLook = work.total(
            "differences", second_look, parts, best, sparsity / min_propensity, sparsity, None
        )
        tighter = sparse.differences.upper_bounds(threshold=rivals, largest=sparsity)
        tighter[best] = 0.0
        then = max(float(tighter[~uncovered & counted].max(initial=0.0)), min(beyond, sparsity))
        hints.append(Hint("sparsity", sparsity, then, None if stated else least.of_items))
    hints = [hint for hint in hints if hint.epsilon < epsilon]
    means = np.minimum(sums.means, max_reward)
    low, high = np.minimum(low, means), np.maximum(high, means)
    reasons = {} if weights is None else {int(i): weights.reason(int(i)) for i in np.flatnonzero(uncovered)}
    result = Evaluation(
        candidates=ranked_candidates(
            names, sums, best, values=means, low=low, high=high, gaps=gaps, unjudged=reasons, delta=delta
        ),
        epsilon=epsilon,
        covered_epsilon=epsilon if uncovered.all() else covered,
        delta=delta,
        rounds=known.rounds,
        rewarded_rounds=known.rewarded_rounds,
        rewards=known.rewards,
        max_reward=max_reward,
        min_propensity=least.of_items,
        guarantee="betting bounds, valid at any number of rounds; "
        + (
            "epsilon from differences on the same rounds"
            if stated
            else "of items that are not shown nothing is assumed"
        ),
        propensity_check=None if weights is None else weights.summary(names),
        approximate_epsilon=_normal_epsilon(compared.differences, best, delta) if P > 1 else 0.0,
        hints=tuple(hints),
        production=None if production is None else names[production.index],
        lifts=() if beside is None else beside.lifts,
        guarded=() if beside is None else beside.guarded,
    )
    return with_notes(result, stated=stated)


def with_notes(result: Evaluation, *, stated: bool) -> Evaluation:
    """The same with whatever a reader should know, and what only a reader wants who asks how; `stated` is whether a
    smallest propensity was.
    """
    notes = [f"{candidate.name!r} cannot be judged: {candidate.unjudged}" for candidate in result.unjudged]
    explained = [] if stated else ["epsilon and intervals assume nothing about items that the log does not show"]
    explained += map(str, result.hints)
    check = result.propensity_check
    if check is None:
        notes.append("the file has only rewarded rounds, so that propensities could not be checked")
    elif check.fits and check.conclusive:
        explained.append(str(check))
    elif result.trusted:
        notes.append(str(check))  # or else the verdict says it
    return replace(result, notes=tuple(notes), explained=tuple(explained))


def _normal_epsilon(differences: ValueHistograms, best: int, delta: float) -> float:
    """max over rivals of D̄ + z·(standard error): what a plain one-sided normal bound says, for each rival alone."""
    means, errors = differences.means_and_errors()
    bounds = means + upper_quantile(delta) * errors
    bounds[best] = 0.0
    return float(max(bounds.max(), 0.0))


def _leader(sums: ValueSums, among: NDArray[np.bool_] | None) -> int:
    means = sums.means if among is None else np.where(among, sums.means, -np.inf)
    # Ties are decided by a generator of their own: not by the candidates' order, and the same way each time.
    return int(np.random.default_rng(sums.n_rounds).choice(np.flatnonzero(means == means.max())))
