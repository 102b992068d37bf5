"""The protocol of every learner: ask, tell, done, result; and saving and resuming in the middle."""

from __future__ import annotations

import inspect
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.records import int_prints
from comband.contexts import (
    Contexts,
    context_prints,
    n_contexts,
    pack_contexts,
    private_contexts,
    sealed,
    take_contexts,
    unpack_contexts,
)
from comband.learners.atomic import Atomic, Checkpoint, alone
from comband.learners.ledger import Admission, Ledger
from comband.lists import check_rewards, check_totals
from comband.oracles.base import Oracle
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.problem import InputError, Problem, check_itemised, check_problem, learner_generator
from comband.results import Receipt, Selection, Status
from comband.rounds import Decisions, Rounds, check_decisions, read_only
from comband.storage import PROBLEM, Array, Many, Part, State, Text, check, load, require, save

Seed = int | np.random.SeedSequence | np.random.Generator


class Learner(Atomic, ABC):
    """Decides what to show (`ask`), takes in what came back (`tell`), and says when it knows (`done`, `result`).

    Any batch size; feedback may come late, in parts and in any order, and from several threads. A call that fails (a
    policy raised, say) changes nothing, and may be made again. Subclasses say how to decide and how to learn;
    numbering, recognising duplicates, saving and loading are done here.

    Parameters
    ----------
    problem:
        The setting.
    policies:
        The candidates; for learners that say so, an oracle of a class that can only be reached through it.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    """

    FROM_TOTALS: ClassVar[bool] = False
    """Whether the learner can learn where only the total of a list is seen."""

    def __init__(self, problem: Problem, policies: PolicySet | Oracle, *, seed: Seed = 0) -> None:
        super().__init__()
        self.problem = check_problem(problem)
        if not self.FROM_TOTALS:
            check_itemised(problem, type(self).__name__)
        self._class = policies
        if isinstance(policies, PolicySet):
            policies.check(problem)
        elif not callable(getattr(policies, "fit", None)):
            raise InputError(f"policies must be a PolicySet or an oracle with fit, got {type(policies).__name__}.")
        self._rng = learner_generator(seed)
        self._ledger = Ledger()
        # The first few contexts: what policies say to them tells them apart.
        self._witnesses: tuple[Contexts, ...] = ()
        self._n_witnesses = 0
        self._testimony: tuple[int, NDArray[np.uint64]] | None = None  # of how many of them, and what was said

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the promise is kept, or the budget spent."""

    @abstractmethod
    def result(self) -> Selection:
        """The best policy so far, and what is known about it."""

    @abstractmethod
    def status(self) -> Status:
        """Where the learner stands now."""

    @property
    def policies(self) -> PolicySet:
        """The candidates."""
        if not isinstance(self._class, PolicySet):
            raise InputError("these policies are reached only through an oracle: they cannot be listed.")
        return self._class

    @property
    def rounds(self) -> int:
        """How many decisions have been answered."""
        return self._ledger.answered

    def ask(self, X: Contexts) -> Decisions:
        """A list for each context, with its propensities."""
        mine = private_contexts(X)
        prints = None if sealed(mine) else context_prints(mine)
        with self._lock:
            if self._torn:
                self._check_whole()
            self._prepare(asking=True)
            before, ledger = Checkpoint(self, *self._parts()), self._ledger
            issued, numbers = ledger.issued, self._rng.bit_generator.state
            try:
                decisions = self._decide(mine, issued)
                if self._n_witnesses < _WITNESSES and len(decisions):
                    some = np.arange(min(_WITNESSES - self._n_witnesses, len(decisions)))
                    self._witnesses = (*self._witnesses, take_contexts(mine, some))
                    self._n_witnesses += len(some)
                ledger.issue(decisions, prints)
            except BaseException:
                ledger.withdraw(issued)
                before.restore()
                self._rng.bit_generator.state = numbers
                raise
        return decisions

    def tell(self, decisions: Decisions, rewards: ArrayLike) -> Receipt:
        """The rewards (n, m) of the shown actions, or their totals (n,) if feedback is no more than that; decisions not
        yet answered may be told later, in any order.

        All of it is taken in or, if anything fails, nothing.
        """
        checked = read_only(self._check_rewards(rewards, len(check_decisions(decisions))))
        with self._lock:
            self._check_whole()
            self._prepare(asking=False)
            admission = self._ledger.admit(decisions, checked)
            rows = admission.rows
            before = Checkpoint(self, *self._parts())
            try:
                if len(rows):
                    whole = len(rows) == len(decisions)
                    told = Rounds._of_checked(decisions, checked)
                    self._learn(told if whole else told[rows])
                self._torn = True
                self._ledger.settle(admission)
                self._torn = False
            except BaseException:
                if not self._torn:
                    before.restore()
                    self._failed_to_learn(admission)
                raise
            self._conclude()
            return admission.receipt

    @alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state, but for the policies, to one npz file.

        The policies are asked for their lists on a few contexts, by which `load` knows them again.
        """
        if not isinstance(self._class, PolicySet):
            raise InputError("a learner whose policies come from an oracle cannot be saved: they are not in any list.")
        save(path, "learner", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], policies: PolicySet, **objects: Any) -> Self:
        """Go on where `save` stopped, with the same policies in the same order.

        `objects` are arguments of the constructor that are no plain values (guards, an exploration of your own): no
        file holds them, so give the same ones again.

        Policies that say otherwise than those of the save, on the contexts kept for that, are refused. (Contexts that
        cannot be saved, objects of your own, are not kept: then only names are compared.)
        """
        return load(path, "learner", lambda state: cls.from_state(state, policies, **objects))

    @alone
    def state(self) -> State:
        """All but the policies, for a file; see `comband.storage`."""
        return {
            "class": type(self).__name__,
            "problem": asdict(self.problem),
            "policies": list(self.policies.names),
            "witnesses": self._pack_witnesses(),
            "config": self._config(),
            "rng": self._rng.bit_generator.state,
            "ledger": self._ledger.state(),
            "learnt": self._state(),
        }

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, **objects: Any) -> Self:
        """The inverse of `state`, checked, with the same policies in the same order; `objects` as for `load`."""
        check(state, _SCHEMA)
        if state["class"] != cls.__name__:
            raise InputError(f"it holds a {state['class']}, not a {cls.__name__}.")
        if state["policies"] != list(policies.names):
            raise InputError("it was saved with other policies (names or order differ).")
        problem, config = Problem(**state["problem"]), state["config"]
        # Sizes are compared with what is there before room is made for them.
        check(
            state["learnt"],
            cls._SCHEMA,
            place="learnt",
            P=len(policies),
            K=problem.n_actions,
            m=problem.list_size,
        )
        try:
            inspect.signature(cls).bind(problem, policies, **{**config, **objects})
        except TypeError as error:
            raise InputError(f"its config does not make a {cls.__name__}: {error}.") from None
        require(not any(isinstance(value, np.ndarray) for value in config.values()), "its config must be plain values.")
        try:
            learner = cls(problem, policies, **{**config, **objects})
            require(
                json.dumps(learner._config(), sort_keys=True) == json.dumps(config, sort_keys=True),
                f"its config is not that of a {cls.__name__}.",
            )
            learner._hear_witnesses(state["witnesses"])
            learner._rng = restore_rng(state["rng"])
            learner._ledger = Ledger.from_state(state["ledger"])
            learner._restore(state["learnt"])
        except InputError:
            raise
        except Exception as error:  # policies are asked about what was seen, and may fail in any way
            raise InputError(
                f"its policies do not answer to what it has seen ({error or type(error).__name__})."
            ) from error
        return learner

    def _pack_witnesses(self) -> State:
        try:
            contexts = [pack_contexts(part) for part in self._witnesses]
        except InputError:
            contexts, witnesses = [], ()
        else:
            witnesses = self._witnesses
        if self._testimony is None or self._testimony[0] != len(witnesses):
            self._testimony = len(witnesses), _said(self.policies, witnesses, self.problem)
        return {"contexts": contexts, "lists": self._testimony[1]}

    def _hear_witnesses(self, state: State) -> None:
        check(state, _WITNESS_SCHEMA, place="witnesses", P=len(self.policies))
        self._witnesses = tuple(unpack_contexts(part) for part in state["contexts"])
        self._n_witnesses = sum(n_contexts(part) for part in self._witnesses)
        said = _said(self.policies, self._witnesses, self.problem)
        other = np.flatnonzero(said != state["lists"])
        if len(other):
            raise InputError(
                f"it was saved with other policies: {len(other):,} of {len(said):,} now show other lists to the "
                f"contexts kept for comparison, the first of them {self.policies.names[other[0]]!r}; give the same "
                "policies in the same order, each of which must always answer a context with the same list."
            )
        self._testimony = len(self._witnesses), said

    def _check_rewards(self, rewards: ArrayLike, n: int) -> NDArray[np.float64]:
        """What is told, as floats (n, m) that the problem allows; a total in equal parts."""
        if self.problem.feedback == "total":
            m = self.problem.list_size
            return np.repeat(check_totals(rewards, self.problem, n=n)[:, None] / m, m, axis=1)
        return check_rewards(rewards, self.problem, n=n)

    def _parts(self) -> tuple[object, ...]:
        """Objects of the learner's own whose attributes `_decide` and `_learn` replace."""
        return ()

    def _prepare(self, *, asking: bool) -> None:
        """Do what was put off, if it is needed now; when it fails the call fails, and nothing has changed."""

    def _conclude(self) -> None:
        """What may follow an update, or be put off."""

    def _failed_to_learn(self, admission: Admission) -> None:
        """Told when answers could not be taken in."""

    @abstractmethod
    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        """Draw lists for X, numbered from `first_id`. Attributes may be replaced but not altered; see `Atomic`."""

    @abstractmethod
    def _learn(self, rounds: Rounds) -> None:
        """Take in rounds that are answered for the first time; they are all as `ask` made them.

        Attributes may be replaced but not altered, until `_torn` is set; see `Atomic`.
        """

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """The constructor's arguments besides problem, policies and seed, fit for JSON."""

    _SCHEMA: ClassVar[dict[str, Any]]
    """What `_state` holds; P, K and m are the numbers of policies, of actions and of shown ones."""

    @abstractmethod
    def _state(self) -> State:
        """What was learnt."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """The inverse of `_state`, of which the schema has been compared; called when the ledger is in place."""


_WITNESSES = 16  # contexts on which policies are compared
_WITNESS_SCHEMA = {"contexts": Many(Part()), "lists": Array("u8", ("P",))}
_SCHEMA = {
    "class": Text(),
    "problem": PROBLEM,
    "policies": Many(Text()),
    "witnesses": Part(),
    "config": Part(),
    "rng": Part(),
    "ledger": Part(),
    "learnt": Part(),
}


def _said(policies: PolicySet, batches: Sequence[Contexts], problem: Problem) -> NDArray[np.uint64]:
    """A print (P,) of the lists that each policy shows to some contexts."""
    prints = np.zeros(len(policies), dtype=np.uint64)
    step = max(1, BLOCK // (len(policies) * problem.list_size))
    for X in batches:
        for start in range(0, n_contexts(X), step):
            lists = policies.predict(take_contexts(X, slice(start, start + step)), problem=problem)
            rows = lists.transpose(1, 0, 2).reshape(len(policies), -1)
            prints = int_prints(np.column_stack([prints.view(np.int64), rows]))
    return prints


_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


def restore_rng(state: State) -> np.random.Generator:
    """A generator of numpy's that goes on where `state` was taken."""
    kind = _GENERATORS.get(str(state.get("bit_generator")))
    if kind is None:
        raise InputError(f"the saved random generator {state.get('bit_generator')!r} is not one of numpy's.")
    bits: Any = kind()
    try:
        bits.state = state
        # An increment that is even makes streams that repeat, up to one that only gives zeros.
        same = repr(_plain(bits.state)) == repr(_plain(state)) and bits.state["state"].get("inc", 1) % 2 == 1
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        same = False
    if not same:
        raise InputError("the saved state of the random generator is not one that it can have.")
    return np.random.Generator(bits)


def _plain(value: Any) -> str:
    """A generator's state as text, in which 1 and 1.0 differ."""
    return json.dumps(value, sort_keys=True, default=np.ndarray.tolist)
