"""The estimators that others know: against sums by hand, and in worlds whose values are known."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.evaluation import UsualSums, usual_estimates
from tests.evaluation.logs.worlds import PROBLEM, small_log


def _by_hand(rounds: cb.Rounds, policies: cb.PolicySet, p: int, model: Any) -> dict[str, tuple[float, float]]:
    """Estimates and standard errors, round by round."""
    lists, q, r = rounds.decisions.lists, rounds.decisions.propensities, rounds.rewards
    X, W, M, D = [], [], [], []
    for t in range(len(rounds)):
        context = np.asarray(rounds.decisions.contexts)[t : t + 1]
        wanted = policies[p].predict(context)[0].tolist()
        said = {item: float(model(context, np.array([[item]]))[0, 0]) for item in {*wanted, *lists[t].tolist()}}
        shared = [j for j in range(3) if lists[t, j] in wanted]
        X.append(sum(r[t, j] / q[t, j] for j in shared))
        W.append(sum(1 / q[t, j] for j in shared))
        M.append(sum(said[item] for item in wanted))
        D.append(M[-1] + sum((r[t, j] - said[int(lists[t, j])]) / q[t, j] for j in shared))
    n = len(X)

    def mean(values: list[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n)

    snips = 3 * sum(X) / sum(W)
    residuals = [x - snips / 3 * w for x, w in zip(X, W, strict=True)]
    error = 3 / np.mean(W) * math.sqrt(sum(e * e for e in residuals) / (n - 1) / n)
    return {"IPS": mean(X), "SNIPS": (snips, error), "DM": mean(M), "DR": mean(D)}


def _model(X: Any, lists: Any) -> Any:
    return 0.02 * (np.asarray(X)[:, None] % 5) + 0.01 * (np.asarray(lists) % 7)


def test_every_figure_is_the_sum_that_it_says() -> None:
    rounds, policies = small_log(150)
    found = usual_estimates(rounds, policies, reward_model=_model)
    assert list(found.estimates) == ["IPS", "SNIPS", "DM", "DR"]
    for p in range(5):
        for method, (value, error) in _by_hand(rounds, policies, p, _model).items():
            assert found.estimates[method][p] == pytest.approx(value, rel=1e-10), method
            assert found.standard_errors[method][p] == pytest.approx(error, rel=1e-8), method
    ips = cb.evaluate(rounds, policies, max_reward=1.0)
    for candidate in ips.candidates:
        assert candidate.value == pytest.approx(found.estimates["IPS"][candidate.index], rel=1e-9)
        assert candidate.standard_error == pytest.approx(found.standard_errors["IPS"][candidate.index], rel=1e-6)
        low, high = found.interval("IPS")
        assert candidate.approximate_interval == pytest.approx((low[candidate.index], high[candidate.index]), rel=1e-6)
    table = found.to_frame("pandas")
    assert len(table) == 20
    assert "not valid under peeking" in found.headline()


def test_a_table_of_scores_is_a_model_too() -> None:
    rounds, policies = small_log(60)

    class Scores:
        def predict_scores(self, X: Any) -> Any:
            return _model(X, np.broadcast_to(np.arange(20), (len(X), 20)))

    one = usual_estimates(rounds, policies, reward_model=_model)
    other = usual_estimates(rounds, policies, reward_model=Scores())
    assert np.allclose(one.estimates["DR"], other.estimates["DR"], rtol=1e-12)


def test_sums_of_parts_are_the_sums_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, policies = small_log(100)
    whole = UsualSums.of(rounds, policies, _model)
    parts = UsualSums.of(rounds[slice(0, 33)], policies, _model) + UsualSums.of(
        rounds[slice(33, 100)], policies, _model
    )
    assert whole.n_rounds == parts.n_rounds
    for name in whole.sums:
        assert np.allclose(whole.sums[name], parts.sums[name], rtol=1e-12)
    expected = usual_estimates(rounds, policies).estimates["SNIPS"]
    monkeypatch.setattr("comband.evaluation.ips._CELLS", 500)
    assert np.allclose(usual_estimates(rounds, policies).estimates["SNIPS"], expected, rtol=1e-12)


def test_all_are_near_the_truth_and_a_good_model_helps() -> None:
    """Six standard errors: a right program fails once in 10^8."""
    rng = np.random.default_rng(5)
    lists = rng.permuted(np.tile(np.arange(20), (5, 30, 1)), axis=2)[:, :, :3]
    policies = cb.PolicySet.from_lists(lists, PROBLEM)
    chance = rng.random((30, 20)) * 0.3
    mixture = cb.Mixture(policies, np.full(5, 0.2), problem=PROBLEM, floor=0.5)
    contexts = rng.integers(30, size=6000)
    decisions = mixture.draw(contexts, rng)
    clicked = rng.random((6000, 3)) < chance[contexts[:, None], decisions.lists]
    rounds = cb.Rounds(decisions, clicked.astype(float))
    truth = np.array([chance[np.arange(30)[:, None], lists[p]].sum(axis=1).mean() for p in range(5)])
    found = usual_estimates(rounds, policies, reward_model=lambda X, shown: chance[np.asarray(X)[:, None], shown])
    for method in ("IPS", "SNIPS", "DR"):
        assert (np.abs(found.estimates[method] - truth) < 6 * found.standard_errors[method]).all(), method
    assert (found.standard_errors["DR"] < found.standard_errors["IPS"]).all()
    assert ((found.effective_sample_size > 100) & (found.effective_sample_size <= 6000)).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (3, "reward_model must have predict_scores"),
        (lambda X, lists: np.zeros((len(lists), 1)), "must give finite rewards of shape"),
        (lambda X, lists: np.full(lists.shape, np.nan), "must give finite rewards"),
        (type("Few", (), {"predict_scores": lambda self, X: np.zeros((len(X), 3))})(), r"must give scores \(n, K\)"),
    ],
)
def test_models_that_make_no_sense_are_refused(model: Any, words: str) -> None:
    rounds, policies = small_log(20)
    with pytest.raises(cb.InputError, match=words):
        usual_estimates(rounds, policies, reward_model=model)


def test_a_log_without_rewards_has_no_best_candidate() -> None:
    rounds, policies = small_log(50)
    silent = cb.Rounds(rounds.decisions, np.zeros_like(rounds.rewards))
    answer = cb.evaluate(silent, policies, max_reward=1.0, min_propensity=0.06)
    assert not answer.has_best
    assert answer.as_dict()["best"] is None
    assert "no candidate is best" in answer.promise
    with pytest.raises(cb.InputError, match="no candidate is best"):
        answer.best  # noqa: B018
    assert answer.verdict.kind == "cannot tell"
    assert "No round brought a reward" in answer._repr_html_()
    assert answer.epsilon > 0


def test_hints_say_what_an_assumption_would_bring() -> None:
    rounds, policies = small_log()
    loose = cb.evaluate(rounds, policies, max_reward=3.0)
    by_option = {hint.option: hint for hint in loose.hints}
    assert by_option["min_propensity"].epsilon < loose.covered_epsilon  # which allows for a propensity read off the log
    stated = cb.evaluate(rounds, policies, max_reward=3.0, min_propensity=loose.min_propensity)
    assert stated.epsilon == pytest.approx(by_option["min_propensity"].epsilon)
    sparse = cb.evaluate(rounds, policies, max_reward=1.0, min_propensity=loose.min_propensity)
    assert [hint.option for hint in stated.hints] == ["sparsity"]
    assert stated.hints[0].epsilon == pytest.approx(sparse.epsilon)
    assert stated.hints[0].epsilon == pytest.approx(by_option["sparsity"].epsilon)
    assert sparse.hints == ()
    assert any("--sparsity" in note for note in stated.explained)
    assert 0 <= sparse.approximate_epsilon < sparse.epsilon < stated.epsilon < loose.epsilon
    full = np.where(rounds.decisions.ids[:, None] == 0, 1.0, rounds.rewards)  # one round brings 3
    assert all(
        h.option != "sparsity" for h in cb.evaluate(cb.Rounds(rounds.decisions, full), policies, max_reward=3).hints
    )


def test_rows_that_come_twice_without_an_id_are_remarked_on(tmp_path: Any) -> None:
    rounds, policies = small_log(40)
    cb.write_candidates(policies, np.arange(30), tmp_path / "lists.csv")
    cb.write_rounds(rounds, tmp_path / "log.csv")
    lists = cb.read_candidates(tmp_path / "lists.csv")
    rows = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()]
    rewarded = int((rounds.rewards > 0).any(axis=1).sum())
    for kept, expected in ((slice(None), 0), (slice(2, None), rewarded)):
        lines = [",".join(row[kept]) for row in (*rows, *(rows[1:] if expected else ()))]
        (tmp_path / "log.csv").write_text("\n".join(lines))
        reading = cb.read_log(tmp_path / "log.csv", lists, sparsity=1)
        assert reading.repeated == expected
        notes = cb.evaluate_log(reading).notes
        assert any("logged twice" in note for note in notes) == (expected > 0)
    # Other columns may differ, such as times: the note speaks of those that are compared.
    timed = [",".join([*row[2:], "time" if i == 0 else f"{i}"]) for i, row in enumerate([*rows, *rows[1:]])]
    (tmp_path / "log.csv").write_text("\n".join(timed))
    answer = cb.evaluate_log(cb.read_log(tmp_path / "log.csv", lists, sparsity=1))
    assert answer.repeated == rewarded
    (note,) = (note for note in answer.notes if "logged twice" in note)
    assert note.startswith(f"{rewarded} rewarded rounds have the same context, items, rewards and propensities as an")
    assert "every column" not in note


def test_evaluate_has_doubly_robust_estimates_with_a_reward_model() -> None:
    problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    policies = shop.candidates(3, seed=2)
    mixture = cb.Mixture(policies, np.full(3, 1 / 3), problem=problem, floor=0.5)
    visitors = shop.sample(800, np.random.default_rng(3))
    decisions = mixture.draw(visitors.contexts, 4)
    rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))

    def model(X: Any, lists: Any) -> Any:
        return np.full(lists.shape, 0.1)

    plain = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125)
    answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125, reward_model=model)
    assert plain.usual is None
    assert answer == plain  # nothing promised rests on the model
    assert answer.usual is not None
    again = usual_estimates(rounds, policies, reward_model=model)
    assert sorted(answer.usual.estimates) == ["DM", "DR", "IPS", "SNIPS"]
    assert np.array_equal(answer.usual.estimates["DR"], again.estimates["DR"])
    told = json.loads(json.dumps(answer.as_dict(), allow_nan=False))
    assert told["usual"]["method"].count("DR") == 3
    assert plain.as_dict()["usual"] is None


def test_intervals_of_the_usual_estimates_reach_any_level() -> None:
    rounds, policies = small_log()
    low, high = usual_estimates(rounds, policies, delta=1e-12).interval("IPS")
    wider, higher = usual_estimates(rounds, policies, delta=1e-15).interval("IPS")
    assert (wider < low).all()
    assert (higher > high).all()
    assert np.isfinite(usual_estimates(rounds, policies, delta=1e-17).interval("IPS")).all()
