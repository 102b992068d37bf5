"""Columnar records: what was shown (`Decisions`), what came back (`Rounds`), and what mattered (`Events`).

All three are immutable columns that can be sliced, joined with `+`, and saved to one npz file.
What a decision was made with travels in it, so that feedback may come late, in parts and in any order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import valid_events, valid_lists, valid_propensities, valid_rewards
from comband._kernels.records import any_open, event_rows
from comband.contexts import (
    Contexts,
    concat_contexts,
    n_contexts,
    pack_contexts,
    take_contexts,
    unpack_contexts,
)
from comband.lists import check_lists, check_propensities, check_rewards, refuse_propensities, refuse_rewards
from comband.problem import (
    SMALLEST_PROPENSITY,
    SMALLEST_REWARD,
    TOLERANCE,
    InputError,
    Problem,
    as_column,
    check_count,
    check_problem,
)
from comband.storage import Array, Part, State, Whole, check, load, require, save


@dataclass(frozen=True, eq=False, slots=True)
class Decisions:
    """Lists that were (or are about to be) shown, with the probability that each action was in its list.

    Parameters
    ----------
    ids:
        (n,) whole numbers, unique within a learner.
    lists:
        (n, m) the shown actions.
    propensities:
        (n, m) Q(x, y): the probability, given the context, that action y is anywhere in the list. A row of NaN says
        that they are not computed yet: learners of the EXP4 kind do that on request, and compute them if a reward
        comes. Such rounds can be told to their learner, but not evaluated or designed on.
    epochs:
        (n,) which of the learner's plans drew each list: the number of its epoch, phase or weights.
    contexts:
        the n contexts.
    covered:
        (n,) whether the smallest propensity that the plan promises holds in this round; True (left out) for all.
    arms:
        (n,) the candidate whose whole list was shown and which alone is credited (A/B/n tests); −1 (left out) for none.
    makers:
        (n,) which copy of which learner made each decision, whole numbers below 2⁵²; 0 (left out) for none. A learner
        takes rewards only for decisions of its own, so keep this column with the others.
    """

    ids: NDArray[np.int64]
    lists: NDArray[np.int32]
    propensities: NDArray[np.float64]
    epochs: NDArray[np.int64]
    contexts: Contexts
    covered: NDArray[np.bool_] = field(default_factory=lambda: _ALL)
    arms: NDArray[np.int64] = field(default_factory=lambda: _NOBODY)
    makers: NDArray[np.int64] = field(default_factory=lambda: _NOBODY)

    def __post_init__(self) -> None:
        _freeze(self)
        lists, propensities, n = self.lists, self.propensities, self.ids.size
        _fill(self, n)
        if self.makers is _NOBODY:
            sign(self, _no_makers(n))
        of_rounds = (self.ids, self.epochs, self.covered, self.arms, self.makers)
        rows = {(n,), lists.shape[:1], propensities.shape[:1], *(column.shape for column in of_rounds)}
        if len(rows) > 1 or n_contexts(self.contexts) != n:
            raise InputError(f"all columns of decisions must have {n} rows, one for each id.")
        if lists.ndim != 2 or propensities.shape != lists.shape:
            raise InputError(
                f"decisions need lists (n, m) and a propensity for each shown action, got lists {lists.shape} and "
                f"propensities {propensities.shape}."
            )
        if not valid_lists(lists, 2**31):
            check_lists(lists)
        if not valid_propensities(propensities, SMALLEST_PROPENSITY, 1 + TOLERANCE):
            refuse_propensities(propensities)

    @classmethod
    def _of_checked(cls, **columns: Any) -> Decisions:
        """Rows of decisions that were checked when they were made, or row by row as a log was read."""
        return _without_checks(cls, **columns)

    @classmethod
    def unsigned(
        cls,
        first_id: int,
        lists: NDArray[np.int32],
        propensities: NDArray[np.float64],
        *,
        epoch: int,
        contexts: Contexts,
        covered: NDArray[np.bool_] | None = None,
    ) -> Decisions:
        """What was just drawn under one plan, numbered from `first_id`, before a ledger signs it.

        Nothing is checked, and the arrays are closed: only for arrays that nobody else holds.
        """
        n, put = len(lists), object.__setattr__
        record = object.__new__(cls)
        put(record, "ids", read_only(np.arange(first_id, first_id + n)))
        put(record, "lists", read_only(lists))
        put(record, "propensities", read_only(propensities))
        put(record, "epochs", _epochs(n, epoch) if n <= _SMALL else read_only(np.full(n, epoch)))
        put(record, "contexts", contexts)
        put(record, "covered", all_covered(n) if covered is None else read_only(covered))
        put(record, "arms", no_arms(n))
        put(record, "makers", _no_makers(n))
        return record

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Decisions:
        index = _rows(index, len(self))
        return Decisions._of_checked(
            ids=self.ids[index],
            lists=self.lists[index],
            propensities=self.propensities[index],
            epochs=self.epochs[index],
            contexts=take_contexts(self.contexts, index),
            covered=self.covered[index],
            arms=self.arms[index],
            makers=self.makers[index],
        )

    def __add__(self, other: Decisions) -> Decisions:
        sizes = (self.lists.shape[1], other.lists.shape[1])
        if sizes[0] != sizes[1]:
            raise InputError(f"decisions to join must have lists of one length, got {sizes[0]} and {sizes[1]}.")
        return Decisions._of_checked(
            ids=np.concatenate([self.ids, other.ids]),
            lists=np.concatenate([self.lists, other.lists]),
            propensities=np.concatenate([self.propensities, other.propensities]),
            epochs=np.concatenate([self.epochs, other.epochs]),
            contexts=concat_contexts([self.contexts, other.contexts]),
            covered=np.concatenate([self.covered, other.covered]),
            arms=np.concatenate([self.arms, other.arms]),
            makers=np.concatenate([self.makers, other.makers]),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one npz file."""
        save(path, "decisions", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return load(path, "decisions", cls.from_state, first=_first_decisions)

    def state(self) -> State:
        """The columns by name, for a file; see `comband.storage`."""
        return _state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The inverse of `state`, checked."""
        sizes = check(
            state,
            {
                "ids": Array("i8", ("n",)),
                "lists": Array("i4", ("n", "m"), 0),
                "propensities": Array("f8", ("n", "m"), SMALLEST_PROPENSITY, 1 + TOLERANCE, missing=True),
                "epochs": Array("i8", ("n",)),
                "contexts": Part(),
                "covered": Array("?", ("n",)),
                "arms": Array("i8", ("n",), -1),
                "makers": Array("i8", ("n",), 0, 2**52),
            },
        )
        return cls(**{**state, "contexts": unpack_contexts(state["contexts"], n=sizes["n"])})


@dataclass(frozen=True, eq=False, slots=True)
class Rounds:
    """Decisions with the rewards of the shown actions, (n, m)."""

    decisions: Decisions
    rewards: NDArray[np.float64]

    def __post_init__(self) -> None:
        _freeze(self)
        check_decisions(self.decisions)
        if self.rewards.shape != self.decisions.lists.shape:
            raise InputError(
                f"rewards must have the shape of the lists, {self.decisions.lists.shape}, got {self.rewards.shape}."
            )
        if not valid_rewards(self.rewards, SMALLEST_REWARD, np.inf):
            refuse_rewards(self.rewards)

    @classmethod
    def from_log(
        cls,
        contexts: Contexts,
        *,
        lists: ArrayLike,
        rewards: ArrayLike,
        propensities: ArrayLike,
        problem: Problem,
        ids: ArrayLike | None = None,
    ) -> Rounds:
        """Rounds from somebody else's log, checked: any logging distribution with known propensities will do."""
        n = n_contexts(contexts)
        shown = check_lists(lists, check_problem(problem, places=True), n=n)
        decisions = Decisions(
            ids=np.arange(n) if ids is None else as_column("ids", ids, np.dtype(np.int64)),
            lists=shown,
            propensities=check_propensities(propensities, shape=shown.shape),
            epochs=np.zeros(n, dtype=np.int64),
            contexts=contexts,
        )
        return cls(decisions, check_rewards(rewards, problem, n=n))

    @classmethod
    def _of_checked(cls, decisions: Decisions, rewards: NDArray[np.float64]) -> Rounds:
        """Rewards that were checked against the problem, or that come out of checked rounds."""
        return _without_checks(cls, decisions=decisions, rewards=rewards)

    def __len__(self) -> int:
        return len(self.decisions)

    def __getitem__(self, index: Any) -> Rounds:
        index = _rows(index, len(self))
        return Rounds._of_checked(self.decisions[index], self.rewards[index])

    def __add__(self, other: Rounds) -> Rounds:
        return Rounds(self.decisions + other.decisions, np.concatenate([self.rewards, other.rewards]))

    def events(self) -> Events:
        """Only the positive rewards: all that design and estimation ever need."""
        if any_open(self.decisions.propensities):
            raise InputError(
                "some propensities are not computed (NaN), so these rounds cannot be weighed; make the learner with "
                'propensities="always", or leave those rounds out.'
            )
        where, place, rewarded, rows = event_rows(np.ascontiguousarray(self.rewards))
        decisions, n = self.decisions, len(self)
        taken: Any = rewarded if 0 < len(rewarded) < n else slice(len(rewarded))  # all, none or some
        return _without_checks(
            Events,
            n_rounds=n,
            ids=decisions.ids[taken],
            epochs=decisions.epochs[taken],
            contexts=take_contexts(decisions.contexts, rewarded),
            rows=rows,
            actions=decisions.lists[where, place],
            rewards=self.rewards[where, place],
            propensities=decisions.propensities[where, place],
            covered=decisions.covered[taken],
            arms=decisions.arms[taken],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one npz file."""
        save(path, "rounds", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return load(path, "rounds", cls.from_state, first=_first_rounds)

    def state(self) -> State:
        """The columns by name, for a file; see `comband.storage`."""
        return {"decisions": self.decisions.state(), "rewards": self.rewards}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The inverse of `state`, checked."""
        check(state, {"decisions": Part(), "rewards": Array("f8", ("n", "m"), 0, 1)})
        rounds = cls(Decisions.from_state(state["decisions"]), state["rewards"])
        require(
            not np.isnan(rounds.decisions.propensities[rounds.rewards > 0]).any(),
            "propensities must be known where a reward was seen.",
        )
        return rounds


@dataclass(frozen=True, eq=False, slots=True)
class Events:
    """The positive rewards of `n_rounds` rounds: C rewarded rounds with their contexts, E ≥ C events in them.

    Event e says: in rewarded round `rows[e]`, `actions[e]` was shown with probability `propensities[e]` and
    answered with `rewards[e]` > 0. Rounds without reward survive only in `n_rounds`. `rows` ascend. `epochs`, `covered`
    and `arms` are those of the rewarded rounds' decisions.

    Where a log holds conditional propensities only, `propensities` are the divisors of
    `comband.logs.sequential_propensities`, which may exceed 1 (but not the number of slots).
    """

    n_rounds: int
    ids: NDArray[np.int64]
    epochs: NDArray[np.int64]
    contexts: Contexts
    rows: NDArray[np.int64]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]
    propensities: NDArray[np.float64]
    covered: NDArray[np.bool_] = field(default_factory=lambda: _ALL)
    arms: NDArray[np.int64] = field(default_factory=lambda: _NOBODY)

    def __post_init__(self) -> None:
        _freeze(self)
        object.__setattr__(self, "n_rounds", check_count("n_rounds", self.n_rounds, least=0))
        n_events, n_rewarded = self.rows.size, self.ids.size
        _fill(self, n_rewarded)
        of_events = (self.rows, self.actions, self.rewards, self.propensities)
        of_rounds = (self.ids, self.epochs, self.covered, self.arms)
        if any(column.shape != (n_events,) for column in of_events) or any(c.shape != (n_rewarded,) for c in of_rounds):
            raise InputError("events need one row, action, reward and propensity each, and ids and epochs per round.")
        if n_contexts(self.contexts) != n_rewarded:
            raise InputError(f"events need one context for each of the {n_rewarded} rewarded rounds.")
        if not valid_events(
            self.rows,
            n_rewarded,
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

    @classmethod
    def join(cls, parts: Sequence[Events]) -> Events:
        """All parts, one after the other."""
        # An empty part may be of another context kind (no context was ever seen): it only adds its rounds.
        kept = [e.contexts for e in parts if e.n_rewarded] or [parts[0].contexts]
        shifts = np.cumsum([0, *(e.n_rewarded for e in parts)])
        columns: dict[str, Any] = {name: np.concatenate([getattr(e, name) for e in parts]) for name in _JOINED}
        columns["n_rounds"] = sum(e.n_rounds for e in parts)
        columns["contexts"] = concat_contexts(kept)
        columns["rows"] = np.concatenate([e.rows + shift for e, shift in zip(parts, shifts[:-1], strict=True)])
        return _without_checks(cls, **columns)

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

    def check(self, problem: Problem, *, ids: tuple[int, int]) -> None:
        """Refuse events that cannot be those of this problem and of decisions numbered from ids[0] to ids[1] − 1."""
        pairs = np.unique(np.stack([self.rows, self.actions]), axis=1)
        sums = np.bincount(self.rows, self.rewards, minlength=1)
        require(
            int(self.actions.max(initial=0)) < problem.n_actions
            and pairs.shape[1] == len(self)
            and int(np.bincount(self.rows, minlength=1).max()) <= problem.list_size
            and float(sums.max()) <= problem.max_reward + TOLERANCE,
            "events must be those of lists and rewards that the problem allows.",
        )
        require(
            len(np.unique(self.ids)) == self.n_rewarded
            and (self.n_rewarded == 0 or (ids[0] <= int(self.ids.min()) and int(self.ids.max()) < ids[1])),
            "events must be those of the learner's own decisions, each once.",
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one npz file."""
        save(path, "events", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return load(path, "events", cls.from_state, first=_first_columns)

    def state(self) -> State:
        """The columns by name, for a file; see `comband.storage`."""
        return _state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The inverse of `state`, checked."""
        sizes = check(
            state,
            {
                "n_rounds": Whole(0),
                "ids": Array("i8", ("C",)),
                "epochs": Array("i8", ("C",)),
                "contexts": Part(),
                "rows": Array("i8", ("E",), 0, "C-1"),
                "actions": Array("i4", ("E",), 0),
                "rewards": Array("f8", ("E",), SMALLEST_REWARD, 1),
                "propensities": Array("f8", ("E",), SMALLEST_PROPENSITY, _MOST_SLOTS),
                "covered": Array("?", ("C",)),
                "arms": Array("i8", ("C",), -1),
            },
        )
        C = sizes["C"]
        require(len(np.unique(state["rows"])) == C, "each rewarded round must have an event.")
        return cls(**{**state, "contexts": unpack_contexts(state["contexts"], n=C)})


def events_of_rounds(events: Events, rewarded: NDArray[np.int64]) -> tuple[Events, NDArray[np.int64]]:
    """The events of some rewarded rounds, in that order, of `n_rounds` nothing; and which they were (E′,)."""
    place = np.full(events.n_rewarded, -1, dtype=np.int64)
    place[rewarded] = np.arange(len(rewarded))
    rows = place[events.rows]
    chosen = np.argsort(rows, kind="stable")[int((rows < 0).sum()) :]
    taken = Events(
        n_rounds=0,
        ids=events.ids[rewarded],
        epochs=events.epochs[rewarded],
        contexts=take_contexts(events.contexts, rewarded),
        rows=rows[chosen],
        actions=events.actions[chosen],
        rewards=events.rewards[chosen],
        propensities=events.propensities[chosen],
        covered=events.covered[rewarded],
        arms=events.arms[rewarded],
    )
    return taken, chosen


class EventParts:
    """Events that come in small parts, and are joined when somebody looks. `parts + events` leaves `parts` as it is.

    A part is joined with the one before it once that is no larger: n events are copied O(log n) times each, whatever
    the parts.
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

    def joined(self) -> Events:
        """All of them, in the order they came."""
        if not self._parts:
            return Events.none(self.n_rounds)
        if len(self._parts) > 1 or self._parts[0].n_rounds != self.n_rounds:
            self._parts = (replace(Events.join(self._parts), n_rounds=self.n_rounds),)
        return self._parts[0]


def check_decisions(value: Any) -> Decisions:
    """Return `value` if these are decisions."""
    if not isinstance(value, Decisions):
        raise InputError(f"decisions must be those that ask gave (Decisions), got {type(value).__name__}.")
    return value


def check_rounds(value: Any) -> Rounds:
    """Return `value` if these are rounds."""
    if not isinstance(value, Rounds):
        raise InputError(f"rounds must be Rounds (see Rounds.from_log), got {type(value).__name__}.")
    return value


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the array, which is closed to writing for good: records hold it without a copy.

    Only for arrays that nobody else holds. An array can be opened again by whoever has it, a view of a closed one that
    owns its numbers cannot; those of compiled loops do not own theirs, and are copied.
    """
    if array.base is not None:
        array = array.copy()
    array.setflags(write=False)
    return array[...]


def sign(decisions: Decisions, makers: NDArray[np.int64]) -> None:
    """Put down who made them (n,): only for whoever has just made them, before anybody else holds them."""
    object.__setattr__(decisions, "makers", makers)


def all_covered(n: int) -> NDArray[np.bool_]:
    """True for each of n rounds."""
    return _COVERED[:n] if n <= _SMALL else read_only(np.ones(n, dtype=np.bool_))


def no_arms(n: int) -> NDArray[np.int64]:
    """−1 for each of n rounds."""
    return _NO_ARMS[:n] if n <= _SMALL else read_only(np.full(n, -1))


def _no_makers(n: int) -> NDArray[np.int64]:
    """0 for each of n rounds."""
    return _NO_MAKERS[:n] if n <= _SMALL else read_only(np.zeros(n, dtype=np.int64))


@lru_cache(maxsize=16)
def _epochs(n: int, epoch: int) -> NDArray[np.int64]:
    """The same number for each of n rounds."""
    return read_only(np.full(n, epoch))


_NOBODY: NDArray[np.int64] = read_only(np.empty(0, dtype=np.int64))
_ALL: NDArray[np.bool_] = read_only(np.empty(0, dtype=np.bool_))
# What almost all records hold, made once.
_SMALL = 4096
_COVERED: NDArray[np.bool_] = read_only(np.ones(_SMALL, dtype=np.bool_))
_NO_ARMS: NDArray[np.int64] = read_only(np.full(_SMALL, -1))
_NO_MAKERS: NDArray[np.int64] = read_only(np.zeros(_SMALL, dtype=np.int64))
_Record = TypeVar("_Record")
_MOST_SLOTS = 10_000.0  # no page has more, and so no divisor of conditional propensities is larger
_JOINED = ("ids", "epochs", "covered", "arms", "actions", "rewards", "propensities")
_DTYPES = {
    "ids": np.int64,
    "epochs": np.int64,
    "covered": np.bool_,
    "arms": np.int64,
    "makers": np.int64,
    "rows": np.int64,
    "lists": np.int32,
    "actions": np.int32,
    "rewards": np.float64,
    "propensities": np.float64,
}


@cache
def _columns(kind: type) -> tuple[tuple[str, np.dtype[Any]], ...]:
    return tuple((field.name, np.dtype(_DTYPES[field.name])) for field in fields(kind) if field.name in _DTYPES)


def _freeze(record: Any) -> None:
    """Store every column as a read-only array of its own type, never a view that somebody may still write to."""
    for name, dtype in _columns(record.__class__):
        given = getattr(record, name)
        if type(given) is np.ndarray and given.dtype == dtype:
            if given.flags.writeable:
                object.__setattr__(record, name, read_only(given.copy()))
            continue
        column = as_column(name, given, dtype)
        if column.flags.writeable:
            column = read_only(column.copy() if column is given else column)
        object.__setattr__(record, name, column)


def _fill(record: Any, n: int) -> None:
    """Put in what was left out because it is the same in all rounds."""
    if record.covered is _ALL:
        object.__setattr__(record, "covered", all_covered(n))
    if record.arms is _NOBODY:
        object.__setattr__(record, "arms", no_arms(n))


def _without_checks(kind: type[_Record], **columns: Any) -> _Record:
    """A record of columns that come out of checked records, of the right types; those still open are closed as they
    are, so nobody else may hold them.
    """
    record, put = object.__new__(kind), object.__setattr__
    for name, value in columns.items():
        is_open = name in _DTYPES and value.flags.writeable
        put(record, name, read_only(value) if is_open else value)
    return record


def _rows(index: Any, n: int) -> Any:
    """An index that keeps the row axis: slices and arrays as they are, a whole number as a batch of one."""
    if isinstance(index, (int, np.integer)):
        if not -n <= index < n:
            raise IndexError(f"row {index} is out of range: there are {n}.")
        return np.array([index])
    if isinstance(index, slice):
        return index
    which = np.asarray(index)
    if which.ndim != 1 or (which.dtype.kind not in "biu" and which.size):
        raise IndexError(f"rows must be picked by a number, a slice, numbers (k,) or a mask ({n},), got {index!r}.")
    return which if which.size else np.zeros(0, dtype=np.int64)


def _state(record: Any) -> State:
    state = {column.name: getattr(record, column.name) for column in fields(record)}
    return {**state, "contexts": pack_contexts(record.contexts)}


def _first_columns(state: State) -> State:
    """As the first release wrote them: without `covered` and `arms`, and with `versions` in place of `epochs`. What a
    version stood for only its learner knew, whose files are not read; for all others any numbers will do.
    """
    if not isinstance(state.get("ids"), np.ndarray) or "versions" not in state:
        return state
    plain = {"covered": all_covered(state["ids"].size), "arms": no_arms(state["ids"].size)}
    return {"epochs" if name == "versions" else name: part for name, part in state.items()} | plain


def _first_decisions(state: State) -> State:
    """As the first release wrote them: without a maker."""
    state = _first_columns(state)
    return {**state, "makers": np.zeros_like(state["ids"])} if isinstance(state.get("ids"), np.ndarray) else state


def _first_rounds(state: State) -> State:
    """As the first release wrote them: all columns side by side."""
    return {
        "decisions": _first_decisions({name: part for name, part in state.items() if name != "rewards"}),
        "rewards": state.get("rewards"),
    }
