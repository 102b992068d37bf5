"""Right ones pass every suite, and each broken one is caught by the promise it breaks."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

import comband as cb
from comband.explore.explorers import UniformListsExploration
from comband.explore.oracles import CachingOracle, TreeOracle
from comband.page.storage import State
from comband.policies import BlendedPolicy
from comband.worlds import LowerBoundInstance, MultilabelData, MultilabelWorld
from comband.worlds.testing import (
    EnvironmentSuite,
    LearnerSuite,
    OracleSuite,
    PolicySuite,
    SelectorSuite,
    Suite,
    check,
    failures,
)

PROBLEM = cb.Problem(n_actions=9, list_size=3, sparsity=1)
WEIGHTS = np.random.default_rng(0).normal(size=(2, 5, 9))


class _Policies(PolicySuite):
    problem = PROBLEM
    made: Any

    def policy(self) -> Any:
        return self.made

    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return rng.normal(size=(n, 5))


class _Tables(_Policies):
    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return rng.integers(0, 7, n)


class _Oracles(OracleSuite):
    problem = PROBLEM
    made: Any
    known: Any = ()

    def oracle(self) -> Any:
        return self.made

    def members(self) -> Any:
        return self.known

    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return rng.integers(0, 7, n) if self.known else rng.normal(size=(n, 5))


class _Worlds(EnvironmentSuite):
    made: Any
    known: Any

    def environment(self) -> Any:
        return self.made

    def policies(self) -> Any:
        return self.known


def suite(base: type[Suite], **given: Any) -> type[Suite]:
    """The suite of one thing."""
    return type("One", (base,), given)


SCORED = cb.ScoredPolicy(WEIGHTS[0], PROBLEM)
TABLES = cb.PolicySet.from_lists(np.argsort(np.random.default_rng(1).random((6, 7, 9)), axis=2)[:, :, :3], PROBLEM)


@pytest.mark.parametrize(
    "kind",
    [
        suite(_Policies, made=cb.ConstantPolicy([3, 1, 8], PROBLEM)),
        suite(_Policies, made=SCORED),
        suite(_Policies, made=BlendedPolicy(SCORED, cb.ScoredPolicy(WEIGHTS[1], PROBLEM), 0.3)),
        suite(_Tables, made=TABLES[0]),
    ],
    ids=["constant", "scored", "blended", "tabulated"],
)
def test_our_policies_keep_their_promises(kind: type[Suite]) -> None:
    check(kind)


class Function:
    """A policy made of a function."""

    def __init__(self, predict: Any) -> None:
        self.predict = predict


def _altering(X: Any) -> Any:
    lists = SCORED.predict(X)
    X *= 2
    return lists


def _drawn(X: Any) -> Any:
    return np.random.default_rng().permuted(np.tile(np.arange(9), (len(X), 1)), axis=1)[:, :3]


BROKEN_POLICIES = {
    "test_is_a_policy": object(),
    "test_shows_m_distinct_items": Function(lambda X: np.tile([4, 2, 4], (len(X), 1))),
    "test_the_same_context_gets_the_same_list": Function(_drawn),
    "test_a_list_depends_on_its_own_context_only": Function(lambda X: SCORED.predict(X - X.mean(axis=0))),
    "test_contexts_are_left_as_they_were": Function(_altering),
    "test_an_empty_batch_is_answered": Function(lambda X: SCORED.predict(X) if len(X) else np.empty(0, dtype=int)),
}


@pytest.mark.parametrize("promise", BROKEN_POLICIES)
def test_a_broken_policy_is_caught(promise: str) -> None:
    assert promise in failures(suite(_Policies, made=BROKEN_POLICIES[promise]))


@pytest.mark.parametrize(
    ("predict", "says"),
    [
        (lambda X: np.tile([4, 2, 9], (len(X), 1)), "items must lie in 0 … 8, got 2 … 9"),
        (lambda X: np.tile([4, 2], (len(X), 1)), r"must have the shape \(n, m\) = \(60, 3\), got \(60, 2\)"),
        (lambda X: np.tile([4.0, 2.0, 1.0], (len(X), 1)), "must hold whole numbers, got float64"),
    ],
)
def test_what_is_wrong_with_lists_is_said(predict: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check(suite(_Policies, made=Function(predict)))


@pytest.mark.parametrize(
    "kind",
    [
        suite(_Oracles, made=cb.EnumerationOracle(TABLES), known=list(TABLES)),
        suite(_Oracles, made=CachingOracle(cb.EnumerationOracle(TABLES)), known=list(TABLES)),
        suite(_Oracles, made=cb.RegressionOracle(Ridge(), PROBLEM)),
    ],
    ids=["enumeration", "caching", "regression"],
)
def test_our_oracles_keep_their_promises(kind: type[Suite]) -> None:
    check(kind)


def test_the_tree_oracle_keeps_its_promises() -> None:
    """Against random lists on both sides of its splits."""
    splits = [(feature, at) for feature in range(5) for at in (-0.5, 0.0, 0.5)]
    oracle = TreeOracle(PROBLEM, splits=splits)
    rng = np.random.default_rng(3)

    class Split:
        def __init__(self) -> None:
            self.feature, self.at = splits[rng.integers(len(splits))]
            self.sides = rng.permuted(np.tile(np.arange(9), (2, 1)), axis=1)[:, :3]

        def predict(self, X: Any) -> Any:
            return self.sides[(X[:, self.feature] > self.at).astype(int)]

    class Trees(_Oracles):
        def contexts(self, n: int, rng: np.random.Generator) -> Any:
            return rng.normal(size=(n, 5))

    check(suite(Trees, made=oracle, known=[Split() for _ in range(200)]))


class Second:
    """Says to be exact, and returns the second best."""

    exact: Any = True

    def fit(self, X: Any, rewards: Any) -> Any:
        order = np.argsort(cb.EnumerationOracle(TABLES).values(X, rewards))
        return TABLES[int(order[-2])]


class Altering(Second):
    def fit(self, X: Any, rewards: Any) -> Any:
        policy = cb.EnumerationOracle(TABLES).fit(X, rewards.copy())
        rewards.data[:] = 1.0
        return policy


class NeedsRewards(Second):
    def fit(self, X: Any, rewards: Any) -> Any:
        if rewards.nnz == 0:
            raise ValueError("nothing to learn from")
        return cb.EnumerationOracle(TABLES).fit(X, rewards)


class Undecided(NeedsRewards):
    exact = None


class NoPolicy(Second):
    def fit(self, X: Any, rewards: Any) -> Any:
        return Function(_drawn)


@pytest.mark.parametrize(
    ("promise", "oracle"),
    [
        ("test_an_exact_one_finds_the_best", Second()),
        ("test_the_estimates_are_left_as_they_were", Altering()),
        ("test_estimates_of_zero_are_fine", NeedsRewards()),
        ("test_says_whether_it_is_exact", Undecided()),
        ("test_returns_a_policy", NoPolicy()),
    ],
)
def test_a_broken_oracle_is_caught(promise: str, oracle: Any) -> None:
    assert promise in failures(suite(_Oracles, made=oracle, known=list(TABLES)))


SHOP = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=20, seed=0)


def _labels() -> type[Suite]:
    rng = np.random.default_rng(2)
    data = MultilabelData(rng.normal(size=(300, 5)), sp.csr_array(rng.random((300, 9)) < 0.2))
    world = MultilabelWorld(data, list_size=3)
    return suite(_Worlds, made=world, known=cb.PolicySet([cb.ScoredPolicy(w, world.problem) for w in WEIGHTS]))


def _instance() -> type[Suite]:
    world = LowerBoundInstance(cb.Problem(n_actions=6, list_size=2, sparsity=1), epsilon=0.1, seed=0)
    return suite(
        _Worlds,
        made=world,
        known=cb.PolicySet([cb.ConstantPolicy([0, 1], world.problem), cb.ConstantPolicy([4, 2], world.problem)]),
    )


@pytest.mark.parametrize(
    "kind",
    [suite(_Worlds, made=SHOP, known=SHOP.candidates(4, seed=1)), _labels(), _instance()],
    ids=["shop", "labels", "lower bound"],
)
def test_our_environments_keep_their_promises(kind: type[Suite]) -> None:
    check(kind)


class Broken:
    """The shop, with one thing wrong."""

    def __init__(self, wrong: str) -> None:
        self.wrong, self.asked = wrong, 0
        self.problem: Any = PROBLEM if wrong != "problem" else "nine items"

    def sample(self, n: int, rng: Any) -> Any:
        self.asked += n
        if self.wrong == "state":
            rng = np.random.default_rng(self.asked)
        batch = SHOP.sample(n + (self.wrong == "size"), rng)
        if self.wrong == "rewards":
            return cb.Batch(batch.contexts, sp.csr_array(2 * batch.rewards), PROBLEM)
        if self.wrong == "answer":
            return Answering(batch.contexts, batch.rewards, PROBLEM)
        return batch

    def values(self, policies: Any) -> Any:
        return SHOP.values(policies) + (0.05 if self.wrong == "values" else 0.0)


class Answering(cb.Batch):
    def answer(self, lists: Any) -> Any:
        return super().answer(lists)[:, ::-1]


@pytest.mark.parametrize(
    ("promise", "wrong"),
    [
        ("test_has_a_problem", "problem"),
        ("test_batches_are_as_large_as_asked", "size"),
        ("test_rewards_are_within_the_problem", "rewards"),
        ("test_keeps_no_state", "state"),
        ("test_answers_for_what_is_shown", "answer"),
        ("test_values_are_true", "values"),
    ],
)
def test_a_broken_environment_is_caught(promise: str, wrong: str) -> None:
    assert not failures(suite(_Worlds, made=Broken("nothing"), known=SHOP.candidates(4, seed=1)))
    assert promise in failures(suite(_Worlds, made=Broken(wrong), known=SHOP.candidates(4, seed=1)))


class _Learners(SelectorSuite):
    kind: ClassVar[Any] = cb.UniformExploration

    def learner(self, seed: int) -> Any:
        return self.kind(self.problem, self.policies, n_rounds=600, seed=seed)


class Unseeded(cb.UniformExploration):
    def _decide(self, X: Any, first_id: int) -> Any:
        self._rng = np.random.default_rng()
        return super()._decide(X, first_id)


class Forgetful(cb.UniformExploration):
    """Loads all but where its random numbers were."""

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._rng = np.random.default_rng(0)


class Credulous(cb.UniformExploration):
    """Learns from whatever it is told, however often and whoever decided."""

    def tell(self, decisions: Any, rewards: Any = None, **metrics: Any) -> Any:
        known = decisions.ids < self._ledger.issued
        self._learn(cb.Rounds(decisions[known], np.asarray(rewards)[known]))
        return super().tell(decisions, rewards)


class Boastful(cb.UniformExploration):
    """Always the worst, with a certificate."""

    def result(self) -> Any:
        right = super().result()
        worst = right.runners_up[-1]
        best = cb.statistics.results.Candidate(worst.index, worst.name, worst.value, worst.interval)
        return dataclasses.replace(right, best=best, policy=self.policies[worst.index], epsilon=0.0)


class Sharing(cb.UniformExploration):
    """Draws by batch."""

    def _decide(self, X: Any, first_id: int) -> Any:
        self._rng.random()
        return super()._decide(X, first_id)


@pytest.mark.parametrize(
    ("promise", "kind"),
    [
        ("test_the_same_seed_gives_the_same_run", Unseeded),
        ("test_goes_on_from_a_file", Forgetful),
        ("test_repeated_answers_change_nothing", Credulous),
        ("test_altered_decisions_are_refused", Credulous),
        ("test_finds_the_best", Boastful),
        ("test_batches_do_not_matter", Sharing),
    ],
)
def test_a_broken_learner_is_caught(promise: str, kind: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(suite(_Learners, kind=kind)(), promise)()
    getattr(_Learners(), promise)()


def test_what_is_not_said_is_asked_for() -> None:
    for kind, wanted in ((PolicySuite, "policy"), (OracleSuite, "oracle"), (EnvironmentSuite, "environment")):
        assert f"say how to make your {wanted}" in str(next(iter(failures(kind).values())))
    with pytest.raises(NotImplementedError, match="say how to make your learner"):
        LearnerSuite().learner(0)


def test_all_broken_promises_are_named_at_once() -> None:
    with pytest.raises(AssertionError, match=r"(?s)2 of 6 promises are broken.\ntest_a_list_.*\ntest_the_same_context"):
        check(suite(_Policies, made=Function(_drawn)))


def test_pytest_runs_one_test_per_promise(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import numpy as np\n"
        "from comband import Problem\n"
        "from comband.worlds.testing import PolicySuite\n"
        "class TestMine(PolicySuite):\n"
        "    problem = Problem(5, 2)\n"
        "    def policy(self):\n"
        "        return type('P', (), {'predict': lambda self, X: np.tile([1, 1], (len(X), 1))})()\n"
        "    def contexts(self, n, rng):\n"
        "        return rng.normal(size=(n, 2))\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "1 failed, 5 passed" in shown.stdout
    assert "an item stands twice in the list" in shown.stdout


def test_suites_need_no_pytest() -> None:
    names = "[getattr(testing, name) for name in testing.__all__]"
    code = f"import sys; from comband.worlds import testing; {names}; print('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


class _OwnExploration(SelectorSuite):
    """A certifying learner that is given its exploration: `load` must be given it too."""

    objects: ClassVar[Any] = {"exploration": UniformListsExploration()}

    def learner(self, seed: int) -> Any:
        return cb.certify.CertifyingLearner(self.problem, self.policies, epsilon=0.05, seed=seed, **self.objects)


def test_objects_of_ones_own_are_given_to_load_again() -> None:
    _OwnExploration().test_goes_on_from_a_file()
    forgotten = suite(_OwnExploration, learner=lambda self, seed: _OwnExploration().learner(seed), objects={})
    with pytest.raises(cb.InputError, match=r"another exploration, 'UniformListsExploration', than Disagreement.*load"):
        forgotten().test_goes_on_from_a_file()  # type: ignore[attr-defined]
