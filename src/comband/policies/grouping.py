"""Policies of one kind are evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from comband._kernels.inputs import as_input
from comband._kernels.lists import top_lists, valid_lists
from comband.page.contexts import Contexts, n_contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError
from comband.policies.base import Policy
from comband.policies.blended import BlendedPolicy, blended_lists
from comband.policies.scored import BLOCK, FEW_FEATURES, ScoredPolicy, check_features, in_precision, linear_lists
from comband.policies.tabulated import TabulatedPolicy, check_context_ids


class Block(Protocol):
    """Some policies of one kind, evaluated together.

    complete:
        Whether they always fill their lists; else −1 may stand in places that are empty.
    """

    complete: bool

    def predict(self, X: Contexts, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """Lists (n, len(which), m) of those at these positions."""
        ...


class LinearBlock:
    """Scorers X @ W_p of one shape, in one product; weights are stored as (d, P, K)."""

    complete: ClassVar[bool] = True

    def __init__(self, policies: Sequence[ScoredPolicy]) -> None:
        self._weights = np.stack([policy.weights for policy in policies], axis=1)  # type: ignore[misc]
        self._rank = np.stack([policy.rank for policy in policies])
        self._list_size = policies[0].problem.list_size

    def predict(self, X: Contexts, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """The best m by score."""
        d, m = len(self._weights), self._list_size
        rows = check_features(X, d)
        if isinstance(rows, np.ndarray) and d <= FEW_FEATURES:
            lists = linear_lists(rows, self._weights, which, self._rank, m)
        else:
            lists = self._by_products(in_precision(rows, self._weights.dtype), which)
        if (lists[:, :, 0] < 0).any():
            raise InputError("linear scores came out as NaN; look for NaN or infinity in the contexts.")
        return lists

    def _by_products(self, rows: Any, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """Matrix products: worth it for many features, and for sparse ones."""
        n, m = rows.shape[0], self._list_size
        d, n_policies, K = self._weights.shape
        lists = np.empty((n, len(which), m), dtype=np.int32)
        whole = _is_all(which, n_policies)
        # Few contexts: many policies a product; many contexts: few policies, still long rows for the multiplication.
        some = max(1, min(len(which), BLOCK // (K * max(1, min(n, 64)))))
        step = max(1, BLOCK // (K * some))
        for first in range(0, len(which), some):
            part = which[first : first + some]
            weights = self._weights if whole and some >= n_policies else self._weights[:, part]
            flat = weights.reshape(d, len(part) * K)
            for start in range(0, n, step):
                scores = np.asarray(rows[start : start + step] @ flat)
                lists[start : start + step, first : first + some] = top_lists(
                    scores.reshape(-1, len(part), K), self._rank[part], m
                )
        return lists


class TableBlock:
    """Tabulated policies over the same contexts, in one look-up; stored as (N, P, m): a context is one place."""

    def __init__(self, lists: NDArray[np.int32]) -> None:
        self._lists = np.array(lists.transpose(1, 0, 2), order="C")  # a copy: the given ones may be written to
        self.complete = not bool((self._lists < 0).any())

    def predict(self, X: Contexts, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """Rows of the table."""
        ids = check_context_ids(X, len(self._lists))
        if _is_all(which, self._lists.shape[1]):
            return self._lists.take(ids, axis=0)
        return self._lists[ids[:, None], which[None, :]]


class BlendsBlock:
    """Blends of the same two scorers, which are asked once."""

    complete: ClassVar[bool] = True

    def __init__(self, policies: Sequence[BlendedPolicy]) -> None:
        self._scorers = policies[0].first, policies[0].second
        self._shares = np.array([policy.share for policy in policies])

    def predict(self, X: Contexts, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """The best m by blended score."""
        return blended_lists(*self._scorers, self._shares[which], X)


class ForeignBlock:
    """Policies of the user's own, asked one by one and never trusted to answer in the right shape."""

    complete: ClassVar[bool] = False

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies

    def predict(self, X: Contexts, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """What they say, checked."""
        n = n_contexts(X)
        answers = [self._policies[p].predict(X) for p in which]
        first = answers[0]
        if n and all(type(one) is np.ndarray and one.dtype == np.int32 and one.shape == first.shape for one in answers):
            stacked = np.stack(answers, axis=1)
            # In one compiled pass for all; where something is wrong, what follows finds it.
            if (
                stacked.ndim == 3
                and len(stacked) == n
                and valid_lists(as_input(stacked.reshape(-1, stacked.shape[2])), 2**31)
            ):
                return stacked
        parts = []
        for p, answer in zip(which, answers, strict=True):
            try:
                parts.append(check_lists(answer, n=n, gaps=True))
            except InputError as error:
                raise InputError(f"{type(self._policies[p]).__name__}.predict: {error}") from None
        if len({part.shape for part in parts}) > 1:
            raise InputError(f"all policies must show lists of one length, got {sorted({p.shape[1] for p in parts})}.")
        return np.stack(parts, axis=1)


def _is_all(which: NDArray[np.int64], n_policies: int) -> bool:
    return len(which) == n_policies and (
        which is all_indices(n_policies) or bool((which == np.arange(n_policies)).all())
    )


@lru_cache(maxsize=16)
def all_indices(n_policies: int) -> NDArray[np.int64]:
    """The numbers of all policies, closed to writing: what is this very array need not be looked at."""
    numbers = np.arange(n_policies)
    numbers.flags.writeable = False
    return numbers


def blocks_of(policies: Sequence[Policy]) -> list[tuple[NDArray[np.int64], Block]]:
    """Group policies by how they can be evaluated together; each group with its sorted indices."""
    groups: dict[Any, list[int]] = {}
    for i, policy in enumerate(policies):
        if type(policy) is ScoredPolicy and policy.weights is not None:
            key: Any = (LinearBlock, policy.weights.shape, policy.weights.dtype, policy.problem.list_size)
        elif type(policy) is TabulatedPolicy:
            key = (TableBlock, policy.lists.shape)
        elif type(policy) is BlendedPolicy:
            key = (BlendsBlock, id(policy.first), id(policy.second))
        else:
            key = (ForeignBlock,)
        groups.setdefault(key, []).append(i)
    blocks: list[tuple[NDArray[np.int64], Block]] = []
    for key, group in groups.items():
        members: list[Any] = [policies[i] for i in group]
        made = key[0](np.stack([policy.lists for policy in members]) if key[0] is TableBlock else members)
        blocks.append((np.array(group), made))
    return blocks
