"""The pseudo-inverse estimator of totals, for lists that are shown as the candidates make them.

With C = E[a aᵀ | x], a and π as 0/1 vectors, R(π) = T·πᵀC⁺a has mean πᵀC⁺C·r, which is V(π) = πᵀr for all rewards r
exactly when π lies in the span of the shown lists; and likewise for a difference π − ℓ. It helps where the rank of the
lists is below the number of distinct ones; otherwise it weighs each list by the inverse of its own probability.
With K items everything goes through overlaps of lists, and no K × K matrix is made.

Reference: Swaminathan et al. (2017), Off-policy evaluation for slate recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts, take_contexts
from comband.page.lists import check_totals
from comband.page.problem import Problem, check_problem, check_some_left
from comband.page.rounds import Decisions, check_decisions
from comband.page.threads import one_blas_thread
from comband.page.totals import TotalRounds, log_lists_with
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.statistics.importance import ValueSums

_RANK = 1e-9  # of the largest eigenvalue: below it a direction is none


def list_overlaps(lists: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.float64]:
    """How many actions (n, J, L) are in both, of `lists` (n, J, m) and `others` (n, L, m) of distinct actions.

    >>> import numpy as np
    >>> from comband.statistics.pseudo_inverse import list_overlaps
    >>> list_overlaps(np.array([[[0, 1], [2, 3]]]), np.array([[[1, 2]]])).tolist()
    [[[1.0], [1.0]]]
    """
    overlaps = np.zeros((len(lists), lists.shape[1], others.shape[1]))
    for one in np.moveaxis(lists, 2, 0):
        for other in np.moveaxis(others, 2, 0):
            overlaps += one[:, :, None] == other[:, None, :]
    return overlaps


def own_list_weights(overlaps: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Z (n, S, S) = ΠC⁺Πᵀ for C = Σ_k p_k π_kπ_kᵀ, p > 0: T·Z[j, k] estimates V(π_j) when the list of k was shown.

    With D = diag p and G = ΠΠᵀ the overlaps, ΠC⁺Πᵀ = D^−½·proj(D^½GD^½)·D^−½: A = D^½Π has C = AᵀA, and A(AᵀA)⁺Aᵀ is
    the projection on the range of AAᵀ.

    >>> import numpy as np
    >>> from comband.statistics.pseudo_inverse import own_list_weights
    >>> apart = np.array([[[2.0, 0.0], [0.0, 2.0]]])  # two lists of two items, none in common: weights are 1/p
    >>> own_list_weights(apart, np.array([0.5, 0.5])).round(6).tolist()
    [[[2.0, 0.0], [0.0, 2.0]]]
    """
    root = np.sqrt(p)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(root[:, None] * overlaps * root)
    kept = vectors * (values > _RANK * values[..., -1:])[..., None, :]
    return np.asarray((kept @ np.swapaxes(kept, -1, -2)) / root[:, None] / root)


