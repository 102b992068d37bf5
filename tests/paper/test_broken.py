"""Verdicts that can fail: in every claim, an algorithm that is broken on purpose is found out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.explore.solvers.frank_wolfe import PrintedStep
from comband.paper import Claim, Plan, Record
from comband.paper.catalogue import (
    certification,
    frank_wolfe,
    gradient_bound,
    leading_term,
    list_classification,
    lower_bound,
    optimal_rate,
    regret,
    single_label,
    total_certification,
    total_variance,
    uniform_convergence,
)
from comband.paper.checks import Verdict, judge
from comband.paper.records import Setting
from comband.regret.exp4_comb_sparse import Exp4CombSparse


def _records(claim: Claim, settings: Iterable[Setting], n_seeds: int) -> list[Record]:
    return [Record(s, seed, claim.measure(s, seed)) for s in settings for seed in range(n_seeds)]


def _verdict(claim: Claim, begin: str, records: Sequence[Record]) -> Verdict:
    (check,) = (check for check in claim.checks if check.text.startswith(begin))
    return judge([check], records)[0]


def _settings(plan: Plan, **where: Any) -> list[dict[str, Any]]:
    return [dict(s) for s in plan.settings if all(s.get(name) == value for name, value in where.items())]


def test_leading_term_needs_the_design(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phase 2 with uniform lists: what is needed grows with K."""

    def no_design(events: cb.Events, oracle: Any, *, problem: cb.Problem) -> Any:
        class Nothing:
            mixture = cb.Mixture(oracle.policies, np.full(20, 1 / 20), problem=problem, floor=1.0)

        return Nothing()

    monkeypatch.setattr(leading_term, "design_exploration", no_design)
    chosen = [{**s, "runs": 30} for s in _settings(leading_term.CLAIM.quick, vary="K", learner="PAC-COMBAND")[:2]]
    records = _records(leading_term.CLAIM, chosen, 3)
    assert _verdict(leading_term.CLAIM, "PAC-COMBAND: slope in K", records) == "not supported"


def test_gradient_bound_needs_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design that stays with its first policy is far from the minimum, and its variance grows with K."""
    right = cb.design_exploration

    def first_policy(events: cb.Events, oracle: Any, **options: Any) -> Any:
        design = right(events, oracle, **options)
        weights = np.eye(len(design.mixture.weights))[0]
        mixture = cb.Mixture(oracle.policies, weights, problem=options["problem"], floor=options["floor"])
        return type("Stuck", (), {"mixture": mixture, "gap": 0.0})()

    chosen = _settings(gradient_bound.CLAIM.quick, K=48, m=1)
    for text in ("Largest ‖∇F‖∞", "Largest variance"):
        assert _verdict(gradient_bound.CLAIM, text, _records(gradient_bound.CLAIM, chosen, 1)) == "supported"
    monkeypatch.setattr(gradient_bound, "design_exploration", first_policy)
    for text in ("Largest ‖∇F‖∞", "Largest variance"):
        assert _verdict(gradient_bound.CLAIM, text, _records(gradient_bound.CLAIM, chosen, 1)) == "not supported"


def test_uniform_convergence_needs_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase 1 that looks at its first 2,000 rounds only does not improve."""
    right = uniform_convergence.uniform_rounds
    monkeypatch.setattr(uniform_convergence, "uniform_rounds", lambda world, n, rng: right(world, min(n, 2000), rng))
    name = "K=10, m=1, s=1"
    chosen = _settings(uniform_convergence.CLAIM.quick, K=10)
    records = _records(uniform_convergence.CLAIM, chosen, 6)
    assert _verdict(uniform_convergence.CLAIM, f"Slope of the excess in N₁, {name}", records) == "not supported"


def test_frank_wolfe_needs_falling_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of one half for ever: the error stays where the last column threw it."""
    chosen = _settings(frank_wolfe.CLAIM.quick, K=frank_wolfe.SMALL)
    fewer = [{**s, "steps": 3000} for s in chosen]
    assert _verdict(frank_wolfe.CLAIM, "Largest error", _records(frank_wolfe.CLAIM, fewer, 3)) == "supported"
    right = PrintedStep.__call__

    def constant(self: PrintedStep, potential: Any, active: Any, found: Any, state: Any, step: int) -> bool:
        return right(self, potential, active, found, state, 2)  # 2/(2 + 2)

    monkeypatch.setattr(PrintedStep, "__call__", constant)
    records = _records(frank_wolfe.CLAIM, [{**s, "most": 2000} for s in chosen], 2)
    assert _verdict(frank_wolfe.CLAIM, "Largest error", records) == "not supported"
    assert _verdict(frank_wolfe.CLAIM, "Slope of the error", records) == "not supported"


def test_single_label_notices_a_design_that_never_gets_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase 1 that stops at 1,000 rounds: nothing is measured, and nothing is taken for support."""

    class Impatient(cb.PacComband):
        def __init__(self, problem: cb.Problem, policies: Any, *, n_explore: int, n_estimate: int, seed: Any) -> None:
            super().__init__(problem, policies, n_explore=min(n_explore, 1000), n_estimate=n_estimate, seed=seed)

    monkeypatch.setattr(single_label, "PacComband", Impatient)
    monkeypatch.setattr(single_label, "SingleLabelComband", Impatient)
    monkeypatch.setattr(single_label, "MOST", 4_000)
    records = _records(single_label.CLAIM, _settings(single_label.CLAIM.quick), 2)
    assert _verdict(single_label.CLAIM, "Slope of the general", records) == "undecided"


