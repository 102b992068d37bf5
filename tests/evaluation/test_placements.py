"""Logs with the probability of each item in each place are read under every reading, from memory and from files."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.evaluation.logs import LogError
from comband.evaluation.logs.sql import SqlTable
from comband.evaluation.parts import Sample
from comband.page.places import placed_rounds
from comband.page.problem import InputError
from comband.policies.placed import PlacedPolicies
from comband.statistics.importance import round_values
from tests.statistics.place_laws import all_lists, inclusion, placements
from tests.strategies import random_policies

K, M = 6, 3
FACTORS = (1.0, 0.6, 0.3)
READINGS: dict[str, Any] = {"none": None, "factors": FACTORS, "pairs": "pairs"}
Law = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]


@cache
def law(seed: int, m: int = M) -> Law:
    """Chances of lists, the lists, and Q(y, k): natural order, some candidate's own list, and lists in a random order,
    so that each item may be in each place.
    """
    rng = np.random.default_rng(seed)
    q = inclusion(rng.uniform(0.5, 1.5, size=K), m)
    lists = [(0.6 * p, one) for p, one in all_lists(q, m)]
    lists.append((0.1, tuple(rng.permutation(K)[:m].tolist())))
    lists += [(0.3 / 400, tuple(rng.permutation(K)[:m].tolist())) for _ in range(400)]
    chances, shown = np.array([p for p, _ in lists]), np.array([one for _, one in lists], dtype=np.int32)
    Q = np.zeros((K, m))
    np.add.at(Q, (shown, np.arange(m)), chances[:, None])
    return chances, shown, Q


def rewards_of(reading: str, seed: int) -> NDArray[np.float64]:
    """The mean reward of each item in each place (K, m), as the reading assumes."""
    rng = np.random.default_rng([seed, 3])
    relevance = rng.uniform(0.1, 0.9, size=K)
    if reading == "pairs":
        return rng.uniform(0.1, 0.9, size=(K, M))
    return relevance[:, None] * (np.array(FACTORS) if reading == "factors" else np.ones(M))


def as_log(shown: NDArray[np.int32], rewards: NDArray[np.float64], Q: NDArray[np.float64], m: int = M) -> cb.Rounds:
    return cb.Rounds.from_log(
        np.zeros(len(shown), dtype=int),
        lists=shown,
        rewards=rewards,
        propensities=np.minimum(Q.sum(axis=1), 1.0)[shown],
        placements=Q[shown],
        problem=cb.Problem(K, m),
    )


def drawn(reading: str, n: int, seed: int) -> tuple[cb.Rounds, cb.PolicySet, NDArray[np.float64]]:
    """n rounds of the law, candidates, and their values."""
    chances, shown, Q = law(seed)
    mean, rng = rewards_of(reading, seed), np.random.default_rng([seed, 4])
    lists = shown[rng.choice(len(chances), size=n, p=chances / chances.sum())]
    rewards = (rng.random((n, M)) < mean[lists, np.arange(M)]).astype(float)
    policies = random_policies(6, 1, cb.Problem(K, M), rng)
    own = policies.predict(np.zeros(1, dtype=int))[0]
    return as_log(lists, rewards, Q), policies, mean[own, np.arange(M)].sum(axis=1)


def test_the_law_has_the_places_of_natural_order() -> None:
    """Without own lists and random orders, Q is that of intervals laid end to end."""
    q = inclusion(np.random.default_rng(3).uniform(0.5, 1.5, size=K), M)
    found = np.zeros((K, M))
    for p, one in all_lists(q, M):
        found[list(one), np.arange(M)] += p
    np.testing.assert_allclose(found, placements(q, M), rtol=0, atol=1e-12)
    assert ((found > 0).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reading", READINGS)
def test_estimates_are_unbiased_under_each_reading(reading: str, seed: int) -> None:
    """Σ over all lists of their chance times X(π), one round with each list, its rewards the means."""
    chances, shown, Q = law(seed)
    mean, places = rewards_of(reading, seed), READINGS[reading]
    policies = random_policies(6, 1, cb.Problem(K, M), np.random.default_rng(seed))
    truth = mean[policies.predict(np.zeros(1, dtype=int))[0], np.arange(M)].sum(axis=1)
    log = as_log(shown, mean[shown, np.arange(M)], Q)

    def estimates(log: cb.Rounds) -> NDArray[np.float64]:
        candidates = policies if places is None else PlacedPolicies(policies, M)
        X = np.concatenate(list(round_values(placed_rounds(log, places).events(), candidates)))
        return np.asarray(chances @ X)

    np.testing.assert_allclose(estimates(log), truth, rtol=0, atol=1e-12)
    if places is not None:  # as if the order had been random, or propensities those of pairs: wrong
        without = cb.Rounds(replace(log.decisions, placements=None), log.rewards)
        assert np.abs(estimates(without) - truth).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_what_items_weigh_and_lose_by_factors(seed: int) -> None:
    """On average m, and c·Θ − V; nothing is lost less than nothing. By straight sums over the places of each item."""
    chances, shown, Q = law(seed)
    theta, mean = np.array(FACTORS), rewards_of("factors", seed)
    policies = random_policies(5, 1, cb.Problem(K, M), np.random.default_rng(seed))
    own = policies.predict(np.zeros(1, dtype=int))[0]
    log = as_log(shown, mean[shown, np.arange(M)], Q)
    sample = Sample(placed_rounds(log, FACTORS), PlacedPolicies(policies, M), slots=M, factors=FACTORS)
    lost, won = (each.reshape(-1, M, M) for each in sample.losses(3.0))
    weights = sample.weights.reshape(-1, M, M)
    e = Q @ theta
    for p in range(5):
        at = {int(item): k for k, item in enumerate(own[p])}
        weighed = gone = gained = 0.0
        for i, (chance, row) in enumerate(zip(chances, shown, strict=True)):
            for j, item in enumerate(row.tolist()):
                if item in at:
                    k = at[item]
                    assert weights[i, j, k] == pytest.approx(theta[j] / e[item])
                    assert won[i, j, k] == pytest.approx(mean[item, j] * theta[k] / e[item])
                    assert lost[i, j, k] == pytest.approx(theta[k] / e[item] * (theta[j] / 0.3 - mean[item, j]))
                    weighed += chance * weights[i, j, k]
                    gone += chance * lost[i, j, k]
                    gained += chance * won[i, j, k]
        value = mean[own[p], np.arange(M)].sum()
        assert weighed == pytest.approx(M, abs=1e-9)
        assert gained == pytest.approx(value, abs=1e-9)
        assert gone == pytest.approx(theta.sum() / 0.3 - value, abs=1e-9)
    worst = as_log(shown, np.ones(shown.shape), Q)
    none = Sample(placed_rounds(worst, FACTORS), PlacedPolicies(policies, M), slots=M, factors=FACTORS).losses(3.0)[0]
    assert none.min() >= 0


@pytest.mark.parametrize("reading", READINGS)
def test_intervals_hold_the_truth_under_each_reading(reading: str) -> None:
    """On long logs, with and without a stated smallest propensity: all hold at once but with probability δ = 1e-6."""
    places = READINGS[reading]
    rounds, policies, truth = drawn(reading, 30_000, seed=1)
    _, _, Q = law(1)
    theta = np.array(FACTORS)
    least = {"none": Q.sum(axis=1).min(), "pairs": Q.min(), "factors": (Q @ theta).min() / theta.mean()}[reading]
    for stated in (None, float(least) * (1 - 1e-9)):
        result = cb.evaluate(rounds, policies, max_reward=M, min_propensity=stated, places=places, delta=1e-6)
        assert result.trusted
        assert not result.unjudged
        assert result.propensity_check is not None
        assert result.propensity_check.fits
        assert result.propensity_check.expected == M
        assert all(c.interval[0] <= truth[c.index] <= c.interval[1] for c in result.candidates)
        assert all(c.interval[1] - c.interval[0] < 1.5 for c in result.candidates)
        assert truth.max() - truth[result.best.index] <= result.epsilon
    # Where placements say that an item is rarer in its places than it is, the check notices.
    made: Any = rounds.decisions
    wrong = replace(made, placements=made.placements / 2, propensities=made.propensities / 2)
    check = cb.evaluate(cb.Rounds(wrong, rounds.rewards), policies, max_reward=M, places=places).propensity_check
    assert check is not None
    assert not check.fits


def written(rounds: cb.Rounds, policies: cb.PolicySet, folder: Path, ending: str) -> tuple[Path, Path]:
    log, lists = folder / f"log{ending}", folder / f"lists{ending}"
    cb.write_rounds(rounds, log)
    cb.write_candidates(policies, np.zeros(1, dtype=int), lists)
    return log, lists


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("reading", READINGS)
def test_files_are_read_under_each_reading(reading: str, ending: str, tmp_path: Path) -> None:
    places = READINGS[reading]
    rounds, policies, _ = drawn(reading, 800, seed=2)
    log, lists = written(rounds, policies, tmp_path, ending)
    candidates = cb.read_candidates(lists)
    expected = cb.evaluate(rounds, policies, max_reward=M, min_propensity=0.01, places=places)
    found = cb.evaluate_log(cb.read_log(log, candidates, places=places), min_propensity=0.01).evaluation
    assert [(c.name, c.interval) for c in found.candidates] == [(c.name, c.interval) for c in expected.candidates]
    assert found == expected
    reading_back = cb.read_log(log, candidates, places=places)
    assert (reading_back.events.placements is None) == (reading != "factors")
    if reading == "factors":
        assert "placements" in reading_back.format.meaning
        with pytest.raises(InputError, match="with factors give read_log"):
            cb.evaluate_log(log, lists, places=places)
    else:
        assert cb.evaluate_log(log, lists, places=places, min_propensity=0.01).evaluation == expected


def test_data_frames_are_read_too(tmp_path: Path) -> None:
    rounds, policies, _ = drawn("factors", 300, seed=2)
    log, lists = written(rounds, policies, tmp_path, ".parquet")
    pd = pytest.importorskip("pandas")
    candidates = cb.read_candidates(lists)
    for places in READINGS.values():
        frame = cb.read_log(pd.read_parquet(log), candidates, places=places)
        assert (
            cb.evaluate_log(frame).evaluation == cb.evaluate_log(cb.read_log(log, candidates, places=places)).evaluation
        )


def test_items_may_stand_in_another_order_than_that_of_places(tmp_path: Path) -> None:
    rounds, policies, _ = drawn("factors", 400, seed=2)
    log, lists = written(rounds, policies, tmp_path, ".jsonl")
    candidates = cb.read_candidates(lists)
    turned = tmp_path / "turned.jsonl"
    with log.open() as file, turned.open("w") as out:
        for line in file:
            record = json.loads(line)
            rows = np.array(record["placements"]).reshape(M, M)
            for name in ("items", "rewards", "propensities"):
                record[name] = record[name][::-1]
            record["placements"] = rows[::-1].ravel().tolist()
            record["positions"] = list(range(M, 0, -1))
            out.write(json.dumps(record) + "\n")
    for places in (FACTORS, "pairs"):
        plain, other = (cb.evaluate_log(cb.read_log(one, candidates, places=places)) for one in (log, turned))
        assert [c.interval for c in plain.evaluation.candidates] == [c.interval for c in other.evaluation.candidates]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([0.9, 0.3, 0.1, *[0.2] * 6], "sum to the propensity"),
        ([0.1, 0.1, 0.1, *[0.2] * 6], "sum to the propensity"),
        ([-0.1, 0.3, 0.1, *[0.2] * 6], "at least 0"),
        ([0.0, 0.1, 0.1, *[0.2] * 6], "allow its place"),
        ([None, 0.1, 0.1, *[0.2] * 6], "allow its place"),
        ([0.1, 0.1, 0.1, *[0.2] * 5], "8 placements, 9 expected"),
        (["x", 0.1, 0.1, *[0.2] * 6], "placements must be numbers"),
        (None, "no placements"),
    ],
)
@pytest.mark.parametrize("places", [FACTORS, "pairs"])
def test_placements_that_cannot_be_are_told_by_row(places: Any, wrong: Any, text: str, tmp_path: Path) -> None:
    good = {"context": 0, "items": [0, 1, 2], "rewards": [1, 0, 0], "propensities": [0.6] * 3, "placements": [0.2] * 9}
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(one) for one in (good, {**good, "placements": wrong}, good)), encoding="utf-8")
    lists = tmp_path / "lists.jsonl"
    lists.write_text(json.dumps({"context": 0, "candidate": "a", "items": [0, 1, 2]}), encoding="utf-8")
    candidates = cb.read_candidates(lists)
    with pytest.raises(LogError, match=text) as told:
        cb.read_log(log, candidates, places=places)
    assert "row 2" in str(told.value)
    kept = cb.read_log(log, candidates, places=places, on_error="skip")
    assert kept.events.n_rounds == 2
    assert cb.read_log(log, candidates).events.n_rounds == 3  # where places do not matter, they are not looked at


def test_too_few_columns_of_places_are_refused(tmp_path: Path) -> None:
    rounds, policies, _ = drawn("factors", 20, seed=2)
    log, lists = written(rounds, policies, tmp_path, ".csv")
    text = log.read_text(encoding="utf-8").replace("placement_4", "other")
    log.write_text(text, encoding="utf-8")
    with pytest.raises(LogError, match="placement_4 is missing"):
        cb.read_log(log, cb.read_candidates(lists), places=FACTORS)


def test_a_database_refuses_placements_with_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    rounds, policies, _ = drawn("pairs", 60, seed=2)
    log, lists = written(rounds, policies, tmp_path, ".parquet")
    table = SqlTable("duckdb://", f"(SELECT * FROM read_parquet('{log}'))")
    with pytest.raises(InputError, match="has placements, and a database knows one propensity per item"):
        cb.evaluate_log(table, lists, places="pairs")
    answer = cb.evaluate_log(table, lists, min_propensity=0.1).evaluation  # as sets they do not matter
    assert answer == cb.evaluate_log(log, lists, min_propensity=0.1).evaluation


def test_a_log_without_placements_is_read_as_before(tmp_path: Path) -> None:
    rounds, policies, _ = drawn("factors", 200, seed=2)
    plain = cb.Rounds(replace(rounds.decisions, placements=None), rounds.rewards)
    log, lists = written(plain, policies, tmp_path, ".csv")
    assert "placement" not in log.read_text(encoding="utf-8")
    reading = cb.read_log(log, cb.read_candidates(lists), places=FACTORS)
    assert reading.events.placements is None
    assert "random order" in reading.format.meaning
    found = cb.evaluate_log(reading, min_propensity=0.2).evaluation
    assert found == cb.evaluate(plain, policies, max_reward=M, min_propensity=0.2, places=FACTORS)


def test_events_carry_placements_too() -> None:
    rounds, policies, _ = drawn("factors", 300, seed=2)
    whole = cb.evaluate(rounds, policies, max_reward=M, min_propensity=0.05, places=FACTORS)
    events = cb.evaluate(rounds.events(), policies, max_reward=M, min_propensity=0.05, places=FACTORS)
    assert [c.value for c in events.candidates] == [c.value for c in whole.candidates]


@pytest.mark.parametrize("places", [None, FACTORS])
def test_an_exported_log_says_what_the_learner_says(places: Any, tmp_path: Path) -> None:
    """A run in natural order: values by `evaluate`, from memory and from a file, are the learner's own."""
    rng = np.random.default_rng(0)
    relevance = rng.dirichlet(np.full(12, 0.5), size=20) * 0.9
    scores = np.log(relevance + 0.01) + rng.standard_normal((5, 20, 12))
    lists = np.argsort(-scores, axis=2)[:, :, :M].astype(np.int32)
    problem = cb.Problem(12, M, 1, places=places, order="natural")
    policies = cb.PolicySet.from_lists(lists, problem)
    learner = cb.AdaptiveComband(problem, policies, epsilon=1e-3, first_epoch=200, seed=1)
    parts = []
    for _ in range(12):
        x = rng.integers(20, size=100)
        decisions = learner.ask(x)
        wanted = (rng.random(100)[:, None] >= np.cumsum(relevance, axis=1)[x]).sum(axis=1)
        rewards = (decisions.lists == wanted[:, None]) * (rng.random((100, M)) < np.array(FACTORS))
        parts.append(cb.Rounds(decisions, rewards.astype(float)))
        learner.tell(decisions, parts[-1].rewards)
    log = parts[0]
    for part in parts[1:]:
        log = log + part
    found, own = cb.evaluate(log, policies, max_reward=1, places=places), learner.result()
    assert {c.name: c.value for c in found.candidates}[own.name] == pytest.approx(own.value, rel=1e-12)
    cb.write_rounds(log, tmp_path / "log.parquet")
    cb.write_candidates(policies, np.arange(20), tmp_path / "lists.parquet")
    candidates = cb.read_candidates(tmp_path / "lists.parquet")
    read = cb.evaluate_log(cb.read_log(tmp_path / "log.parquet", candidates, sparsity=1, places=places)).evaluation
    assert {c.name: c.value for c in read.candidates} == pytest.approx({c.name: c.value for c in found.candidates})
