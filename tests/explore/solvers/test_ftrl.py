"""The FTRL step against high precision, scipy and its own optimality conditions."""

import math
import os
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import softmax, wrightomega

from comband._kernels.ftrl import _log, _sum, _wright_omega, ftrl_solve, softmax_solve
from comband.explore.solvers.ftrl import Ftrl
from comband.page.problem import InputError

STEPS = [(1e-3, 1 / 16), (0.1, 1 / 16), (1e-5, 1 / 80), (10.0, 1.0), (1e3, 1e-3)]


def extreme_losses(size: int, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """Flat, usual, huge and widely spread; negative as in the algorithm, and positive."""
    return [
        np.zeros(size),
        -rng.random(size) * 1e3,
        -(rng.random(size) ** 8) * 1e13,
        -np.exp(rng.uniform(-5, 30, size)),
        1e13 + rng.integers(0, 2, size) * 1.0,
    ]


def exact_weights(losses: NDArray[np.float64], eta: float, nu: float) -> list[mpmath.mpf]:
    """50 digits: bisection on the multiplier, each weight by mpmath's own Lambert function or Newton."""
    with mpmath.workdps(50):
        eta_, nu_ = mpmath.mpf(eta), mpmath.mpf(nu)
        low_loss = mpmath.mpf(float(losses.min()))
        shifted = [mpmath.mpf(float(v)) - low_loss for v in losses]

        def weight(u: mpmath.mpf) -> mpmath.mpf:
            z = mpmath.lambertw(mpmath.exp(u)) if u < 200 else u - mpmath.log(u)
            for _ in range(6 if u >= 200 else 0):
                z -= (z + mpmath.log(z) - u) * z / (1 + z)
            return eta_ / (nu_ * mpmath.re(z))

        def excess(theta: mpmath.mpf) -> mpmath.mpf:
            return mpmath.fsum(weight(eta_ * v + theta) for v in shifted) - 1

        scale = eta_ / nu_
        low, high = scale + mpmath.log(scale), len(shifted) * scale + mpmath.log(len(shifted) * scale)
        if low == high:
            return [mpmath.mpf(1)]
        if abs(excess(high)) < mpmath.mpf(10) ** -40:
            theta = high
        else:
            theta = mpmath.findroot(excess, (low, high), solver="anderson", tol=1e-70, maxsteps=200)
        assert abs(excess(theta)) < mpmath.mpf(10) ** -30
        return [weight(eta_ * v + theta) for v in shifted]


@pytest.mark.parametrize(("eta", "nu"), STEPS)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_agrees_with_fifty_digits(eta: float, nu: float, size: int) -> None:
    for losses in extreme_losses(size, np.random.default_rng(size)):
        weights = Ftrl(size, eta=eta, nu=nu).solve(losses)
        for mine, exact in zip(weights, exact_weights(losses, eta, nu), strict=True):
            assert abs(mpmath.mpf(float(mine)) / exact - 1) < 1e-12


@pytest.mark.parametrize(("eta", "nu"), STEPS)
@pytest.mark.parametrize("size", [100, 5000])
def test_optimality_and_scipy_on_extreme_inputs(eta: float, nu: float, size: int) -> None:
    """The numpy twin: the same weights from scipy's Wright omega at the same multiplier."""
    smallest = 1.0
    for losses in extreme_losses(size, np.random.default_rng(7)):
        ftrl = Ftrl(size, eta=eta, nu=nu)
        weights = ftrl.solve(losses)
        residuals = ftrl.residuals(losses)
        assert residuals.stationarity < 1e-12
        assert residuals.simplex < 1e-12
        low = losses.min()
        u = eta * (losses - low) + (eta * (ftrl.multiplier + low) + 1 + math.log(eta / nu))
        if abs(ftrl.multiplier) < 1e10:  # otherwise λ + min L has lost its digits: that is why θ is kept instead
            np.testing.assert_allclose(weights, eta / nu / wrightomega(u), rtol=1e-6)
        smallest = min(smallest, float(weights.min()))
    assert smallest < 1e-8


def test_a_weight_of_1e_12_is_exact_to_1e_10() -> None:
    losses = np.array([-1e13, -1e13 + 16e12, 0.0])
    weights = Ftrl(3, eta=1e-3, nu=1 / 16).solve(losses)
    assert 1e-13 < weights.min() < 3e-12
    for mine, exact in zip(weights, exact_weights(losses, 1e-3, 1 / 16), strict=True):
        assert abs(mpmath.mpf(float(mine)) / exact - 1) < 3e-13  # the sum is within 2e-13 of 1


@pytest.mark.parametrize("size", [1, 5, 100, 512, 700])
def test_warm_starts_do_not_drift(size: int) -> None:
    rng = np.random.default_rng(3)
    ftrl = Ftrl(size, eta=0.01, nu=1 / 16)
    losses = np.zeros(size)
    for t in range(1500):
        hit = rng.random(size) < 0.05
        losses[hit] -= rng.random() / max(ftrl.weights[hit].sum(), 1e-9)
        ftrl.solve(losses)
        if t % 100 == 99:
            residuals = ftrl.residuals(losses)
            assert residuals.stationarity < 1e-14
            assert residuals.simplex < 1e-12
    cold = Ftrl(size, eta=0.01, nu=1 / 16).solve(losses)
    np.testing.assert_allclose(ftrl.weights, cold, rtol=1e-11)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e13, 1e13), min_size=1, max_size=40),
    st.floats(1e-6, 1e3),
    st.floats(1e-4, 1.0),
)
def test_any_losses(losses: list[float], eta: float, nu: float) -> None:
    array = np.array(losses)
    ftrl = Ftrl(len(losses), eta=eta, nu=nu)
    weights = ftrl.solve(array)
    residuals = ftrl.residuals(array)
    assert residuals.stationarity < 1e-10
    assert residuals.simplex < 1e-12
    assert (weights > 0).all()
    order = np.argsort(array, kind="stable")
    assert (np.diff(weights[order]) <= 1e-12 * weights[order][:-1]).all()  # less loss, more weight


