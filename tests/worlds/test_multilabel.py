from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from comband import InputError, MultilabelData, MultilabelWorld, PolicySet, Problem, ScoredPolicy
from comband.worlds import hits_at_m


def data(seed: int = 0, n: int = 30, n_labels: int = 6) -> MultilabelData:
    rng = np.random.default_rng(seed)
    return MultilabelData(rng.normal(size=(n, 3)), rng.random((n, n_labels)) < 0.3)


def constant(problem: Problem, actions: list[int]) -> ScoredPolicy:
    wanted = np.zeros(problem.n_actions)
    wanted[actions] = 1
    return ScoredPolicy(lambda X: np.tile(wanted, (len(X), 1)), problem)


def test_hits_by_hand() -> None:
    labels = [[1, 0, 1], [0, 1, 0]]
    assert hits_at_m([[0, 2], [0, 2]], labels) == 1.0
    assert hits_at_m([[0], [1]], np.array([0, 2])) == 0.5


def test_answers_are_the_rows_labels() -> None:
    rows = data()
    world = MultilabelWorld(MultilabelData(np.arange(30.0)[:, None], rows.labels), list_size=2)
    batch = world.sample(200, np.random.default_rng(0))
    lists = np.tile([1, 4], (200, 1))
    which = batch.contexts[:, 0].astype(int)
    np.testing.assert_array_equal(batch.answer(lists), rows.labels.toarray()[which][:, [1, 4]])


def test_batches_may_be_cut_anywhere() -> None:
    for options in ({}, {"click_probability": 0.5}, {"click_probability": 0.5, "noise": 0.3}):
        world = MultilabelWorld(data(), list_size=2, **options)  # type: ignore[arg-type]
        whole = world.sample(50, np.random.default_rng(1))
        rng = np.random.default_rng(1)
        parts = [world.sample(n, rng) for n in (13, 37)]
        np.testing.assert_array_equal(whole.contexts, np.concatenate([part.contexts for part in parts]))
        np.testing.assert_array_equal(
            whole.rewards.toarray(), np.concatenate([part.rewards.toarray() for part in parts])
        )


def test_values_are_the_mean_of_many_rounds() -> None:
    world = MultilabelWorld(data(), list_size=2, click_probability=0.6, noise=0.4)
    policies = PolicySet([constant(world.problem, [0, 1]), constant(world.problem, [2, 5])])
    batch = world.sample(40_000, np.random.default_rng(2))
    for policy, value in zip(policies, world.values(policies), strict=True):
        rewards = batch.answer(policy.predict(batch.contexts)).sum(axis=1)
        # Hoeffding for values in [0, 2]: off by more than t with probability 2 exp(−2 n t²/4) < 1e-7.
        assert abs(rewards.mean() - value) < 2 * np.sqrt(np.log(2e7) / (2 * 40_000))


def test_noise_confirms_absent_labels_only_and_one_at_most() -> None:
    rows = data()
    world = MultilabelWorld(MultilabelData(np.arange(30.0)[:, None], rows.labels), list_size=1, noise=0.9)
    batch = world.sample(3000, np.random.default_rng(3))
    truth = rows.labels.toarray()[batch.contexts[:, 0].astype(int)]
    extra = batch.rewards.toarray() - truth
    assert extra.min() == 0
    assert extra.max() == 1
    assert extra.sum(axis=1).max() == 1
    assert not (extra.astype(bool) & truth.astype(bool)).any()
    assert (extra.sum(axis=0) > 0).all()
    assert world.problem.sparsity == rows.most_labels + 1


def test_sparsity_is_measured_enforced_or_bought_with_rows() -> None:
    rows = MultilabelData(np.eye(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    assert MultilabelWorld(rows, list_size=1).problem.sparsity == 3
    with pytest.raises(InputError, match="1 of 3 rows"):
        MultilabelWorld(rows, list_size=1, sparsity=2)
    kept = MultilabelWorld(rows, list_size=1, sparsity=2, excess="drop")
    assert len(kept.data) == 2
    assert kept.problem.sparsity == 2


def test_split_is_a_partition() -> None:
    rows = MultilabelData(np.arange(50.0)[:, None], np.ones((50, 2)))
    learn, held_out = rows.split(held_out=0.2, seed=4)
    assert (len(learn), len(held_out)) == (40, 10)
    assert sorted(np.r_[learn.features[:, 0], held_out.features[:, 0]]) == list(range(50))


def test_loaders(tmp_path: Path) -> None:
    rows = data()
    sp.save_npz(tmp_path / "toy_X.npz", sp.csr_array(rows.features))
    sp.save_npz(tmp_path / "toy_Y.npz", rows.labels)
    loaded = MultilabelData.from_npz(tmp_path, "toy")
    np.testing.assert_allclose(loaded.features.toarray(), rows.features)
    np.testing.assert_array_equal(loaded.labels.toarray(), rows.labels.toarray())

    text = tmp_path / "toy.svm"
    text.write_text("0,3 1:0.5 3:2\n1 2:1\n 1:1\n", encoding="utf-8")
    parsed = MultilabelData.from_svmlight(text)
    assert parsed.labels.toarray().tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert parsed.features.shape == (3, 3)

    digits = MultilabelData.from_sklearn("digits")
    assert (digits.n_actions, digits.most_labels) == (10, 1)

    with pytest.raises(InputError, match="does not exist"):
        MultilabelData.from_npz(tmp_path, "other")
    (tmp_path / "bad_X.npz").write_bytes(b"not an archive")
    with pytest.raises(InputError, match="not a scipy sparse matrix"):
        MultilabelData.from_npz(tmp_path, "bad")
    with pytest.raises(InputError, match="one of"):
        MultilabelData.from_sklearn("covtype")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "message"),
    [(np.full((3, 2), 0.5), "zeros and ones"), (np.zeros((2, 2)), "same rows"), (np.array([0, -1, 1]), "at least 0")],
)
def test_wrong_labels_are_named(labels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        MultilabelData(np.zeros((3, 1)), labels)


def test_wrong_settings_are_named() -> None:
    for options in ({"click_probability": 0.0}, {"noise": 1.0}, {"excess": "hide"}):
        with pytest.raises(InputError, match=next(iter(options))):
            MultilabelWorld(data(), list_size=2, **options)
