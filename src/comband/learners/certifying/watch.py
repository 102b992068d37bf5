"""Guards that look for signs that what the promise rests on does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.estimates.guards import DriftGuard, ExposureGuard
from comband.estimates.place_guard import PlaceGuard
from comband.learners.certifying.epochs import Epochs
from comband.learners.certifying.moments import Asked, Began, Entered, Guard, Moment, Told, Unanswered
from comband.learners.certifying.orders import OrdersGuard
from comband.problem import InputError, Problem
from comband.rounds import Decisions
from comband.storage import ABSENT, Array, Default, Many, Part, State, Text, Whole, check, require

_AUDIT_EVERY = 10  # one decision in so many has its propensities computed anew
_AUDIT_MOST = 20  # of one ask or tell
_UNANSWERED_CELLS = 100_000  # propensities computed anew at one tell for decisions without answer


class _ExposuresGuard(Guard):
    """Looks for actions that are seen more, or less, often than their propensities say."""

    UNANSWERED: ClassVar[bool] = False

    def __init__(self, n_actions: int) -> None:
        self.exposure = ExposureGuard(n_actions, unanswered=self.UNANSWERED)

    @property
    def warning(self) -> str:
        """What does not fit, or seems to get lost."""
        return self.exposure.message

    def parts(self) -> tuple[object, ...]:
        """Its e-process."""
        return (self.exposure,)

    def state(self) -> State:
        """The e-process."""
        return self.exposure.state()

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        self.exposure = ExposureGuard.from_state(state, self.exposure.n_actions, unanswered=self.UNANSWERED)


class DrawsGuard(_ExposuresGuard):
    """Whether lists are drawn with their propensities, and told with the contexts and propensities they were drawn
    with: of one decision in ten these are computed anew.
    """

    def observe(self, moment: Moment) -> None:
        """At ask, for which answers come may depend on what is shown; at tell, for contexts may have been altered."""
        if isinstance(moment, Asked):
            chosen = _sample(moment.decisions)
            if len(chosen):
                sample = moment.decisions[chosen]
                propensities = moment.epoch.explorer.all_propensities(sample.contexts)
                self.exposure.update(sample.lists, propensities, sample.propensities)
        elif isinstance(moment, Told):
            chosen = _sample(moment.decisions)
            epochs = moment.decisions.epochs[chosen]
            for k in np.unique(epochs) if len(chosen) else ():
                sample = moment.decisions[chosen[epochs == k]]
                explorer = moment.epochs[k].explorer
                self.exposure.compare(sample.propensities, explorer.propensities_of(sample.contexts, sample.lists))


class UnansweredGuard(_ExposuresGuard):
    """Whether decisions that were never answered show certain actions more often than they should."""

    UNANSWERED = True

    def observe(self, moment: Moment) -> None:
        """Decisions without answer, as many as there is time for."""
        if not isinstance(moment, Unanswered):
            return
        room = max(1, _UNANSWERED_CELLS // self.exposure.n_classes)
        for batch, rows in moment.parts:
            sample = batch[rows[:room]]
            room -= len(sample)
            if len(sample):
                explorer = moment.epochs[int(sample.epochs[0])].explorer
                self.exposure.update(sample.lists, explorer.all_propensities(sample.contexts))


class ChangeGuard(Guard):
    """Whether rewards for and against the leader come as often late in an epoch as early.

    With a `period` whole ones are compared. Epochs begin with one, and rounds enter by whole ones; of a period in which
    others still decided with older plans nothing is looked at.
    """

    def __init__(self, *, period: int = 1) -> None:
        self.drift = DriftGuard(period=period)
        self.rounds = 0  # of the current epoch that were looked at
        # Which of them had a reward that speaks for the leader, and which one that speaks against it.
        self._in_favour = self._opposed = np.empty(0, dtype=np.int64)

    def observe(self, moment: Moment) -> None:
        """Rounds of the current epoch, in the order of decisions."""
        if isinstance(moment, Began):
            self._in_favour = self._opposed = np.empty(0, dtype=np.int64)
            self.rounds = 0
            self.drift.begin(moment.planned_rounds)
        elif isinstance(moment, Entered) and moment.current:
            # Decisions that others still drew with older plans are not counted: the epoch's own rounds are numbered
            # as if there had been none.
            block, own = moment.block, _of_whole_periods(moment.decisions, self.drift.period)
            if len(block.rows):
                led, opposed = _for_and_against(block.inside, moment.epoch.bets.leader)
                self._in_favour, self._opposed = (
                    np.concatenate([before, self.rounds + _places_in(own, block.ids[block.rows[which]])])
                    for before, which in ((self._in_favour, led), (self._opposed, opposed))
                )
            self.rounds += len(own)
            if self.drift.is_due(self.rounds):
                self.drift.update(self._in_favour, self._opposed, self.rounds)

    @property
    def warning(self) -> str:
        """What changed."""
        return self.drift.message

    def parts(self) -> tuple[object, ...]:
        """It, and its e-process."""
        return self, self.drift

    SCHEMA: ClassVar = {
        "drift": DriftGuard.SCHEMA,
        "rounds": Whole(0),
        "in_favour": Array("i8", ("favour",), 0, rising=True),
        "opposed": Array("i8", ("opposed",), 0, rising=True),
    }

    def state(self) -> State:
        """The e-process, and the rounds of the current epoch with a reward."""
        return {
            "drift": self.drift.state(),
            "rounds": self.rounds,
            "in_favour": self._in_favour,
            "opposed": self._opposed,
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        check(state, self.SCHEMA)
        self.drift = DriftGuard.from_state(state["drift"], period=self.drift.period)
        self.rounds, self._in_favour, self._opposed = state["rounds"], state["in_favour"], state["opposed"]


class PlacesGuard(Guard):
    """Whether rewards come from places as the problem says, of lists that were shown in random order.

    Rounds are looked at in the order of decisions, when they enter the evidence: when an answer comes may depend on its
    place.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.places = self._new()
        self._entered = 0  # rounds
        self._ids = np.empty(0, dtype=np.int64)  # of rewarded decisions that are told and have not entered
        self._rewards = np.empty((0, problem.list_size))

    def _new(self) -> PlaceGuard:
        p = self.problem
        factors = None if p.places is None or p.places == "pairs" else p.places
        return PlaceGuard(factors, list_size=p.list_size, max_reward=p.max_reward)

    def observe(self, moment: Moment) -> None:
        """Rewards, which wait until their rounds enter the evidence."""
        if isinstance(moment, Told):
            if not np.count_nonzero(moment.rewards):
                return
            ids = moment.decisions.ids
            rewarded = np.flatnonzero(moment.rewards.any(axis=1) & (ids >= self._entered))
            if len(rewarded):
                joined, rewards = ids[rewarded], moment.rewards[rewarded]
                if len(self._ids):
                    joined, rewards = np.concatenate([self._ids, joined]), np.concatenate([self._rewards, rewards])
                if len(joined) > 1:
                    order = np.argsort(joined, kind="stable")
                    joined, rewards = joined[order], rewards[order]
                self._ids, self._rewards = joined, rewards
        elif isinstance(moment, Entered):
            self._entered += moment.block.n_rounds
            n = int(np.searchsorted(self._ids, self._entered)) if len(self._ids) else 0
            if n:
                if getattr(moment.epoch.explorer, "random_order", False):
                    self.places.update(self._rewards[:n])
                self._ids, self._rewards = self._ids[n:], self._rewards[n:]

    @property
    def warning(self) -> str:
        """What places do instead."""
        return self.places.message

    @property
    def note(self) -> str:
        """How strong an effect would have been noticed; empty where nothing was looked at."""
        guard = self.places
        if guard.n_rounds == 0 or guard.alarm or guard.list_size == 1:
            return ""
        stated = "places do not matter" if guard.places is None else "the stated factors of places hold"
        known = (
            "would most likely have been noticed if the last place were worth less than "
            f"{guard.noticeable:.2g} of what it should be beside the first"
            if guard.noticeable > 0
            else "could not be looked at yet"
        )
        return f"that {stated} was watched over {guard.n_rounds:,} rewarded rounds; an effect {known}"

    def parts(self) -> tuple[object, ...]:
        """It, and its e-process."""
        return self, self.places

    SCHEMA: ClassVar = {
        "places": PlaceGuard.SCHEMA,
        "entered": Whole(0),
        "ids": Array("i8", ("waiting",), 0, rising=True),
        "rewards": Array("f8", ("waiting", "m"), 0, 1),
    }

    def state(self) -> State:
        """The e-process, and the rewards that wait."""
        return {
            "places": self.places.state(),
            "entered": self._entered,
            "ids": self._ids,
            "rewards": self._rewards,
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        p = self.problem
        check(state, self.SCHEMA, m=p.list_size)
        require(
            bool((state["ids"] >= state["entered"]).all())
            and bool(state["rewards"].any(axis=1).all())
            and bool((state["rewards"].sum(axis=1) <= p.max_reward * (1 + 1e-6)).all())
            and state["places"]["n_rounds"] <= state["entered"],
            "rewards by place must be those of its rounds.",
        )
        factors = self.places.places
        self.places = PlaceGuard.from_state(state["places"], factors, list_size=p.list_size, max_reward=p.max_reward)
        self._entered, self._ids, self._rewards = state["entered"], state["ids"], state["rewards"]


# ---- all of them -----------------------------------------------------------------------------------------------------


class Watch:
    """A learner's guards: those that every one has, and further ones.

    Parameters
    ----------
    n_actions:
        K, or the number of pairs where lists are of those.
    guards:
        Further ones.
    problem:
        The setting.
    names:
        (P,) of the candidates.
    period:
        How many rounds enter the evidence together.
    """

    def __init__(
        self,
        n_actions: int,
        guards: Sequence[Guard] = (),
        *,
        problem: Problem,
        names: tuple[str, ...],
        period: int = 1,
    ) -> None:
        for guard in guards:
            if not isinstance(guard, Guard):
                raise InputError(f"guards must be a sequence of Guard, got {type(guard).__name__} in it.")
        self.draws, self.unanswered, self.change = (
            DrawsGuard(n_actions),
            UnansweredGuard(n_actions),
            ChangeGuard(period=period),
        )
        self.further = tuple(guards)
        self.places, self.orders = PlacesGuard(problem), OrdersGuard(problem, names, period=period)
        own = (self.draws, self.unanswered, self.change, self.places, self.orders)
        self.guards: tuple[Guard, ...] = (*own, *self.further)
        self.anew: list[State] = []  # guards that were in no file: their names, and after how many rounds they began

    def observe(self, moment: Moment) -> None:
        """Let all guards see it."""
        for guard in self.guards:
            guard.observe(moment)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the guards say; empty while all is well."""
        return tuple(text for guard in self.guards if (text := guard.warning))

    def parts(self, *, asking: bool = False) -> tuple[object, ...]:
        """All objects whose attributes the guards replace; of asking, the guard of draws and further ones alone make
        something.
        """
        if asking and not self.further:
            return self.draws.parts()
        return tuple(part for guard in self.guards for part in guard.parts())

    # A guard with a default may begin at any round.
    SCHEMA: ClassVar = {
        "draws": Default(ExposureGuard.SCHEMA, lambda sizes: ABSENT),
        "unanswered": Default(ExposureGuard.SCHEMA, lambda sizes: ABSENT),
        "change": ChangeGuard.SCHEMA,
        "places": PlacesGuard.SCHEMA,
        "orders": Default(OrdersGuard.SCHEMA, lambda sizes: ABSENT),
        "further": Many(Part()),
        "anew": Default(Many({"guard": Text(), "rounds": Whole(0)}), lambda sizes: []),
    }

    @property
    def notes(self) -> list[str]:
        """Which guards have not seen all rounds."""
        return [
            f"the guard {one['guard']} was not in the file from which this learner was loaded: it watches what came "
            f"after the first {one['rounds']:,} rounds"
            for one in self.anew
        ]

    def state(self) -> State:
        """Of each guard what it remembers, for a file; see `comband.storage`."""
        return {
            "draws": self.draws.state(),
            "unanswered": self.unanswered.state(),
            "change": self.change.state(),
            "places": self.places.state(),
            "orders": self.orders.state(),
            "further": [guard.state() for guard in self.further],
            "anew": self.anew,
        }

    def restore(self, state: State, epochs: Epochs, n_rounds: int, *, total: int) -> None:
        """The inverse of `state`, checked: the current epoch, of which `n_rounds` are in, is watched; there are `total`
        rounds in all.
        """
        K, m, P = self.draws.exposure.n_actions, self.places.problem.list_size, len(self.orders.names)
        check(state, self.SCHEMA, K=K, m=m, P=P)
        further = state["further"]
        if len(further) > len(self.further):
            raise InputError(
                f"it was saved with {len(further)} further guards, and {len(self.further)} are given; give them in the "
                "same order, new ones after them, to load(…, guards=…)."
            )
        require(all(one["rounds"] <= total for one in state["anew"]), "guards cannot have begun after the last round.")
        self.anew = list(state["anew"])
        own = (state[name] for name in ("draws", "unanswered", "change", "places", "orders"))
        for guard, part in zip_longest(self.guards, (*own, *further), fillvalue=ABSENT):
            if part is ABSENT:
                self.anew.append({"guard": type(guard).__name__, "rounds": total})
            else:
                guard.restore(part)
        change = self.change
        require(
            state["change"]["drift"]["stretch"] == len(epochs) - 1
            and state["change"]["drift"]["planned"] == change.drift.whole(epochs.planned_rounds())
            and state["change"]["drift"]["looked"] <= change.rounds <= n_rounds
            and (change.drift.period > 1 or change.rounds == n_rounds)
            and change.drift.whole(change.rounds) == change.rounds,
            "the drift guard must watch the current epoch.",
        )
        for places in (state["change"]["in_favour"], state["change"]["opposed"]):
            within = int(places.max(initial=-1)) < change.rounds
            require(within, "rewards for and against the leader must be those of its epoch.")


def _of_whole_periods(ids: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """Those decisions of whose period all are there."""
    if period == 1:
        return ids
    _, inverse, counts = np.unique(ids // period, return_inverse=True, return_counts=True)
    return np.asarray(ids[counts[inverse] == period])


def _places_in(ids: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where some decisions stand among others, in order and once each; those that are not there are left out."""
    return np.flatnonzero(np.isin(ids, some))


def _for_and_against(
    inside: NDArray[np.bool_] | NDArray[np.float64], leader: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which events speak for the leader, and which against it: they count for it, or only for others; where they count
    by numbers, more or less for it than on average.
    """
    if inside.dtype == np.bool_:
        led = np.asarray(inside[:, leader], dtype=np.bool_)
        return led, ~led & inside.any(axis=1)
    ahead = np.asarray(inside[:, leader] - inside.mean(axis=1))
    return ahead > 0, ahead < 0


def _sample(decisions: Decisions) -> NDArray[np.int64]:
    ids = decisions.ids
    if len(ids) == 1 and int(ids[0]) % _AUDIT_EVERY:
        return _NOBODY
    return np.flatnonzero(ids % _AUDIT_EVERY == 0)[:_AUDIT_MOST]


_NOBODY = np.empty(0, dtype=np.int64)
