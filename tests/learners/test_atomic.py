"""A call that fails leaves no trace, and calls of several threads count as if they had come one after the other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import comband as cb
from comband.learners.atomic import Checkpoint
from comband.page.problem import as_generator
from tests.learners.test_protocol import MAKERS, PROBLEM, WORLD

SIZES = [1, 9, 40, 1, 30, 20]


class Flaky:
    """A candidate that fails at a given call of any of its kind."""

    calls = 0
    fails_at = -1

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def predict(self, X: Any) -> Any:
        Flaky.calls += 1
        if Flaky.calls - 1 == Flaky.fails_at:
            raise ConnectionError("the model server is down")
        return self.policy.predict(X)


FLAKY = cb.PolicySet([Flaky(policy) for policy in WORLD.candidates(4, seed=1)])


def doubling(learner: cb.Exp4CombSparse) -> cb.Exp4CombSparse:
    learner._planned = 8  # so that a few rounds pass the planned horizon
    return learner


# Made so that every learner comes to all that it does, in few rounds; the protocol's own, with candidates that fail.
FLAKY_MAKERS: dict[str, Callable[[], Any]] = {
    "UniformExploration": lambda: cb.UniformExploration(PROBLEM, FLAKY, n_rounds=600),
    "PacComband": lambda: cb.PacComband(PROBLEM, FLAKY, n_explore=20, n_estimate=400),
    "Exp4CombSparse": lambda: doubling(cb.Exp4CombSparse(PROBLEM, FLAKY)),
    "Exp4CombSparse, propensities when rewarded": lambda: doubling(
        cb.Exp4CombSparse(PROBLEM, FLAKY, propensities="when rewarded")
    ),
    "Exp4": lambda: cb.Exp4(PROBLEM, FLAKY, horizon=200),
    "OnlineComband": lambda: cb.OnlineComband(PROBLEM, FLAKY, epsilon=0.3, exploration="learnt"),
    "OnlineComband, one at a time, propensities always": lambda: cb.OnlineComband(
        PROBLEM, FLAKY, epsilon=0.3, propensities="always", exploration="learnt"
    ),
    "OnlineComband, uniform lists": lambda: cb.OnlineComband(PROBLEM, FLAKY, epsilon=0.3, exploration="uniform lists"),
    "EpsilonGreedy": lambda: cb.EpsilonGreedy(PROBLEM, FLAKY, horizon=200),
    "ExploreThenCommit": lambda: cb.ExploreThenCommit(PROBLEM, FLAKY, horizon=200),
    "AdaptiveComband": lambda: cb.AdaptiveComband(PROBLEM, FLAKY, epsilon=0.05, first_epoch=30),
    "AdaptiveComband, many candidates": lambda: cb.AdaptiveComband(
        PROBLEM, FLAKY, epsilon=0.05, first_epoch=30, max_evaluated=3
    ),
    "UniformLists": lambda: cb.UniformLists(PROBLEM, FLAKY, epsilon=0.05, first_epoch=30),
    "UniformMixture": lambda: cb.UniformMixture(PROBLEM, FLAKY, epsilon=0.05, first_epoch=30),
    "TwoPhaseComband": lambda: cb.TwoPhaseComband(PROBLEM, FLAKY, epsilon=0.05, first_epoch=30),
    "Confirmation": lambda: cb.Confirmation(PROBLEM, FLAKY, candidate=FLAKY.names[0], production=FLAKY.names[1]),
    "ABTest": lambda: cb.ABTest(PROBLEM, FLAKY, epsilon=0.08, first_epoch=30),
    "ABTest, eliminating": lambda: cb.ABTest(PROBLEM, FLAKY, epsilon=0.05, first_epoch=30, eliminate=True),
}


def test_every_learner_is_tried() -> None:
    assert FLAKY_MAKERS.keys() >= MAKERS.keys()


def exact(value: Any) -> Any:
    """Nested states with arrays as bytes, which are equal when all bits are."""
    if isinstance(value, dict):
        return {name: exact(part) for name, part in value.items()}
    if isinstance(value, list):
        return [exact(part) for part in value]
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def everything(learner: Any) -> Any:
    """All that is saved, but for who made which decisions, and the contexts that tell policies apart."""
    ledger = {name: part for name, part in learner._ledger.state().items() if name != "makers"}
    return exact({"learnt": learner._state(), "ledger": ledger, "rng": learner._rng.bit_generator.state})


def play(learner: Any) -> Any:
    """A run in which a call that fails is made again, and must have changed nothing in between."""
    rng = as_generator(3)

    def whole(call: Callable[..., Any], *args: Any) -> Any:
        before = everything(learner)
        try:
            return call(*args)
        except ConnectionError:
            assert everything(learner) == before
            return call(*args)

    late: list[tuple[Any, Any]] = []
    for n in SIZES:
        batch = WORLD.sample(n, rng)
        decisions = whole(learner.ask, batch.contexts)
        answers = batch.answer(decisions.lists)
        half = n // 2  # the second half is answered a batch later
        whole(learner.tell, decisions[:half], answers[:half])
        for told, rewards in late:
            whole(learner.tell, told, rewards)
        late = [(decisions[half:], answers[half:])]
    whole(learner.ask, batch.contexts[:1])  # if a new epoch was put off, it begins now
    return everything(learner)


class Places(list[Any]):
    """From which lines the calls of candidates came."""

    def note(self) -> None:
        frame, lines = sys._getframe(1), []
        while frame.f_code is not play.__code__ and frame.f_back is not None:
            lines.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        self.append((*lines, frame.f_lineno))

    def first_and_last(self) -> list[int]:
        """Of the calls of each place, the first and the last."""
        first = {place: k for k, place in reversed(list(enumerate(self)))}
        return sorted({*first.values(), *{place: k for k, place in enumerate(self)}.values()})


def fail_at_any_call(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, *, every_call: bool) -> None:
    predict, places = Flaky.predict, Places()

    def noted(self: Flaky, X: Any) -> Any:
        places.note()
        return predict(self, X)

    Flaky.calls, Flaky.fails_at = 0, -1
    learner = make()
    before = everything(learner)
    with monkeypatch.context() as patch:
        patch.setattr(Flaky, "predict", noted)
        undisturbed = play(learner)
    assert undisturbed != before
    assert len(places) >= 12
    for k in range(len(places)) if every_call else places.first_and_last():
        Flaky.calls, Flaky.fails_at = 0, -1
        learner = make()
        Flaky.calls, Flaky.fails_at = 0, k
        assert play(learner) == undisturbed, k
        assert Flaky.calls > k
    Flaky.fails_at = -1


EXTENTS = [
    pytest.param(False, id="first and last call of each line"),
    pytest.param(True, id="every call", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("every_call", EXTENTS)
@pytest.mark.parametrize("make", FLAKY_MAKERS.values(), ids=FLAKY_MAKERS.keys())
def test_a_candidate_that_fails_at_any_call_changes_nothing(
    make: Callable[[], Any], every_call: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_any_call(make, monkeypatch, every_call=every_call)


@pytest.mark.parametrize("every_call", EXTENTS)
@pytest.mark.parametrize("name", ["Exp4", "Exp4CombSparse, propensities when rewarded", "AdaptiveComband"])
def test_so_it_is_when_contexts_are_evaluated_in_blocks(
    name: str, every_call: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (
        "learners.weighted",
        "explore.explorers.blocks",
        "explore.explorers.recent",
        "policies.mixture",
        "policies.policy_set",
    ):
        monkeypatch.setattr(f"comband.{module}.BLOCK", 5 * len(FLAKY) * PROBLEM.list_size)
    monkeypatch.setattr("tests.learners.test_atomic.SIZES", [1, 9, 17, 4])
    fail_at_any_call(FLAKY_MAKERS[name], monkeypatch, every_call=every_call)


def test_a_candidate_that_is_down_for_a_while_costs_nothing() -> None:
    """The answers of 50 decisions were lost, and none of 4,050 ever counted."""
    Flaky.calls, Flaky.fails_at = 0, -1
    learner = cb.AdaptiveComband(PROBLEM, FLAKY, epsilon=0.05)
    decisions = learner.ask(WORLD.sample(50, as_generator(0)).contexts)
    Flaky.fails_at = Flaky.calls
    with pytest.raises(ConnectionError):
        learner.tell(decisions, np.zeros((50, 3)))
    assert learner.rounds == 0
    assert learner.tell(decisions, np.zeros((50, 3))).accepted == 50
    play(learner)
    assert learner.queue.front == learner.rounds == 50 + sum(SIZES) - SIZES[-1] // 2


def test_answers_told_in_vain_are_not_overdue() -> None:
    """Else a candidate that fails on the contexts where it is good would be judged by the others alone."""
    Flaky.calls, Flaky.fails_at = 0, -1
    learner = cb.UniformLists(PROBLEM, FLAKY, epsilon=0.05, patience=20)
    batch = WORLD.sample(20, as_generator(1))
    first = learner.ask(batch.contexts)
    rewards = np.zeros((20, 3))
    rewards[:, 0] = 1
    Flaky.fails_at = Flaky.calls
    with pytest.raises(ConnectionError):
        learner.tell(first, rewards)
    for _ in range(5):
        later = learner.ask(batch.contexts)
        learner.tell(later, np.zeros((20, 3)))
    assert learner.status().missing == learner.queue.front == 0
    assert any("20 answers could not be taken in" in note for note in learner.result().notes)
    learner.tell(first, rewards)
    assert learner.queue.front == 120
    assert learner.status().missing == 0
    assert not any("could not be taken in" in note for note in learner.result().notes)


class Failing(Ridge):  # type: ignore[misc]
    """A model whose fit fails when it is told to."""

    down = False

    def fit(self, *args: Any, **more: Any) -> Any:
        if Failing.down:
            raise ConnectionError
        return super().fit(*args, **more)


@pytest.mark.parametrize("objective", ["rounds", "reward"])
def test_a_fit_that_fails_leaves_the_online_classifier_as_it_was(objective: str) -> None:
    def classifier() -> cb.OnlineListClassifier:
        template = cb.BanditListClassifier(Failing())
        return cb.OnlineListClassifier(
            PROBLEM, template, objective=objective, first_epoch=50, growth=1.5, least_floor=0.05, seed=1
        )

    usual, disturbed = classifier(), classifier()
    rng, same = as_generator(2), as_generator(2)
    failures = 0
    for _ in range(8):
        batch = WORLD.sample(40, rng)
        decisions = usual.ask(batch.contexts)
        usual.tell(decisions, batch.answer(decisions.lists))
        batch = WORLD.sample(40, same)
        decisions = disturbed.ask(batch.contexts)
        before = (disturbed.rounds, disturbed.epoch, {k: v.tolist() for k, v in disturbed._shown.items()})
        Failing.down = True
        try:
            disturbed.tell(decisions, batch.answer(decisions.lists))
        except ConnectionError:
            failures += 1
            assert before == (disturbed.rounds, disturbed.epoch, {k: v.tolist() for k, v in disturbed._shown.items()})
            Failing.down = False
            assert disturbed.tell(decisions, batch.answer(decisions.lists)).accepted == 40
        Failing.down = False
    assert failures >= 3
    assert {k: v.tolist() for k, v in disturbed._shown.items()} == {k: v.tolist() for k, v in usual._shown.items()}
    assert disturbed.ask(batch.contexts).lists.tolist() == usual.ask(batch.contexts).lists.tolist()
    assert str(usual.result()) == str(disturbed.result())


def test_an_interruption_of_what_cannot_be_undone_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = MAKERS["AdaptiveComband"](1)
    batch = WORLD.sample(20, as_generator(0))
    decisions = learner.ask(batch.contexts)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    assert isinstance(learner, cb.AdaptiveComband)
    monkeypatch.setattr(learner.evidence, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.tell(decisions, batch.answer(decisions.lists))
    monkeypatch.undo()
    for call in (learner.result, learner.status, lambda: learner.ask(batch.contexts), lambda: learner.save("never")):
        with pytest.raises(cb.InputError, match="interrupted in the middle of an update"):
            call()
    with pytest.raises(cb.InputError, match="interrupted"):
        learner.tell(decisions, np.zeros((20, 3)))


def test_a_checkpoint_puts_attributes_and_lists_back() -> None:
    class Thing:
        def __init__(self) -> None:
            self.number, self.items, self.other = 1, [1, 2], [3]

    thing = Thing()
    items, checkpoint = thing.items, Checkpoint(thing)
    thing.number, thing.new = 2, 3  # type: ignore[attr-defined]
    thing.items.append(9)
    thing.other = [5, 6]
    checkpoint.restore()
    assert vars(thing) == {"number": 1, "items": [1, 2], "other": [3]}
    assert thing.items is items


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_threads_count_as_if_they_had_come_one_after_the_other(
    make: Callable[[int], cb.Learner], tmp_path: Path
) -> None:
    """Calls are put down in the order in which they got their turn, and made again by one thread."""
    learner, order, batches, faults = make(1), list[Any](), list[Any](), list[BaseException]()
    decide, take_in, save = learner._decide, learner._take_in, learner.save

    def noted_decide(X: Any, first_id: int) -> cb.Decisions:
        order.append(("ask", X))
        return decide(X, first_id)

    def noted_take_in(told: Mapping[int, cb.Rounds]) -> None:
        order.append(("tell", told[0].decisions.ids, told[0].rewards))
        take_in(told)

    def noted_save(path: Any) -> None:  # which brings weights up to date
        with learner._lock:
            order.append(("save", path))
            save(path)

    learner._decide, learner._take_in, learner.save = noted_decide, noted_take_in, noted_save  # type: ignore[method-assign]

    def work(seed: int) -> None:
        rng, waiting = as_generator(seed), list[Any]()
        try:
            for _ in range(12):
                batch = WORLD.sample(int(rng.integers(1, 30)), rng)
                decisions = learner.ask(batch.contexts)
                batches.append(decisions)
                waiting.append((decisions, batch.answer(decisions.lists)))
                learner.status()
                if rng.random() < 0.7:
                    receipt = learner.tell(*waiting.pop(0))
                    assert receipt.duplicates == 0
                    learner.result()
            for told in waiting:
                learner.tell(*told)
            learner.save(tmp_path / f"{seed}.npz")
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not faults
    ids = np.concatenate([d.ids for d in batches])
    assert sorted(ids.tolist()) == list(range(len(ids)))  # no number twice
    assert learner.rounds == len(ids)  # and no answer lost
    alone, made = make(1), list[cb.Decisions]()
    for call, *what in order:
        if call == "ask":
            made.append(alone.ask(what[0]))
        elif call == "save":
            alone.save(what[0])
        else:
            told, rewards = what
            batch = next(d for d in made if d.ids[0] <= told[0] <= d.ids[-1])
            alone.tell(batch[told - batch.ids[0]], rewards)
    assert everything(alone) == everything(learner)
    assert str(alone.result()) == str(learner.result())
