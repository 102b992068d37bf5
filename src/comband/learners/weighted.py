"""What EXP4 and its relatives share: a distribution over all policies, updated by the rewards that were seen."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import credit, draw_policies, inclusion, uniform_lists
from comband._kernels.orders import shuffle_lists
from comband.learners.atomic import synchronized
from comband.learners.base import Seed
from comband.learners.selector import Selector
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.lists import check_lists
from comband.page.problem import SMALLEST_PROPENSITY, Problem, check_choice
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Array, State, Whole, require
from comband.policies.policy_set import PolicySet, check_policies
from comband.policies.scored import BLOCK
from comband.statistics.results import REGRET_INSTEAD, Selection, Status

Propensities = Literal["always", "when rewarded"]

_FIRST = np.zeros(1, dtype=np.int64)
_NONE = np.full(1, -1)
_SNAPSHOT_BYTES = 1 << 28  # of earlier weights, kept for decisions whose propensities are still to be computed


class WeightedPolicies(Selector):
    """Draws the list of a policy π ~ p_t, or with probability γ a uniform list, and learns from weighted rewards.

        ĉ_t(π) = −Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(x_t, y),   Q_t = (1−γ) Σ_π p_t(π) 1[y ∈ π(x_t)] + γ m/K.

    Subclasses say how p follows from L = Σ ĉ. Rounds without reward leave L, hence p, as they are and cost no solve;
    several rewarded rounds told before the next `ask` cost one. Late feedback is weighted by the propensities of its
    own decision, whatever p is by then.

    The propensity of an action needs every policy's list for the context. With propensities "always" they are computed
    with the decision, and travel in it. With "when rewarded" they are NaN in the decision and computed, from the
    weights of the decision's version, if and when a reward comes: the run is the same, but for contexts without reward
    only the drawn policy is evaluated. Old weights are kept for that as long as a decision of theirs is open, up to
    256 MB; beyond it propensities are computed at once.
    """

    PROMISES_NOTHING: ClassVar[str] = REGRET_INSTEAD
    """Why nothing is promised of the policy that is named."""

    RANDOM_ORDER: ClassVar[bool] = False
    """Whether lists are shown in random order, all alike: then what places do to rewards favours none."""

    def __init__(
        self, problem: Problem, policies: PolicySet, *, floor: float, propensities: Propensities, seed: Seed
    ) -> None:
        super().__init__(problem, check_policies(policies), seed=seed)
        check_choice("propensities", propensities, ("always", "when rewarded"))
        self.floor = floor
        self.propensities = propensities
        self._losses = np.zeros(len(policies))
        self._stale = False  # whether L has changed since the weights were computed
        self._version = 0
        self._cumulative: NDArray[np.float64] | None = None
        self._edges = np.empty(len(policies))  # where the cumulative weights are kept
        self._support: NDArray[np.int64] | None = None  # of the current weights
        self._open: dict[int, int] = {}  # version -> decisions whose propensities are still to be computed
        self._snapshots: dict[int, NDArray[np.float64]] = {}

    @property
    @synchronized
    def weights(self) -> NDArray[np.float64]:
        """p (P,), as the next decision will be drawn; a read-only view, valid until the next `ask`."""
        self._refresh()
        view = self._weights().view()
        view.flags.writeable = False
        return view

    @property
    @synchronized
    def estimated_totals(self) -> NDArray[np.float64]:
        """−L (P,): unbiased estimates of what each policy would have collected so far."""
        return -self._losses

    @synchronized
    def result(self) -> Selection:
        """The policy with the highest estimated total. EXP4-like learners promise regret, not this choice."""
        n_rounds = max(self._rounds_learnt(), 1)
        return self._by_totals(self.estimated_totals, n_rounds, why=self.PROMISES_NOTHING)

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now."""
        leader = int(np.argmin(self._losses))
        return Status(self.rounds, self.policies.names[leader], len(self.policies))

    def _rounds_learnt(self) -> int:
        """How many rounds the estimated totals are of."""
        return self.rounds

    @abstractmethod
    def _weights(self) -> NDArray[np.float64]:
        """The current p, the solver's own array."""

    @abstractmethod
    def _solve(self) -> None:
        """Compute p for the current L, in place."""

    def _refresh(self) -> None:
        if not self._stale:
            return
        if self._version in self._open:
            self._snapshots[self._version] = self._weights().copy()
        self._solve()
        self._version += 1
        self._stale = False
        self._cumulative = self._support = None

    def _prepare(self) -> None:
        self._refresh()  # overwrites the weights, so it is done for good, whether or not the decision fails

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        self._refresh()
        if self._cumulative is None:
            self._cumulative = np.cumsum(self._weights(), out=self._edges)
        n, m = n_contexts(X), self.problem.list_size
        u = self._rng.random((n, (1 + m if self.floor > 0 else 1) + self.RANDOM_ORDER))
        lists = (
            uniform_lists(np.ascontiguousarray(u[:, 1 : 1 + m]), self.problem.n_actions)
            if self.floor > 0
            else np.empty((n, m), dtype=np.int32)
        )
        drawn = draw_policies(self._cumulative, u, self.floor) if self.floor < 1 else _NONE
        if self.policies.looked_up and n > 1:  # all that were drawn at once: one look costs more than many rows
            rows = np.flatnonzero(drawn >= 0)
            which, place = np.unique(drawn[rows], return_inverse=True)
            for some in _blocks(np.arange(len(rows)), max(1, BLOCK // (max(len(which), 1) * m))):
                answer = self.policies.predict(take_contexts(X, rows[some]), which, problem=self.problem)
                lists[rows[some]] = answer[np.arange(len(some)), place[some]]
        else:
            for policy in (drawn if n == 1 else np.unique(drawn)).tolist():
                if policy >= 0:
                    rows = np.flatnonzero(drawn == policy) if n > 1 else _FIRST
                    own = self.policies[policy].predict(X if n == len(rows) else take_contexts(X, rows))
                    lists[rows] = check_lists(own, self.problem, n=len(rows))
        later = self.propensities == "when rewarded" and (
            (len(self._snapshots) + 1) * 8 * len(self.policies) <= _SNAPSHOT_BYTES
        )
        # The floor or the barrier keeps every propensity away from zero.
        q = _unknown((n, m)) if later else self._inclusion(X, lists, drawn)
        if self.RANDOM_ORDER:
            shuffle_lists(lists, q, np.ascontiguousarray(u[:, -1]))
        decisions = Decisions.unsigned(first_id, lists, q, epoch=self._version, contexts=X)
        if later and n:
            self._open[self._version] = self._open.get(self._version, 0) + n
        return decisions

    def _learn(self, rounds: Rounds) -> None:
        blocks = self._rewarded_blocks(rounds)
        # Of several blocks a later one may fail when others are entered; a single one is entered when nothing can fail.
        losses = self._losses.copy() if len(blocks) > 1 else self._losses
        for rows in blocks:
            lists, where, actions, gained, q = self._rewards_of(rounds, rows)
            self._corrupt = len(blocks) == 1
            credit(lists, where, actions, -gained / q, losses)
        self._corrupt = True
        self._losses = losses
        self._stale |= len(blocks) > 0
        self._close_versions(rounds.decisions)

    def _rewarded_blocks(self, rounds: Rounds) -> list[NDArray[np.int64]]:
        """The rounds with any reward, as many at a time as all policies are asked about."""
        if not np.count_nonzero(rounds.rewards):
            return []
        return _blocks(np.flatnonzero(rounds.rewards.any(axis=1)), self._rows_a_block())

    def _rewards_of(
        self, rounds: Rounds, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """Of some rounds: all policies' lists (n, P, m); and of each reward in which of these rows, ascending, it came,
        for which action, r and Q.
        """
        decisions = rounds.decisions
        X = decisions.contexts if len(rows) == len(rounds) else take_contexts(decisions.contexts, rows)
        lists = self.policies.predict(X, problem=self.problem)
        shown, gained = decisions.lists[rows], rounds.rewards[rows]
        q = decisions.propensities[rows]
        if np.isnan(q).any():
            q = q.copy()
            for version in np.unique(decisions.epochs[rows]):
                unknown = (decisions.epochs[rows] == version) & np.isnan(q[:, 0])
                theirs = lists if unknown.all() else lists[unknown]
                q[unknown] = self._mix(
                    inclusion(theirs, self._weights_of(int(version)), shown[unknown], self.problem.n_actions)
                )
        where, position = np.nonzero(gained)
        return lists, where, shown[where, position], gained[where, position], q[where, position]

    def _weights_of(self, version: int) -> NDArray[np.float64]:
        return self._weights() if version == self._version else self._snapshots[version]

    def _close_versions(self, decisions: Decisions) -> None:
        """Decisions are answered: weights that no open one was drawn with are not kept."""
        if not self._open:
            return
        told = decisions.epochs[np.isnan(decisions.propensities[:, 0])].tolist()
        for version, count in Counter(told).items() if len(told) > 1 else ((version, 1) for version in told):
            self._open[version] -= count
            if self._open[version] == 0:
                del self._open[version]
                self._snapshots.pop(version, None)

    def _inclusion(self, X: Contexts, shown: NDArray[np.int32], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        """Q (n, m) of the shown actions, given whose list each row shows (−1: a uniform one)."""
        result = np.empty(shown.shape)
        if self.floor == 1:
            result.fill(self.problem.uniform_propensity)
            return result
        weights = self._weights()
        if self._support is None:
            self._support = np.flatnonzero(weights)
        support = self._support  # policies of weight zero are not asked
        if len(support) == 1 and drawn.min(initial=0) >= 0:  # all rows show the list of the only one
            result.fill(weights[support[0]])
            return self._mix(result)
        indices, theirs = (None, weights) if len(support) == len(weights) else (support, weights[support])
        step, K = self._rows_a_block(), self.problem.n_actions
        if len(shown) <= step:
            return self._mix(inclusion(self.policies.predict(X, indices, problem=self.problem), theirs, shown, K))
        for rows in _blocks(np.arange(len(shown)), step):
            lists = self.policies.predict(take_contexts(X, rows), indices, problem=self.problem)
            result[rows] = inclusion(lists, theirs, shown[rows], K)
        return self._mix(result)

    def _mix(self, followed: NDArray[np.float64]) -> NDArray[np.float64]:
        """With the share of uniform lists, in place."""
        if self.floor > 0:
            followed *= 1 - self.floor
            followed += self.floor * self.problem.uniform_propensity
        # Rounding may pass 1 when all policies agree, and a weight may be smaller than anything that is ever drawn.
        np.maximum(followed, SMALLEST_PROPENSITY, out=followed)
        return np.minimum(followed, 1.0, out=followed)

    def _rows_a_block(self) -> int:
        return max(1, BLOCK // (len(self.policies) * self.problem.list_size))

    _SCHEMA: ClassVar[dict[str, Any]] = {
        "losses": Array("f8", ("P",), high=0),
        "version": Whole(0),
        "open": {
            "versions": Array("i8", ("V",), 0, rising=True),
            "counts": Array("i8", ("V",), 1),
            "weights": Array("f8", ("V", "P"), 0, 1),
        },
    }

    def _state(self) -> State:
        self._refresh()
        kept = [self._weights_of(version) for version in self._open]
        return {
            "losses": self._losses,
            "version": self._version,
            "open": {
                "versions": np.array(list(self._open), dtype=np.int64),
                "counts": np.array(list(self._open.values()), dtype=np.int64),
                "weights": np.stack(kept) if kept else np.empty((0, len(self.policies))),
            },
        }

    def _restore(self, state: State) -> None:
        self._losses, self._version = state["losses"], state["version"]
        versions, counts = state["open"]["versions"].tolist(), state["open"]["counts"].tolist()
        require(
            max(versions, default=0) <= self._version
            and (self.propensities == "when rewarded" or not versions)
            and sum(counts) <= self._ledger.issued - self._ledger.answered
            and bool((np.abs(state["open"]["weights"].sum(axis=1) - 1) < 1e-6).all()),
            "decisions whose propensities are still to be computed must be open ones, drawn with known weights.",
        )
        self._open = dict(zip(versions, counts, strict=True))
        self._snapshots = dict(zip(versions, state["open"]["weights"], strict=True))
        current = self._snapshots.pop(self._version, None)
        self._restore_weights(state)
        require(
            current is None or np.array_equal(current, self._weights()), "the current weights must be known as such."
        )

    @abstractmethod
    def _restore_weights(self, state: State) -> None:
        """Take back p, and see that it is the one for the losses."""


def _unknown(shape: tuple[int, int]) -> NDArray[np.float64]:
    q = np.empty(shape)
    q.fill(np.nan)
    return q


def _blocks(rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
