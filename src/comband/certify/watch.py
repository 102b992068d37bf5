"""Guards that look for signs that what the promise rests on does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.epochs import Epochs
from comband.certify.notifications import (
    Asked,
    Began,
    BuiltInGuard,
    Entered,
    Guard,
    Moment,
    Told,
    Unanswered,
    Watched,
)
from comband.certify.orders import OrdersGuard
from comband.page.problem import TOLERANCE, InputError
from comband.page.rounds import Decisions
from comband.page.storage import ABSENT, Array, Default, Many, Part, State, Text, Whole, require
from comband.policies.reading import reading_of
from comband.statistics.factor_fit import FactorFit
from comband.statistics.guards import DrawnPlaceGuard, DriftGuard, ExposureGuard
from comband.statistics.place_guard import PlaceGuard

AGuard = TypeVar("AGuard", bound=Guard)

_AUDIT_EVERY = 10  # one decision in so many has its propensities computed anew
_AUDIT_MOST = 20  # of one ask or tell
_UNANSWERED_CELLS = 100_000  # propensities computed anew at one tell for decisions without answer


class _ExposuresGuard(BuiltInGuard):
    """Looks for actions that are seen more, or less, often than their propensities say."""

    UNANSWERED: ClassVar[bool] = False

    SCHEMA: ClassVar = ExposureGuard.SCHEMA

    def __init__(self, watched: Watched) -> None:
        self.exposure = ExposureGuard(reading_of(watched.problem).lists.n_actions, unanswered=self.UNANSWERED)

    def state(self) -> State:
        """The e-process."""
        return self.exposure.state()

    def restore(self, state: State, **sizes: int) -> None:
        """The inverse of `state`."""
        self.exposure.restore(state)

    @property
    def warning(self) -> str:
        """What does not fit, or seems to get lost."""
        return self.exposure.message

    def parts(self) -> tuple[object, ...]:
        """Its e-process."""
        return (self.exposure,)


class DrawsGuard(_ExposuresGuard):
    """Whether lists are drawn with their propensities, and told with the contexts and propensities they were drawn
    with: of one decision in ten these are computed anew.
    """

    WATCHES = "items are drawn as often as the propensities say"
    LOOKS_AT = (Asked, Told)

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


class DrawnPlacesGuard(BuiltInGuard):
    """Whether drawn items stand where decisions say that they may stand: of one decision in ten that says it."""

    WATCHES = "drawn items stand in each place as often as decisions say"
    LOOKS_AT = (Asked,)
    SCHEMA: ClassVar = DrawnPlaceGuard.SCHEMA

    def __init__(self, watched: Watched) -> None:
        self.places = DrawnPlaceGuard(watched.problem.list_size)

    def observe(self, moment: Moment) -> None:
        """At ask, for which answers come may depend on what is shown."""
        if isinstance(moment, Asked) and moment.decisions.placements is not None:
            sample = moment.decisions[_sample(moment.decisions)]
            if len(sample) and sample.placements is not None:
                self.places.update(sample.lists, sample.placements)

    def state(self) -> State:
        """The e-process."""
        return self.places.state()

    def restore(self, state: State, **sizes: int) -> None:
        """The inverse of `state`."""
        self.places.restore(state)

    @property
    def warning(self) -> str:
        """What does not stand where it should."""
        return self.places.message

    def parts(self) -> tuple[object, ...]:
        """Its e-process."""
        return (self.places,)


class UnansweredGuard(_ExposuresGuard):
    """Whether decisions that were never answered show certain actions more often than they should."""

    WATCHES = "answers are not lost selectively"
    LOOKS_AT = (Unanswered,)
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


class ChangeGuard(BuiltInGuard):
    """Whether rewards for and against the leader come as often late in an epoch as early.

    With a `period` whole ones are compared. Epochs begin with one, and rounds enter by whole ones; of a period in which
    others still decided with older plans nothing is looked at.
    """

    WATCHES = "rewards come as often late in an epoch as early"
    LOOKS_AT = (Began, Entered)
    BEGINS_LATE = False

    def __init__(self, watched: Watched) -> None:
        self.drift = DriftGuard(period=watched.period)
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

    def check(self, epochs: Epochs, n_rounds: int) -> None:
        """The e-process must be about the last epoch."""
        drift = self.drift
        seen = drift.state()
        require(
            seen["stretch"] == len(epochs) - 1
            and seen["planned"] == drift.whole(epochs.planned_rounds())
            and seen["looked"] <= self.rounds <= n_rounds
            and (drift.period > 1 or self.rounds == n_rounds)
            and drift.whole(self.rounds) == self.rounds,
            "the drift guard must watch the current epoch.",
        )
        require(
            max(int(places.max(initial=-1)) for places in (self._in_favour, self._opposed)) < self.rounds,
            "rewards for and against the leader must be those of its epoch.",
        )


class PlacesGuard(BuiltInGuard):
    """Whether rewards come from places as the problem says, of lists whose probabilities of places are known.

    Rounds are looked at in the order of decisions, when they enter the evidence: when an answer comes may depend on its
    place. Where rewards may depend on item and place in any way there is nothing to watch.
    """

    WATCHES = "places on the page do not matter beyond what was stated"
    LOOKS_AT = (Told, Entered)
    BEGINS_LATE = False

    def __init__(self, watched: Watched) -> None:
        self.problem = p = watched.problem
        self.fitted = reading_of(p).FITTED
        self.places = PlaceGuard(reading_of(p).factors, list_size=p.list_size, max_reward=p.max_reward)
        self.fit = FactorFit(list_size=p.list_size)  # of all rounds that entered, where factors are fitted
        self._entered = 0  # rounds
        self._ids = np.empty(0, dtype=np.int64)  # of rewarded decisions that are told and have not entered
        self._rewards = np.empty((0, p.list_size))
        self._placements = np.empty((0, p.list_size, p.list_size))  # NaN of those whose decisions state none

    def observe(self, moment: Moment) -> None:
        """Rewards, which wait until their rounds enter the evidence."""
        if isinstance(moment, Told):
            if not np.count_nonzero(moment.rewards):
                return
            ids, known = moment.decisions.ids, moment.decisions.placements
            # Where a reward counts for the shown candidate alone, nothing rests on what places do.
            rests = moment.rewards.any(axis=1) & (moment.decisions.arms < 0)
            rewarded = np.flatnonzero(rests & (ids >= self._entered))
            if len(rewarded):
                m = self.problem.list_size
                joined, rewards = ids[rewarded], moment.rewards[rewarded]
                placements = np.full((len(rewarded), m, m), np.nan) if known is None else known[rewarded]
                if len(self._ids):
                    joined, rewards = np.concatenate([self._ids, joined]), np.concatenate([self._rewards, rewards])
                    placements = np.concatenate([self._placements, placements])
                if len(joined) > 1:
                    order = np.argsort(joined, kind="stable")
                    joined, rewards, placements = joined[order], rewards[order], placements[order]
                self._ids, self._rewards, self._placements = joined, rewards, placements
        elif isinstance(moment, Entered):
            self._entered += moment.block.n_rounds
            n = int(np.searchsorted(self._ids, self._entered)) if len(self._ids) else 0
            if n:
                self._look(n, moment.epoch.explorer)
                self._ids, self._rewards = self._ids[n:], self._rewards[n:]
                self._placements = self._placements[n:]

    def _look(self, n: int, explorer: Any) -> None:
        """At the first n that wait: by the probabilities of places that their decisions state, or in random order."""
        if reading_of(self.problem).PLACED:
            return
        random_order = getattr(explorer, "random_order", False)
        rewards, rows = self._rewards[:n], self._placements[:n]
        if self.fitted:
            if not explorer.fitting:
                self.places.state_fitted(explorer.theta)
                self.places.update(rewards, rows)
            self.fit.update(rewards, rows)
            return
        stated = ~np.isnan(rows[:, 0, 0])
        if not stated.any():
            if random_order:
                self.places.update(rewards)
        else:
            kept = stated | random_order
            self.places.update(rewards[kept], np.where(np.isnan(rows), 1 / self.problem.list_size, rows)[kept])

    @property
    def warning(self) -> str:
        """What places do instead."""
        return self.places.message

    @property
    def note(self) -> str:
        """How strong an effect would have been noticed; empty where nothing was looked at."""
        guard, fitted = self.places, self.fit.factors
        if fitted is not None:
            sizes = ", ".join(
                f"{one:.2g} ± {error:.1g}" for one, error in zip(fitted[1:], fitted.standard_errors[1:], strict=True)
            )
            return (
                f"factors of places as they are fitted to {self.fit.n_rounds:,} rewarded rounds, with standard errors: "
                f"1, {sizes}"
            )
        if guard.n_rounds == 0 or guard.alarm or guard.list_size == 1:
            return ""
        beyond = "" if guard.places is None else " beyond the stated factors"
        known = (
            f"a last place that brings less than {guard.noticeable:.0%} of what it should would most likely have been "
            "found"
            if guard.noticeable > 0
            else "they are too few to find any"
        )
        return f"places had no visible effect{beyond} in {guard.n_rounds:,} rewarded rounds; {known}"

    def parts(self) -> tuple[object, ...]:
        """It, its e-process, and the fit."""
        return self, self.places, self.fit

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        return {name: part for name, part in super().state().items() if self.fitted or name != "fit"}

    SCHEMA: ClassVar = {
        "places": PlaceGuard.SCHEMA,
        "entered": Whole(0),
        "ids": Array("i8", ("waiting",), 0, rising=True),
        "rewards": Array("f8", ("waiting", "m"), 0, 1),
        "placements": Default(
            Array("f8", ("waiting", "m", "m"), 0, 1 + TOLERANCE, missing=True),
            lambda sizes: np.full((sizes["waiting"], sizes["m"], sizes["m"]), np.nan),
        ),
        "fit": Default(FactorFit.SCHEMA, lambda sizes: FactorFit(list_size=sizes["m"]).state()),
    }

    def _sizes(self) -> dict[str, int]:
        return {"m": self.problem.list_size}

    def _agree(self) -> None:
        stated = ~np.isnan(self._placements)
        require(
            bool((self._ids >= self._entered).all())
            and bool(self._rewards.any(axis=1).all())
            and bool((stated.all(axis=(1, 2)) | ~stated.any(axis=(1, 2))).all())
            and bool((self._rewards.sum(axis=1) <= self.problem.max_reward * (1 + 1e-6)).all())
            and self.places.n_rounds <= self._entered,
            "rewards by place must be those of its rounds.",
        )


# ---- all of them -----------------------------------------------------------------------------------------------------


BUILT_IN: dict[str, type[BuiltInGuard]] = {
    "draws": DrawsGuard,
    "drawn places": DrawnPlacesGuard,
    "unanswered": UnansweredGuard,
    "change": ChangeGuard,
    "places": PlacesGuard,
    "orders": OrdersGuard,
}
"""The guards that every certifying learner has, by their names in files: all that a new one needs is its class, and a
line here.
"""


def watch_schema(guards: Mapping[str, type[BuiltInGuard]]) -> dict[str, Any]:
    """What files hold of some guards; those that may begin at any round may be missing."""
    return {
        name: Default(kind.SCHEMA, lambda sizes: ABSENT) if kind.BEGINS_LATE else kind.SCHEMA
        for name, kind in guards.items()
    }


class Watch:
    """A learner's guards: those that every one has, and further ones.

    Parameters
    ----------
    watched:
        What the built-in ones are made for.
    guards:
        Further ones.
    """

    def __init__(self, watched: Watched, guards: Sequence[Guard] = ()) -> None:
        for guard in guards:
            if not isinstance(guard, Guard):
                raise InputError(f"guards must be a sequence of Guard, got {type(guard).__name__} in it.")
        self.own = {name: kind(watched) for name, kind in BUILT_IN.items()}
        self.further = tuple(guards)
        self.guards: tuple[Guard, ...] = (*self.own.values(), *self.further)
        self._looking = {
            moment: tuple(guard for guard in self.guards if moment in guard.LOOKS_AT) for moment in Guard.LOOKS_AT
        }
        self.anew: list[State] = []  # guards that were in no file: their names, and after how many rounds they began

    def __getitem__(self, kind: type[AGuard]) -> AGuard:
        """The guard of a kind."""
        return next(guard for guard in self.guards if isinstance(guard, kind))

    def observe(self, moment: Moment) -> None:
        """Let all guards see it that look at such moments."""
        for guard in self._looking[type(moment)]:
            guard.observe(moment)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the guards say; empty while all is well."""
        return tuple(text for guard in self.guards if (text := guard.warning))

    @property
    def explained(self) -> tuple[str, ...]:
        """What the guards say of what they have looked at."""
        return tuple(text for guard in self.guards if (text := guard.note))

    @property
    def notes(self) -> list[str]:
        """Which guards have not seen all rounds."""
        return [
            f"the guard {one['guard']} was not in the file from which this learner was loaded: it watches what came "
            f"after the first {one['rounds']:,} rounds"
            for one in self.anew
        ]

    def parts(self, *, asking: bool = False) -> tuple[object, ...]:
        """All objects whose attributes the guards replace, or those of the guards that look at what was asked."""
        return tuple(part for guard in (self._looking[Asked] if asking else self.guards) for part in guard.parts())

    SCHEMA: ClassVar = {
        **watch_schema(BUILT_IN),
        "further": Many(Part()),
        "anew": Default(Many({"guard": Text(), "rounds": Whole(0)}), lambda sizes: []),
    }

    def state(self) -> State:
        """Of each guard what it remembers, for a file; see `comband.page.storage`."""
        return {
            **{name: guard.state() for name, guard in self.own.items()},
            "further": [guard.state() for guard in self.further],
            "anew": self.anew,
        }

    def restore(self, state: State, epochs: Epochs, n_rounds: int, *, total: int) -> None:
        """The inverse of `state`, whose schema has been compared: the current epoch, of which `n_rounds` are in, is
        watched; there are `total` rounds in all.
        """
        further = state["further"]
        if len(further) > len(self.further):
            raise InputError(
                f"it was saved with {len(further)} further guards, and {len(self.further)} are given; give them in the "
                "same order, new ones after them, to load(…, guards=…)."
            )
        require(all(one["rounds"] <= total for one in state["anew"]), "guards cannot have begun after the last round.")
        self.anew = list(state["anew"])
        for guard, part in zip_longest(self.guards, (*map(state.get, self.own), *further), fillvalue=ABSENT):
            if part is ABSENT:
                self.anew.append({"guard": type(guard).__name__, "rounds": total})
            else:
                guard.restore(part)
        for own in self.own.values():
            own.check(epochs, n_rounds)


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
        return _NONE
    return np.flatnonzero(ids % _AUDIT_EVERY == 0)[:_AUDIT_MOST]


_NONE = np.empty(0, dtype=np.int64)
