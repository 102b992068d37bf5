"""How much better than the best a candidate can be, without a stated smallest propensity: weights clipped at levels.

A stake on differences X_t(π) − X_t(b) is capped by their range, ρ/q with q the smallest propensity that any item of a
candidate may have, however rare that is. Who can ask the rule that drew the lists for *every* item's propensity on the
rounds' contexts (a `Mixture` tells it) need not pay for the rarest one. For a level τ clip the weights at 1/τ and count
as won what clipping may lose:

    Z^τ_t(π) = Σ_{y∈π∩a} r_t(y)/max(Q_t(y), τ) + ℓ^τ_t(π) − Σ_{y∈b∩a} r_t(y)/max(Q_t(y), τ),
    ℓ^τ_t(π) = min{ ρ · max_{y∈π} (1 − Q_t(y)/τ)₊ ,  κ · Σ_{y∈π} (1 − Q_t(y)/τ)₊ },   κ = min(1, ρ).

An item y of π(x) is worth r·Q/max(Q, τ) in the first sum, on average, which is r·(1 − Q/τ)₊ less than r; over the items
of one list that is at most ℓ, whatever the rewards. The last sum is at most V(b) on average. So E Z^τ(π) ≥ V(π) − V(b)
for every τ, also where some items could not be shown at all (Q = 0), and Z^τ ≤ ρ/τ + ρ. Each level has its own wealth
with its own stakes, fixed beforehand, and their average is a wealth too: no level is chosen by the data, and the
bound holds at all numbers of rounds at once.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from comband.page.contexts import Contexts
from comband.page.problem import InputError, check_fraction, check_positive
from comband.page.rounds import Rounds, check_rounds
from comband.policies.policy_set import PolicySet, check_policies
from comband.statistics.grids import crossing, log_mean_exp
from comband.statistics.histograms import ValueHistograms

Floats = NDArray[np.float64]

LEVELS = 2.0 ** -np.arange(12)
_BETS = 0.98 * 2.0 ** -np.arange(8.0)
_CELLS = 1 << 22
_STEPS = 32


class Logging(Protocol):
    """The rule that drew the lists."""

    def inclusion(self, X: Contexts, items: NDArray[np.int32]) -> Floats:
        """The probability that each of some items (n, k) is in the list shown for its context, (n, k)."""
        ...


def clipped_gaps(
    rounds: Rounds,
    policies: PolicySet,
    best: int,
    *,
    logging: Logging,
    max_reward: float,
    delta: float = 0.05,
) -> Floats:
    """Upper bounds (P,) on V(π) − V(best), zero for the best; the largest is an ε as `evaluate` means it.

    Parameters
    ----------
    rounds, policies, max_reward, delta:
        As for `evaluate`, at delta/(P − 1) for each rival: `best` may be chosen on the same rounds.
    best:
        The number of the candidate that the others are compared with.
    logging:
        The rule that drew the rounds' lists: `inclusion(X, items)`, as a `Mixture` has it. Every candidate is asked on
        every round. A rule that gives shown items other probabilities than the log is refused.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> from comband.evaluation.clipped import clipped_gaps
    >>> bounds = clipped_gaps(rounds, policies, 0, logging=mixture, max_reward=1)
    >>> bounds.shape, float(bounds[0])
    ((4,), 0.0)
    """
    check_policies(policies)
    delta, rho = check_fraction("delta", delta), check_positive("max_reward", max_reward)
    P, n = len(policies), len(check_rounds(rounds))
    if n == 0 or not 0 <= best < P:
        raise InputError(f"there must be rounds, and best must lie in 0 … {P - 1}, got {n} rounds and {best}.")
    if not callable(getattr(logging, "inclusion", None)):
        raise InputError(f"logging must have inclusion(X, items), as a Mixture has it, got {type(logging).__name__}.")
    if P == 1:
        return np.zeros(1)
    found = [ValueHistograms.zero(P, bound=rho / tau + rho, n_rounds=n) for tau in LEVELS]
    m = rounds.decisions.lists.shape[1]
    step = max(1, _CELLS // (P * m * m))
    for start in range(0, n, step):
        _add(found, rounds[slice(start, start + step)], policies, best, logging, rho)
    gaps = _reach(found, np.log((P - 1) / delta), rho)
    gaps[best] = 0.0
    return gaps


def _add(
    found: list[ValueHistograms], rounds: Rounds, policies: PolicySet, best: int, logging: Any, rho: float
) -> None:
    decisions = rounds.decisions
    shown = policies.predict(decisions.contexts)  # (n, P, m)
    flat = np.ascontiguousarray(shown.reshape(len(shown), -1))
    Q = np.asarray(logging.inclusion(decisions.contexts, flat), dtype=np.float64).reshape(shown.shape)
    if not ((Q >= 0) & (Q <= 1 + 1e-9)).all():
        raise InputError("logging.inclusion must give probabilities in [0, 1].")
    logged = np.asarray(logging.inclusion(decisions.contexts, decisions.lists), dtype=np.float64)
    off = ~np.isclose(logged, decisions.propensities, rtol=1e-6, atol=0.0)
    if off.any():
        t, k = np.argwhere(off)[0]
        raise InputError(
            f"logging must be the rule that drew these lists: it gives item {decisions.lists[t, k]} a probability of "
            f"{logged[t, k]:.6g} where the log has {decisions.propensities[t, k]:.6g}. Give that rule, or state "
            "min_propensity instead."
        )
    matched = (shown[:, :, :, None] == decisions.lists[:, None, None, :]).any(axis=2)
    for tau, histograms in zip(LEVELS, found, strict=True):
        won = (matched * (rounds.rewards / np.maximum(decisions.propensities, tau))[:, None, :]).sum(axis=2)
        lost = np.maximum(1 - Q / tau, 0.0)
        most = np.minimum(rho * lost.max(axis=2), min(1.0, rho) * lost.sum(axis=2))
        histograms.add(won + most - won[:, [best]])


def _reach(found: list[ValueHistograms], threshold: float, largest: float) -> Floats:
    """Where the average of all levels' wealths, over all their stakes, reaches the threshold; at most `largest`."""
    parts = []
    for histograms in found:
        counts = histograms.counts
        used = counts.any(axis=0)
        zeros = histograms.n_rounds - counts.sum(axis=1)
        parts.append((_BETS / histograms.bound, np.ascontiguousarray(counts[:, used]), histograms.grid[used], zeros))

    def excess(mu: Floats) -> Floats:
        wealths = []
        for bets, counts, grid, zeros in parts:
            for bet in bets:
                logs = np.log(1 - bet * (grid[None, :] - mu[:, None]))
                wealths.append((logs * counts).sum(axis=1) + zeros * np.log1p(bet * mu))
        return log_mean_exp(np.stack(wealths, axis=1)) - threshold

    none = np.zeros(len(found[0].counts))
    return crossing(excess, largest, start=none, guess=none + largest / 2, steps=_STEPS)
