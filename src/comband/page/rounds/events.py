"""What mattered: the positive rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import valid_events
from comband.page.contexts import Contexts, PackedContexts, concat_contexts, n_contexts, take_contexts
from comband.page.lists import refuse_placements, refuse_propensities, refuse_rewards
from comband.page.problem import SMALLEST_PROPENSITY, SMALLEST_REWARD, TOLERANCE, InputError, Problem, check_count
from comband.page.rounds.columns import ALL, EMPTY, fill, freeze, joined_placements, without_checks
from comband.page.storage import Array, Default, Maybe, Saved, State, Whole, require

_MOST_SLOTS = 10_000.0  # no page has more, and so no divisor of conditional propensities is larger


@dataclass(frozen=True, eq=False, slots=True)
class Events(Saved):
    """The positive rewards of `n_rounds` rounds: C rewarded rounds with their contexts, E ≥ C events in them.

    Event e says: in rewarded round `rows[e]`, `actions[e]` was shown with probability `propensities[e]` and
    answered with `rewards[e]` > 0. Rounds without reward survive only in `n_rounds`. `rows` ascend. `epochs`, `covered`
    and `arms` are those of the rewarded rounds' decisions.

    Where a log holds conditional propensities only, `propensities` are the divisors of
    `comband.evaluation.logs.sequential_propensities`, which may exceed 1 (but not the number of slots).

    Parameters
    ----------
    ids:
        (C,) the rewarded rounds' numbers.
    placements:
        (E, m) the probability of each event's item in each place, as in its decision; None (left out) where lists were
        in random order.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> events = rounds.events()
    >>> events.n_rounds, events.n_rewarded
    (4, 3)
    >>> events.actions.tolist(), events.rewards.tolist()
    ([0, 3, 3], [1.0, 1.0, 1.0])
    >>> (events + events).n_rounds
    8
    """

    n_rounds: int
    ids: NDArray[np.int64]
    epochs: NDArray[np.int64]
    contexts: Contexts
    rows: NDArray[np.int64]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]
    propensities: NDArray[np.float64]
    covered: NDArray[np.bool_] = field(default_factory=lambda: ALL)
    arms: NDArray[np.int64] = field(default_factory=lambda: EMPTY)
    placements: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        freeze(self)
        object.__setattr__(self, "n_rounds", check_count("n_rounds", self.n_rounds, least=0))
        n_events, n_rewarded = self.rows.size, self.ids.size
        fill(self, n_rewarded)
        of_events = (self.rows, self.actions, self.rewards, self.propensities)
        of_rounds = (self.ids, self.epochs, self.covered, self.arms)
        if any(column.shape != (n_events,) for column in of_events) or any(c.shape != (n_rewarded,) for c in of_rounds):
            raise InputError("events need one row, action, reward and propensity each, and ids and epochs per round.")
        if n_contexts(self.contexts) != n_rewarded:
            raise InputError(f"events need one context for each of the {n_rewarded} rewarded rounds.")
        self._check_numbers()
        if self.placements is not None:
            if self.placements.ndim != 2 or len(self.placements) != n_events:
                raise InputError(f"events need probabilities of places (E, m), got {self.placements.shape}.")
            refuse_placements(self.placements, self.propensities)

    def _check_numbers(self) -> None:
        if not valid_events(
            self.rows,
            self.n_rewarded,
            self.actions,
            self.rewards,
            self.propensities,
            SMALLEST_REWARD,
            SMALLEST_PROPENSITY,
            _MOST_SLOTS,
        ):
            self._refuse()

    def _refuse(self) -> None:
        """Say what is wrong with the events."""
        refuse_rewards(self.rewards)
        refuse_propensities(self.propensities, largest=_MOST_SLOTS)
        if (self.rewards == 0).any():
            raise InputError("events are positive rewards, got one of 0; leave it out.")
        if (self.actions < 0).any():
            raise InputError(f"actions must not be negative, got {self.actions.min()}.")
        raise InputError(f"rows of events must ascend within 0 … {self.n_rewarded - 1}, the rewarded rounds.")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_rewarded(self) -> int:
        """C, how many of the rounds had any reward."""
        return len(self.ids)

    def __add__(self, other: Events) -> Events:
        return Events.join([self, other])

    def taken(self, rewarded: NDArray[np.int64], rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> Events:
        """Some rewarded rounds, and the `chosen` events in them, which stand in `rows` of these; of `n_rounds`
        nothing.
        """
        return without_checks(
            Events,
            n_rounds=0,
            ids=self.ids[rewarded],
            epochs=self.epochs[rewarded],
            contexts=take_contexts(self.contexts, rewarded),
            rows=rows,
            actions=self.actions[chosen],
            rewards=self.rewards[chosen],
            propensities=self.propensities[chosen],
            covered=self.covered[rewarded],
            arms=self.arms[rewarded],
            placements=None if self.placements is None else self.placements[chosen],
        )

    def with_propensities(self, propensities: NDArray[np.float64]) -> Events:
        """The same events with other propensities, checked; of `n_rounds` nothing."""
        columns = {name: getattr(self, name) for name in (*_JOINED, "rows", "contexts", "placements")}
        columns["propensities"] = np.array(propensities, dtype=np.float64)
        events = without_checks(Events, n_rounds=0, **columns)
        events._check_numbers()
        return events

    @classmethod
    def join(cls, parts: Sequence[Events]) -> Events:
        """All parts, one after the other."""
        # An empty part may be of another context kind (no context was ever seen): it only adds its rounds.
        kept = [e.contexts for e in parts if e.n_rewarded] or [parts[0].contexts]
        shifts = np.cumsum([0, *(e.n_rewarded for e in parts)])
        columns: dict[str, Any] = {name: np.concatenate([getattr(e, name) for e in parts]) for name in _JOINED}
        columns["placements"] = joined_placements([e for e in parts if len(e)])
        columns["n_rounds"] = sum(e.n_rounds for e in parts)
        columns["contexts"] = concat_contexts(kept)
        columns["rows"] = np.concatenate([e.rows + shift for e, shift in zip(parts, shifts[:-1], strict=True)])
        return without_checks(cls, **columns)

    @classmethod
    def none(cls, n_rounds: int = 0) -> Events:
        """No event in `n_rounds` rounds: what an empty learner starts from."""
        return cls(
            n_rounds=n_rounds,
            ids=np.empty(0, dtype=np.int64),
            epochs=np.empty(0, dtype=np.int64),
            contexts=np.empty((0, 0)),
            rows=np.empty(0, dtype=np.int64),
            actions=np.empty(0, dtype=np.int32),
            rewards=np.empty(0),
            propensities=np.empty(0),
        )

    def check(self, problem: Problem, *, ids: tuple[int, int], per_item: int = 1) -> None:
        """Refuse events that cannot be those of this problem and of decisions numbered from ids[0] to ids[1] − 1; each
        shown item may have so many of them.
        """
        pairs = np.unique(np.stack([self.rows, self.actions]), axis=1)
        sums = np.bincount(self.rows, self.rewards, minlength=1)
        require(
            int(self.actions.max(initial=0)) < problem.n_actions
            and pairs.shape[1] == len(self)
            and int(np.bincount(self.rows, minlength=1).max()) <= problem.list_size * per_item
            and float(sums.max()) <= problem.max_reward + TOLERANCE,
            "events must be those of lists and rewards that the problem allows.",
        )
        require(
            len(np.unique(self.ids)) == self.n_rewarded
            and (self.n_rewarded == 0 or (ids[0] <= int(self.ids.min()) and int(self.ids.max()) < ids[1])),
            "events must be those of the learner's own decisions, each once.",
        )

    KIND: ClassVar = "events"
    SCHEMA: ClassVar = {
        "n_rounds": Whole(0),
        "ids": Array("i8", ("C",)),
        "epochs": Array("i8", ("C",)),
        "contexts": PackedContexts(),
        "rows": Array("i8", ("E",), 0, "C-1"),
        "actions": Array("i4", ("E",), 0),
        "rewards": Array("f8", ("E",), SMALLEST_REWARD, 1),
        "propensities": Array("f8", ("E",), SMALLEST_PROPENSITY, _MOST_SLOTS),
        "covered": Array("?", ("C",)),
        "arms": Array("i8", ("C",), -1),
        "placements": Default(Maybe(Array("f8", ("E", "m"), 0, 1 + TOLERANCE))),
    }

    def _agree(self) -> None:
        require(len(np.unique(self.rows)) == self.n_rewarded, "each rewarded round must have an event.")


def events_of_rounds(events: Events, rewarded: NDArray[np.int64]) -> tuple[Events, NDArray[np.int64]]:
    """The events of some rewarded rounds, in that order, of `n_rounds` nothing; and which they were (E′,).

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> from comband.page.rounds import events_of_rounds
    >>> some, which = events_of_rounds(rounds.events(), np.array([2]))
    >>> some.actions.tolist(), which.tolist()
    ([3], [2])
    """
    place = np.full(events.n_rewarded, -1, dtype=np.int64)
    place[rewarded] = np.arange(len(rewarded))
    rows = place[events.rows]
    chosen = np.argsort(rows, kind="stable")[int((rows < 0).sum()) :]
    return events.taken(rewarded, rows[chosen], chosen), chosen


class EventParts:
    """Events that come in small parts, and are joined when they are read. `parts + events` leaves `parts` as it is.

    A part is joined with the one before it once that is no larger: n events are copied O(log n) times each, whatever
    the parts.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> from comband.page.rounds import EventParts
    >>> parts = EventParts() + rounds.events() + rounds.events()
    >>> parts.joined().n_rounds
    8
    """

    __slots__ = ("_parts", "n_rounds")

    def __init__(self, events: Events | None = None) -> None:
        self._parts: tuple[Events, ...] = () if events is None or not events.n_rewarded else (events,)
        self.n_rounds = 0 if events is None else events.n_rounds

    def __add__(self, events: Events) -> EventParts:
        total = EventParts()
        total.n_rounds = self.n_rounds + events.n_rounds
        parts = self._parts
        if events.n_rewarded:
            while parts and parts[-1].n_rewarded <= events.n_rewarded:
                events, parts = parts[-1] + events, parts[:-1]
            parts = (*parts, events)
        total._parts = parts
        return total

    def state(self) -> State:
        """That of all of them, for a file; see `comband.page.storage`."""
        return self.joined().state()

    @classmethod
    def from_state(cls, state: State) -> EventParts:
        """The inverse of `state`, checked."""
        return cls(Events.from_state(state))

    def joined(self) -> Events:
        """All of them, in the order they came."""
        if not self._parts:
            return Events.none(self.n_rounds)
        if len(self._parts) > 1 or self._parts[0].n_rounds != self.n_rounds:
            self._parts = (replace(Events.join(self._parts), n_rounds=self.n_rounds),)
        return self._parts[0]


_JOINED = ("ids", "epochs", "covered", "arms", "actions", "rewards", "propensities")
