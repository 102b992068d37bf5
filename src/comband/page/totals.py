"""Rounds of which only the total is known: T = Σ_{y∈a} r(y), one number for a whole list.

What an estimate needs of such a round is the probability of its list. It is kept as the list's *share* q(a) = P(a | x)·
C(K−1, m−1), which is m/K for uniform lists whatever their number, and for Midzuno's lists the sum over the list of the
probabilities of being drawn first (`comband.policies.midzuno`): with Q(y) the probability that y is in the list at all,
q(a) = Σ_{y∈a} (Q(y) − f)/(1−f), f = (m−1)/(K−1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts, n_contexts
from comband.page.frames import is_frame
from comband.page.lists import check_lists, check_propensities, check_totals
from comband.page.problem import (
    NO_SUCH_DRAW,
    SMALLEST_PROPENSITY,
    TOLERANCE,
    InputError,
    Problem,
    as_floats,
    check_problem,
    check_some_left,
)
from comband.page.rounds import Decisions, Events, Rounds, check_decisions


@dataclass(frozen=True, eq=False, slots=True)
class TotalRounds:
    """Shown lists with their totals (n,) and their shares (n,); see the module's first lines. `a + b` holds both.

    `TotalRounds.from_log` makes them of any log, `TotalRounds.of` of decisions drawn by `MidzunoLists`.

    Parameters
    ----------
    problem:
        The setting, with feedback "total".

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.page.totals import TotalRounds
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1, feedback="total")
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem)
    >>> uniform = np.full(4, 1 / 6)  # six lists of two, all alike
    >>> rounds = TotalRounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     totals=[1, 0, 1, 0],
    ...     list_propensities=uniform,
    ...     problem=problem,
    ... )
    >>> len(rounds), float(rounds.totals.sum())
    (4, 2.0)
    >>> (rounds + rounds).events().n_rounds
    8
    """

    problem: Problem
    decisions: Decisions
    totals: NDArray[np.float64]
    shares: NDArray[np.float64]

    def __post_init__(self) -> None:
        check_some_left(check_problem(self.problem))
        n = len(check_decisions(self.decisions))
        check_lists(self.decisions.lists, self.problem)
        object.__setattr__(self, "totals", check_totals(self.totals, self.problem, n=n))
        shares = as_floats("shares", self.shares)
        if shares.shape != (n,):
            raise InputError(f"shares must hold one number per round, shape ({n},), got shape {shares.shape}.")
        least = SMALLEST_PROPENSITY * self.problem.list_size / (1 - self.problem.fill_share)
        bad = np.flatnonzero(~((shares >= least) & (shares < np.inf)))
        if len(bad):
            row = int(bad[0])
            raise InputError(
                f"the share of a list must be a number of at least {least:.3g}, got {shares[row]} in row {row}: "
                f"{NO_SUCH_DRAW}."
            )
        object.__setattr__(self, "shares", shares)
        self.totals.flags.writeable = self.shares.flags.writeable = False

    @classmethod
    def of(cls, decisions: Decisions, totals: ArrayLike, problem: Problem) -> TotalRounds:
        """Rounds of lists as `MidzunoLists` (or uniform ones) draws them: shares follow from their propensities."""
        check_decisions(decisions)
        T = check_totals(totals, check_problem(problem), n=len(decisions))
        return cls(problem, decisions, T, filled_shares(decisions.propensities, problem))

    @classmethod
    def from_log(
        cls,
        contexts: Contexts,
        *,
        lists: ArrayLike,
        totals: ArrayLike,
        problem: Problem,
        list_propensities: ArrayLike | None = None,
        first_propensities: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> TotalRounds:
        """Rounds from a log of another system, checked. The law of whole lists must be in it, in one of two forms.

        Parameters
        ----------
        contexts, lists, totals:
            n of each: a list (m,) and the sum of its rewards.
        problem, ids:
            The setting; numbers of the rounds, 0 … n−1 unless given.
        list_propensities:
            (n,) the probability of the shown list, as a set, given the context. Every list must be possible.
        first_propensities:
            (n, m) for lists that were begun with one drawn action and filled up uniformly: the probability of each
            shown action to be the one drawn.
        """
        n = n_contexts(contexts)
        check_some_left(check_problem(problem))
        shown = check_lists(lists, problem, n=n)
        if (list_propensities is None) == (first_propensities is None):
            raise InputError(
                "a log of totals needs the law of whole lists: give list_propensities (n,), the probability of each "
                "shown list, or first_propensities (n, m) of lists that were filled up uniformly; "
                + (
                    "both came."
                    if first_propensities is not None
                    else "neither came. Propensities of single actions are not enough."
                )
            )
        if first_propensities is not None:
            q = check_propensities(first_propensities, shape=shown.shape)
            shares = q.sum(axis=1)
            if (shares > 1 + TOLERANCE).any():
                row = int(np.argmax(shares))
                raise InputError(
                    f"only one action is drawn first, but the probabilities of row {row} sum to {shares[row]:g}."
                )
        else:
            P = as_floats("list_propensities", list_propensities)  # type: ignore[arg-type]
            if P.shape != (n,):
                raise InputError(f"list_propensities must hold one number per round, shape ({n},), got {P.shape}.")
            bad = np.flatnonzero(~((P > 0) & (P <= 1 + TOLERANCE)))
            if len(bad):
                raise InputError(f"list_propensities must lie in (0, 1], got {P[bad[0]]} in row {bad[0]}.")
            shares = np.exp(np.log(P) + log_lists_with(problem))
        return cls.of_shares(contexts, lists=shown, totals=totals, shares=shares, problem=problem, ids=ids)

    @classmethod
    def of_shares(
        cls,
        contexts: Contexts,
        *,
        lists: ArrayLike,
        totals: ArrayLike,
        shares: ArrayLike,
        problem: Problem,
        ids: ArrayLike | None = None,
    ) -> TotalRounds:
        """Rounds of lists whose shares (n,) are known."""
        n = n_contexts(contexts)
        check_some_left(check_problem(problem))
        shown = check_lists(lists, problem, n=n)
        # Nothing is known of single actions, and nothing needed.
        decisions = replace(_unweighed(contexts, shown, problem, ids), propensities=np.full(shown.shape, np.nan))
        return cls(problem, decisions, check_totals(totals, problem, n=n), as_floats("shares", shares))

    def __len__(self) -> int:
        return len(self.totals)

    def __getitem__(self, index: Any) -> TotalRounds:
        which = np.atleast_1d(np.arange(len(self))[index])
        return TotalRounds(self.problem, self.decisions[which], self.totals[which], self.shares[which])

    def __add__(self, other: TotalRounds) -> TotalRounds:
        if self.problem != other.problem:
            raise InputError(f"rounds to join must be of one problem, got {self.problem} and {other.problem}.")
        return TotalRounds(
            self.problem,
            self.decisions + other.decisions,
            np.concatenate([self.totals, other.totals]),
            np.concatenate([self.shares, other.shares]),
        )

    def events(self) -> Events:
        """Events in which every shown action is credited with T/((1−f)·q(a)), f = (m−1)/(K−1), as its r/Q.

        Σ_{y∈π∩a} r/Q then has mean V(π) + f·m·E‖r‖₁/(1−f): the same excess for every policy, so that differences and
        maximisers are those of values. Whatever compares candidates takes such events as it takes others;
        `comband.statistics.totals` takes the excess off where a value itself is asked for.
        """
        m, left = self.problem.list_size, 1 - self.problem.fill_share
        # The credit is a ratio; both sides stay what rewards and propensities may be, shares above 1 included.
        scale = np.minimum(1.0, m / (left * self.shares)) / m
        rewards = np.repeat((self.totals * scale)[:, None], m, axis=1)
        propensities = np.repeat(np.minimum(left * self.shares * scale, 1.0)[:, None], m, axis=1)
        return Rounds(replace(self.decisions, propensities=propensities), rewards).events()


def first_of_rounds(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which events are the first of their round; those of a round stand together."""
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = rows[1:] != rows[:-1]
    return first


