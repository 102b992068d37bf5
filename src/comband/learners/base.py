"""The protocol of every learner: ask, tell, done, status, result; and saving and resuming in the middle."""

from __future__ import annotations

import inspect
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.learners.atomic import Atomic, Checkpoint, synchronized
from comband.learners.ledger import Admission, Ledger
from comband.page.contexts import (
    Contexts,
    context_digests,
    private_contexts,
    sealed,
)
from comband.page.lists import check_rewards, check_totals
from comband.page.problem import (
    InputError,
    Problem,
    check_itemised,
    check_problem,
    learner_generator,
    saved_problem,
)
from comband.page.rounds import Decisions, Rounds, check_decisions, read_only
from comband.page.storage import PROBLEM, Part, State, Text, check, load, require, save
from comband.policies.reading import reading_of
from comband.statistics.results import Receipt, Selection, Status

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
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.1, seed=3)
    >>> isinstance(learner, cb.Learner)
    True
    >>> visitors = shop.sample(100, np.random.default_rng(4))
    >>> decisions = learner.ask(visitors.contexts)
    >>> learner.tell(decisions, visitors.answer(decisions.lists)).accepted
    100
    >>> learner.rounds, learner.done
    (100, False)
    """

    KNOWS_PLACES: ClassVar[bool] = False
    """Whether the learner takes problems in which places matter."""

    KNOWS_ORDER: ClassVar[bool] = False
    """Whether the learner can show lists in natural order."""

    FROM_TOTALS: ClassVar[bool] = False
    """Whether the learner can learn where only the total of a list is seen."""

    def __init__(self, problem: Problem, *, seed: Seed = 0) -> None:
        super().__init__()
        self.problem = check_problem(problem, places=self.KNOWS_PLACES)
        if reading_of(problem).natural and not self.KNOWS_ORDER:
            raise InputError(
                f"{type(self).__name__} does not show lists in natural order: its promise was proved for other ones; "
                "leave order out, or use AdaptiveComband, UniformMixture, UniformLists, TwoPhaseComband or PacComband."
            )
        if not self.FROM_TOTALS:
            check_itemised(problem, type(self).__name__)
        self._rng = learner_generator(seed)
        self._ledger = Ledger()

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

    def progress(self) -> Status:
        """The same without the verdict, where that takes longer: for every batch of a run."""
        return self.status()

    @property
    def rounds(self) -> int:
        """How many rounds count so far: decisions that were answered; of a certifying learner, those in its evidence,
        which are answered, or overdue and without reward, and so is every one before them.
        """
        return self._ledger.answered

    @property
    def decisions_left(self) -> int | None:
        """How many more decisions its budget allows, at least 0; None where there is none, or none that counts
        decisions.
        """
        return None

    def ask(self, X: Contexts) -> Decisions:
        """A list for each context, with its propensities."""
        mine = private_contexts(self._check_contexts(X))
        digests = None if sealed(mine) else context_digests(mine)
        with self._lock:
            if self._corrupt:
                self._check_whole()
            self._prepare()
            before, ledger = Checkpoint(self, *self._parts(asking=True)), self._ledger
            issued, numbers = ledger.issued, self._rng.bit_generator.state
            try:
                decisions = self._decide(mine, issued)
                self._issue(decisions)
                ledger.issue(decisions, digests)
                self._issued()
                self._corrupt = False
            except BaseException:
                if not self._corrupt:
                    ledger.withdraw(issued)
                    before.restore()
                    self._rng.bit_generator.state = numbers
                raise
        return decisions

    def tell(self, decisions: Decisions, rewards: ArrayLike | None = None, **metrics: ArrayLike) -> Receipt:
        """The rewards (n, m) of the shown actions, or their totals (n,) if feedback is no more than that, and by their
        names the values (n, m) of further metrics, if any were declared; decisions not yet answered may be told later,
        in any order, and where there are metrics each part of an answer when it is known.

        All of it is taken in or, if anything fails, nothing.
        """
        n = len(check_decisions(decisions))
        told = {part: read_only(values) for part, values in self._check_told(rewards, metrics, n).items()}
        with self._lock:
            self._check_whole()
            ledger = self._ledger
            admission = ledger.admit(decisions, told[0]) if ledger.n_parts == 1 else ledger.admit_parts(decisions, told)
            rows = admission.rows
            before = Checkpoint(self, *self._parts())
            try:
                if len(rows):
                    rounds = {part: Rounds._of_checked(decisions, values) for part, values in told.items()}
                    of_parts = admission.parts or {0: rows}
                    whole = len(decisions)
                    self._take_in(
                        {
                            part: rounds[part] if len(mine) == whole else rounds[part][mine]
                            for part, mine in of_parts.items()
                        }
                    )
                self._corrupt = True
                self._ledger.settle(admission)
                self._corrupt = False
            except BaseException:
                if not self._corrupt:
                    before.restore()
                    self._failed_to_learn(admission)
                raise
            self._conclude()
            return admission.receipt

    @synchronized
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to one npz file."""
        save(path, "learner", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *given: Any, **objects: Any) -> Self:
        """Go on where `save` stopped.

        `given` and `objects` are those arguments of the constructor that are no plain values (policies, a classifier,
        guards, an exploration of your own): no file holds them, so give the same ones again.
        """
        return load(path, "learner", lambda state: cls.from_state(state, *given, **objects))

    @synchronized
    def state(self) -> State:
        """All that a file holds; see `comband.page.storage`."""
        return {
            "class": type(self).__name__,
            "problem": asdict(self.problem),
            "config": self._config(),
            "rng": self._rng.bit_generator.state,
            "ledger": self._ledger.state(),
            "learnt": self._state(),
        }

    @classmethod
    def from_state(cls, state: State, *given: Any, **objects: Any) -> Self:
        """The inverse of `state`, checked; `given` and `objects` as for `load`."""
        check(state, cls._FILE)
        if state["class"] != cls.__name__:
            raise InputError(f"it holds a {state['class']}, not a {cls.__name__}.")
        problem, config = saved_problem(state["problem"]), state["config"]
        # Sizes are compared with what is there before room is made for them.
        sizes = {"K": problem.n_actions, "m": problem.list_size, **cls._sizes(*given)}
        check(state["learnt"], cls._SCHEMA, place="learnt", **sizes)
        try:
            inspect.signature(cls).bind(problem, *given, **{**config, **objects})
        except TypeError as error:
            raise InputError(f"its config does not make a {cls.__name__}: {error}.") from None
        require(not any(isinstance(value, np.ndarray) for value in config.values()), "its config must be plain values.")
        try:
            learner = cls(problem, *given, **{**config, **objects})
            # Settings that a file from before does not have took their defaults.
            made = {name: value for name, value in learner._config().items() if name in config}
            require(
                json.dumps(made, sort_keys=True) == json.dumps(config, sort_keys=True),
                f"its config is not that of a {cls.__name__}.",
            )
            learner._recognise(state)
            learner._rng = restore_rng(state["rng"])
            learner._ledger = Ledger.from_state(state["ledger"], learner._ledger.n_parts)
            learner._restore(state["learnt"])
        except InputError:
            raise
        except Exception as error:  # policies are asked about what was seen, and may fail in any way
            raise InputError(
                f"what it was given does not answer to what it has seen ({error or type(error).__name__})."
            ) from error
        return learner

    def _check_contexts(self, X: Contexts) -> Contexts:
        """What is asked about, in a form that the learner takes."""
        return X

    def _check_rewards(self, rewards: ArrayLike, n: int) -> NDArray[np.float64]:
        """What is told, as floats (n, m) that the problem allows; a total in equal parts."""
        if reading_of(self.problem).TOTAL:
            m = self.problem.list_size
            return np.repeat(check_totals(rewards, self.problem, n=n)[:, None] / m, m, axis=1)
        return check_rewards(rewards, self.problem, n=n)

    def _check_told(
        self, rewards: ArrayLike | None, metrics: Mapping[str, ArrayLike], n: int
    ) -> dict[int, NDArray[np.float64]]:
        """What is told, by part: 0 for rewards, and from 1 on the metrics as they were declared."""
        if metrics:
            raise InputError(
                f"{type(self).__name__} learns from rewards alone, and was told {', '.join(metrics)} too: leave that "
                "out, or declare metrics=[…] of a certifying learner."
            )
        if rewards is None:
            raise InputError("tell the rewards of the shown actions too: tell(decisions, rewards).")
        return {0: self._check_rewards(rewards, n)}

    def _issue(self, decisions: Decisions) -> None:
        """Told what is about to be given out."""

    def _issued(self) -> None:
        """Told when it is in the ledger; as `_learn` it may set `_corrupt` when nothing can fail any more."""

    def _parts(self, *, asking: bool = False) -> tuple[object, ...]:
        """Objects of the learner's own whose attributes `_decide` (asking) or `_learn` replaces."""
        return ()

    def _prepare(self) -> None:
        """What comes before decisions are made; when it fails the call fails, and nothing has changed."""

    def _conclude(self) -> None:
        """What may follow an update, or be put off until decisions are asked for."""

    def _failed_to_learn(self, admission: Admission) -> None:
        """Told when answers could not be taken in."""

    @abstractmethod
    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        """Draw lists for X, numbered from `first_id`. Attributes may be replaced but not altered; see `Atomic`."""

    @abstractmethod
    def _learn(self, rounds: Rounds) -> None:
        """Take in rounds that are answered for the first time; they are all as `ask` made them.

        Attributes may be replaced but not altered, until `_corrupt` is set; see `Atomic`.
        """

    def _take_in(self, told: Mapping[int, Rounds]) -> None:
        """`_learn`; where metrics were declared there are rounds for each part that was told, with the values of a
        metric for rewards.
        """
        self._learn(told[0])

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """The constructor's arguments besides the problem, the seed and what no file holds, fit for JSON."""

    _FILE: ClassVar[dict[str, Any]] = {
        "class": Text(),
        "problem": PROBLEM,
        "config": Part(),
        "rng": Part(),
        "ledger": Part(),
        "learnt": Part(),
    }
    """What `state` holds."""

    _SCHEMA: ClassVar[dict[str, Any]]
    """What `_state` holds; K and m are the numbers of actions and of shown ones, others those of `_sizes`."""

    @classmethod
    def _sizes(cls, *given: Any) -> dict[str, int]:
        """Sizes that follow from what no file holds."""
        return {}

    def _recognise(self, state: State) -> None:
        """See that what was given is what the file was saved with."""

    @abstractmethod
    def _state(self) -> State:
        """What was learnt."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """The inverse of `_state`, of which the schema has been compared; called when the ledger is in place."""


_VERBS = ("problem", "ask", "tell", "done", "rounds", "decisions_left", "status", "result")


def check_learner(value: Any) -> Learner:
    """Return `value` if it has what every learner has."""
    missing = [name for name in _VERBS if not hasattr(value, name)]
    if missing:
        raise InputError(
            f"a learner offers {', '.join(_VERBS)}, but {type(value).__name__} lacks {', '.join(missing)}; subclass "
            "comband.learners.CustomLearner, which has all of them and needs choose and update."
        )
    checked: Learner = value
    return checked


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
