"""The jobs as they run: small, resumed, with tables; and what they are made of."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from benchmarks.certify import made_world
from benchmarks.peers import adversarial, choosing, estimating, learning, report
from benchmarks.peers.__main__ import main
from benchmarks.peers.results import Ledger, Row

import comband as cb


def test_projection_and_sampling_over_sets() -> None:
    rng, m = np.random.default_rng(0), 3
    weights = np.array([5.0, 0.1, 0.2, 0.9, 0.05, 3.0])
    q = adversarial.capped(weights, m)
    assert q.sum() == pytest.approx(m)
    assert q.max() <= 1
    free = q < 1
    ratios = (q / weights)[free]
    np.testing.assert_allclose(ratios, ratios[0])  # scaled alike
    assert (weights[~free] * ratios[0] >= 1).all()  # and capped only where it must be
    n = 40_000
    drawn = np.array([adversarial.systematic(q, rng) for _ in range(n)])
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    frequency = np.bincount(drawn.ravel(), minlength=len(q)) / n
    assert (np.abs(frequency - q) <= 6 * np.sqrt(q * (1 - q) / n) + 1e-9).all()


def test_combexp_draws_what_it_believes_and_estimates_without_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact, over all ten sets of two of five items: the probabilities of sets, and the mean of estimates."""
    monkeypatch.setattr(adversarial, "K", 5)
    monkeypatch.setattr(adversarial, "M", 2)
    rng = np.random.default_rng(0)
    rewards = rng.random(5)
    learner = adversarial.CombExp(1000, rng)
    learner.q = adversarial.capped(np.array([0.05, 3.0, 0.2, 0.4, 0.35]), 2)  # one of them is 1
    n = 100_000
    drawn = np.sort(learner.compose(np.zeros((n, 8, 2), np.int32)), axis=1)
    assert learner.weights.sum() == pytest.approx(1)
    own = {frozenset(row.tolist()): 0.0 for row in learner.sets}
    for row, weight in zip(learner.sets, learner.weights, strict=True):
        own[frozenset(row.tolist())] += weight
    mean, shares = np.zeros(5), np.zeros(5)
    for pair in itertools.combinations(range(5), 2):
        chance = (1 - learner.mix) * own.get(frozenset(pair), 0.0) + learner.mix / 10
        items = np.array(pair, np.int32)
        mean += chance * learner.estimates(items, float(rewards[items].sum()))
        shares[items] += chance
        seen = float((drawn == items).all(axis=1).mean())
        assert abs(seen - chance) < 6 * np.sqrt(chance * (1 - chance) / n)
    np.testing.assert_allclose(mean, rewards, atol=1e-9)
    np.testing.assert_allclose(shares, (1 - learner.mix) * learner.q + learner.mix * 2 / 5, atol=1e-9)


def test_estimates_agree_with_each_other_and_with_sums() -> None:
    log = estimating.make_log("nearly equal", 4, 2000, seed=3)
    expected = [estimating.totals(log, p).mean() for p in range(4)]
    np.testing.assert_allclose(estimating.by_comband(log), expected, rtol=1e-9)
    np.testing.assert_allclose(estimating.by_sql(log), expected, rtol=1e-9)
    assert log["q"].min() >= estimating.least(log) - 1e-12
    errors = [estimating.totals(log, p).std() / np.sqrt(2000) for p in range(4)]
    assert (np.abs(np.array(expected) - log["values"]) <= 6 * np.array(errors)).all()


def row(method: str, seed: int, regrets: dict[str, float], stop: int | None, wrong: bool = False) -> Row:
    key = {
        "world": "needle",
        "candidates": 8,
        "rounds": 64000,
        "method": method,
        "seed": seed,
        "epsilon": 0.1,
        "best": 1.0,
    }
    lost = dict.fromkeys(regrets, 0.5)
    return {**key, "regrets": regrets, "lost": lost, "stop": stop, "wrong": wrong}


def test_a_pick_is_likely_from_where_it_stays_likely() -> None:
    runs = [row("a", seed, {"250": 0.0, "1000": 0.2, "4000": 0.0, "16000": 0.05}, None) for seed in range(3)]
    assert report.likely_from(runs) == 4000
    assert report.likely_from([row("a", 1, {"250": 0.2}, None)]) == np.inf


