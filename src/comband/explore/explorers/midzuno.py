"""Lists for totals: one action on which the candidates disagree, and uniform others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.numbering import Numbered
from comband._kernels.totals import first_actions
from comband.explore.explorers.adaptive import room_needed
from comband.explore.explorers.base import Drawn, Explorer, Seed, Standing, register
from comband.explore.explorers.blocks import StoredExplorer, attention_shares, row_blocks
from comband.page.bits import Rows
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import Problem, as_generator, check_some_left
from comband.page.rounds import Decisions, Events, read_only
from comband.page.storage import Array, Real, State, Whole, require
from comband.policies.midzuno import filled_lists
from comband.policies.policy_set import PolicySet
from comband.policies.sparse import SparsePropensities, sorted_actions
from comband.theory.letters import sparsity_of

_LEADER_SHARE = 0.3  # of the smallest probability, for actions of the leader's own list: they can only speak for it
_UNDISPUTED = 0.05  # of all probability, for actions that all candidates show: only values need them
_UNIFORM = 0.05  # of all probability, for all actions alike: every list is possible, and values can be estimated


@register
class MidzunoExplorer(StoredExplorer):
    """Draws one action y first, with probability q(x, y), and m − 1 of the others uniformly (`comband.page.totals`).

    A reward of a round is its total T, credited to every shown action in equal parts, divided by (1−f)·q(x, a)/m,
    q(x, a) = Σ_{y∈a} q(x, y): for π the round is then worth T·N(π)/((1−f)·q(x, a)), N(π) = #(π(x)∩a), and differences
    are unbiased. Since N(π) − N(ℓ) is at most the number of actions of π∖ℓ in a, and q(x, a) at least that number times
    the smallest q of such actions, D ≤ ρ/((1−f)·min q): only the first draw of *disputed* actions outside the leader's
    list bounds D, as with single rewards.

    q(x, y) is low(y) and a part of the rest in proportion to √(u(y)·(share(y) + .01)), with u and share as for
    `DisagreementExplorer`; low(y) ≥ `smallest_first` for disputed actions outside the leader's list. Where more actions
    are disputed than there is room for (`covered` is False) all are smaller. A share `uniform` of first actions is
    uniform over all K.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are still candidates.
    leader:
        The position of ℓ in `candidates`.
    attention:
        (S,) α ≥ 0 for each candidate; the leader's is ignored.
    smallest_first:
        The promised probability with which disputed actions outside the leader's list are drawn first.
    uniform:
        The share of uniform first actions; 1 makes all lists uniform.
    problem:
        The setting.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, feedback="total")
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import MidzunoExplorer
    >>> explorer = MidzunoExplorer(
    ...     policies, range(4), leader=0, attention=np.ones(4), smallest_first=0.05, problem=problem
    ... )
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.lists.shape
    (5, 3)
    """

    KIND: ClassVar[str] = "midzuno"
    FROM_TOTALS: ClassVar[bool] = True

    def __init__(
        self,
        policies: PolicySet,
        candidates: ArrayLike,
        *,
        leader: int,
        attention: ArrayLike,
        smallest_first: float,
        problem: Problem,
        uniform: float = _UNIFORM,
    ) -> None:
        check_some_left(problem)
        self.policies, self.problem = policies, problem
        self.candidates: NDArray[np.int64] = np.asarray(candidates, dtype=np.int64)
        self.leader, self.smallest_first, self.uniform = leader, smallest_first, uniform
        self.attention = np.array(attention, dtype=np.float64)
        self._shares = attention_shares(self.attention, leader)
        undisputed = min(_UNDISPUTED / problem.list_size, smallest_first)
        self._lowest = np.array([smallest_first, _LEADER_SHARE * smallest_first, undisputed])
        left = 1 - problem.fill_share
        self.smallest_disputed = left * self._mixed(smallest_first)
        # Estimates of values hold an excess of up to f·m·s/(1−f), which their bound must leave room for.
        rho = problem.max_reward
        room = rho / (rho + problem.fill_share * problem.list_size * sparsity_of(problem) / left)
        self.smallest = min(left * self._mixed(float(self._lowest.min())), room)
        self.smallest_list = left * uniform * problem.uniform_propensity

    def _mixed(self, q: float) -> float:
        return (1 - self.uniform) * q + self.uniform / self.problem.n_actions

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context; propensities are those of being in the list. Uses 1 + 2m numbers a context."""
        rng = as_generator(rng)
        n, m, K = n_contexts(X), self.problem.list_size, self.problem.n_actions
        lists, propensities = np.empty((n, m), dtype=np.int32), np.empty((n, m))
        covered = np.empty(n, dtype=np.bool_)
        kept = []
        for rows in self._row_blocks(n):
            u = rng.random((rows.stop - rows.start, 1 + 2 * m))
            predicted = self._predict(take_contexts(X, rows))
            # One number decides whether the first action is uniform and then which one it is.
            rest = np.maximum(u[:, 0] - self.uniform, 0.0) / max(1 - self.uniform, 1e-300)
            first, covered[rows], _ = self._kernel(predicted, rest, np.empty((len(u), 0), dtype=np.int32))
            any_item = np.minimum((u[:, 0] / self.uniform * K).astype(np.int64), K - 1)
            first = np.where(u[:, 0] < self.uniform, any_item, first).astype(np.int32)
            lists[rows] = filled_lists(first[:, None], u[:, 1:], self.problem)
            propensities[rows] = self._included(self._kernel(predicted, rest, lists[rows])[2])
            if rows.stop > n - keep:
                kept.append(predicted[max(0, n - keep - rows.start) :])
        decisions = Decisions(
            ids=read_only(np.arange(first_id, first_id + n)),
            lists=read_only(lists),
            propensities=read_only(propensities),
            epochs=read_only(np.full(n, epoch)),
            contexts=X,
            covered=read_only(covered),
        )
        return Drawn(decisions, (kept[0] if len(kept) == 1 else np.concatenate(kept)) if kept else None)

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Every shown action counts for all candidates that list it."""
        return self.policies.contains(events.contexts, events.rows[chosen], events.actions[chosen], self.candidates)

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """(1−f)·q(a)/m, the same for all m events of a round: the mean of their Q less f."""
        return _round_means(events.propensities[chosen], events.rows[chosen]) - self.problem.fill_share

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """What `divisors` would be for the lists of these rounds, had this explorer drawn them."""
        contexts = take_contexts(events.contexts, events.rows[chosen])
        included = self.propensities_of(contexts, events.actions[chosen, None])[:, 0]
        return _round_means(included, events.rows[chosen]) - self.problem.fill_share

    def propensities_of(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of some items (n, k), computed anew."""
        asked = np.ascontiguousarray(items, dtype=np.int32)
        result = np.empty(asked.shape)
        for rows in self._row_blocks(len(asked)):
            predicted = self._predict(take_contexts(X, rows))
            result[rows] = self._kernel(predicted, np.zeros(len(predicted)), asked[rows])[2]
        return self._included(result)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all items, computed anew."""
        parts = []
        for rows in self._row_blocks(n_contexts(X)) or [slice(0, 0)]:
            predicted = self._predict(take_contexts(X, rows))
            listed, nothing = sorted_actions(predicted), np.zeros(len(predicted))
            values = self._included(self._kernel(predicted, nothing, listed)[2])
            parts.append(SparsePropensities.of_sorted(self.problem.n_actions, listed, values, self._included(nothing)))
        return SparsePropensities.concat(parts)

    SCHEMA: ClassVar = {
        **StoredExplorer.SCHEMA,
        "leader": Whole(0, "S-1"),
        "attention": Array("f8", ("S",), 0),
        "smallest_first": Real(0, 1),
        "uniform": Real(0, 1),
    }

    @classmethod
    def _agree(cls, state: State) -> None:
        require(state["smallest_first"] > 0 and state["uniform"] > 0, "the smallest probabilities must be above 0.")

    def _included(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Q = q + (1−q)·f from the first draw without its uniform share."""
        mixed = (1 - self.uniform) * q + self.uniform / self.problem.n_actions
        return np.asarray(mixed + (1 - mixed) * self.problem.fill_share)

    def _row_blocks(self, n: int) -> list[slice]:
        return row_blocks(n, len(self.candidates), self.problem.list_size)

    def _predict(self, X: Contexts) -> NDArray[np.int32]:
        return self.policies.predict(X, self.candidates, problem=self.problem)

    def _kernel(
        self, predicted: NDArray[np.int32], u: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.float64]]:
        few = Numbered(predicted, asked, self.problem.n_actions)
        first, covered, of_asked = first_actions(
            few.lists, self.leader, self._shares, self._lowest, u, few.n_actions, few.asked
        )
        return few.items_of(first[:, None])[:, 0], covered, of_asked


