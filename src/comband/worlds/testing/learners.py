"""What every learner promises: late, partial and repeated answers; seeds; batches; copies; save and load."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import tempfile
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from comband.learners.base import Learner
from comband.page.problem import InputError, Problem, UnknownDecisionError
from comband.page.rounds import Decisions
from comband.policies.policy_set import PolicySet
from comband.worlds.base import Batch
from comband.worlds.running import run
from comband.worlds.synthetic import SyntheticRecommender
from comband.worlds.testing.base import Suite, expect, refusal

COLUMNS = ("lists", "propensities", "epochs", "covered", "arms", "contexts", "makers")
"""What a decision must bring back as it was made."""


class _Shop(Suite):
    """A small world for learners, and ways to play in it."""

    @cached_property
    def problem(self) -> Problem:
        """12 items, 3 shown, one click at most."""
        return Problem(n_actions=12, list_size=3, sparsity=1)

    @cached_property
    def world(self) -> SyntheticRecommender:
        """The shop."""
        return SyntheticRecommender(self.problem, click_rate=0.4, n_users=30, seed=0)

    @property
    def given(self) -> tuple[Any, ...]:
        """What `load` is given besides the file, because no file holds it."""
        return ()

    @property
    def objects(self) -> dict[str, Any]:
        """What `load` is given by name: arguments of the constructor that are no plain values, such as guards."""
        return {}

    def learner(self, seed: int) -> Learner:
        """A new one of yours."""
        raise NotImplementedError("say how to make your learner: def learner(self, seed).")

    def _sample(self, n: int, *, seed: int = 0) -> Batch:
        return self.world.sample(n, np.random.default_rng(seed))

    def _play(self, learner: Learner, sizes: Sequence[int]) -> list[list[int]]:
        """Play batches of these sizes on one stream of rounds; the lists shown."""
        rng, shown = np.random.default_rng(9), []
        for n in sizes:
            shown += _one_batch(learner, self.world.sample(n, rng)).lists.tolist()
        return shown

    def _through_a_file(self, learner: Learner) -> Learner:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.npz"
            learner.save(path)
            return type(learner).load(path, *self.given, **self.objects)


class _Answers(_Shop):
    """Answers late, in parts, repeated, altered and bad."""

    def test_late_partial_and_shuffled_answers_count_once(self) -> None:
        """In any order and in any parts, the same answers lead to the same leader and value."""
        prompt, late = self.learner(2), self.learner(2)
        rng = np.random.default_rng(3)
        asked = []
        for _ in range(3):
            batch = self.world.sample(50, rng)
            first, second = prompt.ask(batch.contexts), late.ask(batch.contexts)
            asked.append((first, second, batch.answer(second.lists)))
        for decisions, _, rewards in asked:
            prompt.tell(decisions, rewards)
        everything = asked[0][1] + asked[1][1] + asked[2][1]
        rewards = np.concatenate([told for *_, told in asked])
        for part in np.split(rng.permutation(150), [20, 21, 90]):
            accepted = late.tell(everything[part], rewards[part]).accepted
            expect(accepted == len(part), f"{len(part)} late answers were told, {accepted} accepted.")
        expect(late.rounds == prompt.rounds == 150, f"150 rounds were answered, it counts {late.rounds}.")
        expect(late.status().leader == prompt.status().leader, "told in another order, another candidate leads.")
        values = late.result().value, prompt.result().value
        expect(np.isclose(*values, rtol=1e-12, atol=0), f"told in another order, the value is another: {values}.")

    def test_repeated_answers_change_nothing(self) -> None:
        """An answer told again is a duplicate, another answer to the same decision a conflict; neither counts."""
        learner = self.learner(2)
        batch = self._sample(60, seed=8)
        decisions = learner.ask(batch.contexts)
        rewards = batch.answer(decisions.lists)
        learner.tell(decisions, rewards)
        before = _standing(learner)
        again = learner.tell(decisions[[5, 3]], rewards[[5, 3]])
        counts = again.accepted, again.duplicates, again.conflicts
        expect(counts == (0, 2, ()), f"2 answers were repeated; accepted, repeated, conflicts: {counts}.")
        hit = int(np.flatnonzero(rewards.any(axis=1))[0])
        miss = int(np.flatnonzero(~rewards.any(axis=1))[0])
        other = rewards.copy()
        other[hit] = 0
        other[miss, 0] = 1
        receipt = learner.tell(decisions, other)
        counts = receipt.accepted, receipt.duplicates, receipt.conflicts
        wanted = (0, 58, tuple(sorted([hit, miss])))
        expect(counts == wanted, f"accepted, repeated, conflicts should be {wanted}, got {counts}.")
        expect(_standing(learner) == before, "repeated answers change what it has learnt.")

    def test_one_tell_may_repeat_a_decision(self) -> None:
        """The first answer counts."""
        learner = self.learner(2)
        decisions = learner.ask(self._sample(4, seed=8).contexts)
        receipt = learner.tell(decisions[[0, 0, 1]], [[1, 0, 0], [0, 0, 0], [0, 0, 0]])
        counts = receipt.accepted, receipt.duplicates, receipt.conflicts
        expect(counts == (2, 0, (0,)), f"two decisions, one told twice; accepted, repeated, conflicts: {counts}.")

    def test_bad_answers_change_nothing(self) -> None:
        """Rewards of another shape or size are refused whole, and the right ones can still be told."""
        learner = self.learner(2)
        decisions = learner.ask(self._sample(5).contexts)
        before = _standing(learner)
        for wrong in (np.zeros((5, 2)), np.zeros((4, 3)), np.full((5, 3), np.nan), np.full((5, 3), -1.0), "five"):
            refusal(InputError, f"it takes rewards that cannot be: {wrong!r}.", learner.tell, decisions, wrong)
        expect(_standing(learner) == before, "refused rewards change what it has learnt.")
        accepted = learner.tell(decisions, np.zeros((5, 3))).accepted
        expect(accepted == 5, f"after refused rewards the right ones are told: 5 are due, {accepted} accepted.")

    def test_altered_decisions_are_refused(self) -> None:
        """A decision must come back as it was made: a learner trusts its own record alone."""
        for column in COLUMNS:
            learner = self.learner(1)
            self._play(learner, [250, 50])  # into the second epoch, or phase
            batch = self._sample(30)
            decisions = learner.ask(batch.contexts)
            rewards = batch.answer(decisions.lists)
            before = _standing(learner)
            told = dataclasses.replace(decisions, **{column: altered(decisions, column, self.problem)})
            taken = f"it takes a decision whose {column} are not those it made."
            refusal(UnknownDecisionError, taken, learner.tell, told, rewards)
            expect(_standing(learner) == before, f"a refused decision (other {column}) changes what it has learnt.")
            accepted = learner.tell(decisions, rewards).accepted
            expect(accepted == 30, f"after a refused one, 30 decisions are answered and {accepted} accepted.")

    def test_decisions_come_back_from_an_own_log(self) -> None:
        """Columns that went through JSON are as good as the decisions themselves."""
        learner = self.learner(1)
        self._play(learner, [250, 50])
        batch = self._sample(30)
        made = learner.ask(batch.contexts)
        row = {name: getattr(made, name).tolist() for name in ("ids", *COLUMNS)}
        again = Decisions(**json.loads(json.dumps(row)))
        accepted = learner.tell(again, batch.answer(made.lists)).accepted
        expect(accepted == 30, f"30 decisions came back through JSON, {accepted} were accepted.")

    def test_contexts_may_be_altered_after_ask(self) -> None:
        """A caller's array may be used again: the learner keeps its own copy."""
        usual, reused = self.learner(1), self.learner(1)
        rng, buffer = np.random.default_rng(0), np.empty((40, 8))
        for _ in range(8):
            batch = self.world.sample(40, rng)
            _one_batch(usual, batch)
            buffer[:] = np.asarray(batch.contexts)
            decisions = reused.ask(buffer)
            buffer[:] = buffer[::-1].copy()
            reused.tell(decisions, batch.answer(decisions.lists))
        expect(_standing(usual) == _standing(reused), "contexts that are altered after ask change what it learns.")


