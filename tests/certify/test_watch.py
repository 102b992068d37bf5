"""A guard defined here, and used through the constructor's argument."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.certify import CertifyingLearner
from comband.certify.blocks import Block
from comband.certify.notifications import Asked, Began, BuiltInGuard, Entered, Guard, Moment, Told, Unanswered, Watched
from comband.certify.watch import BUILT_IN, ChangeGuard, Watch, watch_schema
from comband.explore.explorers import ArmsExploration, UniformListsExploration
from comband.page.storage import State, Whole, check
from tests.learners.small_worlds import small_world
from tests.states import plain

WORLD = small_world("clustered", 3)


class Silence(Guard):
    """A toy: warns when rewards stop coming."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.silent = self.longest = 0

    def observe(self, moment: Moment) -> None:
        if isinstance(moment, Entered):
            self.silent = 0 if len(moment.block.rows) else self.silent + moment.block.n_rounds
            self.longest = max(self.longest, self.silent)

    @property
    def warning(self) -> str:
        return f"no reward in {self.longest:,} rounds" if self.longest > self.patience else ""

    def state(self) -> State:
        return {"silent": self.silent, "longest": self.longest}

    def restore(self, state: State) -> None:
        check(state, {"silent": Whole(0), "longest": Whole(0)})
        self.silent, self.longest = state["silent"], state["longest"]


class Witness(Guard):
    """Writes down what there is to see, and remembers nothing in files."""

    warning = ""

    def __init__(self) -> None:
        self.seen: tuple[Moment, ...] = ()

    def observe(self, moment: Moment) -> None:
        self.seen = (*self.seen, moment)


def play(learner: cb.certify.CertifyingLearner, n: int, rng: np.random.Generator, *, silent: bool = False) -> None:
    decisions = learner.ask(rng.integers(12, size=n))
    rewards = 1.0 * (rng.random((n, 1)) < 0.3) * np.eye(decisions.lists.shape[1])[rng.integers(2, size=n)]
    learner.tell(decisions, 0 * rewards if silent else rewards)


def learner_with(*guards: Guard, **options: Any) -> cb.AdaptiveComband:
    settings: dict[str, Any] = {"epsilon": 0.001, "first_epoch": 100, "seed": 1, "guards": guards} | options
    return cb.AdaptiveComband(WORLD.problem, WORLD.policies, **settings)


def test_a_guard_of_ones_own_warns_in_the_first_line(tmp_path: Path) -> None:
    learner, rng = learner_with(Silence(150)), np.random.default_rng(0)
    for _ in range(4):
        play(learner, 50, rng)
    assert not learner.result().warnings
    for _ in range(2):
        play(learner, 50, rng, silent=True)
    learner.save(tmp_path / "learner")
    with pytest.raises(cb.InputError, match="saved with 1 further guards, and 0 are given"):
        cb.AdaptiveComband.load(tmp_path / "learner", WORLD.policies)
    again = cb.AdaptiveComband.load(tmp_path / "learner", WORLD.policies, guards=[Silence(150)])
    assert not again.result().warnings
    for copy in (learner, again):
        play(copy, 60, np.random.default_rng(1), silent=True)
        assert copy.result().warnings == ("no reward in 160 rounds",)
        assert copy.status().warnings == ("no reward in 160 rounds",)
        assert "No reward in 160 rounds" in str(copy.result()).splitlines()[0]


def test_a_guard_that_was_in_no_file_begins_anew_and_says_so(tmp_path: Path) -> None:
    learner, rng = learner_with(), np.random.default_rng(0)
    for _ in range(4):
        play(learner, 50, rng)
    state = learner.state()
    del state["learnt"]["watch"]["orders"], state["learnt"]["watch"]["anew"]
    again = cb.AdaptiveComband.from_state(state, WORLD.policies, guards=[Silence(150)])
    since = "was not in the file from which this learner was loaded: it watches what came after the first 200 rounds"
    expected = [f"the guard {name} {since}" for name in ("OrdersGuard", "Silence")]
    assert [note for note in again.result().notes if "the guard" in note] == expected
    assert not [note for note in learner.result().notes if "the guard" in note]
    for _ in range(3):
        play(again, 60, rng, silent=True)
    assert again.result().warnings == ("no reward in 180 rounds",)
    again.save(tmp_path / "learner")
    kept = cb.AdaptiveComband.load(tmp_path / "learner", WORLD.policies, guards=[Silence(150)])
    assert [note for note in kept.result().notes if "the guard" in note] == expected


class CountsGuard(BuiltInGuard):
    """A built-in guard as short as one can be: warns after many rounds."""

    WATCHES = "there are few rounds"
    LOOKS_AT = (Entered,)
    SCHEMA: ClassVar = {"n_rounds": Whole(0)}

    def __init__(self, watched: Watched) -> None:
        self.limit, self._n_rounds = 50 * len(watched.names), 0

    def observe(self, moment: Moment) -> None:
        assert isinstance(moment, Entered)  # it is shown nothing else
        self._n_rounds += moment.block.n_rounds

    @property
    def warning(self) -> str:
        return f"{self._n_rounds} rounds" if self._n_rounds > self.limit else ""

    @property
    def note(self) -> str:
        return "rounds are counted"


