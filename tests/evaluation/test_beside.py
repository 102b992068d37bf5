"""Candidates beside production on a log: lifts, guardrails, and what is claimed of the best safe candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation import Evaluation
from comband.statistics.histograms import _BETS, ValueHistograms

Floats = NDArray[np.float64]
PURCHASES = cb.Metric(name="purchases", margin=0.05)
REPORTS = cb.Metric(name="reports", margin=0.1, relative=True, direction="cost", largest=2.0)
ALMOST = cb.Metric(name="purchases", margin=0.2)
DELTA = 0.1


def log_of(
    rates: Floats, bought: Floats, n: int, rng: np.random.Generator, m: int = 1
) -> tuple[cb.Rounds, cb.PolicySet, dict[str, Floats]]:
    """Uniform lists of items that are clicked at these rates; a click is a purchase, or else a report, of this
    probability.
    """
    K = len(rates)
    problem = cb.Problem(K, m, sparsity=m)
    lists = np.argsort(rng.random((n, K)), axis=1)[:, :m]
    clicks = (rng.random((n, m)) < rates[lists]).astype(float)
    buys = clicks * (rng.random((n, m)) < bought[lists])
    rounds = cb.Rounds.from_log(
        np.zeros(n, dtype=int), lists=lists, rewards=clicks, propensities=np.full((n, m), m / K), problem=problem
    )
    items = [[[(i + j) % K for j in range(m)]] for i in range(K)]
    policies = cb.PolicySet.from_lists(items, problem, names=[f"p{i}" for i in range(K)])
    return rounds, policies, {"purchases": buys, "reports": 2 * (clicks - buys)}


def evaluated(rounds: cb.Rounds, policies: cb.PolicySet, values: dict[str, Floats], **more: Any) -> Evaluation:
    given: dict[str, Any] = {"metrics": [PURCHASES], "delta": DELTA, "production": "p0"}
    given |= more
    told = {metric.name: values[metric.name] for metric in given["metrics"]}
    m = rounds.decisions.lists.shape[1]
    return cb.evaluate(rounds, policies, max_reward=m, min_propensity=m / len(policies), values=told, **given)


# ---- bounds ----------------------------------------------------------------------------------------------------------


def exact_lower(values: Floats, bound: float, threshold: float, largest: float) -> float:
    """The smallest v in [−largest, largest] that (1/J) Σ_j Π_t (1 + λ_j (z_t − v)) does not refute, by halving."""
    bets = _BETS / (bound + largest)

    def refuted(v: float) -> bool:
        logs = np.log1p(bets[:, None] * (values[None, :] - v)).sum(axis=1)
        return bool(np.logaddexp.reduce(logs) - np.log(len(bets)) >= np.log(threshold))

    low, high = -largest, largest
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def exact_upper(values: Floats, bound: float, threshold: float, largest: float) -> float:
    """The smallest μ ≥ 0 that (1/J) Σ_j Π_t (1 − λ_j (z_t − μ)) refutes, by halving."""
    bets, low, high = _BETS / bound, 0.0, largest
    for _ in range(60):
        middle = (low + high) / 2
        logs = np.log1p(-bets[:, None] * (values[None, :] - middle)).sum(axis=1)
        reached = float(np.logaddexp.reduce(logs) - np.log(len(bets))) >= np.log(threshold)
        low, high = (low, middle) if reached else (middle, high)
    return high


@pytest.mark.parametrize("seed", range(4))
def test_signed_bounds_are_on_the_safe_side_of_exact_ones_and_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift = (0.05, -0.4, 0.0, 0.9)[seed]
    values = np.where(rng.random(1500) < 0.3, np.clip(rng.normal(shift * 3, 2, 1500), -8, 8), 0.0)
    seen = ValueHistograms.zero(1, bound=8.0, n_rounds=1500)
    seen.add(values[values != 0][:, None])
    low, high = (float(end[0]) for end in seen.signed_bounds(threshold=80.0, largest=1.0))
    exact = exact_lower(values, 8.0, 80.0, 1.0), -exact_lower(-values, 8.0, 80.0, 1.0)
    width = exact[1] - exact[0]
    assert exact[0] - 0.01 * width <= low <= exact[0] + 1e-9
    assert exact[1] - 1e-9 <= high <= exact[1] + 0.01 * width
    assert low < float(values.mean()) < high


# ---- what an evaluation says, recomputed -----------------------------------------------------------------------------


def round_values(rounds: cb.Rounds, rewards: Floats, items: list[int]) -> Floats:
    """X_t of a candidate that shows these items to all."""
    inside = np.isin(rounds.decisions.lists, items)
    return np.asarray((rewards * inside / rounds.decisions.propensities).sum(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_lifts_and_standings_are_those_of_straight_lines(seed: int) -> None:
    """All wealths anew, round by round: ends agree to a hundredth of their width, and standings where it is clear."""
    rng = np.random.default_rng(seed)
    K, m, n = 5, 2, 3000
    rounds, policies, values = log_of(rng.uniform(0.2, 0.5, K), rng.uniform(0, 1, K), n, rng, m)
    answer = evaluated(rounds, policies, values, metrics=[PURCHASES, REPORTS])
    spend, q, most = DELTA - 1e-6, m / K, float(m)
    lists = [[i, (i + 1) % K] for i in range(K)]
    earned = [round_values(rounds, rounds.rewards, items) for items in lists]
    for i in range(1, K):
        difference = earned[i] - earned[0]
        lift = answer.lift(f"p{i}")
        assert lift is not None
        low = exact_lower(difference, most / q, 2 * (K - 1) / spend, most)
        high = -exact_lower(-difference, most / q, 2 * (K - 1) / spend, most)
        assert lift.low == pytest.approx(low, abs=0.01 * (high - low))
        assert lift.high == pytest.approx(high, abs=0.01 * (high - low))
        known = []
        for metric, sign, share, margin in ((PURCHASES, 1.0, 1.0, 0.05), (REPORTS, -1.0, 1.1, 0.0)):
            told = values[metric.name] / metric.largest
            gain = sign * (round_values(rounds, told, lists[i]) - share * round_values(rounds, told, lists[0]))
            widest = most * share
            least = exact_lower(gain, widest / q, (K - 1) / (0.3 * spend), widest)
            largest = -exact_lower(-gain, widest / q, 2 / (0.21 * spend), widest)
            known.append((least + margin, largest + margin))
        standing = answer.standing(f"p{i}")
        if min(abs(end) for ends in known for end in ends) > 0.01:
            kept, broken = all(low >= 0 for low, _ in known), any(high < 0 for _, high in known)
            assert standing == ("safe" if kept else "harmful" if broken else "not shown")
    safe = [i for i in range(K) if answer.standing(f"p{i}") == "safe"]
    best = answer.best.index
    assert best == max(safe, key=lambda i: earned[i].mean())
    rivals = [i for i in range(K) if i != best and answer.standing(f"p{i}") != "harmful"]
    gaps = [exact_upper(earned[i] - earned[best], most / q, (K - 1) / (0.49 * spend), most) for i in rivals]
    assert answer.epsilon == pytest.approx(max(gaps, default=0.0), rel=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_the_margin_that_is_just_shown(seed: int) -> None:
    """A hundredth more of the distance shows it, a hundredth less does not."""
    rng = np.random.default_rng([seed, 1])
    rounds, policies, values = log_of(np.array([0.5, 0.4, 0.1, 0.3]), np.array([0.8, 0.7, 0.1, 0.5]), 4000, rng)
    spend = DELTA - 1e-6
    gain = [
        round_values(rounds, values["purchases"], [i]) - round_values(rounds, values["purchases"], [0]) for i in (1, 2)
    ]
    safe_at = -exact_lower(gain[0], 4.0, 3 / (0.3 * spend), 1.0)
    harmful_at = exact_lower(-gain[1], 4.0, 2 / (0.21 * spend), 1.0)
    assert safe_at > 0.02
    assert harmful_at > 0.02
    lax = cb.Metric(name="reports", margin=1.0, direction="cost", largest=2.0)
    for name, at, more, less in (("p1", safe_at, "safe", "not shown"), ("p2", harmful_at, "not shown", "harmful")):
        for share, standing in ((1.01, more), (0.99, less)):
            metrics = [cb.Metric(name="purchases", margin=at * share), lax]
            assert evaluated(rounds, policies, values, metrics=metrics).standing(name) == standing


def test_each_candidate_has_values_and_lifts_by_each_metric() -> None:
    rng = np.random.default_rng(1)
    rounds, policies, values = log_of(np.array([0.3, 0.4, 0.2]), np.array([0.5, 0.2, 0.9]), 4000, rng)
    answer = evaluated(rounds, policies, values, metrics=[PURCHASES, REPORTS])
    assert len(answer.guarded) == 6
    for row in answer.guarded:
        i, size = int(row.candidate[1]), 2.0 if row.metric == "reports" else 1.0
        own = round_values(rounds, values[row.metric], [i])
        assert row.value == pytest.approx(own.mean(), abs=1e-9)
        assert row.value_interval is not None
        assert row.value_interval[0] <= own.mean() <= row.value_interval[1] <= 1.0 * size
        difference = own - round_values(rounds, values[row.metric], [0])
        assert row.difference == pytest.approx(difference.mean(), abs=1e-9)
        assert row.error == pytest.approx(difference.std() / np.sqrt(len(rounds)), rel=0.01)
        assert row.interval is not None
        assert row.interval[0] <= row.difference <= row.interval[1]
    frame = answer.to_frame("pandas")
    assert {"lift_low", "lift_high", "standing", "purchases", "reports_lift_high"} <= set(frame.columns)
    json.dumps(answer.as_dict())


def test_the_best_is_safe_though_another_looks_better() -> None:
    """p1 is clicked most and sells next to nothing; p2 is better than production and sells as much."""
    rng = np.random.default_rng(2)
    rates, bought = np.array([0.3, 0.6, 0.4, 0.1]), np.array([0.6, 0.05, 0.6, 0.6])
    rounds, policies, values = log_of(rates, bought, 20_000, rng)
    answer = evaluated(rounds, policies, values)
    assert (answer.best.name, answer.standing("p1"), answer.standing("p2")) == ("p2", "harmful", "safe")
    assert answer.epsilon < 0.05  # harm takes p1 out, which is better by 0.2
    assert answer.verdict.kind == "decided"
    said = str(answer.verdict)
    assert "it is safe by purchases, and no other safe candidate is better" in said
    assert "p1 has a higher estimate and is harmful by purchases." in said
    assert "p2 collects" in said
    assert answer.claim.text.startswith("the one named is safe by purchases, and within")
    assert [claim.kind for claim in answer.claims] == ["certificate of a log", "lifts of a log"]
    assert all(claim.holds and claim.delta == DELTA for claim in answer.claims)
    without = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.25, delta=DELTA)
    assert without.best.name == "p1"


def test_nothing_is_said_of_a_candidate_that_the_log_could_not_show() -> None:
    rng = np.random.default_rng(3)
    problem = cb.Problem(4, 1, sparsity=1)
    shown = rng.integers(3, size=6000)[:, None]
    clicks = (rng.random((6000, 1)) < 0.4).astype(float)
    rounds = cb.Rounds.from_log(
        np.zeros(6000, dtype=int), lists=shown, rewards=clicks, propensities=np.full((6000, 1), 1 / 3), problem=problem
    )
    policies = cb.PolicySet.from_lists([[[i]] for i in range(4)], problem, names=[f"p{i}" for i in range(4)])
    given: dict[str, Any] = {"max_reward": 1, "min_propensity": 1 / 3, "metrics": [ALMOST]}
    answer = cb.evaluate(rounds, policies, production="p0", values={"purchases": clicks}, **given)
    assert answer.standing("p3") == "not shown"
    assert answer.standing("p1") == "safe"
    lift = answer.lift("p3")
    assert lift is not None
    assert (lift.low, lift.high) == (-1.0, 1.0)
    of_nothing = cb.evaluate(rounds, policies, production="p3", values={"purchases": clicks}, **given)
    assert {of_nothing.standing(f"p{i}") for i in range(3)} == {"not shown"}
    assert of_nothing.best.name == "p3"


# ---- the promise -----------------------------------------------------------------------------------------------------


def wrong(answer: Evaluation, rates: Floats, sold: Floats) -> tuple[bool, bool, bool]:
    """Whether it declares safe what is not, claims too much of the best safe one, and misses a lift."""
    safe = sold >= sold[0] - PURCHASES.margin
    declared = [i for i in range(len(rates)) if answer.standing(f"p{i}") == "safe"]
    best = answer.candidates[0].index
    missed = any(not lift.low <= rates[i] - rates[0] <= lift.high for i, lift in enumerate(answer.lifts))
    too_good = rates[safe].max() - rates[best] > answer.epsilon + 1e-12
    return not safe[declared].all(), bool(too_good), missed


WORLDS = {
    "decoy": (np.array([0.2, 0.7, 0.4, 0.3]), np.array([0.15, 0.02, 0.12, 0.15])),  # the best one harms
    "by a hair": (np.array([0.2, 0.5, 0.5, 0.5]), np.array([0.15, *[0.1 - 1e-9] * 3])),  # all others are not safe
    "none to spare": (np.array([0.2, 0.6, 0.3, 0.3]), np.array([0.15, 0.1, 0.12, 0.12])),  # the best one just is safe
}


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_claims_are_wrong_no_more_often_than_promised(world: str) -> None:
    """1,000 logs, each looked at four times, at δ = .2: a right program fails once in ten million such tests."""
    rates, sold = WORLDS[world]
    runs, found = 1000, np.zeros(4, dtype=int)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 7])
        rounds, policies, values = log_of(rates, sold / rates, 3200, rng)
        seen = np.zeros(4, dtype=bool)
        for n in (400, 800, 1600, 3200):
            part = rounds[np.arange(n)]
            told = {name: value[:n] for name, value in values.items()}
            answer = evaluated(part, policies, told, delta=0.2)
            *ever, lost = wrong(answer, rates, sold)
            seen |= [*ever, any(ever), lost]
        found += seen
    print(world, "declared safe wrongly, claimed too much, either, lifts missed:", found.tolist(), "of", runs)
    for count, delta in zip(found, (0.06, 0.14, 0.2, 0.2), strict=True):
        assert count <= binom.isf(1e-7, runs, delta)


# ---- files and options -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluation]:
    """A log in files of several forms, and what is said of it in memory."""
    folder, rng = tmp_path_factory.mktemp("log"), np.random.default_rng(5)
    rounds, policies, values = log_of(rng.uniform(0.1, 0.5, 5), rng.uniform(0, 1, 5), 3000, rng, 2)
    cb.write_rounds(rounds, folder / "log.csv")
    cb.write_candidates(policies, np.array([0]), folder / "lists.csv")
    frame = pd.read_csv(folder / "log.csv")
    for name, told in values.items():
        for k in range(2):
            frame[f"{name}_{k}"] = told[:, k]
    frame.to_csv(folder / "log.csv", index=False)
    for k in range(3):
        frame.iloc[k * 1000 : (k + 1) * 1000].to_csv(folder / f"part{k}.csv", index=False)
    lists, n = rounds.decisions.lists, len(rounds)
    rows = {
        "round": np.repeat(np.arange(n), 2),
        "context": 0,
        "item": lists.ravel(),
        "reward": rounds.rewards.ravel(),
        "propensity": rounds.decisions.propensities.ravel(),
        **{name: told.ravel() for name, told in values.items()},
    }
    pd.DataFrame(rows).to_csv(folder / "rows.csv", index=False)
    whole = {name: list(told) for name, told in values.items()}
    wide = {"items": list(lists), "rewards": list(rounds.rewards), "propensities": list(rounds.decisions.propensities)}
    pd.DataFrame({"context": np.zeros(n, dtype=int), **wide, **whole}).to_parquet(folder / "lists.parquet")
    return folder, evaluated(rounds, policies, values, metrics=[PURCHASES, REPORTS])


ASKED: dict[str, Any] = {"min_propensity": 0.4, "delta": DELTA, "production": "p0"}


@pytest.mark.parametrize("log", ["log.csv", "rows.csv", "lists.parquet", "part*.csv"])
def test_files_say_what_rounds_do(log: str, logged: tuple[Path, Evaluation]) -> None:
    folder, expected = logged
    metrics = [PURCHASES, REPORTS]
    found = [cb.evaluate_log(str(folder / log), str(folder / "lists.csv"), metrics=metrics, **ASKED)]
    if "*" not in log:
        reading = cb.read_log(folder / log, folder / "lists.csv", metrics=metrics)
        found.append(cb.evaluate_log(reading, **ASKED))
    if log == "rows.csv":
        frame, lists = pd.read_csv(folder / log), pd.read_csv(folder / "lists.csv")
        one = cb.evaluate(frame, lists, metrics=metrics, **ASKED)
        assert (one.guarded, one.lifts) == (expected.guarded, expected.lifts)
    for answer in found:
        assert answer.evaluation.guarded == expected.guarded
        assert answer.evaluation.lifts == expected.lifts
        assert answer.evaluation.epsilon == expected.epsilon
        assert answer.evaluation.best == expected.best


def test_the_command_tells_it(logged: tuple[Path, Evaluation]) -> None:
    folder, expected = logged
    asked = ["--min-propensity", "0.4", "--delta", str(DELTA), "--production", "p0", "--metric", "purchases=0.05"]
    asked += ["--metric", "reports=10%,cost,largest=2", "--exit-zero"]
    files = ["evaluate", str(folder / "log.csv"), "-c", str(folder / "lists.csv")]
    told = CliRunner().invoke(app, [*files, *asked, "--json"])
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert [row["standing"] for row in answer["guarded"]] == [row.standing for row in expected.guarded]
    shown = CliRunner().invoke(app, [*files, *asked], env={"COLUMNS": "200"})
    assert "by its metrics" in shown.output
    assert "More per round than with p0, with intervals." in shown.output
    wrong_one = CliRunner().invoke(app, [*files, *asked, "--metric", "returns"])
    assert wrong_one.exit_code != 0


def test_what_cannot_be_said_is_refused(logged: tuple[Path, Evaluation]) -> None:
    folder, _ = logged
    rng = np.random.default_rng(0)
    rounds, policies, values = log_of(np.array([0.3, 0.4]), np.array([0.5, 0.5]), 100, rng)
    sold = {"purchases": values["purchases"]}
    known: dict[str, Any] = {"max_reward": 1, "min_propensity": 0.5}
    for message, more in (
        ("production=<its name>", {**known, "metrics": [PURCHASES], "values": sold}),
        ("state min_propensity", {"max_reward": 1, "production": "p0"}),
        ("must be the name of a candidate", {**known, "production": "p9"}),
        ("values must be given for the metrics", {**known, "production": "p0", "metrics": [PURCHASES]}),
        ("values must be given for the metrics", {**known, "production": "p0", "values": sold}),
        (
            "purchases",
            {**known, "production": "p0", "metrics": [PURCHASES], "values": {"purchases": sold["purchases"] * 9}},
        ),
    ):
        with pytest.raises(cb.InputError, match=message):
            cb.evaluate(rounds, policies, **more)
    with pytest.raises(cb.InputError, match="whole rounds"):
        cb.evaluate(rounds.events(), policies, production="p0", metrics=[PURCHASES], values=sold, **known)
    with pytest.raises(cb.InputError, match="returns"):
        cb.evaluate_log(
            folder / "log.csv", folder / "lists.csv", metrics=[cb.Metric(name="returns", margin=1)], **ASKED
        )
    frame = pd.read_csv(folder / "log.csv")
    frame.loc[3, "reward_0"] = 7.0
    frame.to_csv(folder / "faulty.csv", index=False)
    asked: dict[str, Any] = {"metrics": [PURCHASES], "on_error": "skip"}
    with pytest.raises(cb.InputError, match="faulty rows"):
        cb.read_log(folder / "faulty.csv", folder / "lists.csv", **asked)
    with pytest.raises(cb.InputError, match="faulty rows"):
        cb.evaluate_log(folder / "faulty.csv", folder / "lists.csv", **asked, **ASKED)