class _Saving(_Shop):
    """Files and copies."""

    def test_goes_on_from_a_file(self) -> None:
        """Saved, loaded and continued is the same as never having stopped."""
        rng = np.random.default_rng(6)
        batches = [self.world.sample(n, rng) for n in (60, 1, 139, 200, 100)]
        for stop in (0, 1, 3):
            straight, resumed = self.learner(5), self.learner(5)
            for i, batch in enumerate(batches):
                if i == stop:
                    resumed = self._through_a_file(resumed)
                for learner in (straight, resumed):
                    _one_batch(learner, batch)
                same = _standing(straight) == _standing(resumed)
                expect(same, f"loaded before batch {stop}, it stands elsewhere after batch {i}.")
            expect(str(straight.result()) == str(resumed.result()), "loaded, it comes to another result.")
            X = batches[0].contexts
            expect(straight.ask(X).lists.tolist() == resumed.ask(X).lists.tolist(), "loaded, it shows other lists.")

    def test_pending_decisions_survive_saving(self) -> None:
        """Decisions made before a save can be answered after the load."""
        learner = self.learner(5)
        batch = self._sample(40)
        decisions = learner.ask(batch.contexts)
        rewards = batch.answer(decisions.lists)
        learner.tell(decisions[:10], rewards[:10])
        with tempfile.TemporaryDirectory() as folder:
            decisions.save(Path(folder) / "pending.npz")
            pending = Decisions.load(Path(folder) / "pending.npz")
        receipt = self._through_a_file(learner).tell(pending, rewards)
        counts = receipt.accepted, receipt.duplicates, receipt.conflicts
        expect(counts == (30, 10, ()), f"30 of 40 were open and 10 answered; accepted, repeated, conflicts: {counts}.")

    def test_files_of_others_are_refused(self) -> None:
        """A file of another class is not loaded."""
        learner = self.learner(2)
        other: Any = type("Other", (type(learner),), {})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.npz"
            learner.save(path)
            load = partial(other.load, **self.objects)
            refusal(InputError, "another class loads its file.", load, path, *self.given)

    def test_copies_refuse_each_others_decisions(self) -> None:
        """Loaded, copied or unpickled, each goes its own way: the same decision must not count in two."""
        learner = self.learner(1)
        self._play(learner, [40])
        batch = self._sample(500)
        before = learner.ask(np.asarray(batch.contexts)[:20])
        copies = [
            learner,
            self._through_a_file(learner),
            self._through_a_file(learner),
            copy.deepcopy(learner),
            pickle.loads(pickle.dumps(learner)),
        ]
        made = [one.ask(batch.contexts) for one in copies]
        alike = all(decisions.lists.tolist() == made[0].lists.tolist() for decisions in made)
        expect(alike, "a copy shows other lists than the original.")
        nothing = np.zeros((500, 3))
        for i, one in enumerate(copies):
            for j, decisions in enumerate(made):
                if i != j:
                    taken = "it takes decisions that a copy of it made."
                    refusal(UnknownDecisionError, taken, one.tell, decisions, nothing)
            expect(one.rounds == 40, f"40 rounds were answered before the copies, one counts {one.rounds}.")
            expect(one.tell(before, nothing[:20]).accepted == 20, "a copy refuses decisions from before the copy.")
            expect(one.tell(made[i], nothing).accepted == 500, "a copy refuses its own decisions.")
        expect(all(_standing(one) == _standing(learner) for one in copies), "told the same, copies stand elsewhere.")