def test_lower_bound_is_refuted_by_one_who_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers taken from the hidden set succeed at once."""
    chosen = _settings(lower_bound.CLAIM.quick, part="below", K=96, learner="uniform lists")
    below = "At T = s·m/(3072 ε²)"
    assert _verdict(lower_bound.CLAIM, below, _records(lower_bound.CLAIM, chosen, 2)) == "consistent"

    def knows(world: cb.worlds.LowerBoundInstance, strategy: Any, goals: Any, n_runs: int, rng: Any) -> Any:
        return iter([np.tile(world.good, (n_runs, 1)) for _ in goals])

    monkeypatch.setattr(lower_bound, "play", knows)
    assert _verdict(lower_bound.CLAIM, below, _records(lower_bound.CLAIM, chosen, 2)) == "not supported"


@pytest.mark.parametrize(
    ("x", "values", "sparsity", "gap"),
    [
        ("epsilon", (0.5, 0.8, 1.2), lambda s: s, lambda epsilon, m: 0.8),
        ("s", (2, 4, 8), lambda s: 4, lambda epsilon, m: epsilon),
        ("m", (1, 2, 4), lambda s: s, lambda epsilon, m: epsilon * (m / 2) ** 0.5),
    ],
    ids=["rounds that do not depend on ε", "rewards that do not depend on s", "gaps that grow with m"],
)
def test_lower_bound_scales(
    x: str, values: Sequence[float], sparsity: Any, gap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worlds with another slope than the theorem's are found out."""
    middle: dict[str, Any] = {
        "part": "scaling",
        "learner": "uniform lists",
        "runs": 40,
        "K": 24,
        "m": 2,
        "s": 4,
        "epsilon": 0.8,
    }
    settings = [{**middle, x: value, "vary": x if value != values[1] else "none"} for value in values]
    settings = [{**s, "K": 12 * s["m"]} for s in settings]
    check = f"Slope of the rounds needed in {x.replace('epsilon', 'ε')}"
    right = cb.worlds.LowerBoundInstance

    def other(problem: cb.Problem, *, epsilon: float, seed: Any) -> cb.worlds.LowerBoundInstance:
        problem = cb.Problem(problem.n_actions, problem.list_size, sparsity(problem.sparsity))
        return right(problem, epsilon=gap(epsilon, problem.list_size), seed=seed)

    monkeypatch.setattr(lower_bound, "LowerBoundInstance", other)
    assert _verdict(lower_bound.CLAIM, check, _records(lower_bound.CLAIM, settings, 16)) == "not supported"


def test_regret_needs_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that is never told anything loses more than the theorem allows, and in proportion to T."""

    class Deaf(Exp4CombSparse):
        def tell(self, decisions: Any, rewards: Any = None, **metrics: Any) -> Any:
            return super().tell(decisions, np.zeros_like(rewards))

    chosen = [{**s, "T": 4000} for s in _settings(regret.CLAIM.quick, vary="bound", P=4)]
    multiple = "Largest regret in multiples"
    assert _verdict(regret.CLAIM, multiple, _records(regret.CLAIM, chosen, 3)) == "supported"
    monkeypatch.setattr(regret, "Exp4CombSparse", Deaf)
    assert _verdict(regret.CLAIM, multiple, _records(regret.CLAIM, chosen, 1)) == "not supported"
    growing = _settings(regret.CLAIM.quick, vary="T")
    assert _verdict(regret.CLAIM, "EXP4-COMB-SPARSE: slope in T", _records(regret.CLAIM, growing, 2)) == "not supported"


def test_list_classification_needs_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the answers of other rows, nothing is learnt about a row."""

    class Shuffled(cb.BanditListClassifier):
        def fit(self, X: Any, y: Any = None, **feedback: Any) -> Any:
            if "rewards" in feedback:
                feedback["rewards"] = np.random.default_rng(0).permutation(feedback["rewards"])
            return super().fit(X, y, **feedback)

    claim = list_classification.claim()
    monkeypatch.setattr(list_classification, "BanditListClassifier", Shuffled)
    records = _records(claim, _settings(claim.quick), 3)
    for text in ("digits: slope", "digits: hits"):
        assert _verdict(claim, text, records) == "not supported"


