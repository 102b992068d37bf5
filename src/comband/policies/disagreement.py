"""Lists that spend their places where the candidates disagree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.disagreement import disagreement_lists, disputed_counts
from comband.contexts import Contexts, n_contexts, take_contexts
from comband.lists import check_lists
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.policies.sparse import SparsePropensities, sorted_actions
from comband.problem import InputError, Problem, as_generator
from comband.rounds import Decisions, read_only

# Actions of the leader's own list need no bound (they can only speak for it), undisputed actions tell candidates apart
# not at all: both keep a small probability, the first so that its weight stays moderate, the second so that values can
# be estimated.
_LEADER_SHARE = 0.3
_UNDISPUTED = 0.05


class DisagreementSampling:
    """Inclusion probabilities for single actions instead of a mixture of whole lists.

    For a context x let U(x) be the actions in any candidate's list. An action that all candidates show, or none, tells
    them apart not at all. A disputed action y matters to the comparison of the leader ℓ with rival π iff it is in
    exactly one of their lists; with attention α_π on the rivals it matters u(y) = Σ_π α_π 1[y ∈ π(x) △ ℓ(x)]. Since
    Var D(π) ≤ E Σ_{y∈π△ℓ} P(y rewarded | x)/Q(x, y), the best probabilities are in proportion to √(u(y)·P(y rewarded |
    x)); the share of candidates that show y stands in for the unknown second factor. So

        Q(x, y) = clip(t·√(u(y)·(share(y) + .01)), low(y), 1) with t such that Σ_y Q(x, y) = m,

    where low(y) ≥ `floor` for every disputed action outside the leader's list. A list with exactly these inclusion
    probabilities is drawn by systematic sampling. Uniform on U(x), m/|U(x)| ≥ 1/S: never worse than a mixture of the S
    candidates.

    The floor is a promise made before the context is seen. Where U(x) is too large to keep it (`covered` is False) all
    probabilities are still positive and exact, but below the floor.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are still candidates.
    leader:
        The position of ℓ in `candidates`.
    attention:
        (S,) α ≥ 0 for each candidate; the leader's is ignored.
    floor:
        The promised probability of disputed actions outside the leader's list.

    >>> problem = Problem(n_actions=6, list_size=2)
    >>> policies = PolicySet.from_lists([[[0, 1]], [[0, 2]], [[0, 3]]], problem)
    >>> design = DisagreementSampling(policies, [0, 1, 2], leader=0, attention=[0, 1, 1], floor=.3, problem=problem)
    >>> design.propensities([0]).round(2).tolist()  # action 0 is shown by all: learning about it is worth little
    [[0.05, 0.81, 0.57, 0.57, 0.0, 0.0]]
    """

    def __init__(
        self,
        policies: PolicySet,
        candidates: ArrayLike,
        *,
        leader: int,
        attention: ArrayLike,
        floor: float,
        problem: Problem,
    ) -> None:
        self.policies = policies
        self.candidates: NDArray[np.int64] = np.asarray(candidates, dtype=np.int64)
        self.leader = leader
        weights = np.array(attention, dtype=np.float64)
        weights[leader] = 0.0
        total = weights.sum()
        self.attention = weights / total if total > 0 else np.full(len(weights), 1 / max(len(weights) - 1, 1))
        self.attention[leader] = 0.0
        self.floor = floor
        self.problem = problem
        self._floors = np.array([floor, min(_LEADER_SHARE * floor, 1.0), min(_UNDISPUTED, floor)])

    @property
    def least_propensity(self) -> float:
        """The smallest probability of any candidate's action in covered contexts."""
        return float(self._floors.min())

    def draw(
        self,
        X: Contexts,
        rng: int | np.random.SeedSequence | np.random.Generator,
        *,
        first_id: int = 0,
        epoch: int = 0,
    ) -> Decisions:
        """Draw a list for each context; `covered` says where the floor could be kept.

        Uses one number of `rng` a context, in order.
        """
        rng = as_generator(rng)
        n, m = n_contexts(X), self.problem.list_size
        lists, propensities = np.empty((n, m), dtype=np.int32), np.empty((n, m))
        covered = np.empty(n, dtype=np.bool_)
        none = np.empty((0, 0), dtype=np.int32)
        for rows in self._row_blocks(n):
            u = rng.random(rows.stop - rows.start)
            asked = np.empty((len(u), 0), dtype=np.int32) if len(u) else none
            drawn = self._kernel(self._predict(take_contexts(X, rows)), u, asked)
            lists[rows], propensities[rows], covered[rows] = drawn[:3]
        return Decisions(
            ids=read_only(np.arange(first_id, first_id + n)),
            lists=read_only(lists),
            propensities=read_only(propensities),
            epochs=read_only(np.full(n, epoch)),
            contexts=X,
            covered=read_only(covered),
        )

    def propensities(self, X: Contexts, lists: ArrayLike | None = None) -> NDArray[np.float64]:
        """Q of the listed actions, (n, k), or of all actions, (n, K), when no lists are given."""
        n, K = n_contexts(X), self.problem.n_actions
        if lists is None:
            asked = np.ascontiguousarray(np.broadcast_to(np.arange(K, dtype=np.int32), (n, K)))
        else:
            asked = check_lists(lists, n=n)
            if asked.size and int(asked.max()) >= K:
                raise InputError(f"actions must lie in 0 … {K - 1}, got {int(asked.max())}.")
        result = np.empty(asked.shape)
        for rows in self._row_blocks(n):
            block = asked[rows]
            result[rows] = self._kernel(self._predict(take_contexts(X, rows)), np.zeros(len(block)), block)[4]
        return result

    def sparse_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all actions, without an (n, K) array."""
        parts = []
        for rows in self._row_blocks(n_contexts(X)) or [slice(0, 0)]:
            predicted = self._predict(take_contexts(X, rows))
            listed, nothing = sorted_actions(predicted), np.zeros(len(predicted))
            values = self._kernel(predicted, nothing, listed)[4]
            parts.append(SparsePropensities.of_sorted(self.problem.n_actions, listed, values, nothing))
        return SparsePropensities.concat(parts)

    def _row_blocks(self, n: int) -> list[slice]:
        step = max(1, BLOCK // (len(self.candidates) * self.problem.list_size))
        return [slice(start, min(n, start + step)) for start in range(0, n, step)]

    def _predict(self, X: Contexts) -> NDArray[np.int32]:
        return self.policies.predict(X, self.candidates, problem=self.problem)

    def _kernel(
        self, predicted: NDArray[np.int32], u: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.int32], NDArray[np.float64]]:
        result: tuple[
            NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.int32], NDArray[np.float64]
        ] = disagreement_lists(predicted, self.leader, self.attention, self._floors, u, self.problem.n_actions, asked)
        return result


def count_disputed(
    policies: PolicySet, candidates: NDArray[np.int64], leader: int, X: Contexts, problem: Problem
) -> NDArray[np.int64]:
    """How many actions outside the leader's list are in some candidate's, for each context."""
    n = n_contexts(X)
    step = max(1, BLOCK // (len(candidates) * problem.list_size))
    parts = [
        disputed_counts(
            policies.predict(take_contexts(X, slice(start, min(n, start + step))), candidates, problem=problem),
            leader,
            problem.n_actions,
        )
        for start in range(0, n, step)
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
