"""How an epoch explores: what a plan may look at, and what the explorer that it makes can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from comband.explore.explorers.recent import RecentContexts
from comband.page.bits import Rows
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem
from comband.page.rounds import Decisions, Events
from comband.page.storage import State
from comband.policies.policy_set import PolicySet
from comband.policies.reading import Reading
from comband.policies.sparse import SparsePropensities

Seed = int | np.random.SeedSequence | np.random.Generator


@dataclass(frozen=True, eq=False, slots=True)
class Drawn:
    """Decisions, and what the explorer saw on the way.

    `lists` (k, S, m) are those of all its candidates on the last k contexts, if it had to ask them and was told to keep
    so many: they need not be asked for again. None otherwise.

    Parameters
    ----------
    decisions:
        With exact propensities.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import Drawn, MixtureExplorer
    >>> explorer = MixtureExplorer(policies, np.arange(4), weights=np.full(4, 1 / 4), floor=0.5, problem=problem)
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> isinstance(drawn, Drawn), len(drawn.decisions), drawn.lists
    (True, 5, None)
    """

    decisions: Decisions
    lists: NDArray[np.int32] | None = None


class Explorer(Protocol):
    """Draws an epoch's lists, with exact propensities, and says for which candidates a reward counts, and how much.

    It is fixed before the epoch's first context is drawn, and holds no more than `state` says: another process that has
    the same policies makes it again with `explorer_from_state`, and draws the same lists there from the same random
    numbers.

    candidates:
        (S,) the candidates that the epoch compares, numbers among all policies, rising.
    smallest_disputed:
        In a covered round no action that speaks for a rival and not for the leader has a smaller propensity.
    smallest:
        In a covered round no action of any candidate has a smaller propensity.

    Where disputed actions of the leader's list have a larger one than `smallest`, `smallest_of_leader` says which.

    An explorer that shows lists in random order, given the set, says so with `random_order = True`: only then can it be
    watched whether places matter. One whose lists in orders of their own count for all who share items says so with
    `own_orders = True`: where nothing is stated of places, the promise rests on their not mattering. An explorer for
    totals says so with `FROM_TOTALS = True`: the m events of a round
    then hold equal parts of its total. One that reads rewards by factors of places (`Problem.places`), where events are
    of pairs of item and place, says so with `FROM_FACTORS = True`. `smallest_list`, if it fills lists up uniformly,
    bounds (1−f)·q(a) of all lists from below.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.1, seed=3)
    >>> explorer = learner.epochs.current.explorer
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.propensities.shape, 0 < explorer.smallest <= 1
    ((5, 3), True)
    """

    KIND: ClassVar[str]
    candidates: NDArray[np.int64]
    smallest_disputed: float
    smallest: float

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context; `keep` as for `Drawn`. Other batches of the same contexts get the same lists."""
        ...

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_] | NDArray[np.float64]:
        """Which of the `chosen` events count for which candidates, (E, S). From totals it may be numbers instead: by
        how much, at most 1 for the leader, with one event of a round for all of them and nothing for the others.
        """
        ...

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the rewards of the `chosen` events of this explorer's own rounds are divided by, (E,)."""
        ...

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """With what probability this explorer would show the actions of the `chosen` events, of any rounds, (E,), given
        for which candidates they count.
        """
        ...

    def propensities_of(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of some items (n, k), computed anew: for audits."""
        ...

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all items, computed anew: for audits."""
        ...

    def state(self) -> State:
        """All but policies and problem, with its `KIND` as "kind"; see `comband.page.storage`."""
        ...

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> Explorer:
        """The inverse of `state`, checked."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Standing:
    """What a plan may look at: all of it comes from decisions before the epoch.

    policies, reading, problem, epsilon:
        The candidates, as lists are drawn of them; how the page is read; the setting in which lists are drawn; and the
        learner's accuracy.
    candidates:
        (S,) who is left, numbers among all policies.
    field:
        All that may be shown, dropped or not, but not withdrawn; numbers among all policies.
    leader:
        A position among them.
    gaps:
        (S,) estimated V(leader) − V(π) ≥ 0.
    need:
        (S,) the share of the evidence that is still missing for each.
    rounds, first_epoch:
        How many rounds are in the evidence; how long the first epoch was.
    events:
        The rewards seen so far in these rounds.
    recent:
        The most recent contexts.
    hopes:
        (S,) how likely each of the candidates is to be the best, as far as can be told, where little reward is to be
        lost; None where as few rounds as possible are to be taken.
    production, exposure:
        Whose own list (a position among the candidates) is shown, as it is, to all but this share of the visitors,
        where not all take part.
    shuffled:
        The share of drawn lists that are put into random order where lists are in natural order; None where that is
        not stated.
    fitting:
        Whether factors of places are still to be fitted: then drawn lists are in random order.
    forecast:
        How many rounds the slowest rival would still take if an explorer drew the lists, by the rewards seen so far;
        None before there are any.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import Standing
    >>> class Noting:  # plans as usual, and keeps what it was shown
    ...     def plan(self, standing: Standing):
    ...         self.rounds = standing.rounds
    ...         return cb.explore.explorers.UniformListsExploration().plan(standing)
    ...
    >>> noting = Noting()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=noting, epsilon=0.2, seed=3)
    >>> _ = cb.run(learner, shop, batch_size=100, max_rounds=1000)
    >>> noting.rounds > 0
    True
    """

    policies: PolicySet
    reading: Reading
    problem: Problem
    epsilon: float
    candidates: NDArray[np.int64]
    field: NDArray[np.int64]
    leader: int
    gaps: NDArray[np.float64]
    need: NDArray[np.float64]
    rounds: int
    first_epoch: int
    events: Events
    recent: RecentContexts
    hopes: NDArray[np.float64] | None = None
    production: int | None = None
    exposure: float = 1.0
    shuffled: float | None = None
    fitting: bool = False
    forecast: Callable[[Explorer], float] | None = None


class Exploration(Protocol):
    """How epochs explore: the one thing in which certifying learners differ.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import MixtureExplorer, Standing
    >>> from comband.certify import CertifyingLearner
    >>> class LeaderFirst:  # half of the lists are the leader's, the rest uniform: simple, and slow
    ...     def plan(self, standing: Standing) -> MixtureExplorer:
    ...         weights = np.zeros(len(standing.policies))
    ...         weights[standing.candidates[standing.leader]] = 1
    ...         return MixtureExplorer(
    ...             standing.policies, standing.candidates, weights=weights, floor=0.5, problem=standing.problem
    ...         )
    ...
    >>> learner = CertifyingLearner(problem, policies, exploration=LeaderFirst(), epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch, whose candidates are those of the standing."""
        ...


EXPLORERS: dict[str, type[Explorer]] = {}
_Kind = TypeVar("_Kind", bound=type[Any])


def register(kind: _Kind) -> _Kind:
    """Make a class of explorers known by its `KIND`, so that files and other processes can name it.

    Parameters
    ----------
    kind:
        The class.

    >>> from comband.explore.explorers import MixtureExplorer, register
    >>> @register
    ... class Mine(MixtureExplorer):
    ...     KIND = "mine"
    ...
    >>> Mine.KIND
    'mine'
    """
    known: Callable[..., Any] | None = EXPLORERS.get(kind.KIND)
    if known is not None and known is not kind:
        raise InputError(f"there is an explorer of the kind {kind.KIND!r} already; choose another name.")
    EXPLORERS[kind.KIND] = kind
    return kind


def explorer_from_state(state: State, policies: PolicySet, problem: Problem) -> Explorer:
    """The explorer whose `state` this is, over the same policies in the same order.

    Parameters
    ----------
    state:
        What the explorer said of itself.
    policies:
        The same as there.
    problem:
        The setting.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import MixtureExplorer, explorer_from_state
    >>> explorer = MixtureExplorer(policies, np.arange(4), weights=np.full(4, 1 / 4), floor=0.5, problem=problem)
    >>> elsewhere = explorer_from_state(explorer.state(), policies, problem)
    >>> X = shop.sample(5, np.random.default_rng(3)).contexts
    >>> bool((elsewhere.draw(X, 4).decisions.lists == explorer.draw(X, 4).decisions.lists).all())
    True
    """
    kind = EXPLORERS.get(str(state.get("kind")))
    if kind is None:
        raise InputError(f"there is no explorer of the kind {state.get('kind')!r}; there are {sorted(EXPLORERS)}.")
    return kind.from_state(state, policies, problem)


def check_objective(objective: str) -> str:
    """The objective, if it is one of the two."""
    if not isinstance(objective, str) or objective not in ("rounds", "reward"):
        raise InputError(f'objective must be "rounds" (the fewest) or "reward" (the least lost), got {objective!r}.')
    return objective
