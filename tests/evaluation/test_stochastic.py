"""Candidates that draw their lists: values by exact expectation, checked by enumeration and by obp's formula."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import comband as cb
from comband.evaluation import usual_estimates
from comband.policies import StochasticPolicies

K, M = 5, 2
PROBLEM = cb.Problem(K, M, sparsity=2)


def _marginals(rng: np.random.Generator, n: int) -> Any:
    """Probabilities of items in places (n, K, M) that lists could be drawn with: a mixture of three lists each."""
    table = np.zeros((n, K, M))
    for i in range(n):
        for share in rng.dirichlet(np.ones(3)):
            table[i, rng.permutation(K)[:M], np.arange(M)] += share
    return table


@pytest.mark.parametrize("places", [None, "pairs"])
def test_estimates_are_unbiased_by_enumeration(places: Any) -> None:
    """Over all lists of a logging rule, by their chance, the mean of X is the value that drawing would have."""
    rng = np.random.default_rng(3)
    lists = np.array(list(itertools.permutations(range(K), M)))
    chance = rng.dirichlet(np.ones(len(lists)))
    of_pair = np.zeros((K, M))
    for one, p in zip(lists, chance, strict=True):
        of_pair[one, np.arange(M)] += p
    reward = rng.uniform(0, 1, size=(K, M))  # in each place
    if places is None:
        reward = np.repeat(reward[:, :1], M, axis=1)
    tables = [_marginals(rng, 1) for _ in range(3)]
    policies = StochasticPolicies(tables, PROBLEM, names=["a", "b", "c"])
    truth = [(table[0] * reward).sum() for table in tables]
    q = of_pair if places else np.repeat(of_pair.sum(axis=1)[:, None], M, axis=1)
    total = np.zeros(3)
    weight = np.zeros(3)
    own = policies.in_places() if places else policies.anywhere()
    for one, p in zip(lists, chance, strict=True):
        actions = one * M + np.arange(M) if places else one
        inside = own.inclusion(np.zeros(1, dtype=int), np.zeros(M, dtype=int), actions)
        inverse = 1 / q[one, np.arange(M)]
        total += p * (inside * (reward[one, np.arange(M)] * inverse)[:, None]).sum(axis=0)
        weight += p * (inside * inverse[:, None]).sum(axis=0)
    np.testing.assert_allclose(total, truth, rtol=1e-12)
    np.testing.assert_allclose(weight, M, rtol=1e-12)


def _log(n: int, seed: int = 1) -> tuple[cb.Rounds, Any]:
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(K)[:M] for _ in range(n)])
    rewards = (rng.uniform(size=(n, M)) < 0.1 + 0.1 * lists).astype(float)
    contexts = rng.integers(0, 7, size=n)
    rounds = cb.Rounds.from_log(
        contexts, lists=lists, rewards=rewards, propensities=np.full((n, M), M / K), problem=PROBLEM
    )
    return rounds, contexts


def test_values_are_the_sums_of_their_formula() -> None:
    rounds, contexts = _log(900)
    rng = np.random.default_rng(4)
    tables = [_marginals(rng, 7) for _ in range(4)]
    policies = StochasticPolicies(tables, PROBLEM, names=list("abcd"))
    answer = cb.evaluate(rounds, policies, max_reward=M, min_propensity=M / K)
    lists, q = rounds.decisions.lists, rounds.decisions.propensities
    by_hand = {}
    for name, table in zip("abcd", tables, strict=True):
        shown = table.sum(axis=2)[contexts[:, None], lists]
        X = (shown * rounds.rewards / q).sum(axis=1)
        by_hand[name] = (X.mean(), X.std(ddof=1) / np.sqrt(len(X)))
    for one in answer.candidates:
        assert one.value == pytest.approx(by_hand[one.name][0], rel=1e-12)
        assert one.standard_error == pytest.approx(by_hand[one.name][1], rel=1e-9)
        assert one.interval[0] < one.value < one.interval[1]
    usual = usual_estimates(rounds, policies)
    assert usual.estimates["IPS"] == pytest.approx([by_hand[name][0] for name in "abcd"], rel=1e-12)
    assert cb.check_logged_propensities(rounds, policies, min_propensity=M / K).fits
    scores = np.random.default_rng(5).uniform(size=(7, K))

    class Model:
        def predict_scores(self, X: Any) -> Any:
            return scores[np.asarray(X)]

    told = usual_estimates(rounds, policies, reward_model=Model())
    dm = [(table.sum(axis=2) * scores)[contexts].sum(axis=1).mean() for table in tables]
    assert told.estimates["DM"] == pytest.approx(dm, rel=1e-12)


def test_a_list_that_is_surely_shown_is_a_list() -> None:
    rounds, _ = _log(600)
    rng = np.random.default_rng(6)
    lists = np.array([[rng.permutation(K)[:M] for _ in range(7)] for _ in range(3)])
    sure = np.zeros((3, 7, K, M))
    for p, i, k in np.ndindex(3, 7, M):
        sure[p, i, lists[p, i, k], k] = 1.0
    plain = cb.PolicySet.from_lists(lists, PROBLEM, names=list("abc"))
    chance = StochasticPolicies(list(sure), PROBLEM, names=list("abc"))
    for places in (None, "pairs"):
        known: Any = {"max_reward": M, "min_propensity": 1 / K, "places": places}
        assert cb.evaluate(rounds, chance, **known) == cb.evaluate(rounds, plain, **known)


def test_obp_action_dist_on_a_log_of_single_slots(tmp_path: Path) -> None:
    """obp's inverse propensity weighting: the mean of r·π(a|x, position)/pscore."""
    rng = np.random.default_rng(8)
    n, L = 400, 3
    frame = pd.DataFrame(
        {
            "item_id": rng.integers(0, 6, size=n),
            "position": rng.integers(1, L + 1, size=n),
            "click": (rng.uniform(size=n) < 0.3).astype(int),
            "propensity_score": rng.uniform(0.2, 0.9, size=n),
        }
    )
    dist = rng.dirichlet(np.ones(6), size=(n, L)).transpose(0, 2, 1)  # (n, K, L)
    other = rng.dirichlet(np.ones(6), size=(n, L)).transpose(0, 2, 1)
    rows = np.arange(n), frame.item_id.to_numpy(), frame.position.to_numpy() - 1
    X = frame.click.to_numpy() * dist[rows] / frame.propensity_score.to_numpy()
    log = tmp_path / "obd.csv"
    frame.to_csv(log, index=False)
    candidates = cb.read_candidates({"mine": dist, "other": other})
    for source in (log, frame):
        reading = cb.read_log(source, candidates, rounds=True)
        answer = cb.evaluate_log(reading).evaluation
        mine = next(one for one in answer.candidates if one.name == "mine")
        assert mine.value == pytest.approx(X.mean(), rel=1e-12)
        assert answer.usual is not None
        assert answer.usual.estimates["IPS"][0] == pytest.approx(X.mean(), rel=1e-12)
    shards = cb.evaluate_log([log], candidates)
    assert shards.evaluation.candidates == answer.candidates
    flat = [
        (i, name, y, k, d[i, y, k]) for name, d in (("mine", dist), ("other", other)) for i, y, k in np.ndindex(d.shape)
    ]
    told = pd.DataFrame(flat, columns=["context", "candidate", "item", "position", "probability"])
    told.to_parquet(tmp_path / "probabilities.parquet")
    again = cb.evaluate_log(cb.read_log(log, tmp_path / "probabilities.parquet")).evaluation
    assert {one.name: one.value for one in again.candidates} == pytest.approx(
        {one.name: one.value for one in answer.candidates}, rel=1e-12
    )


