"""With further metrics too, whatever comes late, never or twice: a learner's evidence is its twin's, to the last bit
after it was saved and loaded.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.certify.guardrails import Guardrails
from comband.page.metrics import Metric
from tests.certify.test_twin import BATCH, LEARNERS, LISTS, PROBLEM, RARE, K, M, assert_same, contexts, rewards_for
from tests.certify.twin_metrics import GuardedTwin
from tests.states import text

METRICS = (Metric(name="purchases", margin=0.1), Metric(name="reports", margin=0.2, direction="cost", largest=2.0))
WORTH = np.random.default_rng(21).random((2, K)) * np.array([[1.0], [2.0]])


def told(
    metrics: tuple[Metric, ...], lists: NDArray[np.int32], rewards: Any, worth: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """By name: what clicks are worth, and nothing of those in one place."""
    there = np.where(lists >= 0, rewards, 0.0)
    return {
        metric.name: of[np.maximum(lists, 0)] * there * (np.arange(lists.shape[1]) != j)
        for j, (metric, of) in enumerate(zip(metrics, worth, strict=False))
    }


def follow(
    name: str,
    seed: int,
    metrics: tuple[Metric, ...],
    folder: Path,
    *,
    n_batches: int = 30,
    patience: int | None = None,
    production: int = 4,
    lists: NDArray[np.int64] = LISTS,
    places: Any = None,
    worth: NDArray[np.float64] = WORTH,
    **options: Any,
) -> set[str]:
    kind, own = LEARNERS[name]
    problem = replace(PROBLEM, places=places, order="random" if isinstance(places, tuple) else None)
    policies = cb.PolicySet.from_lists(lists, problem, fallback="nothing" if (lists < 0).any() else None)
    given: dict[str, Any] = {
        "first_epoch": 60,
        "patience": patience,
        "production": policies.names[production],
        "metrics": metrics,
        "seed": seed,
        "epsilon": 0.15,
        "delta": 0.4,
        **own,
        **options,
    }
    learner = kind(problem, policies, **given)
    twin, rng = GuardedTwin(learner, lists), np.random.default_rng([seed, 43])
    pending: list[tuple[int, cb.Decisions, NDArray[np.float64], dict[str, NDArray[np.float64]]]] = []
    for batch in range(n_batches):
        if batch in (4, n_batches // 2):
            learner.save(folder / "learner.npz")
            again = kind.load(folder / "learner.npz", learner.policies)
            assert text(again.state()["learnt"]) == text(learner.state()["learnt"])
            learner = again
        x = contexts(batch, rng)
        decisions = learner.ask(x)
        twin.ask(learner, decisions)
        rewards = rewards_for(decisions.lists, batch >= n_batches // 2, rng) * (decisions.lists >= 0)
        rewards[x == RARE] = 0.5 * (decisions.lists[x == RARE] >= 0)
        further = told(metrics, decisions.lists, rewards, worth)
        delay = np.where(rng.random(BATCH) < 0.8, 0, rng.integers(1, 5, size=BATCH))
        for i in range(BATCH):
            if patience is None or rng.random() > 0.03:
                mine = {one: values[[i]] for one, values in further.items()}
                pending.append((batch + int(delay[i]), decisions[[i]], rewards[[i]], mine))
        last = batch == n_batches - 1
        due = [part for part in pending if last or part[0] <= batch]
        pending = [part for part in pending if not last and part[0] > batch]
        some = [due[i] for i in rng.permutation(len(due))]
        whole, answer = reduce(add, [part[1] for part in some]), np.concatenate([part[2] for part in some])
        values = {metric.name: np.concatenate([part[3][metric.name] for part in some]) for metric in metrics}
        learner.tell(whole, answer, **values)
        scaled = [values[metric.name] / metric.largest for metric in metrics]
        twin.tell(learner, whole.ids, np.stack([answer, *scaled], axis=1))
        compare(learner, twin)
    happened = {
        "the lead changed": any(a.leader != b.leader for a, b in pairwise(twin.epochs)),
        "dropped": len(twin.dropped) > 0,
        "back": twin.returned > 0,
        "money moved": twin.moved > 0,
        "safe": len(twin.trusted) > 1,
        "harmful": bool((twin.harm() >= twin.thresholds()).any()),
        "certified": twin.certified is not None,
        "uncovered": twin.n_uncovered > 0,
        "late": twin.late > 0,
    }
    return {what for what, did in happened.items() if did}


def compare(learner: cb.certify.CertifyingLearner, twin: GuardedTwin) -> None:
    verdict, evidence, everyone = learner.verdict, learner.evidence, np.arange(twin.P)
    numbers: list[int] = everyone.tolist()
    guardrails, lifts = evidence.guardrails, evidence.lifts
    assert guardrails is not None
    assert lifts is not None
    for leader in {twin.epochs[-1].leader, twin.claim()[0], twin.production}:
        for mu in (0.0, verdict.epsilon):
            rivals = np.delete(everyone, leader)
            assert_same(evidence.against(leader, mu, rivals), twin.evidence(leader, mu)[rivals])
    n_rounds = evidence.n_rounds
    assert_same(guardrails.harmful(everyone, n_rounds), twin.harm())
    assert_same(np.exp(guardrails.safety(everyone, n_rounds)), np.array([twin.safety(i) for i in numbers]).T)
    assert_same(guardrails.deposits, [twin.deposit.get(i, 0.0) for i in numbers])
    assert [verdict.is_safe(i) for i in numbers] == [twin.is_safe(i) for i in numbers]
    assert guardrails.trusted == twin.trusted
    assert verdict.candidates.tolist() == np.flatnonzero(twin.alive).tolist()
    found = [(d.index, d.round, d.leader) for d in verdict.dropped]
    assert found == [(i, n, learner.policies.names[by]) for i, n, by, _ in twin.dropped]
    claim, status = verdict.claim(), learner.status()
    assert claim.leader == twin.claim()[0]
    assert_same(claim.epsilon, twin.claim()[1])
    assert (verdict.certified is None) == (twin.certified is None)
    assert status.safe == twin.is_safe(claim.leader)
    said = status.safe and claim.epsilon < learner.problem.max_reward and not status.warnings
    assert (status.certified is not None) == said
    for i, one in enumerate(lifts.led()):
        threshold = np.log(2 * (i + 1) * (i + 2) / learner.spec.delta)
        low, high = lifts.interval(one, n_rounds, learner.spec.delta)
        for v, which in ((low, 0), (high, 1)):
            if abs(v) < twin.rho:
                np.testing.assert_allclose(twin.lift_wealths(one, v)[which], threshold, rtol=1e-9)


def test_no_more_moves_along_than_is_left_and_was_paid_in() -> None:
    leaders: Any = [SimpleNamespace(leader=1), SimpleNamespace(leader=2), SimpleNamespace(leader=1)]
    guardrails = Guardrails(METRICS, PROBLEM, 3, 0, leaders)
    guardrails.begin(0, [])
    assert_same(guardrails.deposits, [0, 1 / 2, 0])
    guardrails.accounts[0, 1] -= np.log(4)  # by one metric three quarters are lost, by the other nothing
    guardrails.begin(1, [0])
    assert_same(guardrails.deposits, [0, 1 / 2 - 1 / 8, 1 / 6 + 1 / 8])
    assert_same(np.exp(guardrails.accounts[:, 1]).sum(axis=1), [0, 3 / 8])
    assert_same(np.exp(guardrails.accounts[:, 2]).sum(axis=1), [1 / 6 + 1 / 8] * 2)
    guardrails.accounts[:, 2] += np.log(100)  # what was won stays
    guardrails.begin(2, [0, 0])
    assert_same(guardrails.deposits, [0, 1 / 2 + 1 / 6, 0])
    assert_same(np.exp(guardrails.accounts[:, 2]).sum(axis=1), [99 * (1 / 6 + 1 / 8)] * 2)


FAST = ("AdaptiveComband", "ABTest")


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in FAST else pytest.mark.slow) for one in LEARNERS])
def test_all_evidence_is_that_of_the_twin(name: str, tmp_path: Path) -> None:
    happened = set()
    for seed, patience in enumerate((None, 3 * BATCH)):
        happened |= follow(name, seed, METRICS, tmp_path, patience=patience)
    assert happened >= {"late"}
    if name == "AdaptiveComband":
        generous = tuple(replace(metric, margin=0.6 * metric.largest) for metric in METRICS)
        happened |= follow(name, 2, generous, tmp_path, epsilon=0.4)
        only_first = np.where(np.arange(K) < M, 1.0, 0.0)[None]
        happened |= follow(name, 3, METRICS[:1], tmp_path, production=0, worth=only_first, n_batches=45)
        assert happened >= {"the lead changed", "dropped", "money moved", "safe", "uncovered", "certified", "harmful"}


def test_with_relative_margins_and_part_of_the_visitors(tmp_path: Path) -> None:
    relative = tuple(replace(metric, margin=0.4, relative=True) for metric in METRICS)
    happened = follow("AdaptiveComband", 3, relative, tmp_path)
    happened |= follow("AdaptiveComband", 4, METRICS, tmp_path, exposure=0.5)
    assert happened >= {"the lead changed", "dropped"}


def test_with_gaps_and_with_little_to_lose(tmp_path: Path) -> None:
    rng, lists = np.random.default_rng(13), LISTS.copy()
    lists[rng.random(lists.shape) < 0.1] = -1
    follow("AdaptiveComband", 5, METRICS, tmp_path, lists=lists, exposure=0.7)
    follow("AdaptiveComband", 7, METRICS[1:], tmp_path, objective="reward", worth=WORTH[1:])


@pytest.mark.parametrize("places", ["pairs", (1.0, 0.6, 0.3)])
def test_where_places_matter(places: Any, tmp_path: Path) -> None:
    follow("AdaptiveComband", 8, METRICS, tmp_path, places=places)
