"""The schedule of Algorithm 3 against computations by hand."""

import math

import pytest

from comband import theory


def test_single_label_by_hand() -> None:
    plan = theory.single_label(6, n_policies=20, epsilon=0.2, delta=0.1, route="refined")
    mu = 1 / 72
    n = (3 / mu * (6 * math.sqrt(2 * math.log(20)) + math.log(12) * math.sqrt(math.log(80) / 2))) ** 2
    assert plan.accuracy == pytest.approx(mu)
    assert plan.n_labelled == math.ceil(n)
    L = math.log(40)
    assert plan.n_explore == math.ceil(6 * (math.sqrt(L / 2) + math.sqrt(L / 2 + math.ceil(n))) ** 2)
    assert "n_labelled" in str(plan)
    # Chernoff's margin is solved exactly: a − √(2aL) = |S| at a = N₁/K.
    a = plan.n_explore / 6
    assert a - math.sqrt(2 * a * L) == pytest.approx(n, rel=1e-6)


def test_single_label_growth_in_k() -> None:
    sizes = (10**4, 10**5)
    plans = [theory.single_label(K, n_policies=10**6, epsilon=0.2, delta=0.1, route="refined") for K in sizes]
    assert math.log10(plans[1].n_explore / plans[0].n_explore) == pytest.approx(7, abs=0.1)
    assert math.log10(plans[1].n_steps / plans[0].n_steps) == pytest.approx(4, abs=0.01)
    printed = theory.single_label(50, n_policies=20, epsilon=0.2, delta=0.1, route="printed")
    refined = theory.single_label(50, n_policies=20, epsilon=0.2, delta=0.1, route="refined")
    gradient = theory.single_label(50, n_policies=20, epsilon=0.2, delta=0.1)
    assert printed.n_explore > refined.n_explore > 1000 * gradient.n_explore
    assert gradient.n_labelled == theory.gradient_labels(50, n_policies=20, delta=0.025).n_rounds
    plans = [theory.single_label(K, n_policies=10**9, epsilon=0.2, delta=0.1) for K in (100, 1000)]
    assert math.log10(plans[1].n_explore / plans[0].n_explore) == pytest.approx(3, abs=0.1)
    assert math.log10(plans[1].n_steps / plans[0].n_steps) == pytest.approx(2, abs=0.01)
