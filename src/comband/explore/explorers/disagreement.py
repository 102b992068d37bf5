"""Lists that spend their places where the candidates disagree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.disagreement import disagreement_lists, disputed_counts
from comband._kernels.inputs import as_input
from comband._kernels.lists import contains
from comband._kernels.numbering import Numbered
from comband.explore.explorers.base import Drawn, Seed, Standing, register
from comband.explore.explorers.blocks import StoredExplorer, attention_shares, row_blocks
from comband.explore.explorers.event_lists import EventLists
from comband.page.bits import Rows
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.lists import check_lists, refuse_propensities
from comband.page.problem import InputError, Problem, as_generator
from comband.page.rounds import Decisions, Events, read_only
from comband.page.storage import Array, Default, Maybe, Real, State, Whole, require
from comband.page.threads import cut, for_each
from comband.policies.policy_set import PolicySet
from comband.policies.sparse import SparsePropensities, sorted_actions

# Actions of the leader's own list need no bound for the evidence (they can only speak for it), and undisputed actions
# say nothing about which candidate is better: both keep a smaller probability, the first so that it can be noticed if
# the leader falls behind (six tenths took as many rounds to a certificate as three), the second so that values can be
# estimated.
_LEADER_SHARE = 0.6
UNDISPUTED = 0.05


@register
class DisagreementExplorer(StoredExplorer):
    """Inclusion probabilities for single actions instead of a mixture of whole lists.

    For a context x let U(x) be the actions in any candidate's list. An action that all candidates show, or none, says
    nothing about which is better. A disputed action y matters to the comparison of the leader ℓ with rival π iff it is
    in exactly one of their lists; with attention α_π on the rivals it matters u(y) = Σ_π α_π 1[y ∈ π(x) △ ℓ(x)]. Since
    Var D(π) ≤ E Σ_{y∈π△ℓ} P(y rewarded | x)/Q(x, y), the best probabilities are in proportion to √(u(y)·P(y rewarded |
    x)); the share of candidates that show y stands in for the unknown second factor. So

        Q(x, y) = clip(t·√(u(y)·(share(y) + .01)), low(y), 1) with t such that Σ_y Q(x, y) = m,

    where low(y) ≥ `smallest_disputed` for every disputed action outside the leader's list. A list with exactly these
    inclusion probabilities is drawn by systematic sampling. Uniform on U(x), m/#U(x) ≥ 1/S: never worse than a mixture
    of the S candidates.

    With shares κ of candidates' `own` lists, these are shown in Σκ of the rounds: all probabilities are
    (1 − Σκ)·Q(x, y) + Σ_π κ_π 1[y ∈ π(x)]. Less reward is lost while it is learned who is best, in more rounds. They
    are put into random order like all others, but for that of one `page`, which is shown as it is; then decisions state
    the probability of each item in each place: κ more where the page has it, and the rest in equal parts.

    That is a promise made before the context is seen. Where U(x) is too large to keep it (`covered` is False) all
    probabilities are still positive and exact, but smaller.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are still candidates.
    leader:
        The position of ℓ in `candidates`.
    attention:
        (S,) α ≥ 0 for each candidate; the leader's is ignored.
    smallest_disputed:
        The promised probability of disputed actions outside the leader's list, in rounds in which no candidate's own
        list is shown.
    problem:
        The setting.
    own:
        (S,) the share of rounds in which each candidate's own list is shown; none by default.
    page:
        The position in `candidates` of the one whose own list is shown as it is; None by default.
    memory:
        Lists on rewarded contexts that are known already; none by default.

    >>> problem = Problem(n_actions=6, list_size=2)
    >>> policies = PolicySet.from_lists([[[0, 1]], [[0, 2]], [[0, 3]]], problem)
    >>> explorer = DisagreementExplorer(
    ...     policies, [0, 1, 2], leader=0, attention=[0, 1, 1], smallest_disputed=.3, problem=problem
    ... )
    >>> explorer.propensities_of([0]).round(2).tolist()  # action 0 is shown by all: learning about it is worth little
    [[0.05, 0.81, 0.57, 0.57, 0.0, 0.0]]
    """

    KIND: ClassVar[str] = "disagreement"

    def __init__(
        self,
        policies: PolicySet,
        candidates: ArrayLike,
        *,
        leader: int,
        attention: ArrayLike,
        smallest_disputed: float,
        problem: Problem,
        own: ArrayLike | None = None,
        page: int | None = None,
        memory: EventLists | None = None,
    ) -> None:
        self.policies = policies
        self._memory = memory
        self.candidates: NDArray[np.int64] = np.asarray(candidates, dtype=np.int64)
        self._asked = None if len(self.candidates) == len(policies) else self.candidates  # they rise
        self.leader = leader
        self.attention = np.array(attention, dtype=np.float64)
        self._shares = attention_shares(self.attention, leader)
        self.problem = problem
        self.own = np.zeros(len(self.candidates)) if own is None else np.array(own, dtype=np.float64)
        drawn = 1 - float(self.own.sum())
        self._smallest_disputed, self.smallest_disputed = smallest_disputed, drawn * smallest_disputed
        self.page = page
        self.random_order, self.own_orders = page is None, page is not None
        of_leader, undisputed = min(_LEADER_SHARE * smallest_disputed, 1.0), min(UNDISPUTED, smallest_disputed)
        self._lowest = np.array([smallest_disputed, of_leader, undisputed])
        self.smallest = drawn * float(self._lowest.min())
        self.smallest_of_leader = drawn * of_leader

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context, in random order; `covered` says where the smallest propensity could be kept.
        Uses two numbers of `rng` per context, in order.
        """
        rng = as_generator(rng)
        n, blocks, parts, kept = n_contexts(X), self._row_blocks(n_contexts(X)), [], []
        for rows in blocks or [slice(0, 0)]:
            u = rng.random((rows.stop - rows.start, 2))
            predicted = self._predict(X if len(blocks) == 1 else take_contexts(X, rows))
            parts.append(self._kernel(predicted, u, nothing_asked(len(u))))
            if rows.stop > n - keep:
                kept.append(predicted[max(0, n - keep - rows.start) :])
        lists, propensities, covered, _ = parts[0]
        if len(parts) > 1:
            lists, propensities = np.concatenate([x[0] for x in parts]), np.concatenate([x[1] for x in parts])
            covered = np.concatenate([x[2] for x in parts])
        if not self.policies.has_gaps and (lists < 0).any():
            raise InputError("some lists came out too short: the candidates' lists must hold different actions.")
        decisions = self._decisions(first_id, lists, propensities, epoch=epoch, contexts=X, covered=covered)
        if not decisions.propensities.all():
            refuse_propensities(decisions.propensities)
        return Drawn(decisions, (kept[0] if len(kept) == 1 else np.concatenate(kept)) if kept else None)

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Every list counts for all candidates that share actions with it."""
        inside = np.empty((len(chosen), len(self.candidates)), dtype=np.bool_)
        for mine, places, predicted in self._lists_of(events, chosen, keep=True):
            inside[mine] = contains(predicted, places, events.actions[chosen[mine]])
        return inside

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """The propensities of the actions."""
        return events.propensities[chosen]

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """Q of single actions."""
        result = np.empty(len(chosen))
        for mine, places, predicted in self._lists_of(events, chosen, keep=False):
            actions = events.actions[chosen[mine], None]
            rows = predicted if len(places) == len(predicted) else predicted[places]  # one event in each context
            result[mine] = self._of_asked(self._kernel(rows, None, actions)[3])[:, 0]
        return result

    def propensities_of(self, X: Contexts, items: ArrayLike | None = None) -> NDArray[np.float64]:
        """Q of the listed items, (n, k), or of all of them, (n, K), when none are given."""
        n, K = n_contexts(X), self.problem.n_actions
        if items is None:
            asked = np.ascontiguousarray(np.broadcast_to(np.arange(K, dtype=np.int32), (n, K)))
        else:
            asked = check_lists(items, n=n, gaps=self.policies.has_gaps)
            if asked.size and int(asked.max()) >= K:
                raise InputError(f"actions must lie in 0 … {K - 1}, got {int(asked.max())}.")
        result = np.empty(asked.shape)
        for rows in self._row_blocks(n):
            block = asked[rows]
            result[rows] = self._of_asked(self._kernel(self._predict(take_contexts(X, rows)), None, block)[3])
        return result

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all actions, without an (n, K) array."""
        parts = []
        for rows in self._row_blocks(n_contexts(X)) or [slice(0, 0)]:
            predicted = self._predict(take_contexts(X, rows))
            listed = self._listed(predicted)
            values, nothing = self._of_asked(self._kernel(predicted, None, listed)[3]), np.zeros(len(predicted))
            parts.append(SparsePropensities.of_sorted(self.problem.n_actions, listed, values, nothing))
        return SparsePropensities.concat(parts)

    SCHEMA: ClassVar = {
        **StoredExplorer.SCHEMA,
        "leader": Whole(0, "S-1"),
        "attention": Array("f8", ("S",), 0),
        "smallest_disputed": Real(0, 1),
        "own": Array("f8", ("S",), 0),
        "page": Default(Maybe(Whole(0, "S-1"))),
    }

    @classmethod
    def _agree(cls, state: State) -> None:
        require(state["smallest_disputed"] > 0, "the smallest propensity must be above 0.")
        require(float(state["own"].sum()) < 1, "shares of own lists must sum to less than 1.")

    def _lists_of(
        self, events: Events, chosen: NDArray[np.int64], *, keep: bool
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]]:
        """The lists of all candidates where the `chosen` events were, in blocks: which of the events, which of its
        contexts each belongs to, and the lists there. What is in the memory is not asked for again.
        """
        rounds, place = np.unique(events.rows[chosen], return_inverse=True)
        order = np.argsort(place, kind="stable")
        edges = np.searchsorted(place[order], np.arange(len(rounds) + 1))
        for rows in self._row_blocks(len(rounds)):
            here = rounds[rows]

            def ask(positions: NDArray[np.int64], here: NDArray[np.int64] = here) -> NDArray[np.int32]:
                return self._predict(take_contexts(events.contexts, here[positions]))

            predicted = (
                ask(np.arange(len(here)))
                if self._memory is None
                else self._memory.lists(events.ids[here], self.candidates, ask, keep=keep)
            )
            mine = order[edges[rows.start] : edges[rows.stop]]
            yield mine, place[mine] - rows.start, predicted

    @classmethod
    def room(cls, standing: Standing) -> tuple[float, float]:
        """The room of a context, and the most that is needed: no smallest propensity above their ratio can be kept."""
        K, m = standing.problem.n_actions, standing.problem.list_size
        return float(m), float(min(K - m, (len(standing.candidates) - 1) * m))

    @classmethod
    def needed(cls, lists: NDArray[np.int32], leader: int, problem: Problem) -> NDArray[np.float64]:
        """How much each context of lists (n, S, m) needs."""
        few = Numbered(lists, nothing_asked(len(lists)), problem.n_actions)
        return np.asarray(disputed_counts(few.lists, leader, few.n_actions), dtype=np.float64)

    def _decisions(
        self,
        first_id: int,
        lists: NDArray[np.int32],
        drawn_with: NDArray[np.float64],
        *,
        epoch: int,
        contexts: Contexts,
        covered: NDArray[np.bool_],
    ) -> Decisions:
        """What was drawn; `drawn_with`, the second part of what `_kernel` gives, are probabilities of items (n, m), or
        of items in places (n, m, m).
        """
        placements = drawn_with if drawn_with.ndim == 3 else None
        inside = drawn_with if placements is None else np.minimum(placements.sum(axis=2), 1.0)
        return Decisions.unsigned(
            first_id, lists, inside, epoch=epoch, contexts=contexts, covered=covered, placements=placements
        )

    def _of_asked(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Propensities (n, k) in the last part of what `_kernel` gives."""
        return found

    def _row_blocks(self, n: int) -> list[slice]:
        return row_blocks(n, len(self.candidates), self.problem.list_size)

    def _predict(self, X: Contexts) -> NDArray[np.int32]:
        return self.policies.predict(X, self._asked, problem=self.problem)

    def _listed(self, predicted: NDArray[np.int32]) -> NDArray[np.int32]:
        """All actions of positive probability (n, k), in ascending order and with repetitions."""
        return sorted_actions(predicted)

    def _kernel(
        self, predicted: NDArray[np.int32], u: NDArray[np.float64] | None, asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        """Lists (n, m) by u (n, 2), propensities, whether the smallest is kept (n,), propensities of `asked` (n, k)."""
        asked, numbers = as_input(asked), _NO_NUMBERS if u is None else u
        edges = cut(len(predicted), 1 + _PIECE // max(predicted.shape[1] * predicted.shape[2], 1))
        if len(edges) == 1:
            return self._piece(predicted, numbers, asked)
        found: dict[int, Any] = {}  # contexts do not touch each other

        def some_contexts(part: tuple[int, int]) -> None:
            rows = slice(*part)
            found[part[0]] = self._piece(predicted[rows], numbers[rows], asked[rows])

        for_each(some_contexts, edges)
        lists, propensities, covered, of_asked = (
            np.concatenate([found[start][k] for start, _ in edges]) for k in range(4)
        )
        return lists, propensities, covered, of_asked

    def _piece(
        self, predicted: NDArray[np.int32], numbers: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        """As `_kernel`, in one thread; `numbers` are (n, 2) or (0, 2)."""
        few = Numbered(predicted, asked, self.problem.n_actions)
        lists, propensities, covered, of_asked = disagreement_lists(
            few.lists, self.leader, self._shares, self._lowest, numbers, few.n_actions, few.asked, self.own
        )
        shown = few.items_of(lists)
        if self.page is not None and len(numbers):
            shown, propensities = self._page_as_it_is(predicted, numbers[:, 0], shown, propensities)
        return shown, propensities, covered, of_asked

    def _page_as_it_is(
        self, predicted: NDArray[np.int32], u: NDArray[np.float64], shown: NDArray[np.int32], q: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Shown lists, with those of the page in their own order, and the probabilities of places (n, m, m)."""
        whole = np.where((predicted >= 0).all(axis=2), self.own, 0.0)  # as the loop has them, summed in its order
        ends, page, m = whole.cumsum(axis=1), int(self.page or 0), shown.shape[1]
        mine = (u < ends[:, page]) & (u >= (ends[:, page - 1] if page else 0.0))
        share = whole[:, page, None]
        lists = np.where(mine[:, None], predicted[:, page], shown)
        at = (lists[:, :, None] == shown[:, None, :]).argmax(axis=2)
        even = np.take_along_axis(q, at, axis=1)
        here = (lists[:, :, None] == predicted[:, page, None, :]) & (share > 0)[:, :, None]
        even = (even - share * here.any(axis=2)) / m
        placements = np.maximum(even, 0.0)[:, :, None] + share[:, :, None] * here
        return lists, np.where((lists < 0)[:, :, None], np.eye(m), placements)


_PIECE = 1 << 17  # actions of candidates' lists that a thread should have to look at
_NO_NUMBERS = np.empty((0, 2))
_NO_ITEMS = read_only(np.empty((4096, 0), dtype=np.int32))


def nothing_asked(n: int) -> NDArray[np.int32]:
    """No items (n, 0), closed to writing."""
    return _NO_ITEMS[:n] if n <= len(_NO_ITEMS) else read_only(np.empty((n, 0), dtype=np.int32))