def test_probabilities_of_lists_in_a_file() -> None:
    log = pd.DataFrame(
        {"round": [1, 1, 2, 2], "context": ["u", "u", "v", "v"], "item": ["tea", "salt", "rice", "tea"],
         "reward": [1, 0, 0, 1], "propensity": 0.8}
    )  # fmt: skip
    rows = [
        ("u", "tea", 1.0),
        ("u", "rice", 0.75),
        ("u", "salt", 0.25),
        ("v", "tea", 0.5),
        ("v", "salt", 0.5),
        ("v", "rice", 1.0),
    ]
    probabilities = pd.DataFrame(rows, columns=["context", "item", "probability"]).assign(candidate="coin")
    reading = cb.read_log(log, probabilities)
    (one,) = cb.evaluate_log(reading).evaluation.candidates
    assert one.value == pytest.approx((1 / 0.8 + 0.5 / 0.8) / 2)
    with pytest.raises(
        cb.LogError, match=r"must sum to 2 for every context; those of 'coin' for context v sum to 1\.5"
    ):
        cb.read_candidates(probabilities.drop(index=4))
    with pytest.raises(cb.LogError, match=r"wrong probability \(1\): row 1: 1\.5 is outside"):
        cb.read_candidates(probabilities.assign(probability=[1.5, *probabilities.probability[1:]]))
    with pytest.raises(cb.LogError, match="same context, candidate, item and place"):
        cb.read_candidates(pd.concat([probabilities.assign(probability=probabilities.probability / 2)] * 2))


def test_what_needs_lists_refuses_candidates_by_chance() -> None:
    rounds, _ = _log(50)
    policies = StochasticPolicies([_marginals(np.random.default_rng(1), 7).sum(axis=2)] * 2, PROBLEM)
    calls: list[Any] = [
        lambda: cb.Exp4CombSparse(PROBLEM, policies, horizon=100),
        lambda: cb.PacComband(PROBLEM, policies, epsilon=0.1),
        lambda: cb.UniformExploration(PROBLEM, policies, n_rounds=10),
        lambda: policies.predict([0]),
    ]
    for call in calls:
        with pytest.raises(cb.InputError, match="show no one list, which is needed here"):
            call()
    with pytest.raises(cb.InputError, match="probability of each item in each place"):
        cb.evaluate(rounds, policies, max_reward=M, min_propensity=0.1, places="pairs")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.full((7, K), 0.5), r"must sum to 2; those of candidate 0 for context 0 sum to 2\.5"),
        (np.full((7, K + 1), 0.3), r"shape \(contexts, 5\) or \(contexts, 5, 2\), got \(7, 6\)"),
        (np.tile([2.0, 0, 0, 0, 0], (7, 1)), r"must lie in \[0, 1\]"),
        (np.tile(np.array([[1, 1], [0, 0], [0, 0], [0, 0], [0, 0]]) * [0.5, 1], (7, 1, 1)), "sum to"),
        (np.full((7, K, M), 0.2) + [[0.1, -0.1]] * K, r"each place the probabilities must sum to 1"),
    ],
)
def test_probabilities_that_cannot_be(table: Any, words: str) -> None:
    with pytest.raises(cb.InputError, match=words):
        StochasticPolicies([table], PROBLEM)
