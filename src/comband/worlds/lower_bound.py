"""The instances that no learner can solve in fewer than about s·m/ε² rounds."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from comband._kernels.lists import uniform_lists
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, as_generator, check_positive, check_problem
from comband.policies.policy_set import PolicySet
from comband.worlds.base import Batch


class LowerBoundInstance:
    """The instance I_S: the m actions of S pay a little more often than the others, and which they are is not said.

    Before conditioning, rewards are independent Bernoulli variables of mean s/2K + ε/m on S and s/2K − ε/(K−m)
    elsewhere, which sum to s/2. A round is then drawn *conditioned* on ‖r‖₁ ≤ s, so that the world is s-sparse surely;
    rounds stay independent of each other. There are no contexts: all are the number 0, and a policy is a list.

    Conditioning lowers all means and, a little, the gap between S and the others; `means` are the exact conditional
    ones, p_y·P(Σ without y ≤ s−1)/P(Σ ≤ s), from the convolution of two binomial distributions. The text conditions
    with P(‖r‖₁ > s in some round) ≤ ½, which cannot preserve its failure probability of ¼ (docs/errata.md, E10);
    `violation` is the exact probability for one round.

    Parameters
    ----------
    problem:
        K, m and s; s must be given.
    epsilon:
        ε, how much better S is than a list without any of its actions, before conditioning: m(ε/m + ε/(K−m)) ≥ ε.
    good:
        S, m distinct actions; by default drawn uniformly. An empty S is the reference instance I₀ of the proof.
    seed:
        For drawing S; rounds are drawn from the generator given to `sample`.

    >>> world = LowerBoundInstance(Problem(n_actions=24, list_size=2, sparsity=12), epsilon=.1, good=[3, 5])
    >>> best, other = world.values(PolicySet.from_lists([[[3, 5]], [[0, 1]]], world.problem))
    >>> bool(.09 < best - other < .11)
    True

    References
    ----------
    Erez & Koren, Theorem lower-bound-formal.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        epsilon: float,
        good: ArrayLike | None = None,
        seed: int | np.random.SeedSequence | np.random.Generator = 0,
    ) -> None:
        check_problem(problem)
        if problem.sparsity is None:
            raise InputError("lower-bound instances need the problem's sparsity, got None.")
        K, m, s = problem.n_actions, problem.list_size, problem.sparsity
        if m >= K:
            raise InputError(f"lower-bound instances need list_size below n_actions, got {m} and {K}.")
        self.problem = problem
        self.epsilon = check_positive("epsilon", epsilon)
        high, low = s / (2 * K) + epsilon / m, s / (2 * K) - epsilon / (K - m)
        if low < 0 or high > 1:
            raise InputError(
                f"epsilon={epsilon:g} makes Bernoulli means of {low:.3g} and {high:.3g}; "
                f"it must be at most {min(s * (K - m) / (2 * K), m * (1 - s / (2 * K))):.3g} here."
            )
        if good is None:
            chosen = np.sort(as_generator(seed).permutation(K)[:m])
        elif np.size(good) == 0:
            chosen = np.empty(0, dtype=np.int64)
        else:
            chosen = np.sort(check_lists([np.asarray(good)], problem)[0])
        self.good: NDArray[np.int64] = chosen.astype(np.int64)
        self._bad = np.setdiff1d(np.arange(K), self.good)
        most = min(K, int(s))
        # Row g, column b: probability of g rewards in S and b elsewhere, for g + b ≤ s.
        joint = np.outer(
            binom.pmf(np.arange(min(len(self.good), most) + 1), len(self.good), high),
            binom.pmf(np.arange(min(len(self._bad), most) + 1), len(self._bad), low),
        )
        self._counts = np.argwhere(np.add.outer(np.arange(joint.shape[0]), np.arange(joint.shape[1])) <= most)
        weights = joint[self._counts[:, 0], self._counts[:, 1]]
        self.violation = float(_tail(len(self.good), high, len(self._bad), low, most))
        self._cumulative = np.cumsum(weights / weights.sum())
        self._cumulative[-1] = 1.0
        self.means: NDArray[np.float64] = np.empty(K)
        # By symmetry an action's mean is the mean number of rewards in its group, shared out equally.
        for place, group in enumerate((self.good, self._bad)):
            if len(group):
                self.means[group] = (weights @ self._counts[:, place]) / weights.sum() / len(group)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """n rounds; always uses the same number of numbers of `rng` per round, at most 1 + 2s.

        First how many actions of S pay and how many others, jointly; given the numbers, which ones is uniform.
        """
        widest = self._counts.max(axis=0)
        u = rng.random((n, 1 + int(widest.sum())))
        drawn = self._counts[np.searchsorted(self._cumulative, u[:, 0], side="right").clip(max=len(self._counts) - 1)]
        # The rewarded actions of a round lie side by side in a CSR matrix: those of S first, then the others.
        ends = np.cumsum(drawn.sum(axis=1))
        actions = np.empty(int(ends[-1]) if n else 0, dtype=np.int32)
        first = 1
        for place, group in enumerate((self.good, self._bad)):
            begins = ends - drawn[:, place:].sum(axis=1)
            for count in range(1, int(widest[place]) + 1):
                which = np.flatnonzero(drawn[:, place] == count)
                picked = uniform_lists(np.ascontiguousarray(u[which, first : first + count]), len(group))
                actions[begins[which, None] + np.arange(count)] = group[picked]
            first += int(widest[place])
        rewards = sp.csr_array(
            (np.ones(len(actions)), actions, np.concatenate([[0], ends])), shape=(n, self.problem.n_actions)
        )
        return Batch(np.zeros(n, dtype=np.int64), rewards, self.problem)

    def values(self, policies: PolicySet) -> NDArray[np.float64]:
        """Exact values (P,) under the conditional means."""
        lists = policies.predict(np.zeros(1, dtype=np.int64), problem=self.problem)[0]
        return np.asarray(self.means[lists].sum(axis=1), dtype=np.float64)

    def shortfall(self, lists: ArrayLike) -> NDArray[np.float64]:
        """How much less than the best list each of lists (n, m) is worth, (n,)."""
        best = np.sort(self.means)[-self.problem.list_size :].sum()
        return np.asarray(best - self.means[check_lists(lists, self.problem)].sum(axis=1), dtype=np.float64)


def _tail(n_good: int, high: float, n_bad: int, low: float, most: int) -> float:
    """P(Bin(n_good, high) + Bin(n_bad, low) > most), summed over small numbers so that tiny tails keep their digits."""
    g = np.arange(n_good + 1)
    return float(binom.pmf(g, n_good, high) @ binom.sf(most - g, n_bad, low))