class LearnerSuite(_Answers, _Saving):
    """For any learner: say `learner(seed)`, made for `self.problem`, and what `load` is `given` besides the file.

    The world is a small shop: 12 items, lists of 3, at most one click, and 6 candidates of different worth.

    >>> import comband as cb
    >>> from comband.worlds.testing import LearnerSuite, SelectorSuite, failures
    >>> issubclass(SelectorSuite, LearnerSuite)
    True
    >>> "test_is_done_within_its_budget" in LearnerSuite.promises()
    True
    """

    depends_on_batches = False
    """Whether what is told between two batches changes the second, as for learners that play against an adversary."""

    max_rounds = 20_000
    """By when it must be done in this world, asked for 100 rounds at a time."""

    def test_is_done_within_its_budget(self) -> None:
        """It is done within the budget, and its result, its status and itself count the same rounds."""
        learner = self.learner(3)
        outcome = run(learner, self.world, batch_size=100, max_rounds=self.max_rounds, seed=4)
        expect(learner.done, f"it is not done after {self.max_rounds:,} rounds.")
        result = outcome.result
        expect(result.name in str(result), "its result does not print the winner's name.")
        low, high = result.interval
        expect(low <= result.value <= high, f"its value {result.value} lies outside its interval ({low}, {high}).")
        counted = outcome.history["rounds"].tolist()
        expect(result.rounds == learner.rounds == counted[-1], "result, learner and status count different rounds.")
        expect(counted == list(range(100, counted[-1] + 1, 100)), "its status does not count every answered round.")

    def test_the_same_seed_gives_the_same_run(self) -> None:
        """All randomness comes from the seed; another seed gives another run."""
        first, second = self.learner(1), self.learner(1)
        shown = self._play(first, [50, 50, 50])
        expect(shown == self._play(second, [50, 50, 50]), "with the same seed it shows other lists.")
        expect(_standing(first) == _standing(second), "with the same seed it ends in another state.")
        expect(shown != self._play(self.learner(2), [50, 50, 50]), "with another seed it shows the same lists.")

    def test_batches_do_not_matter(self) -> None:
        """However rounds are cut into batches, the lists are the same."""
        if self.depends_on_batches:
            return
        whole = self._play(self.learner(1), [150])
        for sizes in ([1, 49, 100], [10] * 15):
            expect(self._play(self.learner(1), sizes) == whole, f"in batches of {sizes} it shows other lists.")

    def test_empty_batches_are_fine(self) -> None:
        """No contexts, no decisions, no answers."""
        learner = self.learner(2)
        decisions = learner.ask(np.empty((0, 8)))
        expect(len(decisions) == 0, f"it makes {len(decisions)} decisions for no contexts.")
        accepted = learner.tell(decisions, np.empty((0, 3))).accepted
        expect(accepted == 0, f"it accepts {accepted} answers to no decisions.")

    def test_its_status_prints_in_few_lines(self) -> None:
        """Two or three lines that fit a terminal."""
        learner = self.learner(1)
        learner.ask(self._sample(7).contexts)
        lines = str(learner.status()).splitlines()
        expect(2 <= len(lines) <= 3, f"its status has {len(lines)} lines.")
        expect(all(len(line) <= 90 for line in lines), "its status has a line of more than 90 characters.")


