"""Exact ERM over depth-limited decision trees on given splits: an infinite-looking class with a true oracle."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.explore.oracles.pairs import check_matrix
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, check_count, check_reward_matrix
from comband.policies.policy_set import PolicySet

Tree: TypeAlias = "tuple[int, ...] | tuple[tuple[int, float], Tree, Tree]"
"""A leaf (its list), or ((feature, threshold), tree where x[feature] ≤ threshold, tree elsewhere)."""


class TreePolicy:
    """Shows the list of the leaf that a context falls into.

    Parameters
    ----------
    tree:
        A list of actions (a leaf), or ((feature, threshold), tree, tree); left where x[feature] ≤ threshold.
    problem:
        K and m.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.explore.oracles import TreePolicy
    >>> problem = cb.Problem(n_actions=4, list_size=2)
    >>> tree = TreePolicy(((0, 1.5), (0, 1), (2, 3)), problem)  # feature 0 up to 1.5: items 0 and 1, otherwise 2 and 3
    >>> tree.predict(np.array([[1.0], [2.0]])).tolist()
    [[0, 1], [2, 3]]
    """

    def __init__(self, tree: Tree, problem: Problem) -> None:
        self.tree = tree
        self.problem = problem

    def __repr__(self) -> str:
        return f"TreePolicy({self.tree!r})"

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        matrix = _dense(X)
        lists = np.empty((len(matrix), self.problem.list_size), dtype=np.int32)
        _fill(self.tree, matrix, np.arange(len(matrix)), lists)
        return lists


class TreeOracle:
    """argmax over all trees of depth at most `depth` with the given splits and any lists in the leaves, exactly.

    The objective is a sum over contexts, so the best tree for a set of contexts is its best leaf (the m actions of
    largest total) or the best split with the best trees on both sides: 2^depth · splits^depth leaf sums at most. Meant
    for small depths and few splits, and to check against enumeration what other oracles do.

    Parameters
    ----------
    problem:
        K and m.
    splits:
        (feature, threshold) pairs; a context goes left where x[feature] ≤ threshold.
    depth:
        How many splits a context may pass.

    >>> import numpy as np
    >>> import comband as cb
    >>> from scipy.sparse import csr_array
    >>> problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> rewards = csr_array(np.eye(4)[[0, 0, 2, 2]])  # item 0 for small contexts, item 2 for large ones
    >>> from comband.explore.oracles import TreeOracle
    >>> tree = TreeOracle(problem, splits=[(0, 0.5), (0, 1.5)]).fit(X, rewards)
    >>> tree.predict(X).ravel().tolist()
    [0, 0, 2, 2]
    """

    exact = True

    def __init__(self, problem: Problem, *, splits: ArrayLike, depth: int = 1) -> None:
        array = np.asarray(splits, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 2:
            raise InputError(f"splits must be pairs (feature, threshold), got shape {array.shape}.")
        self.problem = problem
        self.splits = tuple((int(feature), float(threshold)) for feature, threshold in array)
        self.depth = check_count("depth", depth, least=0)

    def fit(self, X: Contexts, rewards: Any) -> TreePolicy:
        """A best tree; equal totals go to the smaller tree, then to the earlier split and the lower actions."""
        matrix = _dense(X)
        dense = check_reward_matrix(rewards, n=len(matrix)).toarray()
        sides = [matrix[:, feature] <= threshold for feature, threshold in self.splits]
        tree, _ = self._best(np.arange(len(matrix)), dense, sides, self.depth)
        return TreePolicy(tree, self.problem)

    def policies(self) -> PolicySet:
        """All trees of the class, for small K, m, splits and depth."""
        return PolicySet([TreePolicy(tree, self.problem) for tree in self._all(self.depth)])

    def _best(
        self, rows: NDArray[np.int64], rewards: NDArray[np.float64], sides: list[NDArray[np.bool_]], depth: int
    ) -> tuple[Tree, float]:
        totals = rewards[rows].sum(axis=0)
        leaf = np.argsort(-totals, kind="stable")[: self.problem.list_size]
        tree: Tree = tuple(int(y) for y in leaf)
        value = float(totals[leaf].sum())
        if depth == 0:
            return tree, value
        for split, side in zip(self.splits, sides, strict=True):
            left, right = rows[side[rows]], rows[~side[rows]]
            if len(left) == 0 or len(right) == 0:
                continue
            left_tree, left_value = self._best(left, rewards, sides, depth - 1)
            right_tree, right_value = self._best(right, rewards, sides, depth - 1)
            if left_value + right_value > value * (1 + 1e-12):
                tree, value = (split, left_tree, right_tree), left_value + right_value
        return tree, value

    def _all(self, depth: int) -> list[Tree]:
        leaves: list[Tree] = list(itertools.combinations(range(self.problem.n_actions), self.problem.list_size))
        if depth == 0:
            return leaves
        below = self._all(depth - 1)
        nodes: list[Tree] = [
            (split, left, right) for split in self.splits for left in below for right in below if left != right
        ]
        return leaves + nodes


def _dense(X: Contexts) -> NDArray[np.float64]:
    matrix = check_matrix(X)
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _fill(tree: Tree, X: NDArray[np.float64], rows: NDArray[np.int64], lists: NDArray[np.int32]) -> None:
    if isinstance(tree[0], tuple):
        (feature, threshold), left, right = tree
        side = X[rows, feature] <= threshold
        _fill(left, X, rows[side], lists)
        _fill(right, X, rows[~side], lists)
    else:
        lists[rows] = tree
