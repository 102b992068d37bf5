"""What is shown in places that a candidate leaves empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.gaps import fill_gaps
from comband.page.contexts import Contexts, take_contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError
from comband.policies.base import Policy

NOTHING = "nothing"
"""The fallback that leaves places empty."""

Fallback = Policy | str | None
"""A policy, the name of a candidate, NOTHING, or none."""


def check_fallback(fallback: Any, policies: Sequence[Policy], names: tuple[str, ...]) -> Fallback:
    """A policy, NOTHING or None, from one of these or the name of a candidate."""
    if fallback is None or (fallback == NOTHING and NOTHING not in names):
        return None if fallback is None else NOTHING
    if isinstance(fallback, str):
        if fallback == NOTHING:
            raise InputError(f"no candidate may be called {NOTHING!r} where that is the fallback.")
        if fallback in names:
            return policies[names.index(fallback)]
    elif isinstance(fallback, Policy):
        return fallback
    got = repr(fallback) if isinstance(fallback, str) else type(fallback).__name__
    raise InputError(f"fallback must be a policy, the name of a candidate or {NOTHING!r}, got {got}.")


def filled(X: Contexts, lists: NDArray[np.int32], fallback: Fallback, names: Sequence[str]) -> NDArray[np.int32]:
    """Lists (n, P, m) of candidates with these names, with the fallback's actions in places that are empty (−1)."""
    if fallback == NOTHING:
        return lists
    rows = np.flatnonzero((lists < 0).any(axis=(1, 2)))
    if fallback is None or isinstance(fallback, str):
        who = names[int((lists[rows[0]] < 0).any(axis=1).argmax())]
        raise InputError(
            f"{who!r} left places of its list without an action (−1); say what is shown there: PolicySet(…, "
            f"fallback=…), a policy, the name of a candidate, or {NOTHING!r}."
        )
    try:
        spare = check_lists(fallback.predict(take_contexts(X, rows)), n=len(rows))
    except InputError as error:
        raise InputError(f"the fallback must fill its lists always: {error}") from None
    if spare.shape[1] != lists.shape[2]:
        raise InputError(f"the fallback must show lists of {lists.shape[2]}, got {spare.shape[1]}.")
    lists = lists.copy()
    fill_gaps(lists, rows, spare)
    return lists
