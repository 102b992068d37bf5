"""A synthetic recommender: users with linear tastes, items with hidden features, rare clicks, exact values."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.problem import InputError, Problem, as_generator, check_count, check_positive, check_problem
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.worlds.base import Batch
from comband.worlds.place_effects import check_effect, total_value


class SyntheticRecommender:
    """Users drawn from a finite pool; each wants a few of the items that suit it, and clicks those that are shown.

    User x and item y have features; the score x·v_y orders the items, and the `n_relevant` best are wanted with
    probabilities that fall off geometrically from the first. A round's wanted items are drawn together (systematic
    sampling), so that they never number more than s while every marginal probability is exact. The pool is finite, so
    a policy's value, mean_x Σ_{y∈π(x)} P(y wanted | x), is exact too.

    Parameters
    ----------
    problem:
        K, m and s (1 if it has none).
    click_rate:
        Expected clicks per round of the best possible lists (the m most wanted items of each user).
    n_users, n_features, n_relevant:
        Sizes of the pool, of the features and of a user's set of conceivable items.
    decay:
        How much less wanted each next relevant item is.
    place_effect:
        What places do to rewards: None, nothing; probabilities (m,) with which a wanted item is clicked in each place;
        or "cascade", where the reader stops at the first click. What is assumed of them is another matter:
        `Problem.places`.
    seed:
        For the world itself; rounds are drawn from the generator given to `sample`.

    >>> world = SyntheticRecommender(Problem(n_actions=50, list_size=3, sparsity=1), click_rate=.2, seed=1)
    >>> candidates = world.candidates(5, seed=2)
    >>> bool(world.values(candidates).max() <= .2 + 1e-12)
    True
    """

    def __init__(
        self,
        problem: Problem,
        *,
        click_rate: float = 0.1,
        n_users: int = 2000,
        n_features: int = 8,
        n_relevant: int | None = None,
        decay: float = 0.85,
        place_effect: ArrayLike | None = None,
        seed: int | np.random.SeedSequence | np.random.Generator = 0,
    ) -> None:
        s = 1.0 if problem.sparsity is None else problem.sparsity
        if s != int(s):
            raise InputError(f"this world wants whole items: sparsity must be a whole number, got {s}.")
        self.problem = check_problem(problem, places=True)
        self.place_effect = check_effect(place_effect, problem)
        self.click_rate = check_positive("click_rate", click_rate)
        rng = as_generator(seed)
        K, m = problem.n_actions, problem.list_size
        n_relevant = min(K, 4 * m if n_relevant is None else check_count("n_relevant", n_relevant, least=m))
        users = rng.standard_normal((check_count("n_users", n_users), check_count("n_features", n_features)))
        self._users: NDArray[np.float64] = users / np.linalg.norm(users, axis=1, keepdims=True)
        self.items: NDArray[np.float64] = rng.standard_normal((n_features, K))
        profile = check_positive("decay", decay) ** np.arange(n_relevant)
        self._wanted = profile * (self.click_rate / profile[:m].sum())
        if self._wanted.max() > 1 or self._wanted.sum() > s:
            most = float(min(profile[:m].sum() / profile.max(), s * profile[:m].sum() / profile.sum()))
            raise InputError(
                f"click_rate={click_rate:g} needs more than sparsity={s:g} wanted items per round; "
                f"at most {most:.3g} is possible here (lower it, or raise sparsity, or lower decay)."
            )
        scored = PolicySet.linear(
            self.items[None],
            Problem(n_actions=K, list_size=n_relevant),
            seed=int(rng.integers(2**31)),
        )
        self._relevant = scored.predict(self._users)[:, 0]

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """n rounds: users from the pool, and what each wants now.

        Uses 2 numbers of `rng` per round, and m more if places leave rewards to chance.
        """
        chance = isinstance(self.place_effect, np.ndarray)
        u = rng.random((n, 2 + chance * self.problem.list_size))
        who = np.minimum((u[:, 0] * len(self._users)).astype(np.int64), len(self._users) - 1)
        # Systematic sampling: points u, u+1, u+2 … on the line of cumulated probabilities; each cell is at most 1 long.
        edges = np.cumsum(self._wanted)
        hits = np.floor(edges[None, :] - u[:, 1:2]) - np.floor(np.r_[0.0, edges[:-1]][None, :] - u[:, 1:2])
        rows, rank = np.nonzero(hits > 0)
        rewards = sp.csr_array(
            (np.ones(len(rows)), (rows, self._relevant[who[rows], rank])),
            shape=(n, self.problem.n_actions),
        )
        return Batch(self._users[who], rewards, self.problem, self.place_effect, u[:, 2:] if chance else None)

    def values(self, policies: PolicySet, *, shuffled: bool = False) -> NDArray[np.float64]:
        """Exact values (P,), by going through all users of the pool: of the lists in their own order, or `shuffled`."""
        if isinstance(self.place_effect, str):
            return self._click_probabilities(policies)
        if self.place_effect is not None:
            return total_value(self._by_place(policies), self.place_effect, shuffled=shuffled)
        totals = np.zeros(len(policies))
        n, n_relevant = self._relevant.shape
        step = max(1, BLOCK // (len(policies) * self.problem.list_size))
        for start in range(0, n, step):
            relevant = self._relevant[start : start + step]
            rows = np.repeat(np.arange(len(relevant)), n_relevant)
            inside = policies.contains(self._users[start : start + step], rows, relevant.ravel())
            totals += np.tile(self._wanted, len(relevant)) @ inside
        return np.asarray(totals / n, dtype=np.float64)

    def _by_place(self, policies: PolicySet) -> NDArray[np.float64]:
        """How often the item in each place of the lists is wanted, (P, m)."""
        n, K, m = len(self._users), self.problem.n_actions, self.problem.list_size
        totals = np.zeros((len(policies), m))
        step = max(1, BLOCK // max(len(policies) * m, K))
        for start in range(0, n, step):
            relevant = self._relevant[start : start + step]
            wanted = np.zeros((len(relevant), K))
            np.put_along_axis(wanted, relevant.astype(np.int64), self._wanted[None, :], axis=1)
            lists = policies.predict(self._users[start : start + step], problem=self.problem)
            totals += wanted[np.arange(len(relevant))[:, None, None], lists].sum(axis=0)
        return np.asarray(totals / n)

    def _click_probabilities(self, policies: PolicySet) -> NDArray[np.float64]:
        """P(some item of the list is wanted), (P,): what a reader who stops at the first click brings.

        Which relevant items are wanted together depends on one uniform number, and changes at the fractional parts of
        the cumulated probabilities only.
        """
        edges = np.cumsum(self._wanted)
        cuts = np.unique(np.r_[0.0, edges % 1.0, 1.0])
        middle, length = (cuts[1:] + cuts[:-1])[:, None] / 2, np.diff(cuts)
        together = np.floor(edges - middle) > np.floor(np.r_[0.0, edges[:-1]] - middle)  # (intervals, relevant)
        totals = np.zeros(len(policies))
        n, n_relevant = self._relevant.shape
        step = max(1, BLOCK // (len(policies) * max(self.problem.list_size, n_relevant, len(length))))
        for start in range(0, n, step):
            relevant = self._relevant[start : start + step]
            rows = np.repeat(np.arange(len(relevant)), n_relevant)
            inside = policies.contains(self._users[start : start + step], rows, relevant.ravel())
            shown = inside.reshape(len(relevant), n_relevant, -1).astype(np.float64)
            some = np.einsum("ir,xrp->xip", together.astype(np.float64), shown) > 0
            totals += np.einsum("i,xip->p", length, some.astype(np.float64))
        return np.asarray(totals / n)

    def candidates(
        self,
        n: int,
        *,
        kind: Literal["clustered", "needle"] = "clustered",
        spread: float = 1.0,
        n_good: int = 1,
        seed: int | np.random.SeedSequence | np.random.Generator = 0,
    ) -> PolicySet:
        """n linear scorers for this world.

        "clustered": the true item features plus noise whose size varies evenly from nearly none to `spread` times the
        features themselves, so that qualities form a continuum. "needle": all are noise but `n_good`, which know the
        truth up to a little noise. Positions are random.
        """
        rng = as_generator(seed)
        check_count("n", n)
        if kind == "clustered":
            noise = check_positive("spread", spread) * (0.05 + 0.95 * (np.arange(n) + 0.5) / n)
            truth = np.ones(n)
        elif kind == "needle":
            if not 1 <= n_good <= n:
                raise InputError(f"n_good must lie in 1 … {n}, got {n_good}.")
            good = np.arange(n) < n_good
            noise, truth = np.where(good, 0.1, 1.0), np.where(good, 1.0, 0.0)
        else:
            raise InputError(f'kind must be "clustered" or "needle", got {kind!r}.')
        mixed = rng.permutation(n)
        weights = noise[mixed, None, None] * rng.standard_normal((n, *self.items.shape))
        weights += truth[mixed, None, None] * self.items
        return PolicySet.linear(weights, self.problem, seed=int(rng.integers(2**31)))