def mixed_list_weights(
    overlaps: NDArray[np.float64],
    shown: NDArray[np.float64],
    p: NDArray[np.float64],
    *,
    floor: float,
    problem: Problem,
    others: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> NDArray[np.float64]:
    """Z (n, S, L) = π_jᵀC⁻¹a_l for C = γ(αI + β11ᵀ) + (1−γ)Σ_k p_k π_kπ_kᵀ, of any lists a_l.

    α = m(K−m)/(K(K−1)) and β = m(m−1)/(K(K−1)) are those of uniform lists. By Woodbury's identity with U = [1, Π],
    W = diag(γβ, (1−γ)p): C⁻¹ = (I − U·W^½(γα·I + W^½UᵀUW^½)⁻¹·W^½·Uᵀ)/(γα).

    Parameters
    ----------
    overlaps:
        (n, S, S) of the lists in the mixture with each other.
    shown:
        (n, S, L) of these with the lists in question.
    p, floor, problem:
        p (S,), γ > 0; K and m.
    others:
        Z of other policies than those in the mixture: (n, P, S) and (n, P, L), their overlaps with its lists and with
        the lists in question.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.statistics.pseudo_inverse import mixed_list_weights
    >>> overlaps = np.array([[[2.0, 0.0], [0.0, 2.0]]])  # of two candidates' lists
    >>> problem = cb.Problem(n_actions=6, list_size=2)
    >>> mixed_list_weights(overlaps, overlaps, np.array([0.5, 0.5]), floor=0.5, problem=problem).shape
    (1, 2, 2)
    """
    n, S, L = shown.shape
    K, m = problem.n_actions, problem.list_size
    alpha, beta = m * (K - m) / (K * (K - 1)), m * (m - 1) / (K * (K - 1))
    root = np.sqrt(np.concatenate([[floor * beta], (1 - floor) * p]))
    gram = np.empty((n, S + 1, S + 1))
    gram[:, 0, 0] = K
    gram[:, 0, 1:] = gram[:, 1:, 0] = m
    gram[:, 1:, 1:] = overlaps
    with_shown = np.concatenate([np.full((n, 1, L), float(m)), shown], axis=1)
    inner = floor * alpha * np.eye(S + 1) + root[:, None] * gram * root
    with one_blas_thread():
        correction = np.linalg.solve(inner, root[:, None] * with_shown)
    if others is None:
        of_mixture, of_shown = gram[:, 1:], shown
    else:
        of_shown = others[1]
        of_mixture = np.concatenate([np.full((n, of_shown.shape[1], 1), float(m)), others[0]], axis=2)
    return np.asarray((of_shown - (of_mixture * root) @ correction) / (floor * alpha))


def pseudo_inverse_values(decisions: Decisions, totals: ArrayLike, policies: PolicySet, mixture: Mixture) -> ValueSums:
    """Sums over rounds of T·π(x)ᵀC⁻¹a, unbiased for V(π), and of its square, where `mixture` drew the lists.

    Of `decisions` with their `totals` (n,), for all `policies`.
    Its floor makes C invertible, so that every policy can be valued; a round is worth at most ρK/γ either way
    (`pseudo_inverse_bound`). `MidzunoLists` of the same mixture have a smaller variance where K is large
    (docs/open_problems.md); this is for logs of lists that were not drawn so.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> from comband.statistics.pseudo_inverse import pseudo_inverse_values
    >>> totals = rounds.rewards.sum(axis=1)
    >>> sums = pseudo_inverse_values(decisions, totals, policies, mixture)
    >>> bool(abs(sums.means - shop.values(policies)).max() < 0.2)
    True
    """
    T = check_totals(totals, check_problem(mixture.problem), n=len(check_decisions(decisions)))
    result = ValueSums.zero(len(policies), n_rounds=len(T))
    for values in pseudo_inverse_round_values(decisions, T, policies, mixture):
        result.add(values)
    return result


def pseudo_inverse_round_values(
    decisions: Decisions, totals: NDArray[np.float64], policies: PolicySet, mixture: Mixture
) -> Iterator[NDArray[np.float64]]:
    """T·π(x)ᵀC⁻¹a of all rounds with a total and all policies π, in blocks (rounds, P) of bounded size."""
    problem = check_problem(mixture.problem)
    policies.check(problem)
    check_some_left(problem)
    support = mixture.support
    step = max(1, BLOCK // (problem.list_size**2 * (len(policies) + len(support)) * (len(support) + 1)))
    rewarded = np.flatnonzero(totals)
    for start in range(0, len(rewarded), step):
        rows = rewarded[start : start + step]
        X = take_contexts(decisions.contexts, rows)
        mixed, mine = mixture.policies.predict(X, support, problem=problem), policies.predict(X, problem=problem)
        shown = np.ascontiguousarray(decisions.lists[rows][:, None])
        weights = mixed_list_weights(
            list_overlaps(mixed, mixed),
            list_overlaps(mixed, shown),
            mixture.weights[support],
            floor=mixture.floor,
            problem=problem,
            others=(list_overlaps(mine, mixed), list_overlaps(mine, shown)),
        )
        yield np.asarray(weights[:, :, 0] * totals[rows, None])


def pseudo_inverse_bound(problem: Problem, floor: float) -> float:
    """The most that |T·πᵀC⁻¹a|, and |T·(π − ℓ)ᵀC⁻¹a|, can be of lists of a mixture: ρ(K/γ)·min(2, √(2/(1−f))).

    C ⪰ γM with M = αI + β11ᵀ, the C of uniform lists. 1 is an eigenvector of M, with m²/K, and the others have α; a
    list is (m/K)·1 plus what is orthogonal to 1, so πᵀM⁻¹π = 1 + (m − m²/K)/α = K. By Cauchy and Schwarz a value is at
    most ρK/γ; and a difference, orthogonal to 1, has (π−ℓ)ᵀM⁻¹(π−ℓ) ≤ 2m/α = 2K/(1−f).
    """
    return problem.max_reward * problem.n_actions / floor * min(2.0, math.sqrt(2 / (1 - problem.fill_share)))


def mixture_rounds(decisions: Decisions, totals: ArrayLike, mixture: Mixture) -> TotalRounds:
    """Totals of lists that `mixture` drew as wholes, for `evaluate(…, law=mixture)`."""
    problem = check_problem(mixture.problem)
    X, lists = check_decisions(decisions).contexts, decisions.lists
    shares = mixture_shares(mixture, X, lists)
    return TotalRounds.of_shares(X, lists=lists, totals=totals, shares=shares, problem=problem, ids=decisions.ids)


def mixture_shares(mixture: Mixture, contexts: Contexts, lists: NDArray[np.int32]) -> NDArray[np.float64]:
    """q(a) = P(a | x)·C(K−1, m−1) (n,) of lists that `mixture` drew: γm/K + (1−γ)·Σ_k p_k·1[π_k(x) = a]·C(K−1, m−1)."""
    problem, m = mixture.problem, mixture.problem.list_size
    # Beyond 1e300 all that matters is that it is large.
    lists_with = np.exp(min(log_lists_with(problem), 690.0))
    result = np.full(len(lists), mixture.floor * problem.uniform_propensity)
    support, weights = mixture.support, mixture.weights[mixture.support]
    step = max(1, BLOCK // (m**2 * len(support)))
    for start in range(0, len(lists) if mixture.floor < 1 else 0, step):
        rows = slice(start, start + step)
        own = mixture.policies.predict(take_contexts(contexts, rows), support, problem=problem)
        same = list_overlaps(own, np.ascontiguousarray(lists[rows][:, None]))[:, :, 0] == m
        result[rows] += (1 - mixture.floor) * (same @ weights) * lists_with
    return result
