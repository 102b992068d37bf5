"""A learner of one's own from two verbs: `choose` draws lists, `update` learns from answers; the rest is done here."""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.learners.atomic import synchronized
from comband.learners.base import Seed
from comband.learners.selector import Selector
from comband.page.contexts import Contexts, n_contexts
from comband.page.lists import check_lists, check_propensities
from comband.page.problem import InputError, Problem, check_count
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Array, Part, State, Whole
from comband.policies.policy_set import PolicySet, check_policies
from comband.statistics.importance import ValueSums
from comband.statistics.results import Selection, Status

_VERBS = {
    "choose": "def choose(self, X, rng): return lists (n, m) for the contexts X, and the propensity of each shown item",
    "update": "def update(self, rounds): learn from rounds.rewards (n, m) and rounds.decisions",
}


class CustomLearner(Selector):
    """A learner that a subclass completes by two methods, `choose` and `update`.

    Done here: numbering and recognising decisions, late, repeated and partial answers, threads, `done`, `status`,
    `result`, saving and loading. A call of either method that fails changes nothing: both work on copies of the
    subclass's attributes.

    A constructor of one's own keeps each of its further arguments under the argument's name, as plain values; every
    other attribute that it sets is what was learnt, and is saved: arrays, numbers, text, None, and lists and dicts of
    these. Both kinds are saved and restored by name.

    Nothing is promised of the candidate in `result`, the one of highest importance-weighted reward.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    horizon:
        After how many answered rounds it is done; None for never.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> import numpy as np
    >>> import comband as cb
    >>> class Follow(cb.learners.CustomLearner):
    ...     "The list of the candidate that has collected most, or one in ten times a uniform one."
    ...
    ...     def __init__(self, problem, policies, *, horizon=None, seed=0):
    ...         super().__init__(problem, policies, horizon=horizon, seed=seed)
    ...         self.totals = np.zeros(len(policies))
    ...
    ...     def choose(self, X, rng):
    ...         leader = np.eye(len(self.totals))[self.totals.argmax()]
    ...         drawn = cb.Mixture(self.policies, leader, problem=self.problem, floor=0.1).draw(X, rng)
    ...         return drawn.lists, drawn.propensities
    ...
    ...     def update(self, rounds):
    ...         self.totals += self.gains(rounds)
    ...
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> outcome = cb.run(Follow(problem, shop.candidates(4, seed=2), horizon=2000), shop, batch_size=100)
    >>> outcome.result.rounds
    2000
    """

    PROMISES_NOTHING: ClassVar[str] = "no bound is known of this learner"
    """Why nothing is promised of the candidate in `result`."""

    def __init__(self, problem: Problem, policies: PolicySet, *, horizon: int | None = None, seed: Seed = 0) -> None:
        own = frozenset(vars(self))
        lacks = [verb for verb in _VERBS if getattr(type(self), verb) is getattr(CustomLearner, verb)]
        if lacks:
            raise InputError(
                f"{type(self).__name__} lacks {' and '.join(lacks)}. Write "
                f"{'; and '.join(_VERBS[verb] for verb in lacks)}."
            )
        super().__init__(problem, check_policies(policies), seed=seed)
        self.horizon = None if horizon is None else check_count("horizon", horizon)
        self._totals = np.zeros(len(policies))
        self._updates = 0
        self._weighed: tuple[Rounds, NDArray[np.float64]] | None = None
        self._not_own = frozenset([*vars(self), "_not_own"]) - own

    def choose(self, X: Contexts, rng: np.random.Generator) -> tuple[Any, Any]:
        """Lists (n, m) for the n contexts, and the probability (n, m) with which each shown item is in its list.

        All randomness must come from `rng`, which is saved with the learner.
        """
        raise NotImplementedError

    def update(self, rounds: Rounds) -> None:
        """Take in rounds that are answered for the first time: `rounds.rewards` (n, m) and `rounds.decisions`."""
        raise NotImplementedError

    def gains(self, rounds: Rounds) -> NDArray[np.float64]:
        """(P,) estimates of what each candidate would have collected in these rounds, by importance weights; unbiased
        if every item of every candidate's list could be shown.

        Candidates are asked for their lists in rewarded rounds only, once for each tell.
        """
        if self._weighed is None or self._weighed[0] is not rounds:
            self._weighed = rounds, ValueSums.from_events(rounds.events(), self.policies).sums
        return self._weighed[1].copy()

    @property
    def done(self) -> bool:
        """Whether the horizon is played out."""
        return self.horizon is not None and self.rounds >= self.horizon

    @synchronized
    def result(self) -> Selection:
        """The candidate of highest importance-weighted reward; nothing is promised."""
        return self._by_totals(self._totals, max(self.rounds, 1), why=self.PROMISES_NOTHING)

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now."""
        return Status(self.rounds, self.policies.names[self._ranked(self._totals)[0]], len(self.policies))

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        self._work_on_copies()
        n, shape = n_contexts(X), (n_contexts(X), self.problem.list_size)
        chosen = self.choose(X, self._rng)
        if not isinstance(chosen, tuple) or len(chosen) != 2:
            raise InputError(
                f"choose must return two arrays, lists {shape} and their propensities {shape}, got "
                f"{type(chosen).__name__}."
            )
        lists = np.array(check_lists(chosen[0], self.problem, n=n))
        propensities = np.array(check_propensities(chosen[1], shape=lists.shape))
        return Decisions.unsigned(first_id, lists, propensities, epoch=self._updates, contexts=X)

    def _learn(self, rounds: Rounds) -> None:
        self._work_on_copies()
        self._totals = self._totals + self.gains(rounds)
        self.update(rounds)
        self._updates += 1
        self._weighed = None

    def _work_on_copies(self) -> None:
        """Replace what was learnt by copies: what fails goes back to the attributes as they were (see `Atomic`)."""
        for name, value in self._learnt().items():
            setattr(self, name, copy.deepcopy(value))

    def _learnt(self) -> dict[str, Any]:
        """The subclass's attributes besides the constructor's arguments."""
        fixed = {*self._not_own, *self._arguments()}
        return {name: value for name, value in vars(self).items() if name not in fixed}

    @classmethod
    def _arguments(cls) -> list[str]:
        """The constructor's arguments that a file holds."""
        return [name for name in inspect.signature(cls).parameters if name not in ("problem", "policies", "seed")]

    def _config(self) -> dict[str, Any]:
        missing = [name for name in self._arguments() if not hasattr(self, name)]
        if missing:
            raise InputError(
                f"{type(self).__name__} cannot be saved: its constructor takes {', '.join(missing)} but keeps no "
                f"attribute of that name; write self.{missing[0]} = {missing[0]}."
            )
        return {name: _plain(getattr(self, name), name, arrays=False) for name in self._arguments()}

    _SCHEMA: ClassVar = {"totals": Array("f8", ("P",), 0), "updates": Whole(0), "attributes": Part()}

    def _state(self) -> State:
        attributes = {name: _plain(value, name) for name, value in self._learnt().items()}
        return {"totals": self._totals, "updates": self._updates, "attributes": attributes}

    def _restore(self, state: State) -> None:
        self._totals, self._updates = state["totals"], state["updates"]
        fresh, saved = self._learnt(), state["attributes"]
        unknown = sorted(saved.keys() - fresh.keys())
        if unknown:
            raise InputError(
                f"it holds {', '.join(unknown)[:200]}, which the constructor of {type(self).__name__} does not set."
            )
        for name, value in saved.items():
            made = _plain(fresh[name], name)
            if made is not None and _kind(value) != _kind(made):
                raise InputError(f"its {name} must be {_kind(made)}, as the constructor makes it, got {_kind(value)}.")
            setattr(self, name, value)


def _plain(value: Any, name: str, *, arrays: bool = True) -> Any:
    """A value as files hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and arrays and not value.dtype.hasobject:
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(part, name, arrays=arrays) for part in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(part, name, arrays=arrays) for key, part in value.items()}
    held = "arrays, numbers, text, None, and lists and dicts of these" if arrays else "plain values"
    raise InputError(f"the attribute {name} cannot be saved: files hold {held}, got {type(value).__name__}.")


def _kind(value: Any) -> str:
    """What a value is, for comparison with another: numbers are alike, arrays by type and number of axes."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with {value.ndim} axes"
    return "a number" if isinstance(value, (bool, int, float)) else type(value).__name__