def test_a_built_in_guard_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Made, shown moments, heard, saved and restored by its line in the list; files from before it load."""
    old = tmp_path / "old"
    learner, rng = learner_with(), np.random.default_rng(0)
    play(learner, 50, rng)
    learner.save(old)
    monkeypatch.setitem(BUILT_IN, "counts", CountsGuard)
    monkeypatch.setitem(Watch.SCHEMA, "counts", watch_schema(BUILT_IN)["counts"])
    loaded, new = cb.AdaptiveComband.load(old, WORLD.policies), learner_with()
    assert "the guard CountsGuard was not in the file" in str(loaded.result().notes)
    for one in (loaded, new):
        n = one.rounds
        while not one.status().warnings:
            play(one, 50, rng)
        assert one.result().explained[-1] == "rounds are counted"
        assert one.result().warnings == (f"{one.rounds - n} rounds",)
        assert one.rounds - n == 50 * len(WORLD.policies) + 50
        one.save(tmp_path / "new")
        again = cb.AdaptiveComband.load(tmp_path / "new", WORLD.policies)
        assert again.result().warnings == one.result().warnings
        assert again.watch[CountsGuard].state() == one.watch[CountsGuard].state()
    state = new.state()
    state["learnt"]["watch"]["counts"]["n_rounds"] = -1
    with pytest.raises(cb.InputError, match=r"watch\.counts\.n_rounds must not be below 0"):
        cb.AdaptiveComband.from_state(state, WORLD.policies)


def test_a_guard_that_must_see_every_round_is_missed_in_a_file() -> None:
    learner = learner_with()
    play(learner, 50, np.random.default_rng(0))
    for name in ("change", "places"):
        state = learner.state()
        del state["learnt"]["watch"][name]
        with pytest.raises(cb.InputError, match=f"watch lacks '{name}'"):
            cb.AdaptiveComband.from_state(state, WORLD.policies)


def test_guards_see_everything_in_order() -> None:
    witness = Witness()
    learner, rng = learner_with(witness, patience=60), np.random.default_rng(0)
    for _ in range(6):
        decisions = learner.ask(rng.integers(12, size=50))
        learner.tell(decisions[1:], np.zeros((49, decisions.lists.shape[1])))
    kinds = [type(moment) for moment in witness.seen]
    assert kinds[:3] == [Began, Asked, Told]
    assert {Began, Asked, Told, Unanswered, Entered} == set(kinds)
    began = [moment.epoch for moment in witness.seen if isinstance(moment, Began)]
    assert began == list(learner.epochs)
    assert sum(moment.block.n_rounds for moment in witness.seen if isinstance(moment, Entered)) == learner.queue.front
    missing = [rows.size for moment in witness.seen if isinstance(moment, Unanswered) for _, rows in moment.parts]
    assert sum(missing) == learner.status().missing > 0


class Faulty(Guard):
    """Fails once it has seen enough."""

    warning = ""

    def __init__(self, kind: type) -> None:
        self.kind, self.calls, self.fails = kind, 0, True

    def observe(self, moment: Moment) -> None:
        if isinstance(moment, self.kind):
            self.calls += 1
            if self.calls == 3 and self.fails:
                raise RuntimeError("this guard is broken")


@pytest.mark.parametrize("kind", [Asked, Told, Entered])
def test_a_guard_that_fails_changes_nothing(kind: type) -> None:
    """The call fails as a whole; when the guard works again the run is what it would have been."""
    learners = []
    for fails in (True, False):
        guard = Faulty(kind)
        guard.fails = fails
        learner, rng = learner_with(guard), np.random.default_rng(0)
        for _ in range(5):
            X = rng.integers(12, size=40)
            try:
                decisions = learner.ask(X)
            except RuntimeError:
                guard.fails = False
                decisions = learner.ask(X)
            rewards = 1.0 * (decisions.lists == 3)
            try:
                learner.tell(decisions, rewards)
            except RuntimeError:
                guard.fails = False
                assert learner.tell(decisions, rewards).accepted == 40
        assert guard.calls == 5
        learners.append(learner)
    np.testing.assert_array_equal(learners[0].evidence.log_wealth, learners[1].evidence.log_wealth)
    assert learners[0].queue.front == learners[1].queue.front == 200


def test_only_guards_are_taken() -> None:
    with pytest.raises(cb.InputError, match="guards must be a sequence of Guard, got int in it"):
        learner_with(3)  # type: ignore[arg-type]


def test_learners_differ_by_one_argument(tmp_path: Path) -> None:
    """`CertifyingLearner` with an exploration is the learner of that name, list by list; and can be saved."""
    cases: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
        (UniformListsExploration(), cb.UniformLists, {}),
        (ArmsExploration(eliminate=True), cb.ABTest, {"eliminate": True}),
        (None, cb.AdaptiveComband, {}),
    )
    for exploration, kind, own in cases:
        common: dict[str, Any] = {"epsilon": 0.05, "first_epoch": 100, "seed": 4}
        plain = CertifyingLearner(WORLD.problem, WORLD.policies, exploration=exploration, **common)
        named = kind(WORLD.problem, WORLD.policies, **common, **own)
        rngs = [np.random.default_rng(5) for _ in range(2)]
        for batch in range(6):
            if batch == 3:
                plain.save(tmp_path / "plain")
                given = {} if exploration is None else {"exploration": exploration}
                plain = CertifyingLearner.load(tmp_path / "plain", WORLD.policies, **given)
            lists: list[Any] = []
            for learner, rng in zip((plain, named), rngs, strict=True):
                decisions = learner.ask(rng.integers(12, size=60))
                learner.tell(decisions, 1.0 * (decisions.lists == 2))
                lists.append(decisions.lists)
            np.testing.assert_array_equal(*lists)
        assert plain.result().epsilon == named.result().epsilon


# ---- a rhythm that is stated -----------------------------------------------------------------------------------------


def warned(seed: int, *, period: int, later: float = 1.0) -> bool:
    """Whether there is a warning in eight days of 600 rounds whose nights bring a fourth of the clicks; from the fifth
    on clicks are multiplied by `later`.
    """
    problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    policies = cb.PolicySet.from_lists([[[0]], [[1]], [[2]]], problem)
    learner = cb.AdaptiveComband(
        problem, policies, epsilon=0.001, delta=1e-6, period=period, first_epoch=4800, seed=seed
    )
    rng, rates = np.random.default_rng([seed, 14]), np.array([0.40, 0.36, 0.34, 0.0])
    for batch in range(8 * 6):
        decisions = learner.ask(np.zeros(100, dtype=np.int64))
        rate = rates[decisions.lists] * (1.0 if batch % 6 < 3 else 0.25) * (later if batch >= 24 else 1.0)
        learner.tell(decisions, (rng.random(rate.shape) < rate).astype(float))
    return bool(learner.status().warnings)


def test_a_rhythm_that_is_stated_is_no_change() -> None:
    # 12 runs, several guards at level .001: 4 alarms or more have a probability below 1e-6 (binomial with .005).
    assert sum(warned(seed, period=600) for seed in range(12)) < 4
    assert all(warned(seed, period=1) for seed in range(3))
    assert all(warned(seed, period=600, later=0.3) for seed in range(3))


def enter(guard: Guard, epoch: SimpleNamespace, decisions: NDArray[np.int64], rewarded: NDArray[np.int64]) -> None:
    """Rounds with a reward of the leader in some of them, in stretches of successive ones."""
    for part in np.split(decisions, np.flatnonzero(np.diff(decisions) > 1) + 1):
        ids = np.intersect1d(part, rewarded)
        inside, ones = np.tile([True, False], (len(ids), 1)), np.ones(len(ids))
        block = Block(1, int(part[0]), len(part), part[:0], ids, ones, np.arange(len(ids)), inside, ones, None)
        guard.observe(Entered(block, epoch, True, 0, part, part[:0]))  # type: ignore[arg-type]


def test_of_a_period_that_is_not_wholly_of_the_epoch_nothing_is_looked_at() -> None:
    """Others still decide with an older plan in the second period of four."""
    guard = ChangeGuard(Watched(WORLD.problem, (), 100))
    epoch = SimpleNamespace(bets=SimpleNamespace(leader=0))
    guard.observe(Began(epoch, 450, ()))  # type: ignore[arg-type]
    ids = np.arange(1000, 1400)
    own = ids[(ids < 1130) | (ids >= 1150)]
    enter(guard, epoch, own, own[::3])
    assert guard.rounds == 300
    assert guard.drift.state()["planned"] == 400
    whole = own[(own < 1100) | (own >= 1200)]
    np.testing.assert_array_equal(whole[guard.state()["in_favour"]], np.intersect1d(own[::3], whole))
    again = ChangeGuard(Watched(WORLD.problem, (), 100))
    again.restore(guard.state())
    for one in (guard, again):
        enter(one, epoch, np.arange(1400, 1600), np.array([1400, 1599]))
    assert plain(guard.state()) == plain(again.state())
    assert guard.rounds == 500
    assert guard.state()["in_favour"][-2:].tolist() == [300, 499]


def test_rounds_of_older_plans_are_left_out_without_a_period_too() -> None:
    guard = ChangeGuard(Watched(WORLD.problem, ()))
    epoch = SimpleNamespace(bets=SimpleNamespace(leader=0))
    guard.observe(Began(epoch, 450, ()))  # type: ignore[arg-type]
    enter(guard, epoch, np.array([5, 6, 9, 10]), np.array([6, 10]))
    enter(guard, epoch, np.array([12, 13]), np.array([12]))
    assert guard.rounds == 6
    assert guard.state()["in_favour"].tolist() == [1, 3, 4]
