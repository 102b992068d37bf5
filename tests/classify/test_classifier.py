from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from comband import BanditListClassifier, InputError, MultilabelData


def bandit_log(n: int, *, seed: int = 0, n_labels: int = 8) -> tuple[Any, ...]:
    """Contexts near one of 8 corners, two wanted labels each; lists of 3, the first half of the labels shown less."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_labels, size=n)
    X = np.eye(n_labels)[kind] + 0.1 * rng.normal(size=(n, n_labels))
    Y = np.zeros((n, n_labels))
    Y[np.arange(n), kind] = 1
    Y[np.arange(n), (kind + 3) % n_labels] = 1
    lists = np.argsort(rng.random((n, n_labels)), axis=1)[:, :3]
    rewards = np.take_along_axis(Y, lists, axis=1)
    return X, Y, lists, rewards, np.full((n, 3), 3 / n_labels)


@pytest.mark.parametrize(
    "estimator", [None, Ridge(alpha=0.1), LogisticRegression(), DecisionTreeClassifier(max_depth=5)], ids=str
)
@pytest.mark.parametrize("options", [{}, {"importance": 1.0, "clip": 5.0}, {"importance": 0.5, "self_normalize": True}])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_learns_from_shown_labels_only(estimator: Any, options: dict[str, Any], kind: str) -> None:
    make = sp.csr_array if kind == "sparse" else np.asarray
    X, _, lists, rewards, q = bandit_log(800)
    model = BanditListClassifier(estimator, list_size=2, n_actions=8, **options)
    model.fit(make(X), lists=lists, rewards=rewards, propensities=q)
    fresh, truth, *_ = bandit_log(200, seed=1)
    assert model.score(make(fresh), truth) > 1.9  # of 2; chance is 0.5
    assert model.score(make(fresh), sp.csr_array(truth)) == model.score(make(fresh), truth)
    assert model.predict_scores(make(fresh)).shape == (200, 8)
    assert model.predict(make(fresh)).shape == (200, 2)


def test_full_information_is_the_skyline_and_classes_keep_their_names() -> None:
    digits = MultilabelData.from_sklearn("digits")
    names = np.array([f"digit {k}" for k in range(10)])[digits.labels.indices]
    model = BanditListClassifier(Ridge(alpha=1.0), list_size=2).fit(digits.features[:1000], names[:1000])
    assert set(model.predict(digits.features[:5]).ravel()) <= set(names)
    assert model.score(digits.features[1000:], names[1000:]) > 0.9


def test_a_rare_action_needs_more_than_one_lucky_answer() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    lists = np.zeros((500, 1), dtype=int)
    lists[0] = 1
    rewards = (rng.random((500, 1)) < 0.6).astype(float)
    rewards[0] = 1
    for estimator in (Ridge(alpha=1e3), LogisticRegression(C=1e-3)):
        smooth = BanditListClassifier(estimator, n_actions=3, smoothing=5.0).fit(X, lists=lists, rewards=rewards)
        scores = smooth.predict_scores(np.zeros((1, 2)))[0]
        assert scores[1] == pytest.approx((1 + 5 * scores[2]) / 6, abs=0.02)
        assert scores[2] == pytest.approx(rewards.mean(), abs=0.01)  # never shown: the mean rate


def test_importance_weights_undo_the_logging_of_a_model_that_cannot_fit() -> None:
    # One constant feature; label 0 is confirmed in contexts of kind A only, and was shown mostly there.
    rng = np.random.default_rng(1)
    n = 20_000
    kind = rng.random(n) < 0.5
    q0 = np.where(kind, 0.9, 0.1)
    shown = np.where(rng.random(n) < q0, 0, 1)
    rewards = np.where(shown == 0, kind, 0.7).astype(float)
    propensities = np.where(shown == 0, q0, 1 - q0)
    log = {"lists": shown[:, None], "rewards": rewards[:, None], "propensities": propensities[:, None]}
    X = np.zeros((n, 1))
    X[:, 0] = rng.normal(size=n) * 1e-6  # distinct contexts without information
    direct = BanditListClassifier(n_actions=2).fit(X, **log).predict_scores(X[:1])[0]
    weighted = BanditListClassifier(n_actions=2, importance=1.0, clip=None).fit(X, **log).predict_scores(X[:1])[0]
    assert direct[0] == pytest.approx(0.9, abs=0.02)
    assert weighted[0] == pytest.approx(0.5, abs=0.03)  # standard error 0.006


def test_clone_params_and_pipeline() -> None:
    X, Y, *_ = bandit_log(200)
    model = BanditListClassifier(Ridge(alpha=2.0), list_size=2, clip=3.0)
    copy = clone(model)
    assert copy.get_params()["estimator__alpha"] == 2.0
    assert copy.get_params()["clip"] == 3.0
    pipeline = make_pipeline(MaxAbsScaler(), copy).fit(X, Y)
    assert pipeline.score(X, Y) > 1.5
    X, Y, lists, rewards, _ = bandit_log(600)
    step = "banditlistclassifier__"
    pipeline.fit(X, **{f"{step}lists": lists, f"{step}rewards": rewards})
    assert pipeline.score(X, Y) > 1.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "y to be passed"),
        ({"y": [0, 1], "lists": [[0], [1]], "rewards": [[1], [0]]}, "got both"),
        ({"lists": [[0], [1]]}, "rewards must say"),
        ({"lists": [[0], [5]], "rewards": [[1], [0]]}, "n_actions is 3"),
        ({"lists": [[0, 0], [1, 2]], "rewards": [[1, 0], [0, 1]]}, "repeat"),
        ({"lists": [[0], [1]], "rewards": [[2], [0]]}, r"\[0, 1\]"),
        ({"lists": [[0], [1]], "rewards": [[1], [0]], "propensities": [[0.0], [1.0]]}, "propensities"),
        ({"y": [[0.5, 2.0, 0], [0, 1, 0]]}, "confirmation rates"),
    ],
)
def test_wrong_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BanditListClassifier(n_actions=3).fit(np.eye(2), **arguments)
    with pytest.raises(InputError, match="importance"):
        BanditListClassifier(importance=1.0).fit(np.eye(2), lists=[[0], [1]], rewards=[[1], [0]])


_LISTS = "asserts predictions of shape (n,), but a list classifier predicts lists (n, m), also for m = 1"
EXPECTED_FAILURES = {"check_estimator_sparse_array": _LISTS, "check_estimator_sparse_matrix": _LISTS}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [BanditListClassifier(), BanditListClassifier(LogisticRegression())],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("options", "weights", "message"),
    [
        ({"importance": -1.0}, None, r"importance must lie in \[0, 10\], got -1"),
        ({"smoothing": -0.5}, None, r"smoothing must lie in \[0, 1e\+15\], got -0.5"),
        ({"repeat_correlation": 1.5}, None, r"repeat_correlation must lie in \[0, 1\], got 1.5"),
        ({"importance": True}, None, "importance must be a number, got True"),
        ({"clip": -1.0}, None, "clip must be above 0"),
        ({}, np.full(50, np.nan), "round_weights must be finite"),
        ({}, np.full(50, -1.0), "round_weights must be finite, at least 0"),
        ({}, np.zeros(50), "not all 0"),
        ({}, np.ones(49), "one number for each of the 50 rounds"),
        ({}, ["a"] * 50, "round_weights must be numbers"),
    ],
)
def test_refuses_weights_and_settings_that_make_no_sense(options: dict[str, Any], weights: Any, message: str) -> None:
    X, _, lists, rewards, q = bandit_log(50)
    model = BanditListClassifier(list_size=2, n_actions=8, **options)
    with pytest.raises(InputError, match=message):
        model.fit(X, lists=lists, rewards=rewards, propensities=q, round_weights=weights)


def test_a_bar_over_labels_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    X, _, lists, rewards, propensities = bandit_log(300)
    models = [BanditListClassifier(LogisticRegression(), list_size=2, verbose=verbose) for verbose in (False, True)]
    said = []
    for model in models:
        model.fit(X, lists=lists, rewards=rewards, propensities=propensities)
        said.append(capfd.readouterr().err)
    assert said[0] == ""
    assert " labels:" in said[1]
    np.testing.assert_array_equal(models[0].predict_scores(X), models[1].predict_scores(X))


def test_a_matrix_whose_indices_lie_is_refused() -> None:
    X, _, lists, rewards, q = bandit_log(50)
    broken = sp.csr_array(X)
    broken.indices[3] = 10**6
    with pytest.raises(InputError, match="sparse contexts"):
        BanditListClassifier(list_size=2, n_actions=8).fit(broken, lists=lists, rewards=rewards, propensities=q)


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_a_log_is_routed_through_pipelines_and_searches(routing: None) -> None:
    X, _, lists, rewards, q = bandit_log(900)
    log = {"lists": lists, "rewards": rewards, "propensities": q}
    names = dict.fromkeys(log, True)
    model = BanditListClassifier(list_size=2, n_actions=8, importance=1.0)
    model.set_fit_request(**names).set_score_request(**names)
    pipeline = make_pipeline(MaxAbsScaler(), model)
    search = GridSearchCV(
        pipeline, {"banditlistclassifier__estimator": [Ridge(alpha=1.0), Ridge(alpha=1e6)]}, cv=3, error_score="raise"
    )
    search.fit(X, **log)
    assert search.best_params_["banditlistclassifier__estimator"].alpha == 1.0
    fresh, truth, *_ = bandit_log(400, seed=1)
    found = search.best_estimator_
    assert found.score(fresh, truth) > 1.9
    # By hand: the scores of the folds are those of a model that saw the other folds.
    folds = KFold(3).split(X)
    by_hand = []
    for train, test in folds:
        scaler = MaxAbsScaler().fit(X[train])
        own = BanditListClassifier(Ridge(alpha=1.0), list_size=2, n_actions=8, importance=1.0)
        own.fit(scaler.transform(X[train]), lists=lists[train], rewards=rewards[train], propensities=q[train])
        predicted = own.predict(scaler.transform(X[test]))
        worth = [
            sum(rewards[t, j] / q[t, j] for j in range(3) if lists[t, j] in predicted[i]) for i, t in enumerate(test)
        ]
        by_hand.append(np.mean(worth))
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))


def test_a_search_without_routing_says_what_is_missing() -> None:
    X, _, lists, rewards, q = bandit_log(60)
    log = {"lists": lists, "rewards": rewards, "propensities": q}
    model, grid = BanditListClassifier(list_size=2, n_actions=8), {"smoothing": [1.0, 2.0]}
    with pytest.raises(InputError, match=r"enable_metadata_routing=True.*set_score_request"):
        GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, **log)
    with pytest.warns(UserWarning, match="set_score_request|non-finite") as told:
        GridSearchCV(model, grid, cv=2).fit(X, **log)
    assert "set_score_request(lists=True" in str(told[0].message)


def test_the_score_of_a_log_is_near_that_of_the_truth() -> None:
    X, _, lists, rewards, q = bandit_log(1000)
    model = BanditListClassifier(list_size=2, n_actions=8).fit(X, lists=lists, rewards=rewards, propensities=q)
    fresh, truth, *log = bandit_log(4000, seed=1)
    estimate = model.score(fresh, lists=log[0], rewards=log[1], propensities=log[2])
    # Σ r/q over shared labels: at most 2 of 8/3 each, so its standard error is below 2.7/√4000; six of them.
    assert abs(estimate - model.score(fresh, truth)) < 6 * 2.7 / 4000**0.5
    for wrong, words in (
        ({"y": truth, "lists": log[0]}, "got both"),
        ({}, "score needs y"),
        ({"lists": log[0], "rewards": log[1]}, "rewards and propensities of the shown labels are needed"),
    ):
        with pytest.raises(InputError, match=words):
            model.score(fresh, **wrong)
    weights = np.arange(4000) < 1000
    assert model.score(fresh, truth, sample_weight=weights) == pytest.approx(model.score(fresh[:1000], truth[:1000]))
    with pytest.raises(InputError, match="sample_weight must hold one number for each of the 4000"):
        model.score(fresh, truth, sample_weight=weights[1:])
