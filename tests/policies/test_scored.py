"""Top-m of every kind of scorer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import comband as cb

PROBLEM = cb.Problem(n_actions=5, list_size=2)


def brute(scores: np.ndarray, m: int) -> list[set[int]]:
    return [set(np.argsort(-row)[:m].tolist()) for row in scores]


def test_matrix_callable_and_sparse_contexts_agree() -> None:
    rng = np.random.default_rng(0)
    W, X = rng.standard_normal((7, 5)), rng.standard_normal((30, 7))
    expected = brute(X @ W, 2)
    for policy, contexts in [
        (cb.ScoredPolicy(W, PROBLEM), X),
        (cb.ScoredPolicy(lambda Z: Z @ W, PROBLEM), X),
        (cb.ScoredPolicy(W, PROBLEM), sp.csr_matrix(X)),
        (cb.ScoredPolicy(lambda Z: sp.csr_matrix(Z @ W), PROBLEM), sp.csr_array(X)),
    ]:
        assert [set(row) for row in policy.predict(contexts).tolist()] == expected


def test_fitted_estimators_are_scorers() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 4))
    y = np.argmax(X @ rng.standard_normal((4, 5)), axis=1)
    Y = np.eye(5)[y]
    cases: list[tuple[Any, np.ndarray]] = []
    logistic = LogisticRegression().fit(X, y)
    cases.append((logistic, logistic.predict_proba(X)))
    svm = LinearSVC().fit(X, y)
    cases.append((svm, svm.decision_function(X)))
    ridge = Ridge().fit(X, Y)
    cases.append((ridge, ridge.predict(X)))
    rest = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    cases.append((rest, rest.predict_proba(X)))
    for estimator, scores in cases:
        lists = cb.ScoredPolicy(estimator, PROBLEM).predict(X)
        assert [set(row) for row in lists.tolist()] == brute(scores, 2), type(estimator).__name__
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)  # one probability table a label
    scores = np.stack([p[:, 1] for p in forest.predict_proba(X)], axis=1)
    for row, shown in zip(scores, cb.ScoredPolicy(forest, PROBLEM).predict(X), strict=True):
        assert min(row[shown]) >= sorted(row)[-2]


def test_classes_that_never_occurred_come_last() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = LogisticRegression().fit(X, [1, 1, 4, 4])
    lists = cb.ScoredPolicy(model, cb.Problem(6, 3)).predict(X)
    assert {1, 4} <= set(lists[0].tolist())
    assert lists[0, 0] == 1
    assert lists[3, 0] == 4
    binary_margin = LinearSVC().fit(X, [1, 1, 4, 4])
    assert cb.ScoredPolicy(binary_margin, cb.Problem(6, 1)).predict(X).ravel().tolist() == [1, 1, 4, 4]


def test_ties_are_broken_by_the_seed_and_stay_fixed() -> None:
    problem = cb.Problem(50, 3)
    X = np.zeros((4, 2))
    seen = set()
    for seed in range(40):
        policy = cb.ScoredPolicy(np.zeros((2, 50)), problem, seed=seed)
        lists = policy.predict(X)
        assert (lists == lists[0]).all()
        assert policy.predict(X).tolist() == lists.tolist()
        seen |= set(lists[0].tolist())
    assert len(seen) > 25  # 120 draws of 50 actions miss more than half of them with probability below 1e-20


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (np.zeros((2, 4)), r"shape \(features, n_actions\) = \(d, 5\)"),
        (np.full((2, 5), np.nan), "must not hold NaN"),
        (lambda X: np.full((len(X), 5), np.nan), "returned NaN"),
        (lambda X: np.zeros((len(X), 4)), r"= \(3, 5\), got \(3, 4\)"),
        ("best sellers", "got str"),
        (LogisticRegression().fit([[0.0], [1.0]], ["a", "b"]), "classes must be actions"),
    ],
)
def test_bad_scorers_are_named(scorer: Any, message: str) -> None:
    X = np.zeros((3, 1)) if isinstance(scorer, LogisticRegression) else np.zeros((3, 2))
    with pytest.raises(cb.InputError, match=message):
        cb.ScoredPolicy(scorer, PROBLEM).predict(X)