class SelectorSuite(LearnerSuite):
    """For a learner over a policy set: say `learner(seed)`, made for `self.problem` and `self.policies`.

    >>> import comband as cb
    >>> from comband.worlds.testing import SelectorSuite, failures
    >>> class OfMine(SelectorSuite):
    ...     def learner(self, seed):
    ...         return cb.UniformExploration(self.problem, self.policies, n_rounds=400, seed=seed)
    ...
    >>> len(OfMine.promises()) > 10
    True
    >>> OfMine().test_is_done_within_its_budget()
    """

    @cached_property
    def policies(self) -> PolicySet:
        """The candidates."""
        return self.world.candidates(6, seed=1)

    @property
    def given(self) -> tuple[Any, ...]:
        """The candidates."""
        return (self.policies,)

    def test_finds_the_best(self) -> None:
        """What it returns is a candidate within its epsilon of the best."""
        result = run(self.learner(3), self.world, batch_size=100, max_rounds=self.max_rounds, seed=4).result
        truth = self.world.values(self.policies)
        missing = float(truth.max() - truth[result.index])
        expect(missing <= result.epsilon, f"it claims epsilon {result.epsilon:.4g}, but is off by {missing:.4g}.")
        expect(result.policy is self.policies[result.index], "the policy of its result is not the candidate it names.")
        expect(result.name == self.policies.names[result.index], "the name of its result is not its candidate's.")

    def test_other_candidates_are_refused(self) -> None:
        """A file that was made with other candidates is not loaded."""
        learner = self.learner(2)
        load: Any = partial(type(learner).load, **self.objects)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.npz"
            learner.save(path)
            others = self.policies.subset([1, 0, 2, 3, 4, 5])
            refusal(InputError, "it loads a file that was saved with other candidates.", load, path, others)

    def test_candidates_are_known_by_what_they_show(self) -> None:
        """Candidates that keep their names but show other lists are refused by `load`."""
        learner = self.learner(2)
        load: Any = partial(type(learner).load, **self.objects)
        others = PolicySet([*reversed(list(self.policies))], self.policies.names)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.npz"
            learner.save(path)
            load(path, others)  # nothing was asked yet: only names can be compared
            for size in (1, 1, 40):
                self._play(learner, [size])
                learner.save(path)
                refusal(InputError, "it loads a file with candidates of other lists.", load, path, others)
            again = load(path, self.policies)
            again.save(path)
            refusal(InputError, "saved twice, its file is loaded with other lists.", load, path, others)
            again = load(path, self.policies)
            expect(_standing(again) == _standing(learner), "loaded twice, it stands elsewhere.")


def altered(decisions: Decisions, column: str, problem: Problem) -> Any:
    """A column of some decisions in which the eighth row is another."""
    values = np.array(getattr(decisions, column))
    values[7] = {"propensities": 0.123, "covered": not values[7].all()}.get(column, values[7] + 1)
    if column == "lists":
        values[7] %= problem.n_actions
    return values


def _one_batch(learner: Learner, batch: Batch) -> Decisions:
    decisions = learner.ask(batch.contexts)
    learner.tell(decisions, batch.answer(decisions.lists))
    return decisions


def _standing(learner: Learner) -> str:
    """What it has learnt and will draw, as text; not who made it, which no two copies share."""
    state = learner.state()
    return repr([_plain(state[name]) for name in ("config", "rng", "learnt")]) + f", {learner.rounds} rounds"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
