"""Asking the same question once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np
import scipy.sparse as sp

from comband.explore.oracles.base import Oracle
from comband.page.contexts import Contexts, n_contexts, pack_contexts
from comband.page.problem import check_count, check_reward_matrix
from comband.policies.base import Policy


class CachingOracle:
    """Remembers the last `size` answers of `inner`; the same contexts with the same estimates are not fitted again.

    A fit may take minutes, and solvers ask again from where they stood (a certificate after the last step, a resumed
    run). Questions are recognised by a digest of their content, so changed arrays are never mistaken for old ones.

    Parameters
    ----------
    inner:
        Any oracle.
    size:
        How many policies are kept; the one not asked for longest goes first.

    >>> import numpy as np
    >>> import comband as cb
    >>> from scipy.sparse import csr_array
    >>> problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> rewards = csr_array(np.eye(4)[[0, 0, 2, 2]])  # item 0 for small contexts, item 2 for large ones
    >>> from comband.explore.oracles import CachingOracle, TreeOracle
    >>> oracle = CachingOracle(TreeOracle(problem, splits=[(0, 1.5)]))
    >>> oracle.fit(X, rewards) is oracle.fit(X, rewards)  # the second was remembered
    True
    """

    def __init__(self, inner: Oracle, *, size: int = 32) -> None:
        self.inner = inner
        self.size = check_count("size", size)
        self.calls = 0
        self.hits = 0
        self._known: OrderedDict[bytes, Policy] = OrderedDict()

    @property
    def exact(self) -> bool:
        """As exact as the oracle inside."""
        return self.inner.exact

    def fit(self, X: Contexts, rewards: Any) -> Policy:
        """The remembered or the inner oracle's policy."""
        self.calls += 1
        matrix = check_reward_matrix(rewards, n=n_contexts(X))
        key = _digest(X, matrix)
        if key in self._known:
            self.hits += 1
            self._known.move_to_end(key)
            return self._known[key]
        policy = self.inner.fit(X, matrix)
        self._known[key] = policy
        if len(self._known) > self.size:
            self._known.popitem(last=False)
        return policy


def _digest(X: Contexts, rewards: sp.csr_array) -> bytes:
    result = hashlib.blake2b(digest_size=16)
    packed = pack_contexts(X)
    rewards.sort_indices()
    columns = [*packed.values(), rewards.indptr, rewards.indices, rewards.data, np.asarray(rewards.shape)]
    for column in columns:
        array = np.ascontiguousarray(column)
        result.update(f"{array.dtype.str}{array.shape}".encode())
        result.update(array.tobytes())
    return result.digest()
