"""The certificate of a design on held-out rounds: by hand, for oracles, for any logging rule, and its rate of error."""

import math
from typing import Any

import numpy as np
import pytest

from comband import EnumerationOracle, Events, InputError, Mixture, PolicySet, Problem, Rounds, design_exploration
from comband.page.contexts import Contexts
from comband.paper.catalogue.finite_world import FiniteWorld, gradient_norm, random_world
from comband.paper.catalogue.phase_one import label_world, uniform_hits
from comband.policies.base import Policy
from comband.statistics.chernoff import poisson_divergence

FLOOR = 0.5
PROBLEM = Problem(12, 3, 2)


class Hidden:
    """A class behind an oracle, which may be declared approximate."""

    def __init__(self, policies: PolicySet, *, exact: bool = True) -> None:
        self._inner, self.exact, self.calls = EnumerationOracle(policies), exact, 0

    def fit(self, X: Contexts, rewards: Any) -> Policy:
        self.calls += 1
        return self._inner.fit(X, rewards)


def play(world: FiniteWorld, mixture: Mixture, n: int, rng: np.random.Generator) -> Rounds:
    batch = world.sample(n, rng)
    decisions = mixture.draw(batch.contexts, rng)
    return Rounds(decisions, batch.answer(decisions.lists))


def lists_of(world: FiniteWorld, floor: float) -> Mixture:
    P = len(world.lists)
    return Mixture(world.policies, np.full(P, 1 / P), problem=world.problem, floor=floor)


@pytest.fixture(scope="module")
def world() -> FiniteWorld:
    return random_world(PROBLEM, 60, 20, np.random.default_rng(0))


def test_by_hand(world: FiniteWorld) -> None:
    """The average of every policy from the definition, round by round, and the root of Chernoff's exponent."""
    rng = np.random.default_rng(1)
    design = design_exploration(
        play(world, lists_of(world, 1.0), 500, rng), EnumerationOracle(world.policies), problem=PROBLEM
    )
    rounds = play(world, lists_of(world, 1.0), 700, rng)
    certificate = design.certify(rounds, 0.1)
    decisions = rounds.decisions
    Q = design.mixture.propensities(decisions.contexts, decisions.lists)
    shown = world.policies.predict(decisions.contexts)
    averages = np.zeros(20)
    for i in range(700):
        for k, y in enumerate(decisions.lists[i]):
            averages += rounds.rewards[i, k] / (0.25 * Q[i, k]) * (shown[i] == y).any(axis=1) / 700
    assert certificate.estimate == pytest.approx(averages.max())
    b = 2 / (0.25 * FLOOR * 0.25)
    assert poisson_divergence(averages.max(), certificate.max_variance) == pytest.approx(b * math.log(200) / 700)
    beta = b * math.log(200) / 1400
    assert certificate.max_variance <= (math.sqrt(beta) + math.sqrt(beta + averages.max())) ** 2
    assert certificate.gradient_norm == pytest.approx(FLOOR * certificate.max_variance)
    assert certificate.meets_paper_bound == (certificate.gradient_norm <= 4)
    assert certificate.proved
    assert "20 policies" in str(certificate)


def test_behind_an_oracle_it_is_the_same_by_one_call(world: FiniteWorld) -> None:
    rng = np.random.default_rng(2)
    train, rounds = (play(world, lists_of(world, 1.0), n, rng) for n in (300, 400))
    hidden = Hidden(world.policies)
    known = design_exploration(train, EnumerationOracle(world.policies), problem=PROBLEM)
    reached = design_exploration(train, hidden, problem=PROBLEM)
    before = hidden.calls
    certificate = reached.certify(rounds, 0.1, n_policies=20)
    assert hidden.calls == before + 1
    assert certificate.max_variance == pytest.approx(known.certify(rounds, 0.1).max_variance, rel=1e-3)
    assert reached.certify(rounds, 0.1, n_policies=10**6).max_variance > certificate.max_variance
    with pytest.raises(InputError, match="n_policies"):
        reached.certify(rounds, 0.1)


def test_an_approximate_oracle_proves_no_more_than_the_floor(world: FiniteWorld) -> None:
    rng = np.random.default_rng(3)
    oracle = Hidden(world.policies, exact=False)
    design = design_exploration(play(world, lists_of(world, 1.0), 300, rng), oracle, problem=PROBLEM)
    certificate = design.certify(play(world, lists_of(world, 1.0), 5000, rng), 0.1, n_policies=20)
    assert not certificate.proved
    assert certificate.max_variance == pytest.approx(2 / (FLOOR * 0.25))
    assert 0 < certificate.estimate < certificate.max_variance
    assert "approximate" in str(certificate)


