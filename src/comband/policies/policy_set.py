"""A finite class Π of candidate policies, evaluated together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from comband._kernels.inputs import as_input
from comband._kernels.lists import contains
from comband._kernels.records import all_below
from comband.page.catalogue import Catalogue, check_catalogue
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import InputError, Problem, as_column, as_floats, check_problem, refuse_masked
from comband.policies.base import Policy
from comband.policies.fallback import NOTHING, Fallback, check_fallback, filled
from comband.policies.families import Cover
from comband.policies.grouping import Block, TableBlock, all_indices, blocks_of
from comband.policies.keyed import in_numbers
from comband.policies.scored import BLOCK, ScoredPolicy, check_precision
from comband.policies.tabulated import Tables


class PolicySet:
    """Candidates with names.

    Parameters
    ----------
    policies:
        Anything with `predict(X) -> (n, m)`. Linear scorers (`ScoredPolicy` of a weight matrix) of one shape are
        multiplied together, tabulated ones looked up together, and the rest asked one by one.
    names:
        One distinct name for each; "policy 0", "policy 1", … by default.
    fallback:
        What is shown in places that a policy leaves empty (−1, or a masked number), because it did not answer or has
        fewer than m actions: those of the list of another one, a policy or the name of a candidate, which must always
        fill its lists; or "nothing". It belongs to the candidate: its value is that of the lists so filled. Without
        one, all policies must fill their lists.
    catalogue:
        What the items are called. Given, policies of your own answer in its keys, (n, m) text or any hashables (None:
        an empty place); those of comband number items by their place in it.

    `cover` says which larger family the set stands for, if it was made to (`comband.policies.covers`).

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=5, list_size=2)
    >>> class ByAge:
    ...     def predict(self, X):
    ...         return np.where(X[:, :1] < 40, [[0, 1]], [[3, 4]])
    ...
    >>> policies = cb.PolicySet([ByAge(), cb.ConstantPolicy([2, 0], problem)], names=["by age", "the same"])
    >>> policies.predict(np.array([[31.0], [58.0]])).tolist()  # (contexts, candidates, places)
    [[[0, 1], [2, 0]], [[3, 4], [2, 0]]]
    >>> goods = cb.Catalogue(["tea", "rice", "salt"])
    >>> class Tea:
    ...     def predict(self, X):
    ...         return [["tea", "salt"] for _ in X]
    ...
    >>> cb.PolicySet([Tea()], catalogue=goods).predict(np.zeros((1, 1))).tolist()
    [[[0, 2]]]
    """

    cover: Cover | None = None
    by_chance = False  # whether candidates are known by the probabilities of items instead of lists

    def __init__(
        self,
        policies: Sequence[Any],
        names: Sequence[str] | None = None,
        *,
        fallback: Fallback = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.catalogue = check_catalogue(catalogue)
        if not isinstance(policies, (Sequence, PolicySet)):
            raise InputError(
                f"policies must be a list of policies, got {type(policies).__name__}"
                f"{': give list(….values()), names=list(…)' if hasattr(policies, 'values') else ''}."
            )
        if len(policies) == 0:
            raise InputError("a policy set needs at least one policy, got none.")
        self._policies: Sequence[Policy]
        if isinstance(policies, Tables):
            self._policies = policies
            known: list[Problem | None] = [policies.problem]
            self._blocks: list[tuple[NDArray[np.int64], Block]] = [
                (np.arange(len(policies)), TableBlock(policies.lists))
            ]
        else:
            for i, policy in enumerate(policies):
                if not isinstance(policy, Policy):
                    raise InputError(
                        f"every policy must have predict(X) -> lists (n, m); number {i} is {type(policy).__name__}."
                    )
            self._policies = tuple(policies)
            known = [getattr(policy, "problem", None) for policy in self._policies]
            self._blocks = blocks_of([in_numbers(policy, catalogue) for policy in self._policies])
        self.names = _check_names(names, len(policies))
        self.fallback: Fallback = in_numbers(check_fallback(fallback, self._policies, self.names), catalogue)
        self._complete = all(block.complete for _, block in self._blocks)
        # K, as far as the policies say it: actions beyond are not counted.
        self._n_actions = None if None in known else max(int(own.n_actions) for own in known if own is not None)
        # K and m as the policies say them, with the first policy that says so.
        self._sizes: dict[tuple[int, int], int] = {}
        for i, own in enumerate(known):
            if own is not None:
                self._sizes.setdefault((own.n_actions, own.list_size), i)
        # K and m if all lists are surely of that size and in that range, for they come from comband's own policies.
        own_kinds = self._complete and self._n_actions is not None and len(self._sizes) == 1
        self._surely = next(iter(self._sizes)) if own_kinds else None

    @classmethod
    def linear(
        cls,
        weights: ArrayLike,
        problem: Problem,
        *,
        names: Sequence[str] | None = None,
        seed: int = 0,
        dtype: DTypeLike = np.float64,
    ) -> PolicySet:
        """P linear scorers from weights (P, d, K); ties and `dtype` as in `ScoredPolicy`."""
        precision = check_precision(dtype)
        as_given = isinstance(weights, np.ndarray) and weights.dtype == precision
        stack = np.asarray(weights) if as_given else as_floats("weights", weights)
        if stack.ndim != 3:
            raise InputError(f"weights must have shape (policies, features, n_actions), got {stack.shape}.")
        return cls([ScoredPolicy(w, problem, seed=seed, dtype=precision) for w in stack], names)

    @classmethod
    def from_lists(
        cls,
        lists: ArrayLike,
        problem: Problem,
        *,
        names: Sequence[str] | None = None,
        fallback: Fallback = None,
        catalogue: Catalogue | None = None,
    ) -> PolicySet:
        """P tabulated policies from lists (P, N, m) of item numbers; contexts are then the numbers 0 … N−1. A masked
        number stands for a place that is empty, as −1 does.
        """
        if isinstance(lists, np.ma.MaskedArray):
            lists = lists.filled(-1)
        refuse_masked("lists", lists)
        try:
            table = np.asarray(lists)
        except (TypeError, ValueError, OverflowError):
            raise InputError("lists must be an array (policies, contexts, list_size), got unequal parts.") from None
        if table.ndim != 3:
            raise InputError(f"lists must have shape (policies, contexts, list_size), got {table.shape}.")
        return cls(Tables(table, problem) if len(table) else [], names, fallback=fallback, catalogue=catalogue)

    @property
    def has_gaps(self) -> bool:
        """Whether lists may have places that are empty, −1."""
        return self.fallback == NOTHING

    def __len__(self) -> int:
        return len(self._policies)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._policies)

    def __getitem__(self, index: int) -> Policy:
        return self._policies[index]

    @property
    def n_actions(self) -> int | None:
        """K, as far as the policies or their catalogue say it."""
        return self._n_actions if self.catalogue is None else len(self.catalogue)

    def __repr__(self) -> str:
        return f"PolicySet({len(self)} policies)"

    def subset(self, indices: ArrayLike) -> PolicySet:
        """The policies at `indices`, under their names."""
        try:
            chosen = np.asarray(indices)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"indices must be the numbers of policies, got {type(indices).__name__}.") from None
        chosen = (
            np.flatnonzero(chosen) if chosen.shape == (len(self),) and chosen.dtype == bool else self._which(chosen)
        )
        members, names = [self._policies[i] for i in chosen], [self.names[i] for i in chosen]
        return PolicySet(members, names, fallback=self.fallback, catalogue=self.catalogue)

    @property
    def looked_up(self) -> bool:
        """Whether all lists stand in tables: to ask for one again costs no more than to remember it."""
        return self._complete and all(isinstance(block, TableBlock) for _, block in self._blocks)

    def extended(self, policy: Policy | None, name: str) -> PolicySet:
        """The same with one more at the end."""
        if policy is None:
            raise InputError("a further candidate must be a policy, with predict(X) -> lists (n, m), got None.")
        members, names = [*self._policies, policy], [*self.names, name]
        more = PolicySet(members, names, fallback=self.fallback, catalogue=self.catalogue)
        more.cover = self.cover
        return more

    def check(self, problem: Problem) -> None:
        """Refuse policies that were made for another K or m."""
        if self.catalogue is not None and len(self.catalogue) != problem.n_actions:
            raise InputError(
                f"the policies' catalogue has {len(self.catalogue):,} items, but the problem asks for "
                f"{problem.n_actions:,}."
            )
        for (n_actions, list_size), i in self._sizes.items():
            if (n_actions, list_size) != (problem.n_actions, problem.list_size):
                raise InputError(
                    f"{self.names[i]!r} shows {list_size} of {n_actions} actions, "
                    f"but the problem asks for {problem.list_size} of {problem.n_actions}."
                )

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: Problem | None = None
    ) -> NDArray[np.int32]:
        """Lists (n, P, m) of all policies, or (n, len(indices), m) of some; checked against `problem` if given. Places
        without an action are filled by the fallback, and −1 if that is nothing.
        """
        which = self._which(indices)
        n = n_contexts(X)
        result: NDArray[np.int32] | None = None
        if len(self._blocks) == 1 and len(which):
            result = self._blocks[0][1].predict(X, which)
        for members, block in self._blocks if result is None else ():
            place = np.flatnonzero(np.isin(which, members))
            if len(place) == 0:
                continue
            part = block.predict(X, np.searchsorted(members, which[place]))
            if len(place) == len(which):
                result = part
            else:
                if result is None:
                    result = np.empty((n, len(which), part.shape[2]), dtype=np.int32)
                if result.shape[2] != part.shape[2]:
                    raise InputError(
                        f"all policies must show lists of one length, got {result.shape[2]} and {part.shape[2]}."
                    )
                result[:, place] = part
        if result is None:
            raise InputError("indices must name at least one policy, got none.")
        if not self._complete and result.size and int(result.min()) < 0:
            result = filled(X, result, self.fallback, [self.names[i] for i in which])
        if problem is not None and self._surely != (problem.n_actions, problem.list_size):
            _check_range(result, check_problem(problem, places=True))
        return result

    def contains(
        self,
        X: Contexts,
        rows: NDArray[np.int64],
        actions: NDArray[np.int32],
        indices: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Whether action actions[e] ∈ π_j(X[rows[e]]): a matrix (events, P)."""
        rows, actions = _check_events(X, rows, actions)
        found = np.zeros((len(rows), len(self) if indices is None else np.size(indices)), dtype=np.bool_)
        for events, block in self._incidence(X, rows, actions, indices):
            found[events] = block
        return found

    def incidence(
        self,
        X: Contexts,
        rows: NDArray[np.int64],
        actions: NDArray[np.int32],
        indices: ArrayLike | None = None,
        *,
        once: bool = False,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
        """`contains` in blocks of bounded size: (numbers of events, their rows of the matrix).

        All events of one context come in one block, ordered by context, and only contexts that have one are evaluated;
        with `once` equal contexts that are whole numbers once for all rows that have them, which then come together.
        """
        rows, actions = _check_events(X, rows, actions)
        if once and isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "iu" and len(rows):
            keys, place = np.unique(X[rows], return_inverse=True)
            order = np.lexsort((rows, place))  # by context, then by row
            for events, inside in self._incidence(keys, place[order], actions[order], indices):
                yield order[events], inside
            return
        yield from self._incidence(X, rows, actions, indices)

    def _incidence(
        self, X: Contexts, rows: NDArray[np.int64], actions: NDArray[np.int32], indices: ArrayLike | None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
        which = self._which(indices)
        if self._n_actions is not None and not all_below(as_input(actions), self._n_actions):
            raise InputError(
                f"the rounds show action {int(actions.max(initial=0))}, but the policies know only "
                f"0 … {self._n_actions - 1}."
            )
        needed, place = np.unique(rows, return_inverse=True)
        by_row = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[by_row], np.arange(len(needed) + 1))
        step = max(1, BLOCK // (8 * len(which)))
        for start in range(0, len(needed), step):
            stop = min(start + step, len(needed))
            events = by_row[bounds[start] : bounds[stop]]
            lists = self.predict(take_contexts(X, needed[start:stop]), which)
            yield events, contains(lists, place[events] - start, actions[events])

    def _which(self, indices: ArrayLike | None) -> NDArray[np.int64]:
        if indices is None:
            return all_indices(len(self))
        which = np.asarray(indices)
        if which.shape == (0,):
            return np.empty(0, dtype=np.int64)
        if which.ndim != 1 or which.dtype.kind not in "iu":
            raise InputError(f"indices must be the numbers of policies, got {which.dtype} of shape {which.shape}.")
        if not all_below(as_input(which), len(self)):
            raise InputError(f"indices must lie in 0 … {len(self) - 1}, got {which.min()} … {which.max()}.")
        return which.astype(np.int64, copy=False)


def _check_events(X: Contexts, rows: Any, actions: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Events as rows of X and actions, one each."""
    if not (getattr(rows, "dtype", None) == np.int64 and getattr(actions, "dtype", None) == np.int32):
        rows = as_column("rows", rows, np.dtype(np.int64))
        actions = as_column("actions", actions, np.dtype(np.int32))
    if (
        rows.ndim != 1
        or rows.shape != actions.shape
        or not all_below(as_input(rows), n_contexts(X))
        or (actions < 0).any()
    ):
        raise InputError(f"rows and actions must be one number each per event, rows in 0 … {n_contexts(X) - 1}.")
    return rows, actions


def check_policies(value: Any, *, gaps: bool = False, by_chance: bool = False) -> PolicySet:
    """Return `value` if it is a set of policies that can be listed; one whose lists may have `gaps`, or that are known
    `by_chance` (`StochasticPolicies`), if these are fine here.
    """
    if isinstance(value, PolicySet):
        if value.by_chance and not by_chance:
            value.predict(np.zeros(0, dtype=np.int64))  # which says why not
        if value.has_gaps and not gaps:
            raise InputError(
                f"policies must fill their lists here, got a PolicySet with fallback={NOTHING!r}; name a candidate, or "
                "give a policy, that is shown in its place."
            )
        return value
    if isinstance(getattr(value, "policies", None), PolicySet):
        advice = "give its .policies"
    elif callable(getattr(value, "fit", None)):
        advice = "only PacComband and SingleLabelComband take a class that is reached through an oracle"
    else:
        advice = "make one: PolicySet([...])"
    raise InputError(f"policies must be a PolicySet, got {type(value).__name__}; {advice}.")


def _check_names(names: Sequence[str] | None, n_policies: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"policy {i}" for i in range(n_policies))
    if isinstance(names, str) or not isinstance(names, (Sequence, np.ndarray)) or len(names) != n_policies:
        got = len(names) if isinstance(names, Sequence) else type(names).__name__
        raise InputError(f"names must hold one name for each of the {n_policies} policies, got {got}.")
    strings = tuple(str(name) for name in names)
    if len(set(strings)) != n_policies:
        double = next(name for name in strings if strings.count(name) > 1)
        raise InputError(f"names must differ, but {double!r} is used more than once.")
    return strings


def _check_range(lists: NDArray[np.int32], problem: Problem) -> None:
    if lists.shape[2] != problem.list_size:
        raise InputError(
            f"the policies show lists of {lists.shape[2]}, but the problem asks for list_size={problem.list_size}."
        )
    if lists.size and int(lists.max()) >= problem.n_actions:
        raise InputError(
            f"a policy showed action {int(lists.max())}, but actions must lie in 0 … {problem.n_actions - 1}."
        )
