"""Step sizes and regret bounds against computations by hand, and their refusals."""

import math
from typing import Any

import numpy as np
import pytest

from comband import theory
from comband.page.problem import InputError, Problem

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


def test_regret_bounds_by_hand() -> None:
    """SMALL has m = 3 and s = ρ = 2; the factors of √(log(P)·T) are 2√(κsρ)."""
    root = math.sqrt(1000 * math.log(10))
    safe = theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000)
    assert safe.barrier == 1 / 32
    assert safe.step_size == pytest.approx(math.sqrt(math.log(10) / (8 / 15 * 4 * 1000)))
    assert safe.regret == pytest.approx(2 + 32 * 10 * math.log(1000) + 2 * math.sqrt(8 / 15 * 4) * root)
    sharp = theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier="sharp")
    assert sharp.barrier == 1 / 4
    assert sharp.step_size == pytest.approx(math.sqrt(math.log(10) / (4 * 1000)))
    assert sharp.regret == pytest.approx(2 + 4 * 10 * math.log(1000) + 2 * 2 * root)
    printed = theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier="printed")
    assert printed.barrier == 1 / 16
    assert printed.step_size == pytest.approx(math.sqrt(math.log(10) / (6 * 1000)))
    kappa = 1 / (2 * (1 - 2 / 16))
    assert printed.regret == pytest.approx(
        2 + 16 * 10 * math.log(1000) + math.sqrt(6) * root + kappa * 4 / math.sqrt(6) * root
    )
    hopeless = theory.exp4_comb_sparse(Problem(20, 16, 16), n_policies=10, horizon=1000, barrier="printed")
    assert hopeless.regret == math.inf
    classic = theory.exp4(SMALL, n_policies=10, horizon=1000)
    cost = 4 * SMALL.n_actions / 3 + (math.e - 2) * 4
    assert classic.step_size == pytest.approx(math.sqrt(math.log(10) / (1000 * cost)))
    assert classic.floor == pytest.approx(classic.step_size * 2 * SMALL.n_actions / 3)
    assert classic.regret == pytest.approx(2 * math.sqrt(cost) * root)
    assert theory.exp4(SMALL, n_policies=10, horizon=1000, floor=0).regret == math.inf
    short = theory.exp4(SMALL, n_policies=10, horizon=1)
    assert short.floor == 0.5
    assert short.step_size == pytest.approx(0.5 * 3 / (2 * SMALL.n_actions))
    assert "barrier" in str(safe)
    assert "floor" not in str(safe)
    assert "barrier" not in str(classic)


@pytest.mark.parametrize("barrier", ["safe", "sharp", 0.4])
def test_the_step_size_minimises_the_bound(barrier: Any) -> None:
    def bound(change: float) -> float:
        eta = change * theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier=barrier).step_size
        return theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier=barrier, step_size=eta).regret

    assert bound(1) < min(bound(0.99), bound(1.01))


def test_price_of_the_regulariser() -> None:
    """R(p*_γ) − R(p₁) ≤ P·log(T)/ν + log(P)/η at γ = 1/(PT): Φ(p₁) is subtracted, so log T and not log(PT)."""
    for P, T in ((1, 1), (2, 1), (2, 50), (30, 7), (1000, 10**6)):
        comparator = np.full(P, 1 / (P * T))
        comparator[0] += 1 - 1 / T
        barrier = -np.log(comparator).sum() - P * math.log(P)
        entropy = (comparator * np.log(comparator)).sum() + math.log(P)
        assert barrier <= P * math.log(T) + 1e-9
        assert entropy <= math.log(P) + 1e-12


def test_variance_of_the_estimates_of_a_round() -> None:
    """Σ_i p_i·E ĉ(i)² ≤ sρ by enumeration of the drawn policy; the text's sm is looser."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        K, m, P = 12, int(rng.integers(1, 6)), int(rng.integers(1, 9))
        member = np.zeros((P, K))
        for row in member:
            row[rng.choice(K, m, replace=False)] = 1
        r = rng.random(K) * (rng.random(K) < 0.5)
        s = max(float(r.sum()), 1e-9)
        p = rng.dirichlet(np.ones(P))
        Q = p @ member
        weighted = np.divide(r, Q, out=np.zeros(K), where=Q > 0)
        second = sum(p[a] * (member @ (weighted * member[a])) ** 2 for a in range(P))
        assert p @ second <= s * min(s, m) + 1e-9


def test_other_absurd_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="sparsity"):
        Problem(5, 2, 6)
    with pytest.raises(InputError, match="n_actions/12"):
        theory.lower_bound(Problem(12, 2, 1), epsilon=0.01)
    with pytest.raises(InputError, match="epsilon"):
        theory.lower_bound(Problem(24, 2, 1), epsilon=0.5)
    with pytest.raises(InputError, match="barrier"):
        theory.exp4_comb_sparse(SMALL, n_policies=5, horizon=10, barrier=0.5)
    with pytest.raises(InputError, match="barrier"):
        theory.exp4_comb_sparse(SMALL, n_policies=5, horizon=10, barrier="huge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="floor"):
        theory.exp4(SMALL, n_policies=5, horizon=10, floor=1.5)
    with pytest.raises(InputError, match="horizon"):
        theory.exp4(SMALL, n_policies=5, horizon=0)
