"""Random problems for property tests, and the statistics that decide whether a frequency is off."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import comband as cb


@st.composite
def problems(draw: st.DrawFn, max_actions: int = 12) -> cb.Problem:
    n_actions = draw(st.integers(1, max_actions))
    list_size = draw(st.integers(1, n_actions))
    sparsity = draw(st.one_of(st.none(), st.integers(1, n_actions)))
    return cb.Problem(n_actions, list_size, sparsity)


def random_lists(n: int, problem: cb.Problem, rng: np.random.Generator) -> NDArray[np.int32]:
    """Uniform lists the plain way."""
    keys = rng.random((n, problem.n_actions))
    return np.argsort(keys, axis=1)[:, : problem.list_size].astype(np.int32)


def random_policies(n_policies: int, n_contexts: int, problem: cb.Problem, rng: np.random.Generator) -> cb.PolicySet:
    lists = random_lists(n_policies * n_contexts, problem, rng)
    return cb.PolicySet.from_lists(lists.reshape(n_policies, n_contexts, problem.list_size), problem)


def random_weights(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A point of the simplex, often with zeros."""
    w: NDArray[np.float64] = rng.exponential(size=n) * (rng.random(n) < 0.7)
    w[rng.integers(n)] += 0.1
    return np.asarray(w / w.sum())


def all_lists(problem: cb.Problem) -> list[tuple[int, ...]]:
    return list(combinations(range(problem.n_actions), problem.list_size))


def hoeffding_radius(n: int, alarms: float, tests: int = 1) -> float:
    """A mean of n values in [0, 1] leaves ±radius with probability at most `alarms` over all `tests`."""
    return float(np.sqrt(np.log(2 * tests / alarms) / (2 * n)))
