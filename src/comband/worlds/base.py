"""What a world is: it brings contexts, hides rewards, and answers for what was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts, n_contexts
from comband.page.lists import check_lists
from comband.page.problem import Problem
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.worlds.place_effects import PlaceEffect, answered


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Some rounds of a world: contexts to look at, and the rewards behind them as a CSR matrix (n, K).

    `effect` is what places do to rewards, if anything, and `luck` (n, m) the numbers that decide where that is left to
    chance.

    Parameters
    ----------
    problem:
        K, m and s.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> visitors = shop.sample(5, np.random.default_rng(3))
    >>> len(visitors.contexts), visitors.rewards.shape
    (5, (5, 12))
    >>> visitors.answer([[0, 1, 2]] * 5).shape  # of the shown items, and of no others
    (5, 3)
    """

    contexts: Contexts
    rewards: sp.csr_array
    problem: Problem
    effect: PlaceEffect = None
    luck: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return n_contexts(self.contexts)

    def answer(self, lists: ArrayLike) -> NDArray[np.float64]:
        """Rewards (n, m) of the shown actions, and of no others; their totals (n,) if feedback is no more than that.
        Empty places (−1) earn nothing.
        """
        shown = check_lists(lists, self.problem, n=len(self), gaps=True)
        n, m = shown.shape
        rows = np.repeat(np.arange(n), m)
        found = self.rewards[rows, np.maximum(shown, 0).ravel()]
        seen = np.asarray(found.todense() if sp.issparse(found) else found, dtype=np.float64).reshape(n, m)
        seen[shown < 0] = 0.0
        seen = answered(seen, self.effect, self.luck)
        return seen.sum(axis=1) if reading_of(self.problem).TOTAL else seen


class Environment(Protocol):
    """A world that draws (context, rewards) pairs; it keeps no state, so any batch split is the same world.

    >>> import numpy as np
    >>> import comband as cb
    >>> from scipy.sparse import csr_array
    >>> class Coin:
    ...     problem = cb.Problem(n_actions=2, list_size=1, sparsity=1)
    ...     def sample(self, n, rng):
    ...         side = np.eye(2)[(rng.random(n) > 0.7).astype(int)]
    ...         return cb.Batch(np.zeros((n, 1)), csr_array(side), self.problem)
    ...     def values(self, policies):
    ...         return np.array([0.7, 0.3])[policies.predict(np.zeros((1, 1)))[0, :, 0]]
    ...
    >>> sides = cb.PolicySet([cb.ConstantPolicy([0], Coin.problem), cb.ConstantPolicy([1], Coin.problem)])
    >>> Coin().values(sides).tolist()
    [0.7, 0.3]
    >>> cb.run(cb.AdaptiveComband(Coin.problem, sides, epsilon=0.1), Coin(), batch_size=100).result.name
    'policy 0'
    """

    @property
    def problem(self) -> Problem:
        """K, m and s."""
        ...

    def sample(self, n: int, rng: np.random.Generator, /) -> Batch:
        """n further rounds."""
        ...

    def values(self, policies: PolicySet, /) -> NDArray[np.float64]:
        """The true value of each policy: its expected reward per round."""
        ...
