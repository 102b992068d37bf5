"""The protocol of every learner: ask, tell, done, result; and saving and resuming in the middle."""

from __future__ import annotations

import inspect
import json
import math
import os
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from comband.contexts import Contexts, context_prints, private_contexts
from comband.learners.ledger import Ledger, Receipt
from comband.oracles.base import Oracle
from comband.policies.base import Policy
from comband.policies.policy_set import PolicySet
from comband.problem import InputError, Problem, check_problem, check_rewards, learner_generator
from comband.rounds import Decisions, Rounds, read_only
from comband.storage import PROBLEM, Many, Part, State, Text, check, load, require, save
from comband.text import visible

Seed = int | np.random.SeedSequence | np.random.Generator


WARNING = "WARNING, do not rely on this result before you know why"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate's estimated value with its interval.

    A weighted mean may come out where no value can be, above ρ say: the nearest point of the interval takes its place.
    """

    index: int
    name: str
    value: float
    interval: tuple[float, float]

    def __post_init__(self) -> None:
        low, high = self.interval
        object.__setattr__(self, "value", min(max(self.value, low), high))

    def __str__(self) -> str:
        return f"{visible(self.name)}: {self.value:.4g} in [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer: a policy, and what is promised about it.

    With probability 1 − delta, no candidate's value exceeds the selected one's by more than `epsilon`.
    `guarantee` says in a sentence which bound that rests on; `notes` hold whatever a reader should know. `warnings` are
    signs that what the promise rests on does not hold: as text they come first.
    """

    policy: Policy
    best: Candidate
    epsilon: float
    delta: float
    rounds: int
    runners_up: tuple[Candidate, ...]
    guarantee: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

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
            *(f"{WARNING}: {text}" for text in self.warnings),
            f"{self.best}",
            f"  within {self.epsilon:.4g} of the best candidate with probability {1 - self.delta:g} "
            f"({self.guarantee}), after {self.rounds:,} rounds",
        ]
        lines += [f"  next: {candidate}" for candidate in self.runners_up]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


# What learners say in whose rounds no guard looks for broken assumptions.
UNWATCHED = (
    "nothing watched whether propensities were right, answers were lost selectively or the world changed; the "
    "certifying learners (AdaptiveComband) do"
)
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
        leader = f"{visible(self.leader)} leads" if self.leader else "no leader yet"
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
        self.problem = check_problem(problem)
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
        mine = private_contexts(X)
        prints = context_prints(mine)
        decisions = self._decide(mine, self._ledger.issued)
        self._ledger.issue(decisions, prints)
        return decisions

    def tell(self, decisions: Decisions, rewards: ArrayLike) -> Receipt:
        """The rewards (n, m) of the shown actions; decisions not yet answered may be told later, in any order."""
        checked = read_only(check_rewards(rewards, self.problem, n=len(decisions)))
        admission = self._ledger.admit(decisions, checked)
        rows = admission.rows
        if len(rows):
            whole = len(rows) == len(decisions)
            self._learn(Rounds(decisions, checked) if whole else Rounds(decisions[rows], checked[rows]))
        self._ledger.settle(admission)
        return admission.receipt

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state, but for the policies, to one npz file."""
        if not isinstance(self._class, PolicySet):
            raise InputError("a learner whose policies come from an oracle cannot be saved: they are not in any list.")
        save(path, "learner", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], policies: PolicySet) -> Self:
        """Go on where `save` stopped, with the same policies in the same order."""
        return load(path, "learner", lambda state: cls.from_state(state, policies))

    def state(self) -> State:
        """All but the policies, for a file; see `comband.storage`."""
        return {
            "class": type(self).__name__,
            "problem": asdict(self.problem),
            "policies": list(self.policies.names),
            "config": self._config(),
            "rng": self._rng.bit_generator.state,
            "ledger": self._ledger.state(),
            "learnt": self._state(),
        }

    @classmethod
    def from_state(cls, state: State, policies: PolicySet) -> Self:
        """The inverse of `state`, checked, with the same policies in the same order."""
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
        unknown = config.keys() - inspect.signature(cls).parameters.keys()
        require(not unknown, f"a {cls.__name__} has no {', '.join(sorted(unknown))}.")
        try:
            learner = cls(problem, policies, **config)
            require(
                json.dumps(learner._config(), sort_keys=True) == json.dumps(config, sort_keys=True),
                f"its config is not that of a {cls.__name__}.",
            )
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

    @abstractmethod
    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        """Draw lists for X, numbered from `first_id`."""

    @abstractmethod
    def _learn(self, rounds: Rounds) -> None:
        """Take in rounds that are answered for the first time."""

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


_SCHEMA = {
    "class": Text(),
    "problem": PROBLEM,
    "policies": Many(Text()),
    "config": Part(),
    "rng": Part(),
    "ledger": Part(),
    "learnt": Part(),
}


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
        same = _plain(bits.state) == _plain(state) and bits.state["state"].get("inc", 1) % 2 == 1
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        same = False
    if not same:
        raise InputError("the saved state of the random generator is not one that it can have.")
    return np.random.Generator(bits)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value