def test_survivors_only(world: FiniteWorld) -> None:
    """A design for some of the policies is certified for these: others may be far beyond."""
    rng = np.random.default_rng(4)
    train, rounds = (play(world, lists_of(world, 1.0), n, rng) for n in (400, 400))
    oracle, few = EnumerationOracle(world.policies), [3, 7]
    design = design_exploration(train, oracle, problem=PROBLEM, indices=few)
    certificate = design.certify(rounds, 0.1)
    assert certificate.n_policies == 2
    subset = design_exploration(train, EnumerationOracle(world.policies.subset(few)), problem=PROBLEM)
    assert certificate.max_variance == pytest.approx(subset.certify(rounds, 0.1).max_variance, rel=1e-3)


def test_other_logging_rules_state_their_smallest_propensity(world: FiniteWorld) -> None:
    rng = np.random.default_rng(5)
    design = design_exploration(
        play(world, lists_of(world, 1.0), 400, rng), EnumerationOracle(world.policies), problem=PROBLEM
    )
    logging = lists_of(world, 0.2)
    rounds = play(world, logging, 4000, rng)
    with pytest.raises(InputError, match="least_propensity"):
        design.certify(rounds, 0.1)
    with pytest.raises(InputError, match="from below"):
        design.certify(rounds, 0.1, least_propensity=0.5)
    certificate = design.certify(rounds, 0.1, least_propensity=0.2 * 0.25)
    b = 2 / (0.2 * 0.25 * FLOOR * 0.25)
    exponent = poisson_divergence(certificate.estimate, certificate.max_variance)
    assert exponent == pytest.approx(b * math.log(200) / 4000)
    true = gradient_norm(world.incidence(), design.mixture.weights, PROBLEM, FLOOR) / (1 - FLOOR)
    # Unbiased: 8 standard errors of the largest size that the second moment bV allows are exceeded in 1e-15 of cases.
    assert certificate.estimate == pytest.approx(true, abs=8 * math.sqrt(b * true / 4000))


def test_without_any_reward(world: FiniteWorld) -> None:
    design = design_exploration(Events.none(10), EnumerationOracle(world.policies), problem=PROBLEM)
    certificate = design.certify(Events.none(1000), 0.1)
    assert certificate.estimate == 0
    assert certificate.max_variance == pytest.approx(2 / (0.25 * FLOOR * 0.25) * math.log(200) / 1000)
    assert design.certify(Events.none(1), 0.1).max_variance == pytest.approx(2 / (FLOOR * 0.25))


def test_refusals(world: FiniteWorld) -> None:
    design = design_exploration(Events.none(10), EnumerationOracle(world.policies), problem=PROBLEM)
    with pytest.raises(InputError, match="delta"):
        design.certify(Events.none(10), 0.0)
    with pytest.raises(InputError, match="at least one round"):
        design.certify(Events.none(0), 0.1)


def certificates(runs: int, *, K: int, delta: float, seed: int) -> tuple[float, float, float]:
    """How often the bound was below the truth, and the median and the largest of bound over truth."""
    problem, P = Problem(K, 2, 1), 100
    u = problem.uniform_propensity
    ratios = []
    for run in range(runs):
        rng = np.random.default_rng([seed, K, run])
        world = label_world("rare" if run % 2 else "mixed", problem, n_contexts=300, n_policies=P, rng=rng)
        train = uniform_hits(world, math.ceil(2 / u**2), rng)
        design = design_exploration(train, EnumerationOracle(world.policies), problem=problem, floor=FLOOR)
        held_out = uniform_hits(world, math.ceil(20 * math.log(P / delta) / u**2), rng)
        gamma = design.mixture.floor  # 1 if nothing was hit
        Q = (1 - gamma) * np.squeeze(world.incidence(), 1) @ design.mixture.weights + gamma * u
        true = float(((1 / Q) @ np.squeeze(world.incidence(), 1)).max() / 300)
        ratios.append(design.certify(held_out, delta).max_variance / true)
    return float(np.mean(np.array(ratios) < 1)), float(np.median(ratios)), max(ratios)


def test_it_is_right_and_tight() -> None:
    wrong, middle, _ = certificates(10, K=20, delta=0.05, seed=0)
    assert wrong <= 0.5  # 6 or more of 10 at 0.05 each: 3e-6 of cases, and the union makes it far rarer still
    assert middle < 2


@pytest.mark.slow
@pytest.mark.parametrize("K", [10, 20, 40, 80, 160])
def test_it_is_right_in_a_thousand_runs_and_within_twice_the_truth(K: int) -> None:
    """Wrong in at most δ of 200 runs for each K; 27 or more at δ = 0.05 have probability 2e-6."""
    wrong, middle, largest = certificates(200, K=K, delta=0.05, seed=1)
    print(f"K = {K}: wrong in {200 * wrong:g} of 200; bound over truth: median {middle:.3f}, largest {largest:.3f}")
    assert wrong <= 26 / 200
    assert middle < 1.8
    assert largest < 2
