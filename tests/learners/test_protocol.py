"""The conformance suite, for every learner; and what refusals and results say."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.page.problem import as_generator
from comband.statistics.verdicts import Verdict
from comband.worlds.testing import LearnerSuite, SelectorSuite
from comband.worlds.testing.learners import COLUMNS, altered

PROBLEM = cb.Problem(n_actions=12, list_size=3, sparsity=1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
POLICIES = WORLD.candidates(6, seed=1)

# How to make each learner; a learner added here gets the whole suite.
MAKERS: dict[str, Callable[[int], cb.Learner]] = {
    "UniformExploration": lambda seed: cb.UniformExploration(PROBLEM, POLICIES, n_rounds=600, seed=seed),
    "PacComband": lambda seed: cb.PacComband(PROBLEM, POLICIES, n_explore=200, n_estimate=400, seed=seed),
    "Exp4CombSparse": lambda seed: cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=600, seed=seed),
    "Exp4CombSparse, propensities when rewarded": lambda seed: cb.Exp4CombSparse(
        PROBLEM, POLICIES, horizon=600, propensities="when rewarded", seed=seed
    ),
    "OnlineComband": lambda seed: cb.OnlineComband(
        PROBLEM, POLICIES, epsilon=0.2, batch_size=100, exploration="learnt", seed=seed
    ),
    "OnlineComband, one at a time, propensities always": lambda seed: cb.OnlineComband(
        PROBLEM, POLICIES, epsilon=0.3, propensities="always", exploration="learnt", seed=seed
    ),
    "OnlineComband, uniform lists": lambda seed: cb.OnlineComband(
        PROBLEM, POLICIES, epsilon=0.2, exploration="uniform lists", seed=seed
    ),
    "Exp4": lambda seed: cb.Exp4(PROBLEM, POLICIES, horizon=600, seed=seed),
    "EpsilonGreedy": lambda seed: cb.EpsilonGreedy(PROBLEM, POLICIES, horizon=600, seed=seed),
    "ExploreThenCommit": lambda seed: cb.ExploreThenCommit(PROBLEM, POLICIES, horizon=600, seed=seed),
    "AdaptiveComband": lambda seed: cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "UniformLists": lambda seed: cb.UniformLists(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "UniformMixture": lambda seed: cb.UniformMixture(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "TwoPhaseComband": lambda seed: cb.TwoPhaseComband(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "Confirmation": lambda seed: cb.Confirmation(
        PROBLEM, POLICIES, candidate=POLICIES.names[0], production=POLICIES.names[1], seed=seed
    ),
    "ABTest": lambda seed: cb.ABTest(PROBLEM, POLICIES, epsilon=0.08, seed=seed),
    "ABTest, eliminating": lambda seed: cb.ABTest(PROBLEM, POLICIES, epsilon=0.05, eliminate=True, seed=seed),
}
# These decide by what was told before, so what is told between two batches changes the second.
ADAPTIVE = {"OnlineComband", "OnlineComband, one at a time, propensities always"}
ADAPTIVE |= {"Exp4CombSparse", "Exp4CombSparse, propensities when rewarded", "Exp4", "EpsilonGreedy"}


class TestEverySelector(SelectorSuite):
    problem, world, policies = PROBLEM, WORLD, POLICIES

    @pytest.fixture(autouse=True, params=[*MAKERS.items()], ids=[*MAKERS])
    def _which(self, request: pytest.FixtureRequest) -> None:
        name, self._make = request.param
        self.depends_on_batches = name in ADAPTIVE

    def learner(self, seed: int) -> cb.Learner:
        made = self._make(seed)
        assert isinstance(made, cb.Learner)
        return made

    def test_columns_of_decisions_cannot_be_opened_again(self) -> None:
        """What comes straight back is known by being the same object: nobody can have altered it."""
        decisions = self.learner(1).ask(WORLD.sample(3, np.random.default_rng(0)).contexts)
        for name in ("ids", *COLUMNS):
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                getattr(decisions, name).flags.writeable = True


class TestFixedLists(LearnerSuite):
    depends_on_batches = True

    def learner(self, seed: int) -> cb.Learner:
        return cb.SparseMSets(self.problem, horizon=600, seed=seed)


class TestListClassifier(LearnerSuite):
    depends_on_batches = True

    @property
    def given(self) -> tuple[Any, ...]:
        return (cb.BanditListClassifier(random_state=1),)

    def learner(self, seed: int) -> cb.Learner:
        return cb.OnlineListClassifier(self.problem, *self.given, first_epoch=80, n_rounds=600, seed=seed)


class TestEarningListClassifier(TestListClassifier):
    def learner(self, seed: int) -> cb.Learner:
        return cb.OnlineListClassifier(self.problem, *self.given, objective="reward", n_rounds=600, seed=seed)


def asked(n: int = 30) -> tuple[cb.Learner, cb.Decisions, Any]:
    """A learner in its second epoch, what it decided, and the answers."""
    learner, rng = MAKERS["AdaptiveComband"](1), as_generator(9)
    for size in (250, 50):
        batch = WORLD.sample(size, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
    batch = WORLD.sample(n, rng)
    decisions = learner.ask(batch.contexts)
    return learner, decisions, batch.answer(decisions.lists)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_refused_decision_is_told_why(column: str) -> None:
    learner, decisions, rewards = asked()
    told = dataclasses.replace(decisions, **{column: altered(decisions, column, PROBLEM)})
    plan = dict.fromkeys(("epochs", "covered", "arms"), "its epoch, covered or arm differs")
    says = {**plan, "contexts": "its context differs", "makers": "another copy"}
    with pytest.raises(cb.UnknownDecisionError, match=f"{says.get(column, 'list or propensities')}.*1 of 30 are"):
        learner.tell(told, rewards)


def test_a_copys_decisions_are_refused_as_such() -> None:
    learner, decisions, rewards = asked()
    other = copy.deepcopy(learner)
    own = other.ask(decisions.contexts)
    with pytest.raises(cb.UnknownDecisionError, match=r"another copy.* 30 of 30 are unknown"):
        learner.tell(own, rewards)


def test_decisions_without_a_maker_are_told_so() -> None:
    learner, d, rewards = asked()
    log = cb.Rounds.from_log(
        d.contexts, lists=d.lists, rewards=rewards, propensities=d.propensities, problem=PROBLEM, ids=d.ids
    )
    with pytest.raises(cb.UnknownDecisionError, match="its maker is missing"):
        learner.tell(log.decisions, log.rewards)


def test_files_that_are_refused_say_why(tmp_path: Path) -> None:
    learner, path = MAKERS["UniformExploration"](2), tmp_path / "learner.npz"
    learner.save(path)
    with pytest.raises(cb.InputError, match="other policies"):
        type(learner).load(path, POLICIES.subset([1, 0, 2, 3, 4, 5]))
    with pytest.raises(cb.InputError, match="holds a UniformExploration, not a PacComband"):
        cb.PacComband.load(path, POLICIES)
    learner.ask(WORLD.sample(3, as_generator(0)).contexts)
    learner.save(path)
    with pytest.raises(cb.InputError, match="saved with other policies: 6 of 6 now show other lists"):
        type(learner).load(path, cb.PolicySet([*reversed(list(POLICIES))], POLICIES.names))


def test_a_status_without_answers_says_so() -> None:
    for make in MAKERS.values():
        learner = make(1)
        learner.ask(WORLD.sample(7, as_generator(0)).contexts)
        lines = str(learner.status()).splitlines()
        assert "0 rounds" in lines[0]
        if isinstance(learner.status(), cb.statistics.results.CertificationStatus):
            assert lines[1].startswith("  nothing is certified yet")
            assert lines[2] == "  answers waiting: 7"


def test_contexts_that_cannot_be_saved_leave_names_to_compare(tmp_path: Path) -> None:
    class Age:
        def predict(self, X: Any) -> Any:
            return np.array([[x["age"] % 10, 10, 11] for x in X])

    learner = cb.UniformExploration(PROBLEM, cb.PolicySet([Age()]), n_rounds=10)
    decisions = learner.ask([{"age": 3}, {"age": 7}])
    learner.tell(decisions, np.zeros((2, 3)))
    learner.save(tmp_path / "learner.npz")
    assert cb.UniformExploration.load(tmp_path / "learner.npz", cb.PolicySet([Age()])).rounds == 2


@pytest.mark.parametrize("kind", [cb.AdaptiveComband, cb.UniformLists, cb.ABTest])
def test_a_spent_budget_has_a_result_though_the_oldest_decision_is_open(kind: Any) -> None:
    learner = kind(PROBLEM, POLICIES, epsilon=0.05, max_rounds=99)
    batch = WORLD.sample(100, as_generator(0))
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    with pytest.raises(cb.InputError, match="no decision has been answered yet"):
        learner.result()
    learner.tell(decisions[1:], rewards[1:])
    assert learner.done
    result = learner.result()
    assert result.epsilon == PROBLEM.max_reward
    assert result.guarantee.startswith("trivial")
    (note,) = (note for note in result.notes if "99 answers do not count yet, because decision 0" in note)
    assert note.endswith("or set a patience")
    learner.tell(decisions[:1], rewards[:1])
    assert not any("do not count yet" in note for note in learner.result().notes)


def test_learner_and_world_of_one_seed_draw_different_numbers() -> None:
    # Else lists would be functions of contexts, and every propensity false.
    contexts = np.zeros((1, 8))
    for seed in range(40):
        learner = cb.ABTest(PROBLEM, POLICIES, epsilon=0.1, seed=seed)
        drawn = learner._rng.random()
        assert drawn != as_generator(seed).random()
        assert drawn != as_generator(np.random.SeedSequence(seed)).random()
    assert len(learner.ask(contexts)) == 1


def test_nothing_is_promised_while_older_decisions_are_open() -> None:
    """Clicks told first would be no sample of all: 60 of 60 runs were wrong when epsilon was printed all the same."""
    uniform = cb.UniformExploration(PROBLEM, POLICIES, n_rounds=20)
    pac = cb.PacComband(PROBLEM, POLICIES, n_explore=100, n_estimate=20)
    rng = as_generator(0)
    first = WORLD.sample(100, rng)
    decisions = pac.ask(first.contexts)
    pac.tell(decisions[:99], first.answer(decisions.lists)[:99])
    spare = pac.ask(WORLD.sample(1, rng).contexts)
    pac.tell(spare, np.zeros((1, 3)))  # phase 2 begins with one uniform decision open for ever: that does not matter
    for learner in (uniform, pac):
        batch = WORLD.sample(2000, rng)
        decisions = learner.ask(batch.contexts)
        rewards = batch.answer(decisions.lists)
        clicked = rewards.any(axis=1)
        learner.tell(decisions[clicked], rewards[clicked])
        assert learner.done
        early = learner.result()
        assert early.epsilon == PROBLEM.max_reward
        assert early.interval == (0.0, PROBLEM.max_reward)
        assert early.guarantee.startswith("no promise: older decisions")
        learner.tell(decisions[~clicked], rewards[~clicked])
        late = learner.result()
        assert late.epsilon < PROBLEM.max_reward
        assert not late.guarantee.startswith("no promise")


def test_a_status_reads_well() -> None:
    status = cb.Status(12_345, "blue", 7, expected=0.0512, forecast=4321)
    assert str(status).splitlines() == [
        "blue leads after 12,345 rounds, 7 candidates",
        "  nothing is certified yet, an epsilon of 0.0512 is expected, roughly 4,300 rounds to go",
    ]
    verdict = Verdict("cannot tell", "", ("Nothing yet.",), None, None, 5)
    assert str(cb.Status(5, "blue", 7, verdict=verdict)).splitlines()[0] == "Cannot tell after 5 rounds, 7 candidates"
    leading = cb.statistics.results.CertificationStatus(
        9, "blue", 7, verdict=Verdict("leading", "blue", (), 0.1, 0.05, 9)
    )
    assert str(leading).splitlines()[0] == "Leading: blue after 9 rounds; 7 of 7 candidates may be best"
    assert leading.columns()["verdict"] == ["leading"]
    assert str(cb.Status(5, "", 7)) == "no leader yet after 5 rounds, 7 candidates\n  nothing is certified yet"
    dropped = (cb.statistics.results.Dropped(0, "red", 300, "blue", 3.1),)
    certifying = cb.statistics.results.CertificationStatus(
        12_345, "blue", 7, certified=0.0512, forecast=0.0, dropped=dropped
    )
    assert str(certifying).splitlines() == [
        "blue leads after 12,345 rounds; 7 of 8 candidates may be best",
        "  certified: no candidate is better by more than 0.0512",
    ]
    costly = cb.statistics.results.CertificationStatus(
        100, "blue", 8, reward_lost=123.4, to_lose=1234.5, loss=-12.3, loss_error=8.1
    )
    assert str(costly).splitlines()[2:] == [
        "  lost to exploration: about 120 rewards so far, 1,200 to come",
        "  lost beside production: -12 ± 8 rewards",
    ]
    early = cb.statistics.results.CertificationStatus(100, "blue", 8, forecast=8000.0, missing=2, late=1)
    assert str(early).splitlines()[1:] == [
        "  nothing is certified yet, roughly 8,000 rounds to go",
        "  answers missing: 2, late: 1",
    ]


@pytest.mark.parametrize("value", [1.05, 0.5, float("inf")])
def test_no_value_is_shown_outside_its_interval(value: float) -> None:
    assert 0.66 <= cb.statistics.results.Candidate(0, "a", value, (0.66, 1.0)).value <= 1.0


def test_values_of_few_uniform_rounds_stay_within_their_intervals() -> None:
    """One click in three rounds at propensity 1/20 is worth 6.7 per round to whoever shows it."""
    problem = cb.Problem(20, 1, 1)
    policies = cb.PolicySet.from_lists(np.arange(20)[:, None, None], problem)
    for learner in (
        cb.UniformExploration(problem, policies, n_rounds=3),
        cb.PacComband(problem, policies, n_explore=3, n_estimate=3),
    ):
        decisions = learner.ask(np.zeros(3, dtype=int))
        learner.tell(decisions, np.ones((3, 1)))
        result = learner.result()
        for candidate in (result.best, *result.runners_up):
            assert candidate.interval[0] <= candidate.value <= candidate.interval[1] <= 1


def test_who_has_a_patience_is_told_when_it_ends_and_not_to_set_one() -> None:
    learner = cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=0.05, patience=150)
    batch = WORLD.sample(100, as_generator(0))
    decisions = learner.ask(batch.contexts)
    learner.tell(decisions[1:], batch.answer(decisions.lists)[1:])
    (note,) = (note for note in learner.result().notes if "do not count yet" in note)
    assert note.endswith("or wait: when 150 decisions follow it, it counts as without reward")
    assert "set a patience" not in note
