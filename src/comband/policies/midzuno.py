"""Lists whose whole law is known, for feedback that is one total per round: Midzuno's sampling of a mixture."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import uniform_lists
from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import Problem, as_generator, check_problem, check_some_left
from comband.page.rounds import Decisions, read_only
from comband.policies.mixture import Mixture


@dataclass(frozen=True, eq=False)
class MidzunoLists:
    """One action of the mixture first, then m − 1 others, uniformly; shown in random order.

    The first action is y with probability q(x, y) = Q^γ(x, y)/m: with probability γ uniform over all K, otherwise a
    uniform one of the list of a policy drawn from p. A list a can be begun with any of its actions, so

        P(a | x) = q(x, a) / C(K−1, m−1),     q(x, a) = Σ_{y∈a} q(x, y) = (1−γ)·E_p|π(x) ∩ a|/m + γm/K.

    The probability of a whole list is thus as easy to know as that of one action, which is what estimates from totals
    need (`comband.statistics.totals`). q(x, a), the *share* of the list, is m/K for uniform lists.

    Parameters
    ----------
    mixture:
        p, γ, and the problem; lists must leave actions out (m < K).

    >>> from comband.policies.policy_set import PolicySet
    >>> problem = Problem(n_actions=4, list_size=2)
    >>> policies = PolicySet.from_lists([[[0, 1]], [[1, 2]]], problem)
    >>> lists = MidzunoLists(Mixture(policies, [0.75, 0.25], problem=problem, floor=0.5))
    >>> lists.shares([0, 0], [[0, 1], [2, 3]]).tolist()
    [0.6875, 0.3125]
    """

    mixture: Mixture

    def __post_init__(self) -> None:
        check_some_left(check_problem(self.mixture.problem))

    @property
    def problem(self) -> Problem:
        """The mixture's."""
        return self.mixture.problem

    def first_propensities(self, X: Contexts, lists: ArrayLike) -> NDArray[np.float64]:
        """q(x, y) of the listed actions, (n, m): the probability that y is drawn first."""
        return self.mixture.propensities(X, lists) / self.problem.list_size

    def shares(self, X: Contexts, lists: ArrayLike) -> NDArray[np.float64]:
        """q(x, a) of lists (n, m): their probability times C(K−1, m−1)."""
        return np.asarray(self.first_propensities(X, lists).sum(axis=1))

    def propensities(self, X: Contexts, lists: ArrayLike) -> NDArray[np.float64]:
        """The probability (n, m) that a listed action is anywhere in the list, q + (1−q)·f with f = (m−1)/(K−1)."""
        q = self.first_propensities(X, lists)
        return q + (1 - q) * self.problem.fill_share

    def draw(
        self,
        X: Contexts,
        rng: int | np.random.SeedSequence | np.random.Generator,
        **numbering: int,
    ) -> Decisions:
        """Draw a list for each context; propensities are as everywhere those of being in the list.

        The mixture draws a list (`numbering` is as for `Mixture.draw`), of which a uniform place is kept: exactly the
        law above.
        """
        rng = as_generator(rng)
        seeds = self.mixture.draw(X, rng, **numbering)
        lists = filled_lists(seeds.lists, rng.random((n_contexts(X), 2 * self.problem.list_size)), self.problem)
        return replace(seeds, lists=read_only(lists), propensities=read_only(self.propensities(X, lists)))


def filled_lists(seeds: NDArray[np.int32], u: NDArray[np.float64], problem: Problem) -> NDArray[np.int32]:
    """Lists (n, m) of one action each of `seeds` (n, k), in a uniform place there, and m − 1 others, in random order.

    `u` (n, 2m) are uniform numbers.
    """
    n, K, m = len(seeds), problem.n_actions, problem.list_size
    if seeds.shape[1] == 1:
        first = seeds[:, 0]
    else:
        place = np.minimum((u[:, 0] * seeds.shape[1]).astype(np.int64), seeds.shape[1] - 1)
        first = seeds[np.arange(n), place]
    lists = np.empty((n, m), dtype=np.int32)
    lists[:, 0] = first
    if m > 1:
        rest = uniform_lists(np.ascontiguousarray(u[:, 1:m]), K - 1)
        lists[:, 1:] = rest + (rest >= first[:, None])  # numbered without the first one
    # How an action came into the list must not show in its place.
    return np.take_along_axis(lists, np.argsort(u[:, m:], axis=1), axis=1)
