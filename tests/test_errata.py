"""The numbered claims of docs/errata.md, each by numbers."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import wrightomega
from scipy.stats import binom

from comband import theory
from comband.page.problem import Problem

Array = NDArray[np.float64]


def ftrl_step(L: Array, eta: float, nu: float) -> Array:
    """argmin L·p + Σ p log p/η − Σ log p/ν over the simplex, by its first-order conditions."""
    L = L - L.min()

    def p(multiplier: float) -> Array:
        z = eta * (L + multiplier) + 1 + np.log(eta / nu)
        return np.asarray(eta / (nu * wrightomega(z).real))

    top = len(L) / nu + math.log(len(L)) / eta + 1
    solution = brentq(lambda v: p(v).sum() - 1, 1 / nu - 1 / eta - 1, top, xtol=1e-13, rtol=1e-15)
    return p(solution)


def test_e1_the_printed_sign_has_no_minimiser() -> None:
    L, eta, nu = np.array([0.3, -0.2]), 0.5, 1 / 16

    def objective(x: float, sign: float) -> float:
        p = np.array([x, 1 - x])
        return float(L @ p + (p * np.log(p)).sum() / eta + sign * np.log(p).sum() / nu)

    falling = [objective(10.0**-k, +1) for k in range(1, 300, 20)]
    assert all(a > b + 100 for a, b in itertools.pairwise(falling))
    best = ftrl_step(L, eta, nu)[0]
    assert all(objective(best, -1) <= objective(x, -1) for x in np.linspace(0.01, 0.99, 99))


def random_design(seed: int) -> tuple[Problem, NDArray[np.bool_], Array, Array]:
    """A small problem with full rewards: incidence (n, K, P), rewards (n, K), weights."""
    rng = np.random.default_rng(seed)
    K, m, P, n = 6, 2, 5, 4
    s = float(rng.uniform(0.5, 4))
    rewards = rng.random((n, K)) * (rng.random((n, K)) < 0.6)
    rewards *= np.minimum(1, s / np.maximum(rewards.sum(1, keepdims=True), 1e-9))
    incidence = np.zeros((n, K, P), dtype=bool)
    for i, j in itertools.product(range(n), range(P)):
        incidence[i, rng.choice(K, m, replace=False), j] = True
    return Problem(K, m, s), incidence, rewards, rng.dirichlet(np.ones(n))


def minimise(F_weights: Array, incidence: NDArray[np.bool_], low: float, share: float) -> Array:
    """A minimiser of −Σ w log(low + share·(Ap)) over the simplex by multiplicative updates."""
    A = incidence.reshape(-1, incidence.shape[-1]).astype(float)
    w = F_weights.ravel()
    p = np.full(A.shape[1], 1 / A.shape[1])
    # An EM step for mixture proportions with a fixed floor component, run far past convergence.
    for _ in range(20_000):
        q = low + share * A @ p
        gradient = share * A.T @ (w / q)
        p = p * gradient
        p /= p.sum()
    return p


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gamma", [0.2, 0.5])
def test_e3_curvature_and_e11_gradients(seed: int, gamma: float) -> None:
    problem, incidence, r, weight = random_design(seed)
    K, m, s, rho = 6, 2, problem.sparsity or 0.0, problem.max_reward
    rng = np.random.default_rng(100 + seed)

    def q(p: Array) -> Array:
        return gamma * m / K + (1 - gamma) * incidence @ p

    def F(p: Array) -> float:
        return float(-(weight @ (r * np.log(q(p))).sum(1)))

    def gradient(p: Array) -> Array:
        return np.asarray(-(1 - gamma) * np.einsum("i,iy,iyj->j", weight, r / q(p), incidence))

    best = minimise(weight[:, None] * r, incidence, gamma * m / K, 1 - gamma)
    # The minimum is certified, not assumed: the Frank-Wolfe gap bounds its error.
    error = float(gradient(best) @ best - gradient(best).min())
    assert error < 1e-6
    assert np.abs(gradient(best)).max() <= s + 1e-6
    for _ in range(40):
        p = rng.dirichlet(np.full(5, 0.3))
        gap = F(p) - F(best) + error
        left = ((gradient(p) - gradient(best)) ** 2).max()
        assert left <= (1 - gamma) ** 2 * 2 * rho * (K / (gamma * m)) ** 2 * gap + 1e-4
    # Curvature of the empirical potential of uniform lists, for every list and context.
    C = theory.design_curvature(problem, floor=gamma)
    for i, shown in itertools.product(range(4), itertools.combinations(range(K), m)):
        a = list(shown)
        p, vertex = rng.dirichlet(np.full(5, 0.3)), np.eye(5)[rng.integers(5)]
        for t in (0.3, 1.0):
            moved = p + t * (vertex - p)
            before, after = q(p)[i, a], q(moved)[i, a]
            rise = -(K / m) * (r[i, a] * (np.log(after / before) - (after - before) / before)).sum()
            assert 2 / t**2 * rise <= C + 1e-9


def test_e3_the_start_keeps_its_weight() -> None:
    for T in (1, 5, 40):
        kept = math.prod(1 - 2 / (2 + t) for t in range(1, T + 1))
        assert kept == pytest.approx(2 / ((T + 1) * (T + 2)))


def test_e4_the_range_is_attained() -> None:
    # Two rewards of 1 in the list of a policy that the design never plays: Q = γm/K for both.
    problem = Problem(n_actions=10, list_size=2, sparsity=3)
    gamma = 0.5
    q = gamma * 2 / 10
    assert 1 / q + 1 / q == pytest.approx(theory.estimate_range(problem, floor=gamma))
    assert 1 / q + 1 / q > 10 / (gamma * 2)
    for K, m, s in itertools.product(range(1, 30), range(1, 30), (0.5, 1, 3, 20)):
        if m <= K and s <= K:
            assert min(s, m) ** 2 * m**5 <= s * K**7


@pytest.mark.parametrize(("nu", "rho"), [(1 / 16, 1), (1 / 16, 8), (1 / 16, 12), (1 / 40, 20), (1 / 320, 20)])
def test_e5_stability_bound_is_attained(nu: float, rho: int) -> None:
    worst = 0.0
    for loss, eta in itertools.product((1e1, 1e3, 1e5), (1e-3, 1e-1, 10.0)):
        L = np.zeros(5)
        L[0] = loss
        p = ftrl_step(L, eta, nu)
        observed = np.zeros(5)
        observed[0] = -rho / p[0]  # only policy 0 shows the ρ rewarded actions: Q = p_0
        worst = max(worst, float((ftrl_step(L + observed, eta, nu) / p).max()))
    assert worst <= 1 / (1 - nu * rho) * (1 + 1e-9)
    assert worst >= 1 / (1 - nu * rho) * (1 - 1e-4)


def test_e5_the_printed_step_is_unstable_for_large_lists() -> None:
    L = np.array([1e5, 0, 0, 0, 0])
    p = ftrl_step(L, 0.1, 1 / 16)
    after = ftrl_step(L + np.array([-12 / p[0], 0, 0, 0, 0]), 0.1, 1 / 16)
    assert after[0] / p[0] > 3.9  # the lemma says at most 1/(8ν) = 2


@pytest.mark.parametrize("seed", range(20))
def test_e5_stability_on_random_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, m, P = 8, 4, 12
    lists = np.stack([rng.permutation(K)[:m] for _ in range(P)])
    incidence = np.zeros((P, K))
    np.put_along_axis(incidence, lists, 1.0, axis=1)
    nu, eta = 0.9 / m, float(rng.choice([0.01, 0.3, 5.0]))
    L = -rng.exponential(3.0, P).cumsum()
    p = ftrl_step(L, eta, nu)
    shown = incidence[rng.integers(P)]
    observed = -(incidence * (shown * rng.random(K) / (p @ incidence + 1e-300))).sum(1)
    assert (ftrl_step(L + observed, eta, nu) / p).max() <= 1 / (1 - nu * m) * (1 + 1e-9)


def test_e9_no_action_is_played_as_seldom_as_claimed() -> None:
    K, m, T = 60, 5, 4000
    rng = np.random.default_rng(0)
    plays = np.bincount(np.concatenate([rng.choice(K, m, replace=False) for _ in range(T)]), minlength=K)
    # Each count is binomial(T, m/K), mean 333; the claimed bound is 200, more than 7 σ below.
    assert binom.cdf(3 * T / K, T, m / K) * K < 1e-12
    assert (plays > 3 * T / K).all()


def test_e9_the_repaired_average_stays_below_a_sixth() -> None:
    for K, m, s, epsilon in itertools.product((24, 60, 600), (1, 2, 5, 50), (1, 4, 20), (1e-4, 1e-2)):
        if 12 * m > K or s > K or epsilon > s * (K - m) / (4 * K) or s / K + epsilon / m > 1:
            continue
        p, q = s / (2 * K) - epsilon / (K - m), s / (2 * K) + epsilon / m
        kl = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        assert kl <= 32 * epsilon**2 * K / (m**2 * s)
        T = theory.lower_bound(Problem(K, m, s), epsilon=epsilon)
        average = m / (K - m + 1) + math.sqrt(m * T / (K - m + 1) * kl / 2)
        assert average < 0.167


def test_e10_tail_of_the_sum_of_rewards() -> None:
    K, s = 10**6, 80
    tail = binom.sf(s, K, s / (2 * K))
    assert tail > 3.9 * math.exp(-s / 4)
    for size, total in itertools.product((200, 10**4, 10**6), range(1, 120, 7)):
        assert binom.sf(total, size, total / (2 * size)) <= math.exp(-total / 6)


def test_e10_conditioning_shrinks_the_gap() -> None:
    K, m, s, epsilon = 8, 2, 3, 0.05
    bias = np.full(K, s / (2 * K) - epsilon / (K - m))
    bias[:m] = s / (2 * K) + epsilon / m
    mass, mean = 0.0, np.zeros(K)
    for outcome in itertools.product((0, 1), repeat=K):
        r = np.array(outcome)
        if r.sum() <= s:
            probability = float(np.prod(np.where(r == 1, bias, 1 - bias)))
            mass += probability
            mean += probability * r
    gap = (mean[0] - mean[-1]) / mass
    rest = 0.0
    for outcome in itertools.product((0, 1), repeat=K - 2):
        if sum(outcome) <= s - 1:
            rest += float(np.prod(np.where(np.array(outcome) == 1, bias[1:-1], 1 - bias[1:-1])))
    assert gap == pytest.approx((bias[0] - bias[-1]) * rest / mass)
    assert gap < bias[0] - bias[-1]


def test_e11_dropping_the_indicator_is_not_an_inequality() -> None:
    # One context, r = (1, 1); 1/Q̂ − 1/Q* is +2 for the first action and −2 for the second.
    difference = np.array([1 / 0.25 - 1 / 0.5, 1 / 0.5 - 1 / 0.25])
    with_indicator = float(difference[0] ** 2)  # π shows the first action only
    assert with_indicator > float(difference.sum() ** 2)
    assert with_indicator <= 2 * float((difference**2).sum())  # squared first, ‖r‖₁ = 2
    z = np.exp(np.linspace(-8, 8, 2001))
    assert (np.minimum((1 - z) ** 2, (1 - 1 / z) ** 2) / 2 <= -np.log(z) + z - 1 + 1e-12).all()
    # Without its square the second branch would break the inequality that follows.
    assert (np.minimum((1 - z) ** 2, 1 - 1 / z) / 2 < -1).any()


@pytest.mark.parametrize("seed", range(8))
def test_e12_second_moments_exactly(seed: int) -> None:
    """E R² over every policy of a mixture and every uniform list, against ρ·V ≤ m·V."""
    problem, incidence, r, weight = random_design(seed)
    K, m, gamma, P = 6, 2, 0.3, 5
    p = np.random.default_rng(50 + seed).dirichlet(np.ones(P))
    q = gamma * m / K + (1 - gamma) * incidence @ p
    uniform = [np.isin(np.arange(K), a) for a in itertools.combinations(range(K), m)]
    for j in range(P):
        mean, second = 0.0, 0.0
        for i in range(4):
            value = incidence[i, :, j] * r[i] / q[i]
            shown = [((1 - gamma) * p[k], incidence[i, :, k]) for k in range(P)]
            shown += [(gamma / len(uniform), a) for a in uniform]
            mean += weight[i] * sum(w * float(value[a].sum()) for w, a in shown)
            second += weight[i] * sum(w * float(value[a].sum()) ** 2 for w, a in shown)
        proxy = float(weight @ (incidence[:, :, j] * r / q).sum(1))
        assert mean == pytest.approx(float(weight @ (incidence[:, :, j] * r).sum(1)))
        assert second <= problem.max_reward * proxy * (1 + 1e-12)
        assert problem.max_reward <= m
