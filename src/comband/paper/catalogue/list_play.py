"""Learners without contexts and without a list of candidates: every list of m of K actions may be the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import uniform_lists
from comband.worlds.base import Environment

Floats = NDArray[np.float64]
Strategy = Callable[[Floats, Floats, int, int, np.random.Generator], NDArray[np.integer]]
"""(rewards so far (runs, K), times shown (runs, K), round, m, rng) -> lists to show (runs, m)."""


def uniform(sums: Floats, shown: Floats, t: int, m: int, rng: np.random.Generator) -> NDArray[np.integer]:
    """Uniform lists."""
    return uniform_lists(rng.random((len(sums), m)), sums.shape[1])


def optimistic(sums: Floats, shown: Floats, t: int, m: int, rng: np.random.Generator) -> NDArray[np.integer]:
    """The highest upper confidence bounds, of Bernstein's kind, as rewards are rare."""
    n = np.maximum(shown, 1e-9)
    mean = sums / n
    log = np.log(t + 1)
    return _top(mean + np.sqrt(2 * mean * log / n) + log / n + 1e-9 * rng.random(sums.shape), m)


def thompson(sums: Floats, shown: Floats, t: int, m: int, rng: np.random.Generator) -> NDArray[np.integer]:
    """The best of a draw from the posterior of each action."""
    return _top(rng.beta(1 + sums, 1 + np.maximum(shown - sums, 0)), m)


STRATEGIES: dict[str, Strategy] = {"uniform lists": uniform, "optimistic": optimistic, "Thompson": thompson}


def play(
    world: Environment, strategy: Strategy, checkpoints: Sequence[int], n_runs: int, rng: np.random.Generator
) -> Iterator[NDArray[np.integer]]:
    """Play `n_runs` runs side by side; the lists (n_runs, m) that each would answer with at each checkpoint.

    The answer is the m actions of highest mean so far, shrunk a little towards zero. Strategies choose for one round at
    a time at first, and for a thirty-second of the past at once later.
    """
    K, m = world.problem.n_actions, world.problem.list_size
    sums, shown = np.zeros((n_runs, K)), np.zeros((n_runs, K))
    t = 0
    for goal in checkpoints:
        while t < goal:
            batch = min(max(1, t // 32), goal - t)
            run = np.repeat(np.arange(n_runs), batch)
            lists = strategy(sums[run], shown[run], t, m, rng)
            cells = (K * run[:, None] + lists).ravel()
            rewards = world.sample(len(run), rng).answer(lists)
            sums += np.bincount(cells, rewards.ravel(), minlength=sums.size).reshape(sums.shape)
            shown += np.bincount(cells, minlength=sums.size).reshape(sums.shape)
            t += batch
        yield _top(sums / (shown + 1) + 1e-9 * rng.random(sums.shape), m)


def _top(scores: Floats, m: int) -> NDArray[np.integer]:
    return np.argpartition(-scores, m - 1, axis=1)[:, :m]
