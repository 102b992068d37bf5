"""Learners' files: damaged and altered ones are refused, or hold a learner that can be used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.learners import Selector
from comband.page import storage
from comband.page.problem import as_generator
from tests.states import attack, completed, places, text

PROBLEM = cb.Problem(n_actions=12, list_size=3, sparsity=1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
POLICIES = WORLD.candidates(6, seed=1)
LATER = ("further", "others", "lacking", "tardy")
KNOWN = ("problem.", "config.", "learnt.watch.", "learnt.recording", *(f"learnt.queue.{name}" for name in LATER))

MAKERS: dict[str, Callable[[], Any]] = {
    "AdaptiveComband": lambda: cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=0.1, patience=80, first_epoch=80, seed=3),
    "ABTest": lambda: cb.ABTest(PROBLEM, POLICIES, epsilon=0.1, first_epoch=80, seed=3),
    "UniformMixture": lambda: cb.UniformMixture(PROBLEM, POLICIES, epsilon=0.1, first_epoch=80, seed=3),
    "PacComband": lambda: cb.PacComband(PROBLEM, POLICIES, n_explore=100, n_estimate=800, seed=3),
    "UniformExploration": lambda: cb.UniformExploration(PROBLEM, POLICIES, n_rounds=900, seed=3),
    "Exp4CombSparse": lambda: cb.Exp4CombSparse(PROBLEM, POLICIES, propensities="when rewarded", seed=3),
    "Exp4": lambda: cb.Exp4(PROBLEM, POLICIES, horizon=900, seed=3),
    "OnlineComband": lambda: cb.OnlineComband(PROBLEM, POLICIES, epsilon=0.3, exploration="learnt", seed=3),
    "EpsilonGreedy": lambda: cb.EpsilonGreedy(PROBLEM, POLICIES, horizon=900, seed=3),
    "ExploreThenCommit": lambda: cb.ExploreThenCommit(PROBLEM, POLICIES, horizon=900, n_explore=100, seed=3),
    "SparseMSets": lambda: cb.SparseMSets(PROBLEM, horizon=900, seed=3),
}
every_learner = pytest.mark.parametrize("name", MAKERS)


def played(name: str, n: int = 8) -> cb.Learner:
    """A learner in the middle of its run, with decisions open."""
    learner: cb.Learner = MAKERS[name]()
    rng = as_generator(5)
    for _ in range(n):
        batch = WORLD.sample(60, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
    batch = WORLD.sample(20, rng)
    decisions = learner.ask(batch.contexts)
    learner.tell(decisions[::2], batch.answer(decisions.lists)[::2])
    return learner


def given(learner: cb.Learner) -> tuple[cb.PolicySet, ...]:
    """What no file holds."""
    return (learner.policies,) if isinstance(learner, Selector) else ()


def says(state: storage.State) -> str:
    """All but the number that every copy draws anew for the decisions it will make, and which guards began anew. Files
    from before 18 November 2026 have rewarded rounds in the order in which they were told.
    """
    ledger, learnt = state["ledger"], state["learnt"]
    if "watch" in learnt:
        state = {**state, "learnt": {**learnt, "watch": {**learnt["watch"], "anew": []}}}
    made = ledger["makers"]["starts"] < ledger["issued"]
    makers = {name: part[made] for name, part in ledger["makers"].items()}
    order = np.argsort(ledger["rewarded"]["ids"], kind="stable")
    rewarded = {name: part[order] for name, part in ledger["rewarded"].items()}
    return text({**state, "ledger": {**ledger, "makers": makers, "rewarded": rewarded}})


def use(learner: cb.Learner) -> None:
    """What comes next; whatever was altered, no number is out of its range."""
    rng = as_generator(9)
    try:
        for _ in range(2):
            batch = WORLD.sample(60, rng)
            decisions = learner.ask(batch.contexts)
            learner.tell(decisions, batch.answer(decisions.lists))
        learner.status()
        result = learner.result()
    except cb.InputError:
        return
    rho = learner.problem.max_reward
    assert 0 <= result.epsilon <= rho
    assert 0 <= result.interval[0] <= result.value <= result.interval[1] <= rho


def attacked(name: str, folder: Path, *, n: int, seed: int) -> None:
    learner = played(name)
    learner.save(folder / "learner.npz")
    outcomes = attack(
        folder / "learner.npz",
        "learner",
        lambda path: type(learner).load(path, *given(learner)),
        use,
        n=n,
        seed=seed,
        says=says,
    )
    assert outcomes["refused"] > 1.2 * n
    assert not outcomes["refused without the file's name"]


@every_learner
def test_damaged_and_altered_files_are_refused_or_consistent(name: str, tmp_path: Path) -> None:
    attacked(name, tmp_path, n=30, seed=1)


@pytest.mark.slow
@every_learner
def test_thousands_of_damaged_and_altered_files(name: str, tmp_path: Path) -> None:
    attacked(name, tmp_path, n=1500, seed=2)


def _claims(state: storage.State) -> None:
    state["learnt"]["verdict"]["certified"] = {"leader": state["learnt"]["epochs"][-1]["leader"], "epsilon": 0.0}


def _certain(state: storage.State) -> None:
    state["learnt"]["evidence"]["log_wealth"][:] = 50.0


def _fewer_rounds(state: storage.State) -> None:
    state["learnt"]["evidence"]["n_rounds"][0] -= 1


def _bolder(state: storage.State) -> None:
    state["learnt"]["epochs"][-1]["bound"] /= 2


def _forgets(state: storage.State) -> None:
    state["learnt"]["watch"]["draws"]["peak"] = 0.0
    state["learnt"]["watch"]["draws"]["log_wealth"][:] = 9.0


def _constant(state: storage.State) -> None:
    state["rng"]["state"]["inc"] = 0


def _more_answers(state: storage.State) -> None:
    state["ledger"]["answered"] += 1


def _other_config(state: storage.State) -> None:
    state["config"]["patience"] = "80"


@pytest.mark.parametrize("name", ["AdaptiveComband", "Exp4CombSparse", "SparseMSets"])
def test_whatever_part_is_left_out_is_missed_by_name_or_takes_its_default(name: str) -> None:
    learner = played(name, n=3)
    whole, defaulted = says(learner.state()), []
    for place in places(learner.state()):
        state = copy.deepcopy(learner.state())  # its arrays are the learner's own
        *way, last = place
        holder: Any = state
        for key in way:
            holder = holder[key]
        if not isinstance(holder, dict) or any(isinstance(key, int) for key in way):
            continue
        del holder[last]
        try:
            again = type(learner).from_state(copy.deepcopy(state), *given(learner))
        except cb.InputError:
            continue
        now = again.state()
        assert says(now) == says(completed(state, now))
        defaulted.append(".".join(place))
        assert last not in ("places", "feedback") or way != ["problem"] or says(now) == whole
        use(again)
    assert {"problem.feedback", "problem.places"} <= {*defaulted}
    assert not [one for one in defaulted if not one.startswith(KNOWN) and not one.endswith(".placements")]


@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (_claims, "a claim must be such as the evidence allows"),
        (_certain, "evidence must not exceed what the events that are kept allow"),
        (_fewer_rounds, "decisions, answers and rounds must be as many as each other"),
        (_bolder, "and the bets of its explorer|may lose everything"),
        (_forgets, "evidence of a guard must not exceed its peak"),
        (_constant, "random generator is not one that it can have"),
        (_more_answers, "the record of decisions and answers must agree"),
        (_other_config, "patience must be a whole number"),
    ],
)
def test_a_forged_learner_is_refused(forge: Callable[[storage.State], None], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "learner.npz"
    played("AdaptiveComband", n=3).save(path)
    state = storage.load(path, "learner", lambda state: state)
    cb.AdaptiveComband.from_state(storage.load(path, "learner", lambda state: state), POLICIES)
    forge(state)
    storage.save(path, "learner", state)
    with pytest.raises(cb.InputError, match=sentence):
        cb.AdaptiveComband.load(path, POLICIES)


@every_learner
def test_a_state_is_what_was_loaded(name: str, tmp_path: Path) -> None:
    learner = played(name)
    learner.save(tmp_path / "learner.npz")
    again = type(learner).load(tmp_path / "learner.npz", *given(learner))
    assert says(again.state()) == says(learner.state())


class FirstOfObject:
    """A policy that looks into dictionaries."""

    def __init__(self, item: int) -> None:
        self.item = item

    def predict(self, X: Any) -> NDArray[np.int32]:
        return np.array([[(row["place"] + self.item) % 4] for row in X], dtype=np.int32)


def test_a_result_says_while_there_is_time_that_the_learner_cannot_be_saved(tmp_path: Path) -> None:
    problem = cb.Problem(4, 1)
    learner = cb.AdaptiveComband(problem, cb.PolicySet([FirstOfObject(0), FirstOfObject(1)]), epsilon=0.5)
    decisions = learner.ask([{"place": i % 2} for i in range(20)])
    learner.tell(decisions, np.ones((20, 1)))
    assert any("`save` will refuse this learner" in note for note in learner.result().notes)
    with pytest.raises(cb.InputError):
        learner.save(tmp_path / "learner.npz")
    plain = cb.AdaptiveComband(WORLD.problem, POLICIES, epsilon=0.5)
    batch = WORLD.sample(60, as_generator(1))
    decisions = plain.ask(batch.contexts)
    plain.tell(decisions, batch.answer(decisions.lists))
    assert not any("`save`" in note for note in plain.result().notes)