def test_minimises_the_objective() -> None:
    """The value at the solution against many other points of the simplex, near and far."""
    rng = np.random.default_rng(0)
    losses, eta, nu = rng.normal(size=6) * 20, 0.2, 0.3

    def value(p: NDArray[np.float64]) -> float:
        return float(losses @ p + (p * np.log(p)).sum() / eta - np.log(p).sum() / nu)

    weights = Ftrl(6, eta=eta, nu=nu).solve(losses).copy()
    others = [rng.dirichlet(np.full(6, a)) for a in (0.3, 1, 10) for _ in range(300)]
    others += [weights + 1e-3 * (other - weights) for other in others]
    assert all(value(p) >= value(weights) - 1e-9 for p in others if p.min() > 0)


def test_a_weak_barrier_gives_the_softmax() -> None:
    losses = np.random.default_rng(1).normal(size=50)
    weights = Ftrl(50, eta=0.7, nu=1e13).solve(losses)
    np.testing.assert_allclose(weights, softmax(-0.7 * losses), rtol=1e-10)


def test_softmax_kernel_is_scipys() -> None:
    losses = np.random.default_rng(1).normal(size=777) * 1e3
    weights = np.empty(777)
    softmax_solve(losses, 0.3, weights)
    np.testing.assert_allclose(weights, softmax(-0.3 * losses), rtol=1e-12)


def test_log_kernel_is_numpys() -> None:
    values = np.concatenate(
        [np.exp(np.random.default_rng(0).uniform(-600, 600, 5000)), 1 + np.linspace(-0.4, 0.6, 999)]
    )
    mine = np.array([_log(x) for x in values])
    np.testing.assert_allclose(mine, np.log(values), rtol=4e-16, atol=0)


def test_omega_kernel_is_scipys() -> None:
    u = np.concatenate([np.linspace(-40, 40, 4001), 10.0 ** np.arange(2, 14)])
    # For u << 0 the residual u - log z is rounded at the size of u: a relative error of |u| ulps is the best possible.
    np.testing.assert_allclose([_wright_omega(x) for x in u], wrightomega(u), rtol=3e-14)


@pytest.mark.parametrize("wrong", [{"size": 0}, {"eta": 0.0}, {"nu": -1.0}, {"eta": math.nan}])
def test_refuses_wrong_parameters(wrong: dict[str, float]) -> None:
    arguments = {"size": 3, "eta": 0.1, "nu": 0.1, **wrong}
    with pytest.raises(InputError, match=next(iter(wrong))):
        Ftrl(int(arguments["size"]), eta=arguments["eta"], nu=arguments["nu"])


RUN = """
import hashlib
import numpy as np
from comband.explore.solvers.ftrl import Ftrl

for size in (3, 12, 40, 600):
    for eta, nu in ((0.02, 0.5), (0.1, 2.0), (0.01, 1 / 16)):
        digest, rng = hashlib.blake2b(), np.random.default_rng(size)
        ftrl, losses = Ftrl(size, eta=eta, nu=nu), np.zeros(size)
        for _ in range(400):
            hit = rng.random(size) < 0.3
            losses[hit] -= 1 / max(ftrl.weights[hit].sum(), 0.02)
            digest.update(ftrl.solve(losses).tobytes())
        print(size, eta, nu, digest.hexdigest())
"""


def test_the_run_that_compiles_gives_the_bits_of_those_that_load(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", RUN]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout for _ in range(2)
    )
    assert len(first.splitlines()) == 12
    assert any(tmp_path.rglob("*.nbc"))
    assert first == second


def test_sums_are_the_same_for_every_place_in_memory() -> None:
    rng = np.random.default_rng(0)
    for size in range(40):
        values = rng.random(size) * 10.0 ** rng.integers(-8, 8, size)
        room = np.zeros(size + 8)
        found = set()
        for shift in range(8):
            room[shift : shift + size] = values
            found.add(_sum(room[shift : shift + size]))
        assert len(found) == 1
        np.testing.assert_allclose(found.pop(), math.fsum(values), rtol=1e-15)


@pytest.mark.slow  # compiles the step once more
def test_scattered_weights_are_refused() -> None:
    with pytest.raises(IndexError, match="side by side"):
        ftrl_solve(np.zeros(3), 0.1, 0.2, 0.0, 0.0, np.full(6, 1 / 3)[::2])
