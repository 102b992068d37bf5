from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from comband import (
    BanditListClassifier,
    InputError,
    Learner,
    MultilabelData,
    MultilabelWorld,
    OnlineListClassifier,
    Problem,
    UnknownDecisionError,
    run,
)
from comband.learners.online_lists import _enough_answers


def world(n: int = 300, n_labels: int = 20, *, sparse: bool = False) -> MultilabelWorld:
    rng = np.random.default_rng(0)
    kind = rng.integers(n_labels, size=n)
    X = np.eye(n_labels)[kind] + 0.1 * rng.normal(size=(n, n_labels))
    Y = np.zeros((n, n_labels))
    Y[np.arange(n), kind] = Y[np.arange(n), (kind * 7 + 1) % n_labels] = 1
    return MultilabelWorld(MultilabelData(sp.csr_array(X) if sparse else X, Y), list_size=3)


def play(learner: OnlineListClassifier, place: MultilabelWorld, n: int, rng: np.random.Generator) -> float:
    batch = place.sample(n, rng)
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    learner.tell(decisions, rewards)
    return float(rewards.sum() / n)


@pytest.mark.parametrize("sparse", [False, True])
def test_learns_and_collects_more_as_it_goes(sparse: bool) -> None:
    place = world(sparse=sparse)
    learner = OnlineListClassifier(place.problem, BanditListClassifier(Ridge(alpha=0.3)), n_rounds=2000)
    outcome = run(cast(Learner, learner), place, batch_size=100, seed=1)
    assert learner.done
    assert place.data.hits(learner.predict(place.data.features)) > 1.7  # of 2; a uniform list has 0.3
    assert outcome.history["reward"][:1].mean() < outcome.history["reward"][-5:].mean()
    low, high = outcome.result.interval
    assert low <= outcome.result.value <= high
    assert "epoch" in str(outcome.result.notes)


def test_propensities_are_those_of_the_mixture_that_drew() -> None:
    place = world()
    learner = OnlineListClassifier(place.problem, seed=3)
    rng = np.random.default_rng(2)
    for _ in range(6):
        play(learner, place, 100, rng)
    assert learner.epoch > 1
    X = place.data.features[:1]
    q = learner._mixture.propensities(X)[0]
    n = 20_000
    decisions = learner.ask(np.repeat(X, n, axis=0))
    shares = np.bincount(decisions.lists.ravel(), minlength=20) / n
    # Hoeffding for each of 20 labels: off by more than t with probability 2 exp(−2 n t²) < 1e-8.
    assert np.abs(shares - q).max() < np.sqrt(np.log(2e8) / (2 * n))
    np.testing.assert_allclose(decisions.propensities, q[decisions.lists])


def test_exploring_lists_pass_over_known_answers() -> None:
    place = world(n=40)
    learner = OnlineListClassifier(place.problem, seed=4)
    rng = np.random.default_rng(3)
    for _ in range(4):
        play(learner, place, 50, rng)
    exploring = learner._mixture.policies.predict(place.data.features)[:, 1:]
    seen: dict[bytes, set[int]] = {}
    log = learner._log()
    for x, labels in zip(log.decisions.contexts, log.decisions.lists, strict=True):
        seen.setdefault(x.tobytes(), set()).update(labels.tolist())
    for x, lists in zip(place.data.features, exploring, strict=True):
        known = seen.get(x.tobytes(), set())
        if len(known) <= 20 - 3:
            assert known.isdisjoint(lists.ravel().tolist())


def test_late_feedback_and_strangers() -> None:
    place = world()
    learner = OnlineListClassifier(place.problem, first_epoch=50)
    batch = place.sample(120, np.random.default_rng(5))
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    assert learner.tell(decisions[60:], rewards[60:]).accepted == 60
    assert learner.epoch == 1
    assert learner.tell(decisions, rewards).duplicates == 60
    assert learner.rounds == 120
    stranger = OnlineListClassifier(place.problem, seed=9)
    decisions = stranger.ask(place.sample(500, np.random.default_rng(6)).contexts)
    with pytest.raises(UnknownDecisionError):
        learner.tell(decisions, np.zeros((500, 3)))
    assert learner.rounds == 120


def test_saved_in_the_middle_goes_on_the_same(tmp_path: Path) -> None:
    place = world(sparse=True)
    template = BanditListClassifier(Ridge(alpha=0.5))
    learner = OnlineListClassifier(place.problem, template, seed=6)
    rng = np.random.default_rng(7)
    empty = tmp_path / "empty.npz"
    learner.save(empty)
    assert OnlineListClassifier.load(empty, template).rounds == 0
    for _ in range(5):
        play(learner, place, 70, rng)
    learner.save(tmp_path / "state.npz")
    other = OnlineListClassifier.load(tmp_path / "state.npz", template)
    for _ in range(3):
        batch = place.sample(70, rng)
        one, two = learner.ask(batch.contexts), other.ask(batch.contexts)
        np.testing.assert_array_equal(one.lists, two.lists)
        np.testing.assert_allclose(one.propensities, two.propensities)
        for each, decisions in ((learner, one), (other, two)):
            each.tell(decisions, batch.answer(decisions.lists))
    assert other.result().value == pytest.approx(learner.result().value)
    with pytest.raises(InputError, match="was saved with"):
        OnlineListClassifier.load(tmp_path / "state.npz", BanditListClassifier(Ridge(alpha=7.0)))


def test_when_a_repeated_answer_is_worthless() -> None:
    assert _enough_answers(1.0) == 1
    assert _enough_answers(0.0) is None
    assert _enough_answers(0.5) == 4  # the fifth adds 0.5/(2.5·3) = 0.067, the fourth 0.5/(2·2.5) = 0.1
    with pytest.raises(InputError, match="repeat_correlation"):
        _enough_answers(1.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"growth": 1.0}, "growth"), ({"exploit": 0.0}, "exploit"), ({"least_floor": 0.0}, "least_floor")],
)
def test_wrong_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OnlineListClassifier(Problem(n_actions=5, list_size=2), **options)
    with pytest.raises(InputError, match="answered yet"):
        OnlineListClassifier(Problem(n_actions=5, list_size=2)).model()
