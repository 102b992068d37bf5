"""The schedules of Algorithms 1 and 3 gather their parts, and refuse absurd inputs."""

import math

import pytest

from comband import theory
from comband.page.problem import InputError, Problem

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


def test_pac_comband_gathers_the_parts() -> None:
    plan = theory.pac_comband(SMALL, n_policies=50, epsilon=0.1, delta=0.1, route="refined")
    assert plan.n_explore == theory.explore_rounds(SMALL, n_policies=50, delta=0.05)
    assert plan.n_estimate == theory.estimate_rounds(SMALL, n_policies=50, epsilon=0.1, delta=0.05)
    # h₁ ≤ 8·log 8, C = 128, μ/3 = 1/48
    assert 2 * (8 * math.log(8) + 128 * plan.n_steps) / ((plan.n_steps + 1) * (plan.n_steps + 2)) <= 1 / 48
    assert plan.n_rounds == plan.n_explore + plan.n_estimate
    assert plan.oracle_calls == plan.n_steps + 1
    text = str(plan)
    assert "refined" in text
    assert "Bernstein" in text
    assert "ASSUMED" in str(theory.pac_comband(SMALL, n_policies=50, epsilon=0.1, delta=0.1, route="printed"))


def test_the_default_is_the_gradient_route() -> None:
    plan = theory.pac_comband(SMALL, n_policies=50, epsilon=0.1, delta=0.1)
    assert plan.route == "gradient"
    assert plan.n_explore == theory.gradient_rounds(SMALL, n_policies=50, delta=0.05).n_rounds
    assert plan.n_estimate == theory.estimate_rounds(SMALL, n_policies=50, epsilon=0.1, delta=0.05)
    assert plan.accuracy == pytest.approx(0.02 * 2)
    assert plan.n_steps == theory.frank_wolfe_gap_steps(curvature=128, start_gap=8 * math.log(8), gap=0.04)
    assert "gradient" in str(plan)


def test_refined_is_never_worse_than_printed() -> None:
    for K, m, s in [(10, 1, 1), (100, 5, 1), (100, 5, 20), (60, 5, 5), (1000, 10, 3)]:
        problem = Problem(K, m, s)
        refined, printed = (
            theory.pac_comband(problem, n_policies=200, epsilon=0.05, delta=0.05, route=route)
            for route in ("refined", "printed")
        )
        assert refined.n_explore < printed.n_explore
        assert refined.n_steps < printed.n_steps
        assert refined.n_estimate < printed.n_estimate


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0}, "delta"),
        ({"n_policies": 0}, "n_policies"),
        ({"n_policies": 2.5}, "n_policies"),
        ({"floor": 0}, "floor"),
        ({"floor": 1.0}, "floor"),
        ({"route": "guess"}, "route"),
    ],
)
def test_absurd_inputs_are_refused(change: dict[str, object], word: str) -> None:
    arguments: dict[str, object] = {"n_policies": 5, "epsilon": 0.1, "delta": 0.1, **change}
    with pytest.raises(InputError, match=word):
        theory.pac_comband(SMALL, **arguments)  # type: ignore[call-overload]
    with pytest.raises(InputError, match=word):
        theory.single_label(5, **arguments)  # type: ignore[arg-type]
