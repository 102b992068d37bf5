"""The events that a certifying learner has seen, and for which candidates each of them counts, as bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.page.bits import PackedRows, RealRows, Rows, join_rows, rows_of, words_for
from comband.page.rounds import Events, events_of_rounds
from comband.page.storage import Array, Maybe, Part, State, check, require

_RECENT_EVENTS = 2000  # events that say how variable a design would be
_PRIOR_ROUNDS = 300  # how many rounds of an average rival every rival's variance begins with

Propensities = Callable[[Events, NDArray[np.int64], Rows], NDArray[np.float64]]
"""Q of the actions of some events, given for which candidates each of them counts."""


class EventStore:
    """Events with their rows of the incidence matrix, for the candidates that are left.

    New events are kept as they come and joined when they are looked at: telling costs what is new. Events say in which
    epoch they were seen.
    """

    def __init__(self, n_policies: int) -> None:
        self.columns: NDArray[np.int64] = np.arange(n_policies)
        self.since = np.zeros(n_policies, dtype=np.int64)  # the first epoch whose events a column knows
        self._events = [Events.none()]
        self._rows: list[Rows] = [PackedRows.from_cells(np.empty((0, n_policies), dtype=np.bool_))]

    SCHEMA: ClassVar = {
        "columns": Array("i8", ("S",), 0, "P-1", rising=True),
        "since": Array("i8", ("S",), 0),
        "bits": Maybe(Array("u8", ("E", "words"))),
        "values": Maybe(Array("f8", ("E", "S"))),
        "events": Part(),
    }

    def state(self) -> State:
        """Events and rows by name, for a file; see `comband.page.storage`."""
        rows = self.rows
        return {
            "columns": self.columns,
            "since": self.since,
            "bits": rows.bits if isinstance(rows, PackedRows) else None,
            "values": rows.values if isinstance(rows, RealRows) else None,
            "events": self.events.state(),
        }

    @classmethod
    def from_state(cls, state: State, n_policies: int) -> EventStore:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA, P=n_policies)
        columns, bits, events = state["columns"], state["bits"], Events.from_state(state["events"])
        require((bits is None) != (state["values"] is None), "rows must be of bits or of numbers.")
        rows: Rows
        if bits is None:
            rows = RealRows(state["values"])
            require(len(rows) == len(events), "each event must have a row of numbers.")
        else:
            require(bits.shape == (len(events), words_for(len(columns))), "each event must have a row of bits.")
            spare = len(columns) % 64
            require(
                spare == 0 or not (bits[:, -1] >> np.uint64(spare)).any(), "no bit may stand beyond the last column."
            )
            rows = PackedRows(bits, len(columns))
        seen = cls(len(columns))
        seen.columns, seen._events, seen._rows = columns, [events], [rows]
        seen.since = state["since"]
        return seen

    def __add__(self, other: EventStore) -> EventStore:
        """The events of both, in the order of decisions, for the columns that both have."""
        columns = np.intersect1d(self.columns, other.columns)
        both = [part.rows.take(np.searchsorted(part.columns, columns)) for part in (self, other)]
        joined = self.events + other.events
        events, chosen = events_of_rounds(joined, np.argsort(joined.ids, kind="stable"))
        total = EventStore(0)
        total.columns, total._events = columns, [events]
        since = [part.since[np.searchsorted(part.columns, columns)] for part in (self, other)]
        total.since = np.maximum(*since)
        total._rows = [join_rows(both)[chosen]]
        return total

    def __len__(self) -> int:
        return sum(len(events) for events in self._events)

    def add(
        self, events: Events, inside: NDArray[np.bool_] | NDArray[np.float64], candidates: NDArray[np.int64]
    ) -> None:
        """Keep events of one epoch; `inside` (E, S) says for which of the `candidates` they count. Columns of others
        are dropped, but for those of newcomers, of which older epochs say nothing.
        """
        known = np.isin(self.columns, candidates)
        if not known.all():
            self._keep_columns(np.flatnonzero(known | (self.since > events.epochs[0])))
            known = np.isin(self.columns, candidates)
        if not known.all():
            cells: NDArray[Any] = np.zeros((len(inside), len(self.columns)), dtype=inside.dtype)
            cells[:, known] = inside[:, np.searchsorted(candidates, self.columns[known])]
            inside = cells
        elif len(candidates) != len(self.columns):
            inside = inside[:, np.searchsorted(candidates, self.columns)]
        self._events.append(events)
        self._rows.append(rows_of(inside))

    @property
    def events(self) -> Events:
        """All of them."""
        if len(self._events) > 1:
            self._events = [Events.join(self._events)]
        return self._events[0]

    @property
    def rows(self) -> Rows:
        """The incidence matrix, an event per row and a candidate a column."""
        if len(self._rows) > 1:
            self._rows = [join_rows(self._rows)]
        return self._rows[0]

    def forget(self, alive: NDArray[np.bool_]) -> None:
        """Drop the columns of those who are not `alive` (P,)."""
        self._keep_columns(np.flatnonzero(alive[self.columns]))

    def admit(self, candidates: NDArray[np.int64], epoch: int) -> None:
        """Make columns for those of the candidates that have none: what came before this epoch is not known of them."""
        if np.isin(candidates, self.columns).all():
            return
        columns = np.union1d(self.columns, candidates)
        place, since = np.searchsorted(columns, self.columns), np.full(len(columns), epoch)
        since[place] = self.since
        known = self.rows.cells()
        cells: NDArray[Any] = np.zeros((len(self), len(columns)), dtype=known.dtype)
        cells[:, place] = known
        self._rows, self.columns, self.since = [rows_of(cells)], columns, since

    def _keep_columns(self, places: NDArray[np.int64]) -> None:
        if len(places) < len(self.columns):
            self._rows, self.columns, self.since = [self.rows.take(places)], self.columns[places], self.since[places]

    def scores(
        self, candidates: NDArray[np.int64], n_rounds: NDArray[np.int64], *, unit: float = 1.0
    ) -> NDArray[np.float64]:
        """Estimated values of some of the columns, up to a common shift; `n_rounds` are those of each epoch.

        An epoch's estimates count in proportion to its rounds over the variance of a difference of two candidates, of
        rewards in this unit.
        """
        if len(self) == 0:
            return np.zeros(len(candidates))
        parts, _share = self._parts(candidates, n_rounds, unit)
        chosen = np.searchsorted(self.columns, candidates)
        scores, since = np.asarray(self.rows.weighted_sum(parts)[chosen]), self.since[chosen]
        # A newcomer has the score of the best of the others, and the difference to it on the rounds that both have had.
        veterans = np.flatnonzero(since == since.min())
        best = veterans[np.argmax(scores[veterans])]
        for first in np.unique(since[since > since[best]]):
            parts, _share = self._parts(candidates, n_rounds, unit, int(first))
            sums, mine = self.rows.weighted_sum(parts)[chosen], since == first
            scores[mine] = scores[best] + (sums[mine] - sums[best])
        return scores

    def score_variances(
        self, candidates: NDArray[np.int64], n_rounds: NDArray[np.int64], *, unit: float = 1.0, per_reward: int = 1
    ) -> NDArray[np.float64]:
        """Estimated variances of the `scores` less their mean; `per_reward` as for `squares`.

        A score is a sum over rewards, each of them rare: its variance is about the sum of squares of what each reward
        adds to it beyond what it adds to the mean.
        """
        if len(self) == 0:
            return np.zeros(len(candidates))
        chosen = np.searchsorted(self.columns, candidates)
        since, variances = self.since[chosen], np.zeros(len(candidates))
        for first in np.unique(since):
            parts, share = self._parts(candidates, n_rounds, unit, int(first))
            common = np.repeat((parts * share).reshape(-1, per_reward).sum(axis=1), per_reward)
            # (a − b)² = a² − 2ab + b², where a is one of the parts, or none.
            own = self.rows.weighted_squares(parts**2) - 2 * self.rows.weighted_sum(parts * common)
            mine = since == first
            variances[mine] = np.maximum(own[chosen] + (common[::per_reward] ** 2).sum(), 0.0)[mine]
            if first > since.min():  # a few rounds do not tell a variance: it is no less than that of others
                others = float(variances[since == since.min()].mean())
                variances[mine] = np.maximum(
                    variances[mine], others * n_rounds[since.min() :].sum() / max(n_rounds[first:].sum(), 1)
                )
        return variances

    def value_error(self, candidate: int, n_rounds: NDArray[np.int64], own: int) -> float:
        """The standard error of the mean over `own` rounds of what a column earned, by importance weighting; infinite
        before it has earned anything. `n_rounds` are those of each epoch; the column's events are of those since its
        own first one, which say what a round adds to the variance.
        """
        known = int(n_rounds[self.since[np.searchsorted(self.columns, candidate)] :].sum())
        squares = float((self._earned(candidate) ** 2).sum())
        return float(np.sqrt(squares) / np.sqrt(known * own)) if squares > 0 else float("inf")

    def loss_error(self, candidate: int, n_rounds: int) -> float:
        """The standard error of the mean over so many rounds of what a column earned more than was earned."""
        events = self.events
        more = self._earned(candidate) - np.bincount(events.rows, events.rewards)
        return float(np.sqrt((more**2).sum())) / n_rounds

    def _earned(self, candidate: int) -> NDArray[np.float64]:
        """What a column earned in each round that has events, by importance weighting."""
        events = self.events
        earned = self.rows.column(int(np.searchsorted(self.columns, candidate))) * events.rewards
        return np.asarray(np.bincount(events.rows, earned / events.propensities), dtype=np.float64)

    def _parts(
        self, candidates: NDArray[np.int64], n_rounds: NDArray[np.int64], unit: float, first: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What each event (E,) of epochs from `first` on adds to the scores of those for which it counts, and for what
        share (E,) it does.
        """
        events, rows, n_epochs = self.events, self.rows, len(n_rounds)
        chosen = np.searchsorted(self.columns, candidates)
        of_event = events.epochs[events.rows]
        weights = events.rewards / events.propensities
        among = np.zeros(len(self.columns))
        among[chosen] = 1 / len(candidates)
        spread = np.bincount(of_event, (weights / unit) ** 2 * 2 * rows.spread(among), minlength=n_epochs)
        seen = np.bincount(of_event, minlength=n_epochs)
        # A handful of events does not tell a variance; an epoch without any says that it was uninformative.
        precision = np.where(seen > 5, n_rounds / np.maximum(np.maximum(spread, 1e-3 * n_rounds), 1.0), 0.0)
        if not precision.any():
            precision = np.where(seen > 0, 1.0, 0.0)
        later = np.arange(n_epochs) >= first
        total = max(float(precision[later] @ n_rounds[later]), 1e-300)
        return np.where(later, precision, 0.0)[of_event] * weights / total, rows.average(among)

    def squares(
        self, leader: int, first: int, propensities: Propensities, *, per_reward: int = 1
    ) -> NDArray[np.float64]:
        """Σ D² of each column against the one at `leader`, over the events from `first` on, had they been shown with
        the given propensities instead of their own; `per_reward` successive events speak of one reward, and of these a
        column has one at most.
        """
        events, take = self.events, np.arange(first, len(self))
        rows = self.rows[first:]
        if per_reward > 1:
            q = np.maximum(propensities(events, take, rows), 1e-12)
            sizes = events.rewards[take] / np.sqrt(events.propensities[take] * q)
            earned = np.where(rows.column(leader), sizes, 0.0).reshape(-1, per_reward).sum(axis=1)
            # (a − b)² = a² − 2ab + b², where a is one of the sizes, or none.
            total = rows.weighted_sum(sizes**2 - 2 * sizes * np.repeat(earned, per_reward)) + (earned**2).sum()
            return np.asarray(np.maximum(total, 0.0))
        q = np.maximum(propensities(events, take, rows), 1e-12)
        weights = events.rewards[take] ** 2 / (events.propensities[take] * q)
        return np.asarray(np.maximum(rows.squares(leader, weights), 0.0))

    def second_moments(
        self, leader: int, propensities: Propensities, *, n_rounds: int, of_an_event: float, per_reward: int = 1
    ) -> NDArray[np.float64]:
        """E D² of each column against the one at `leader` under given propensities, from recent events; shrunk towards
        more. `n_rounds` are all rounds so far, and `of_an_event` is the most that one event can add to a sum of D².
        """
        first = max(0, len(self) - _RECENT_EVENTS * per_reward)
        total = self.squares(leader, first, propensities, per_reward=per_reward)
        events, of_event = self.events, self.events.epochs[self.events.rows]
        rounds = np.full(len(total), n_rounds - (int(events.ids[events.rows[first]]) if first else 0))
        # Of newcomers, and of all against a leader that is one, only events since then tell anything.
        since = np.maximum(self.since, self.since[leader])
        for start in np.unique(since[since > 0]):
            late, after = np.flatnonzero(since == start), np.flatnonzero(of_event[first:] >= start)
            rounds[late], total[late] = 0, 0.0
            if len(after):
                begin = first + int(after[0])
                rounds[late] = n_rounds - int(events.ids[events.rows[begin]])
                total[late] = self.squares(leader, begin, propensities, per_reward=per_reward)[late]
        # Few events tell little about a rival's variance: rounds of an average rival and one event more are added.
        # Too small a variance would mean too large stakes, which is what an e-process cannot forgive.
        average = total.sum() / max(int(rounds.sum()) - int(rounds[leader]), 1)
        return np.asarray((total + _PRIOR_ROUNDS * average + of_an_event) / (rounds + _PRIOR_ROUNDS))
