"""What logged totals say about candidates, by X_t(π) = T(|π∩a| − f·m)/((1−f)·q(a)) (`comband.statistics.totals`).

The promises are those of `evaluate`. Every list must have been possible, with a share of at least `min_share`: then X
has mean V(π), and a bounded range. Nothing can be said of a log whose law of lists leaves some out, since a list's
total also tells of the actions that a candidate does not share; the check of shares notices it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.answers import Evaluation, PropensityCheck, ranked_candidates
from comband.evaluation.judging import with_notes
from comband.page.problem import InputError, check_fraction, check_positive
from comband.page.totals import TotalRounds
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.statistics.histograms import ValueHistograms
from comband.statistics.importance import ValueSums
from comband.statistics.pseudo_inverse import pseudo_inverse_bound, pseudo_inverse_round_values
from comband.statistics.totals import total_round_values


def evaluate_totals(
    rounds: TotalRounds,
    policies: PolicySet,
    *,
    max_reward: float,
    min_share: float | None,
    delta: float,
    alarm: float,
    law: Mixture | None = None,
) -> Evaluation:
    """As `evaluate`, from totals: each of the 2P + P − 1 bounds by bets on X_t(π), or on a difference of two.

    `alarm` is the probability with which the check of shares may fail by chance. With `law`, the mixture that drew the
    lists, X_t(π) = T·π(x)ᵀC⁻¹a (`comband.statistics.pseudo_inverse`).
    """
    problem, events = rounds.problem, rounds.events()
    policies.check(problem)
    delta, max_reward = check_fraction("delta", delta), check_positive("max_reward", max_reward)
    if len(rounds) == 0:
        raise InputError("there must be at least one round to evaluate, got none.")
    most = float(rounds.totals.max())
    if most > max_reward * (1 + 1e-9):
        raise InputError(f"a round brought {most:.4g} where at most {max_reward:.4g} can be: raise max_reward.")
    P, m, f = len(policies), problem.list_size, problem.fill_share
    if law is None:
        least = _least_share(rounds, min_share)
        # |π∩a| − f·m lies between −f·m and (1−f)·m, and |π∩a| − |ℓ∩a| between −m and m.
        bound = max_reward * m / least / (1 - f)
    else:
        law = _check_law(law, rounds, min_share)
        least = law.floor * problem.uniform_propensity * (1 - 1e-9)
        bound = max_reward / problem.max_reward * pseudo_inverse_bound(problem, law.floor)

    def blocks() -> Iterator[NDArray[np.float64]]:
        if law is None:
            return total_round_values(events, policies, problem)
        return pseudo_inverse_round_values(rounds.decisions, rounds.totals, policies, law)

    sides, rivals = 2 * P / delta, max(P - 1, 1) / delta
    sums = ValueSums.zero(P, n_rounds=len(rounds))
    for block in blocks():
        sums.add(block)
    # Ties are decided by a generator of their own: not by the candidates' order, and the same way each time.
    leaders = np.flatnonzero(sums.means == sums.means.max())
    best = int(np.random.default_rng(sums.n_rounds).choice(leaders))
    values = ValueHistograms.zero(P, bound=bound, n_rounds=len(rounds))
    differences = ValueHistograms.zero(P, bound=bound, n_rounds=len(rounds))
    for block in blocks():
        values.add(block)
        differences.add(block - block[:, [best]])
    gaps = differences.upper_bounds(threshold=rivals, largest=max_reward)
    gaps[best] = 0.0
    means = np.clip(sums.means, 0.0, max_reward)
    low = np.minimum(values.signed_lower_bounds(threshold=sides, largest=max_reward), means)
    high = np.maximum(values.upper_bounds(threshold=sides, largest=max_reward), means)
    check = _check_shares(rounds, least, alarm)
    result = Evaluation(
        candidates=ranked_candidates(
            policies.names, sums, best, values=means, low=low, high=high, gaps=gaps, unjudged={}, delta=delta
        ),
        epsilon=float(gaps.max()),
        covered_epsilon=float(gaps.max()),
        delta=delta,
        rounds=len(rounds),
        rewarded_rounds=events.n_rewarded,
        rewards=events.n_rewarded,
        max_reward=max_reward,
        min_propensity=least,
        guarantee="betting bounds, valid at any number of rounds; epsilon from differences on the same rounds' totals",
        propensity_check=check,
    )
    return with_notes(result, stated=True)


def _check_law(law: Mixture, rounds: TotalRounds, stated: float | None) -> Mixture:
    """Return `law` if it can have drawn these lists."""
    if not isinstance(law, Mixture):
        raise InputError(f"law must be the Mixture that drew the lists, got {type(law).__name__}.")
    if stated is not None:
        raise InputError("min_propensity is known where the law of lists is: leave it out.")
    sizes = law.problem.n_actions, law.problem.list_size
    if sizes != (rounds.problem.n_actions, rounds.problem.list_size) or not reading_of(law.problem).SETS:
        raise InputError(f"law must be a mixture of {rounds.problem}, got one of {law.problem}.")
    return law


def _least_share(rounds: TotalRounds, stated: float | None) -> float:
    """The smallest share of any list, as stated, or that of uniform lists where the log has nothing else."""
    smallest, uniform = float(rounds.shares.min()), rounds.problem.uniform_propensity
    if stated is None:
        if not np.allclose(rounds.shares, uniform, rtol=1e-9, atol=0.0):
            raise InputError(
                "totals of lists that were not drawn uniformly need min_propensity, the smallest share (probability "
                "times C(K−1, m−1)) that the logging rule gives any list: γm/K for MidzunoLists with floor γ."
            )
        return uniform * (1 - 1e-9)
    if check_positive("min_propensity", stated) > smallest * (1 + 1e-9):
        raise InputError(
            f"min_propensity must not exceed any list's share, got {stated:g} where the log has {smallest:g}."
        )
    return float(stated)


def _check_shares(rounds: TotalRounds, least: float, alarm: float) -> PropensityCheck:
    """Whether the lists' probabilities can be right: (m/K)/q(a) has mean 1 if every list is possible."""
    uniform = rounds.problem.uniform_propensity
    weights, largest = uniform / rounds.shares, max(uniform / least, 1.0)
    found = ValueHistograms.zero(1, bound=largest, n_rounds=len(rounds))
    found.add(weights[:, None])
    low, high = (float(end[0]) for end in found.bounds(threshold=2 / alarm, largest=largest))
    fits = low <= 1 + 1e-6 and high >= 1 - 1e-6
    return PropensityCheck(
        candidate="any list",
        mean=float(weights.mean()),
        interval=(low, high),
        expected=1.0,
        rounds=len(rounds),
        fits=fits,
        conclusive=high < 2 and low > 0.5,
        usable=fits,
        advice="Log the probability of the whole shown list, and leave no list out",
    )