def _round_means(values: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean over the events of each round, at each of them."""
    _, place = np.unique(rows, return_inverse=True)
    sums, counts = np.bincount(place, values), np.bincount(place)
    return np.asarray((sums / np.maximum(counts, 1))[place])


_SHARE = 0.65  # of the largest smallest probability that is possible; the rest goes where the variance is


@dataclass(frozen=True, slots=True)
class MidzunoExploration:
    """From totals what `DisagreementExploration` is from single rewards: more attention on a rival the closer its value
    is to the leader's and the more evidence it still lacks, and a smallest probability by how much the candidates
    disagreed on recent contexts. All candidates that are left are asked on every context.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, feedback="total")
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.MidzunoExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        return MidzunoExplorer(
            standing.policies,
            standing.candidates,
            leader=standing.leader,
            attention=standing.need / (standing.epsilon + standing.gaps) ** 2,
            smallest_first=min(_SHARE / room_needed(standing), 1.0),
            problem=standing.problem,
        )


@dataclass(frozen=True, slots=True)
class UniformTotalsExploration:
    """Uniform lists, for totals: Midzuno's with uniform first actions.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, feedback="total")
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.UniformTotalsExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        return MidzunoExplorer(
            standing.policies,
            standing.candidates,
            leader=standing.leader,
            attention=np.zeros(len(standing.candidates)),
            smallest_first=1 / standing.problem.n_actions,
            problem=standing.problem,
            uniform=1.0,
        )
