"""What every learner must do, for every learner: late, partial, repeated feedback; seeds; batches; save and load."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.problem import as_generator
from tests.states import plain

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
    "Exp4": lambda seed: cb.Exp4(PROBLEM, POLICIES, horizon=600, seed=seed),
    "EpsilonGreedy": lambda seed: cb.EpsilonGreedy(PROBLEM, POLICIES, horizon=600, seed=seed),
    "ExploreThenCommit": lambda seed: cb.ExploreThenCommit(PROBLEM, POLICIES, horizon=600, seed=seed),
    "AdaptiveComband": lambda seed: cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "UniformLists": lambda seed: cb.UniformLists(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "UniformMixture": lambda seed: cb.UniformMixture(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "TwoPhaseComband": lambda seed: cb.TwoPhaseComband(PROBLEM, POLICIES, epsilon=0.05, seed=seed),
    "ABTest": lambda seed: cb.ABTest(PROBLEM, POLICIES, epsilon=0.08, seed=seed),
    "ABTest, eliminating": lambda seed: cb.ABTest(PROBLEM, POLICIES, epsilon=0.05, eliminate=True, seed=seed),
}
# These decide by what was told before, so what is told between two batches changes the second.
ADAPTIVE = {"Exp4CombSparse", "Exp4CombSparse, propensities when rewarded", "Exp4", "EpsilonGreedy"}
every_learner = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def state(learner: cb.Learner) -> dict[str, Any]:
    return {"state": plain(learner._state()), "rounds": learner.rounds}


def play(learner: cb.Learner, batches: list[int], seed: int = 9) -> list[list[list[int]]]:
    """Play batches of the given sizes on one stream of rounds; the lists shown."""
    rng = as_generator(seed)
    shown = []
    for n in batches:
        batch = WORLD.sample(n, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
        shown += decisions.lists.tolist()
    return shown


@every_learner
def test_finds_the_best_and_stops(make: Callable[[int], cb.Learner]) -> None:
    learner = make(3)
    outcome = cb.run(learner, WORLD, batch_size=100, max_rounds=20_000, seed=4)
    assert learner.done
    result = outcome.result
    truth = WORLD.values(POLICIES)
    assert truth.max() - truth[result.index] <= result.epsilon
    assert result.policy is POLICIES[result.index]
    assert result.name == POLICIES.names[result.index]
    assert result.interval[0] <= result.value <= result.interval[1]
    assert result.rounds == learner.rounds == outcome.history["rounds"][-1]
    assert result.name in str(result)
    assert outcome.history["rounds"].tolist() == list(range(100, learner.rounds + 1, 100))


@every_learner
def test_same_seed_same_run_and_another_seed_another(make: Callable[[int], cb.Learner]) -> None:
    a, b, c = make(1), make(1), make(2)
    assert play(a, [50, 50, 50]) == play(b, [50, 50, 50])
    assert state(a) == state(b)
    assert play(c, [50, 50, 50]) != play(make(1), [50, 50, 50])


@pytest.mark.parametrize("make", [MAKERS[name] for name in MAKERS if name not in ADAPTIVE])
def test_batches_do_not_matter(make: Callable[[int], cb.Learner]) -> None:
    assert play(make(1), [150]) == play(make(1), [1, 49, 100]) == play(make(1), [10] * 15)


@every_learner
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_save_load_continue_equals_never_having_stopped(
    make: Callable[[int], cb.Learner], stop: int, tmp_path: Path
) -> None:
    sizes = [60, 1, 139, 200, 100]
    straight = make(5)
    rng = as_generator(6)
    batches = [WORLD.sample(n, rng) for n in sizes]
    resumed = make(5)
    for i, batch in enumerate(batches):
        if i == stop:
            resumed.save(tmp_path / "learner.npz")
            resumed = type(resumed).load(tmp_path / "learner.npz", POLICIES)
        for learner in (straight, resumed):
            decisions = learner.ask(batch.contexts)
            learner.tell(decisions, batch.answer(decisions.lists))
        assert state(straight) == state(resumed)
    assert str(straight.result()) == str(resumed.result())
    assert straight.ask(batches[0].contexts).lists.tolist() == resumed.ask(batches[0].contexts).lists.tolist()


@every_learner
def test_pending_decisions_survive_saving(make: Callable[[int], cb.Learner], tmp_path: Path) -> None:
    learner = make(5)
    batch = WORLD.sample(40, as_generator(0))
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    learner.tell(decisions[:10], rewards[:10])
    decisions.save(tmp_path / "pending.npz")
    learner.save(tmp_path / "learner.npz")
    again = type(learner).load(tmp_path / "learner.npz", POLICIES)
    pending = cb.Decisions.load(tmp_path / "pending.npz")
    receipt = again.tell(pending, rewards)
    assert (receipt.accepted, receipt.duplicates, receipt.conflicts) == (30, 10, ())


@every_learner
def test_late_partial_and_shuffled_feedback_counts_once(make: Callable[[int], cb.Learner]) -> None:
    prompt, late = make(2), make(2)
    rng = as_generator(3)
    batches = [WORLD.sample(50, rng) for _ in range(3)]
    asked = []
    for batch in batches:
        first, second = prompt.ask(batch.contexts), late.ask(batch.contexts)
        assert first.lists.tolist() == second.lists.tolist()
        asked.append((first, second, batch.answer(second.lists)))
    for decisions, _, rewards in asked:
        prompt.tell(decisions, rewards)
    order = rng.permutation(150)
    everything = asked[0][1] + asked[1][1] + asked[2][1]
    rewards = np.concatenate([r for *_, r in asked])
    for part in np.split(order, [20, 21, 90]):
        assert late.tell(everything[part], rewards[part]).accepted == len(part)
    assert late.rounds == prompt.rounds == 150
    assert late.status().leader == prompt.status().leader
    np.testing.assert_allclose(late.result().value, prompt.result().value, rtol=1e-12)


@every_learner
def test_duplicates_change_nothing_and_conflicts_are_reported(make: Callable[[int], cb.Learner]) -> None:
    learner = make(2)
    batch = WORLD.sample(60, as_generator(8))
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    assert rewards.any()
    learner.tell(decisions, rewards)
    before = state(learner)
    again = learner.tell(decisions[[5, 3]], rewards[[5, 3]])
    assert (again.accepted, again.duplicates, again.conflicts) == (0, 2, ())
    hit = int(np.flatnonzero(rewards.any(axis=1))[0])
    miss = int(np.flatnonzero(~rewards.any(axis=1))[0])
    other = rewards.copy()
    other[hit] = 0
    other[miss, 0] = 1
    receipt = learner.tell(decisions, other)
    assert receipt.conflicts == tuple(sorted([hit, miss]))
    assert (receipt.accepted, receipt.duplicates) == (0, 58)
    assert state(learner) == before


@every_learner
def test_one_tell_may_repeat_a_decision(make: Callable[[int], cb.Learner]) -> None:
    learner = make(2)
    batch = WORLD.sample(4, as_generator(8))
    decisions = learner.ask(batch.contexts)
    twice = decisions[[0, 0, 1]]
    receipt = learner.tell(twice, [[1, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert (receipt.accepted, receipt.duplicates, receipt.conflicts) == (2, 0, (0,))


@every_learner
def test_empty_batches_are_fine(make: Callable[[int], cb.Learner]) -> None:
    learner = make(2)
    decisions = learner.ask(np.empty((0, 8)))
    assert len(decisions) == 0
    assert learner.tell(decisions, np.empty((0, 3))).accepted == 0


@every_learner
def test_loading_checks_what_it_loads(make: Callable[[int], cb.Learner], tmp_path: Path) -> None:
    learner = make(2)
    learner.save(tmp_path / "learner.npz")
    with pytest.raises(cb.InputError, match="other policies"):
        type(learner).load(tmp_path / "learner.npz", POLICIES.subset([1, 0, 2, 3, 4, 5]))

    class Other(type(learner)):  # type: ignore[misc]
        pass

    with pytest.raises(cb.InputError, match=f"holds a {type(learner).__name__}, not a Other"):
        Other.load(tmp_path / "learner.npz", POLICIES)


@every_learner
@pytest.mark.parametrize("column", ["lists", "propensities", "epochs", "covered", "arms", "contexts", "makers"])
def test_a_decision_that_is_not_as_it_was_made_is_refused(make: Callable[[int], cb.Learner], column: str) -> None:
    learner = make(1)
    play(learner, [250, 50])  # into the second epoch, or phase
    batch = WORLD.sample(30, as_generator(0))
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    before = state(learner)
    spoilt = np.array(getattr(decisions, column))
    spoilt[7] = {"propensities": 0.123, "covered": not spoilt[7].all()}.get(column, spoilt[7] + 1)
    if column == "lists":
        spoilt[7] %= PROBLEM.n_actions
    told = dataclasses.replace(decisions, **{column: spoilt})
    plan = dict.fromkeys(("epochs", "covered", "arms"), "its epoch, covered or arm differs")
    says = {**plan, "contexts": "its context differs", "makers": "another copy"}
    with pytest.raises(cb.UnknownDecisionError, match=f"{says.get(column, 'list or propensities')}.*1 of 30 are"):
        learner.tell(told, rewards)
    assert state(learner) == before
    assert learner.tell(decisions, rewards).accepted == 30


@every_learner
def test_decisions_rebuilt_from_an_own_log_need_all_columns(make: Callable[[int], cb.Learner]) -> None:
    learner = make(1)
    play(learner, [250, 50])
    batch = WORLD.sample(30, as_generator(0))
    d = learner.ask(batch.contexts)
    rewards = batch.answer(d.lists)
    if not np.isnan(d.propensities).any():
        log = cb.Rounds.from_log(
            d.contexts, lists=d.lists, rewards=rewards, propensities=d.propensities, problem=PROBLEM, ids=d.ids
        )
        with pytest.raises(cb.UnknownDecisionError, match="its maker is missing"):
            learner.tell(log.decisions, log.rewards)
    names = ("ids", "lists", "propensities", "epochs", "covered", "arms", "makers")
    row = {name: getattr(d, name).tolist() for name in names}
    again = cb.Decisions(**json.loads(json.dumps(row)), contexts=d.contexts.tolist())
    assert learner.tell(again, rewards).accepted == 30


@every_learner
def test_contexts_may_be_altered_after_ask(make: Callable[[int], cb.Learner]) -> None:
    usual, reused = make(1), make(1)
    rng = as_generator(0)
    buffer = np.empty((40, 8))
    for _ in range(8):
        batch = WORLD.sample(40, rng)
        decisions = usual.ask(batch.contexts)
        usual.tell(decisions, batch.answer(decisions.lists))
        buffer[:] = batch.contexts
        decisions = reused.ask(buffer)
        buffer[:] = buffer[::-1].copy()
        reused.tell(decisions, batch.answer(decisions.lists))
    assert state(usual) == state(reused)


@every_learner
def test_copies_refuse_each_others_decisions(make: Callable[[int], cb.Learner], tmp_path: Path) -> None:
    learner = make(1)
    play(learner, [40])
    batch = WORLD.sample(500, as_generator(0))
    before = learner.ask(batch.contexts[:20])
    learner.save(tmp_path / "learner.npz")
    copies = [
        learner,
        type(learner).load(tmp_path / "learner.npz", POLICIES),
        type(learner).load(tmp_path / "learner.npz", POLICIES),
        copy.deepcopy(learner),
        pickle.loads(pickle.dumps(learner)),
    ]
    made = [one.ask(batch.contexts) for one in copies]
    assert all(d.lists.tolist() == made[0].lists.tolist() for d in made)  # the same but for who made them
    for i, one in enumerate(copies):
        for j, decisions in enumerate(made):
            if i != j:
                with pytest.raises(cb.UnknownDecisionError, match=r"another copy.* 500 of 500 are unknown"):
                    one.tell(decisions, np.zeros((500, 3)))
        assert one.rounds == 40
        assert one.tell(before, np.zeros((20, 3))).accepted == 20
        assert one.tell(made[i], np.zeros((500, 3))).accepted == 500
    assert all(state(one) == state(learner) for one in copies)


@every_learner
def test_policies_are_known_by_what_they_show(make: Callable[[int], cb.Learner], tmp_path: Path) -> None:
    learner, path = make(2), tmp_path / "learner.npz"
    others = cb.PolicySet([*reversed(list(POLICIES))], POLICIES.names)
    learner.save(path)
    type(learner).load(path, others)  # nothing was asked yet: only names can be compared
    for size in (1, 1, 40):
        play(learner, [size])
        learner.save(path)
        with pytest.raises(cb.InputError, match="saved with other policies: 6 of 6 now show other lists"):
            type(learner).load(path, others)
    again = type(learner).load(path, POLICIES)
    again.save(path)
    with pytest.raises(cb.InputError, match="saved with other policies"):
        type(learner).load(path, others)
    assert state(type(learner).load(path, POLICIES)) == state(learner)


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
    assert any("99 answers do not count yet, because decision 0" in note for note in result.notes)
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
        assert early.guarantee.startswith("none")
        learner.tell(decisions[~clicked], rewards[~clicked])
        late = learner.result()
        assert late.epsilon < PROBLEM.max_reward
        assert not late.guarantee.startswith("none")


def test_a_status_reads_well() -> None:
    status = cb.Status(12_345, "blue", 7, expected=0.0512, forecast=4321)
    assert str(status).splitlines() == [
        "blue leads after 12,345 rounds, 7 candidates",
        "  nothing is certified yet, an epsilon of 0.0512 is expected, roughly 4,300 rounds to go",
    ]
    assert str(cb.Status(5, "", 7)) == "no leader yet after 5 rounds, 7 candidates\n  nothing is certified yet"
    dropped = (cb.results.Dropped(0, "red", 300, "blue", 3.1),)
    certifying = cb.results.CertificationStatus(12_345, "blue", 7, certified=0.0512, forecast=0.0, dropped=dropped)
    assert str(certifying).splitlines() == [
        "blue leads after 12,345 rounds; 7 of 8 candidates may be best",
        "  certified: no candidate is better by more than 0.0512",
    ]
    early = cb.results.CertificationStatus(100, "blue", 8, forecast=8000.0, missing=2, late=1)
    assert str(early).splitlines()[1:] == [
        "  nothing is certified yet, roughly 8,000 rounds to go",
        "  answers missing: 2, late: 1",
    ]


@every_learner
def test_every_status_prints_in_few_lines(make: Callable[[int], cb.Learner]) -> None:
    learner = make(1)
    learner.ask(WORLD.sample(7, np.random.default_rng(0)).contexts)
    lines = str(learner.status()).splitlines()
    assert 2 <= len(lines) <= 3
    assert all(len(line) <= 90 for line in lines)
    assert "0 rounds" in lines[0]
    if isinstance(learner.status(), cb.results.CertificationStatus):
        assert lines[1].startswith("  nothing is certified yet")
        assert lines[2] == "  answers waiting: 7"


@pytest.mark.parametrize("value", [1.05, 0.5, float("inf")])
def test_no_value_is_shown_outside_its_interval(value: float) -> None:
    assert 0.66 <= cb.results.Candidate(0, "a", value, (0.66, 1.0)).value <= 1.0


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
