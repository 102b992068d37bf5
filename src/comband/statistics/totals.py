"""Values of many policies from totals: what a list's total says about each policy, by how much they overlap.

For a list a of share q(a) = P(a | x)·C(K−1, m−1), with total T and N = #(π∩a) actions of π(x) in it, R(π) = T·N/q(a)
has mean

    Σ_a T(a)·#(π∩a) / C(K−1, m−1)  =  Σ_{y, z} r(y)·1[z ∈ π]·#{a ∋ y, z} / C(K−1, m−1)  =  (1−f)·V(π) + f·m·‖r‖₁,

because a pair y ≠ z is together in C(K−2, m−2) lists, f = (m−1)/(K−1) of those that hold y. So R(π) − R(ℓ), divided by
1−f, is unbiased for V(π) − V(ℓ), and T(N − f·m)/((1−f)·q(a)) for V(π). Every list must be possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.problem import Problem
from comband.page.rounds import Events
from comband.page.storage import Part, State, check
from comband.page.totals import first_of_rounds
from comband.policies.policy_set import PolicySet
from comband.statistics.importance import SharedActions, ValueSums
from comband.statistics.sequences import NOWHERE, ValueBets


def total_values(events: Events, policies: PolicySet, problem: Problem) -> ValueSums:
    """Sums over rounds of X_t(π) = T(N − f·m)/((1−f)·q(a)), unbiased for V(π), and of its square.

    For all `policies`, where `problem` says K and m.
    `events` are those of `TotalRounds.events`: all m actions of a rewarded round, each credited with T/((1−f)·q(a)).
    X may be negative; it lies in an interval of length `theory.estimate_range`.

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
    >>> from comband.statistics.totals import total_values
    >>> total_values(rounds.events(), policies, problem).means.round(2).tolist()
    [1.25, -0.25]
    """
    result = ValueSums.zero(len(policies), n_rounds=events.n_rounds)
    for values in total_round_values(events, policies, problem):
        result.add(values)
    return result


def total_round_values(events: Events, policies: PolicySet, problem: Problem) -> Iterator[NDArray[np.float64]]:
    """X_t(π) of all rewarded rounds t and policies π, in blocks (rounds, P) of bounded size.

    `events` and `problem` as for `total_values`.

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
    >>> from comband.statistics.totals import total_round_values
    >>> [block.shape for block in total_round_values(rounds.events(), policies, problem)]  # two rewarded rounds
    [(2, 2)]
    """
    weights = events.rewards / events.propensities
    excess = problem.fill_share * np.bincount(events.rows, weights, minlength=events.n_rewarded)
    for block in SharedActions.blocks(policies, events.contexts, events.rows, events.actions):
        yield block.sums(weights) - excess[block.rounds, None]


class TotalValueBets:
    """`ValueBets` from totals: V(π) = E X(π) − f·m·E Z, with X(π) = T·N/((1−f)·q(a)) ≥ 0 and Z = T/((1−f)·q(a)).

    X holds an excess that is the same for all candidates, and bets on Z bound it: the intervals of either hold with
    probability 1 − δ/2. Where lists are not filled up (whole lists of candidates), there is no excess.
    `problem` says K, m and s.

    >>> import comband as cb
    >>> from comband.statistics.totals import TotalValueBets
    >>> bets = TotalValueBets.zero(3, cb.Problem(n_actions=10, list_size=2, sparsity=1, feedback="total"))
    >>> bets.bounds(delta=0.05, max_reward=1)[1].tolist()  # nothing seen, nothing known
    [1.0, 1.0, 1.0]
    """

    def __init__(self, problem: Problem, candidates: ValueBets, lists: ValueBets) -> None:
        self.problem, self.candidates, self.lists = problem, candidates, lists
        left = 1 - problem.fill_share
        self._per_list = problem.fill_share * problem.list_size
        self._most_of_list = (problem.n_actions if problem.sparsity is None else problem.sparsity) / left
        self._most = problem.max_reward + self._per_list * self._most_of_list

    @classmethod
    def zero(cls, n_policies: int, problem: Problem, *, unit: float = 1.0) -> TotalValueBets:
        """No rounds yet."""
        return cls(problem, ValueBets.zero(n_policies, unit=unit), ValueBets.zero(1, unit=unit))

    def add(
        self,
        candidates: NDArray[np.int64],
        inside: NDArray[np.bool_] | NDArray[np.float64],
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        bound: float,
        list_bound: float | None,
        n_rounds: int,
        uncovered: NDArray[np.int64] = NOWHERE,
    ) -> None:
        """Enter a block of rounds, as for `ValueBets`; `list_bound` bounds Z, None where lists are not filled up."""
        most = self.problem.max_reward if list_bound is None else self._most
        self.candidates.add(
            candidates,
            inside,
            rows,
            weights,
            bound=bound,
            n_rounds=n_rounds,
            uncovered=uncovered,
            max_reward=most,
        )
        if list_bound is not None:
            first = first_of_rounds(rows)
            self.lists.add(
                np.zeros(1, dtype=np.int64),
                np.ones((int(first.sum()), 1), dtype=np.bool_),
                rows[first],
                weights[first],
                bound=list_bound,
                n_rounds=n_rounds,
                uncovered=np.concatenate([[0], np.cumsum(first)])[uncovered],
                max_reward=self._most_of_list,
            )

    @property
    def rounds(self) -> dict[float, NDArray[np.int64]]:
        """How many rounds count for each policy, by bound."""
        return self.candidates.rounds

    @property
    def n_rounds(self) -> NDArray[np.int64]:
        """How many rounds count for each policy."""
        return self.candidates.n_rounds

    @property
    def means(self) -> NDArray[np.float64]:
        """Estimated values (P,)."""
        return np.asarray(self.candidates.means - self._per_list * self.lists.means[0])

    def bounds(
        self, *, delta: float, max_reward: float, indices: ArrayLike | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `ValueBets.bounds`."""
        if not self.lists.rounds:
            return self.candidates.bounds(delta=delta, max_reward=max_reward, indices=indices)
        low, high = self.candidates.bounds(delta=delta / 2, max_reward=self._most, indices=indices)
        (least,), (most,) = self.lists.bounds(delta=delta / 2, max_reward=self._most_of_list)
        ends = low - self._per_list * most, high - self._per_list * least
        return np.clip(ends[0], 0.0, max_reward), np.clip(ends[1], 0.0, max_reward)

    SCHEMA: ClassVar = {"candidates": Part(), "lists": Part()}

    def state(self) -> State:
        """Both by name, for a file; see `comband.page.storage`."""
        return {"candidates": self.candidates.state(), "lists": self.lists.state()}

    @classmethod
    def from_state(cls, state: State, n_policies: int, problem: Problem, *, unit: float = 1.0) -> TotalValueBets:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA)
        candidates = ValueBets.from_state(state["candidates"], n_policies, unit=unit, signed=True)
        return cls(problem, candidates, ValueBets.from_state(state["lists"], 1, unit=unit))

    @property
    def n_first(self) -> int | None:
        """How many of the policies were there at the start, if others may come."""
        return self.candidates.n_first

    @n_first.setter
    def n_first(self, n: int | None) -> None:
        self.candidates.n_first = n

    def grown(self, n: int) -> TotalValueBets:
        """As `ValueBets.grown`."""
        return TotalValueBets(self.problem, self.candidates.grown(n), self.lists)

    def __add__(self, other: TotalValueBets) -> TotalValueBets:
        return TotalValueBets(self.problem, self.candidates + other.candidates, self.lists + other.lists)