def test_runs_that_do_not_stop_count_as_long_ones() -> None:
    runs = [row("a", seed, {}, stop) for seed, stop in enumerate([100, 300, None, None])]
    assert report.stops(runs) == (300, np.inf, np.inf)
    assert report.stops(runs[:3])[:2] == (300, 300)


def test_a_peer_that_breaks_its_promise_is_not_the_first_to_keep_it() -> None:
    own = [row("comband: AdaptiveComband", seed, {"250": 0.0}, 1000) for seed in range(4)]
    hasty = [row("hasty", seed, {"250": 0.5}, 100, wrong=seed < 2) for seed in range(4)]
    slow = [row("slow", seed, {"500": 0.0}, 8000) for seed in range(4)]
    text = report.choosing([*own, *hasty, *slow])
    assert "| needle, 8 | 250 | slow 500 | 2.0 | 1,000 | slow 8,000 | 8.0 | slow 8,000 | 8.0 |" in text
    assert "2 of 4" in text  # the hasty one's wrong claims are shown


def test_one_wrong_claim_in_ten_refutes_no_promise() -> None:
    def runs(wrong: int) -> list[Row]:
        return [row("a", seed, {"250": 0.0}, 1000, wrong=seed < wrong) for seed in range(10)]

    assert report.kept_stop(runs(1)) == 1000  # happens in 40% of tens at δ = 5%
    assert report.kept_stop(runs(3)) == np.inf  # in 1%


def test_made_candidates_come_in_random_order() -> None:
    best = {int((world := made_world("graded", 8, seed)).values(world.policies).argmax()) for seed in range(12)}
    assert len(best) > 2  # in order of quality it would be the first, always


def test_a_job_runs_resumes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["choosing", "--quick", "--sets", "needle", "--candidates", "8", "--seeds", "1", "--out", str(tmp_path)]
    methods = ["--methods", "Bonferroni", "Thompson", "team-draft"]
    assert main([*options, *methods]) == 0
    lines = (tmp_path / "choosing.jsonl").read_text()
    assert main([*options, *methods]) == 0
    assert (tmp_path / "choosing.jsonl").read_text() == lines
    assert {each["method"] for each in Ledger(tmp_path / "choosing.jsonl").rows} == {
        name for name in choosing.METHODS if any(part in name for part in methods[1:])
    }
    assert "team-draft multileaving" in capsys.readouterr().out
    main([*options, "--report", str(tmp_path / "report")])
    assert (tmp_path / "report" / "choosing-8-8000.inc").exists()
    assert (tmp_path / "report" / "peers-8-8000.png").exists()


@pytest.mark.parametrize(
    "method", ["comband: OnlineListClassifier", "comband: BanditListClassifier, uniform lists", "skyline"]
)
def test_learning_runs_on_a_set_that_ships(method: str) -> None:
    """comband's own methods need no peer; what is absent says so."""
    found = learning.learn("digits", method, seed=1, rounds=500, folder=None)
    if method == "skyline":
        assert found["hits"]["0"] > 0.9
        return
    assert found["hits"]["500"] > 0.5  # two of ten labels are shown: 0.2 by chance
    assert found["memory"] > 1


def test_exploration_replaces_labels_and_repeats_none() -> None:
    kind = learning.Scores(cb.Problem(n_actions=8, list_size=3, sparsity=1), seed=1)
    lists = np.tile(np.arange(3, dtype=np.int32), (4000, 1))
    shown = kind.explored(lists)
    assert (np.diff(np.sort(shown, axis=1), axis=1) > 0).all()
    changed = (shown != lists).mean()
    assert abs(changed - learning.EPSILON) <= 6 * np.sqrt(0.09 / lists.size)


def test_shuffled_lists_hold_the_same_items_and_have_the_same_values() -> None:
    plain = choosing.world_of("needle", None, 4, seed=1)
    mixed = choosing.world_of("needle, shuffled", None, 4, seed=1)
    rows = np.arange(len(plain.chances))
    before, after = plain.policies.predict(rows), mixed.policies.predict(rows)
    np.testing.assert_array_equal(np.sort(before, axis=2), np.sort(after, axis=2))
    assert (before != after).mean() > 0.5
    np.testing.assert_allclose(choosing.Trial(mixed, 1).values, choosing.Trial(plain, 1).values, rtol=1e-12)