def test_certification_needs_more_than_an_ab_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """An A/B/n test in the place of AdaptiveComband is not faster than itself."""
    monkeypatch.setattr(certification, "LEARNERS", {"AdaptiveComband": cb.ABTest, "A/B/n test": cb.ABTest})
    chosen = [{**s, "P": 5, "epsilon": 0.2} for s in _settings(certification.CLAIM.quick, kind="clustered")]
    records = _records(certification.CLAIM, chosen, 2)
    begin = "Rounds of AdaptiveComband over those of: A/B/n test"
    assert _verdict(certification.CLAIM, begin, records) == "not supported"


def test_certification_notices_wrong_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one candidate is far better than all others, a learner that names another one."""

    class Other(cb.UniformMixture):
        def result(self) -> Any:
            right = super().result()
            return replace(right, best=replace(right.best, index=(right.best.index + 1) % 5))

    monkeypatch.setattr(certification, "LEARNERS", {"AdaptiveComband": Other})
    chosen = [{**s, "P": 5} for s in _settings(certification.CLAIM.quick, kind="needle")]
    records = _records(certification.CLAIM, chosen, 6)
    assert _verdict(certification.CLAIM, "Share of certificates that are wrong", records) == "not supported"


def test_total_variance_needs_the_design(monkeypatch: pytest.MonkeyPatch) -> None:
    """Midzuno's lists with a uniform first action only: what is needed grows with K."""
    right = total_variance.midzuno_moments

    def uniform(p: Any, overlaps: Any, problem: cb.Problem) -> Any:
        return right(np.zeros_like(p), overlaps, problem)

    begin, chosen = "Midzuno's lists: slope", _settings(total_variance.CLAIM.quick)
    monkeypatch.setattr(total_variance, "FILLS", 20)
    monkeypatch.setattr(total_variance, "log_det", lambda world: np.full(len(world.lists), 1 / len(world.lists)))
    assert _verdict(total_variance.CLAIM, begin, _records(total_variance.CLAIM, chosen, 2)) == "supported"
    monkeypatch.setattr(total_variance, "midzuno_moments", uniform)
    assert _verdict(total_variance.CLAIM, begin, _records(total_variance.CLAIM, chosen, 2)) == "not supported"


def test_total_certification_needs_more_than_an_ab_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """An A/B/n test in the place of AdaptiveComband is not faster than itself."""
    monkeypatch.setattr(total_certification, "LEARNERS", {"AdaptiveComband": cb.ABTest, "A/B/n test": cb.ABTest})
    chosen = [{**s, "P": 5, "epsilon": 0.25} for s in _settings(total_certification.CLAIM.quick)]
    records = _records(total_certification.CLAIM, chosen, 2)
    begin = "Rounds of AdaptiveComband over those of: A/B/n test"
    assert _verdict(total_certification.CLAIM, begin, records) == "not supported"


def test_total_certification_notices_wrong_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that names the next candidate instead."""

    class Other(cb.ABTest):
        def result(self) -> Any:
            right = super().result()
            return replace(right, epsilon=0.0, best=replace(right.best, index=(right.best.index + 1) % 5))

    monkeypatch.setattr(total_certification, "LEARNERS", {"AdaptiveComband": Other})
    chosen = [{**s, "P": 5, "epsilon": 1e-6, "most": 600} for s in _settings(total_certification.CLAIM.quick)]
    records = _records(total_certification.CLAIM, chosen, 8)
    assert _verdict(total_certification.CLAIM, "Share of certificates that are wrong", records) == "not supported"


def test_the_optimal_rate_needs_weights_that_are_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that stay with one candidate: the estimates of the others spread beyond the bound."""

    class Stuck(cb.OnlineComband):
        def _solve(self) -> None:
            self._p[:] = np.eye(len(self._p))[0]

    claim, text = optimal_rate.CLAIM, "Largest spread W"
    chosen = _settings(claim.quick, vary="K", K=60)
    assert _verdict(claim, text, _records(claim, chosen, 1)) == "supported"
    monkeypatch.setattr(optimal_rate, "OnlineComband", Stuck)
    assert _verdict(claim, text, _records(claim, chosen, 1)) == "not supported"
