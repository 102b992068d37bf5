"""The protocol of every learner: ask, tell, done, result; and saving and resuming in the middle."""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.contexts import Contexts, n_contexts
from comband.learners.ledger import Ledger, Receipt
from comband.oracles.base import Oracle
from comband.policies.base import Policy
from comband.policies.policy_set import PolicySet
from comband.problem import InputError, Problem, check_rewards, learner_generator
from comband.rounds import Decisions, Rounds, read_only
from comband.storage import read_npz, write_npz

Seed = int | np.random.SeedSequence | np.random.Generator


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate's estimated value with its interval."""

    index: int
    name: str
    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return f"{self.name}: {self.value:.4g} in [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer: a policy, and what is promised about it.

    With probability 1 − delta, no candidate's value exceeds the selected one's by more than `epsilon`.
    `guarantee` says in a sentence which bound that rests on; `notes` hold whatever a reader should know.
    """

    policy: Policy
    best: Candidate
    epsilon: float
    delta: float
    rounds: int
    runners_up: tuple[Candidate, ...]
    guarantee: str
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The selected candidate's name."""
        return self.best.name

    @property
    def index(self) -> int:
        """The selected candidate's number."""
        return self.best.index

    @property
    def value(self) -> float:
        """The selected candidate's estimated value: expected reward a round."""
        return self.best.value

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of that value."""
        return self.best.interval

    def __str__(self) -> str:
        lines = [
            f"{self.best}",
            f"  within {self.epsilon:.4g} of the best candidate with probability {1 - self.delta:g} "
            f"({self.guarantee}), after {self.rounds:,} rounds",
        ]
        lines += [f"  next: {candidate}" for candidate in self.runners_up]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


# What learners that take rounds as they are answered say while older decisions are open: those that are answered may be
# no sample of all (clicks are often told first), so nothing can be promised.
OUT_OF_ORDER = "none: older decisions are still without answer, and those answered first may be no fair sample"
ANSWER_THEM = "tell the open decisions too (zeros for those that stay without answer) to have a guarantee"


@dataclass(frozen=True, slots=True)
class Status:
    """Where a learner stands: for progress bars and histories; as text, for a person at a terminal.

    `forecast` is a rough guess of the rounds still needed; infinity when there is no sign of an end.
    `max_reward` is the most a round can bring: an epsilon that large says nothing.
    """

    rounds: int
    leader: str
    epsilon: float
    survivors: int
    forecast: float = math.inf
    max_reward: float = 1.0

    def __str__(self) -> str:
        leader = f"{self.leader} leads" if self.leader else "no leader yet"
        known = f"epsilon {self.epsilon:.3g}" if self.epsilon < self.max_reward else "no epsilon yet"
        return f"{leader} after {self.rounds:,} rounds, {self.survivors:,} candidates\n  {known}{self._to_go()}"

    def _to_go(self) -> str:
        return f", roughly {rough(self.forecast)} rounds to go" if 0 < self.forecast < math.inf else ""


def rough(number: float) -> str:
    """A guess should not look exact: two digits.

    >>> rough(12_345)
    '12,000'
    """
    return f"{float(f'{number:.2g}'):,.0f}"


class Learner(ABC):
    """Decides what to show (`ask`), takes in what came back (`tell`), and says when it knows (`done`, `result`).

    Any batch size; feedback may come late, in parts and in any order. Subclasses say how to decide and how to learn;
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

    def __init__(self, problem: Problem, policies: PolicySet | Oracle, *, seed: Seed = 0) -> None:
        self.problem = problem
        self._class = policies
        if isinstance(policies, PolicySet):
            policies.check(problem)
        elif not callable(getattr(policies, "fit", None)):
            raise InputError(f"policies must be a PolicySet or an oracle with fit, got {type(policies).__name__}.")
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
        n_contexts(X)
        decisions = self._decide(X, self._ledger.issued)
        self._ledger.issue(decisions)
        return decisions

    def tell(self, decisions: Decisions, rewards: ArrayLike) -> Receipt:
        """The rewards (n, m) of the shown actions; decisions not yet answered may be told later, in any order."""
        checked = read_only(check_rewards(rewards, self.problem, n=len(decisions)))
        accepted, receipt = self._ledger.admit(decisions, checked)
        if len(accepted) == len(decisions) > 0:
            self._learn(Rounds(decisions, checked))
        elif len(accepted):
            self._learn(Rounds(decisions[accepted], checked[accepted]))
        return receipt

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state, but for the policies, to one npz file."""
        if not isinstance(self._class, PolicySet):
            raise InputError("a learner whose policies come from an oracle cannot be saved: they are not in any list.")
        state = {f"state.{name}": array for name, array in self._state().items()}
        ledger = {f"ledger.{name}": array for name, array in self._ledger.pack().items()}
        header = {
            "class": type(self).__name__,
            "problem": asdict(self.problem),
            "policies": list(self.policies.names),
            "config": self._config(),
            "rng": self._rng.bit_generator.state,
        }
        write_npz(path, "learner", {"header": np.asarray(json.dumps(header)), **ledger, **state})

    @classmethod
    def load(cls, path: str | os.PathLike[str], policies: PolicySet) -> Self:
        """Go on where `save` stopped, with the same policies in the same order."""
        arrays = read_npz(path, "learner")
        header = json.loads(str(arrays.pop("header")))
        if header["class"] != cls.__name__:
            raise InputError(f"{path} holds a {header['class']}, not a {cls.__name__}.")
        if header["policies"] != list(policies.names):
            raise InputError(f"{path} was saved with other policies (names or order differ).")
        learner = cls(Problem(**header["problem"]), policies, **header["config"])
        learner._rng = restore_rng(header["rng"])
        learner._ledger = Ledger.unpack(with_prefix(arrays, "ledger."))
        learner._restore(with_prefix(arrays, "state."))
        return learner

    @abstractmethod
    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        """Draw lists for X, numbered from `first_id`."""

    @abstractmethod
    def _learn(self, rounds: Rounds) -> None:
        """Take in rounds that are answered for the first time."""

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """The constructor's arguments besides problem, policies and seed, fit for JSON."""

    @abstractmethod
    def _state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as plain arrays."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of `_state`."""


def with_prefix(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def restore_rng(state: dict[str, Any]) -> np.random.Generator:
    """A generator of numpy's that goes on where `state` was taken."""
    kind = getattr(np.random, str(state.get("bit_generator")), None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise InputError(f"the saved random generator {state.get('bit_generator')!r} is not one of numpy's.")
    bits = kind()
    bits.state = state
    return np.random.Generator(bits)