def filled_shares(propensities: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
    """q(a) = Σ_{y∈a} (Q(y) − f)/(1−f), from Q (n, m), of lists begun with one action and filled up uniformly."""
    f = problem.fill_share
    return np.asarray((propensities.sum(axis=1) - problem.list_size * f) / (1 - f))


def list_weights(events: Events, problem: Problem) -> NDArray[np.float64]:
    """T/(m·q(a)) at each event (E,): a list's weight in a potential or proxy, in equal parts. Refuses other events.

    `events` are those of `TotalRounds.events`; an estimate over rounds divides by their number.
    """
    m = problem.list_size
    weights = events.rewards / events.propensities
    whole = np.array_equal(events.rows, np.repeat(np.arange(events.n_rewarded), m))
    if not whole or (np.ptp(weights.reshape(-1, m), axis=1) > 1e-9 * weights[::m]).any():
        raise InputError(
            "this problem's feedback is the total of a list: give TotalRounds or their events, in which every shown "
            "action of a rewarded round has an equal part."
        )
    return np.asarray(weights * (1 - problem.fill_share) / m)


def events_of(rounds: Any, problem: Problem) -> Events:
    """The events of rounds that are of this problem's feedback: Rounds, TotalRounds, or events of either."""
    if isinstance(rounds, TotalRounds):
        if problem.feedback != "total":
            raise InputError('these rounds hold totals, and the problem says feedback="items".')
        if (rounds.problem.n_actions, rounds.problem.list_size) != (problem.n_actions, problem.list_size):
            raise InputError(f"these rounds are of {rounds.problem}, not of {problem}.")
        return rounds.events()
    if isinstance(rounds, Rounds) and problem.feedback == "total":
        raise InputError('these rounds hold rewards of single actions, and the problem says feedback="total".')
    if not isinstance(rounds, (Rounds, Events)):
        frame = (
            " (of a data frame: read_log(frame, lists).events, and the reading's policies)" if is_frame(rounds) else ""
        )
        raise InputError(f"rounds must be Rounds, TotalRounds or Events, got {type(rounds).__name__}{frame}.")
    return rounds.events() if isinstance(rounds, Rounds) else rounds


def log_lists_with(problem: Problem) -> float:
    """log C(K−1, m−1): how many lists hold a given action."""
    return math.log(math.comb(problem.n_actions - 1, problem.list_size - 1))


def _unweighed(contexts: Contexts, lists: NDArray[np.int32], problem: Problem, ids: ArrayLike | None) -> Decisions:
    """Decisions of a log, checked but for propensities."""
    itemised = replace(problem, feedback="items")
    nothing = np.zeros(lists.shape)
    return Rounds.from_log(
        contexts, lists=lists, rewards=nothing, propensities=nothing + 1, problem=itemised, ids=ids
    ).decisions
