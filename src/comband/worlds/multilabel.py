"""Multi-label data as a world: rows are contexts, and a shown label is confirmed when the row has it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import n_contexts, take_contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, as_generator, check_number, refuse_masked
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.worlds.base import Batch
from comband.worlds.place_effects import check_effect, total_value


@dataclass(frozen=True, eq=False, slots=True)
class MultilabelData:
    """Rows with features X (n, d) and labels Y, a CSR matrix (n, K) of zeros and ones.

    Parameters
    ----------
    features:
        Dense or scipy sparse.
    labels:
        A 0/1 matrix, dense or sparse, or a vector of n whole numbers (multi-class data: one label per row).

    >>> import numpy as np
    >>> import comband as cb
    >>> data = cb.MultilabelData(np.eye(4), [[1, 0, 0], [0, 1, 1], [0, 0, 1], [1, 1, 0]])
    >>> data.n_actions, data.most_labels
    (3, 2)
    >>> data.hits([[0, 1], [1, 2], [0, 1], [0, 1]])  # of two guesses each, so many are right
    1.25
    >>> learn, held_out = cb.MultilabelData.from_sklearn("digits").split(held_out=0.2, seed=0)
    >>> len(learn), held_out.n_actions
    (1438, 10)
    """

    features: Any
    labels: sp.csr_array

    def __post_init__(self) -> None:
        features = sp.csr_array(self.features) if sp.issparse(self.features) else np.asarray(self.features)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", _as_labels(self.labels))
        if n_contexts(features) != self.labels.shape[0]:
            raise InputError(
                f"features and labels must have the same rows, got {n_contexts(features)} and {self.labels.shape[0]}."
            )

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    @property
    def n_actions(self) -> int:
        """K, how many labels there are."""
        return int(self.labels.shape[1])

    @property
    def most_labels(self) -> int:
        """The largest number of labels of a row: s, as measured."""
        return int(np.diff(self.labels.indptr).max(initial=0))

    def split(self, *, held_out: float = 0.2, seed: int = 0) -> tuple[MultilabelData, MultilabelData]:
        """A random division of the rows: (to learn from, held out)."""
        share = check_number("held_out", held_out)
        if not 0 < share < 1:
            raise InputError(f"held_out must lie strictly between 0 and 1, got {share}.")
        order = as_generator(seed).permutation(len(self))
        cut = len(self) - round(share * len(self))
        return self[order[:cut]], self[order[cut:]]

    def __getitem__(self, index: Any) -> MultilabelData:
        return MultilabelData(take_contexts(self.features, index), self.labels[index])

    def hits(self, lists: ArrayLike) -> float:
        """hits@m: how many of the shown labels a row has, on average."""
        return hits_at_m(lists, self.labels)

    @classmethod
    def from_npz(cls, directory: str | os.PathLike[str], name: str) -> MultilabelData:
        """A pair of scipy sparse files NAME_X.npz and NAME_Y.npz (`scipy.sparse.save_npz`)."""
        parts = []
        for part in ("X", "Y"):
            path = Path(directory) / f"{name}_{part}.npz"
            if not path.is_file():
                raise InputError(f"{path} does not exist; a data set is a pair NAME_X.npz and NAME_Y.npz.")
            try:
                parts.append(sp.csr_array(sp.load_npz(path)))
            except (ValueError, KeyError, OSError) as error:
                raise InputError(f"{path} is not a scipy sparse matrix: {error}.") from None
        return cls(*parts)

    @classmethod
    def from_svmlight(
        cls, path: str | os.PathLike[str], *, n_features: int | None = None, n_actions: int | None = None
    ) -> MultilabelData:
        """A text file of lines "3,17 12:0.5 40:1": labels, then index:value pairs (features count from 1 or 0)."""
        from sklearn.datasets import load_svmlight_file

        try:
            X, answers = load_svmlight_file(os.fspath(path), multilabel=True, n_features=n_features)
        except (ValueError, OSError) as error:
            raise InputError(f"{path} is not a multi-label svmlight file: {error}") from None
        sizes = [len(row) for row in answers]
        columns = np.array([label for row in answers for label in row], dtype=np.float64)
        if (columns != np.floor(columns)).any() or columns.min(initial=0) < 0:
            raise InputError(f"the labels of {path} must be whole numbers of at least 0.")
        K = int(columns.max(initial=0)) + 1 if n_actions is None else n_actions
        if columns.max(initial=0) >= K:
            raise InputError(f"{path} has label {int(columns.max())}, but n_actions is {K}.")
        rows = np.repeat(np.arange(len(sizes)), sizes)
        return cls(X, sp.csr_array((np.ones(len(rows)), (rows, columns.astype(np.int64))), shape=(len(sizes), K)))

    @classmethod
    def from_sklearn(cls, name: Literal["digits", "iris", "wine", "breast_cancer"]) -> MultilabelData:
        """One of the multi-class sets that come with scikit-learn; nothing is downloaded."""
        from sklearn import datasets

        known = ("digits", "iris", "wine", "breast_cancer")
        if name not in known:
            raise InputError(f"name must be one of {', '.join(known)}, got {name!r}.")
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return cls(X, y)


class MultilabelWorld:
    """Contexts are drawn from the rows; a shown label is confirmed with `click_probability` if the row has it.

    With probability `noise` a round also confirms one label, uniform among those that the row does *not* have; s then
    grows by one. Values are exact, by going through all rows.

    Parameters
    ----------
    data:
        The rows.
    list_size:
        m.
    sparsity:
        s, the most labels a row may have; measured on the data by default.
    excess:
        What to do with rows of more than s labels: "refuse" raises, "drop" leaves those rows out.
    click_probability, noise:
        As above.
    feedback:
        What the world answers with: see `Problem`.
    place_effect:
        What places do to rewards: None, nothing; probabilities (m,) with which a label is confirmed in each place; or
        "cascade", where the reader stops at the first label that is confirmed.
    places:
        What the problem says of them: see `Problem`.

    >>> data = MultilabelData([[0.], [1.]], [[1, 0, 0], [0, 1, 1]])
    >>> MultilabelWorld(data, list_size=1).problem
    Problem(n_actions=3, list_size=1, sparsity=2.0)
    """

    def __init__(
        self,
        data: MultilabelData,
        *,
        list_size: int,
        sparsity: float | None = None,
        excess: Literal["refuse", "drop"] = "refuse",
        click_probability: float = 1.0,
        noise: float = 0.0,
        feedback: str = "items",
        place_effect: ArrayLike | None = None,
        places: Any = None,
    ) -> None:
        self.click_probability = check_number("click_probability", click_probability)
        self.noise = check_number("noise", noise)
        if not 0 < self.click_probability <= 1:
            raise InputError(f"click_probability must lie in (0, 1], got {self.click_probability}.")
        if not 0 <= self.noise < 1:
            raise InputError(f"noise must lie in [0, 1), got {self.noise}.")
        if excess not in ("refuse", "drop"):
            raise InputError(f'excess must be "refuse" or "drop", got {excess!r}.')
        extra = 1 if self.noise > 0 else 0
        if sparsity is not None:
            counts = np.diff(data.labels.indptr) + extra
            over = counts > check_number("sparsity", sparsity)
            if over.any() and excess == "refuse":
                raise InputError(
                    f"{int(over.sum())} of {len(data)} rows may be confirmed more than sparsity={sparsity:g} labels "
                    f'(up to {int(counts.max())}); raise sparsity, or leave those rows out with excess="drop".'
                )
            data = data[~over]
        if len(data) == 0:
            raise InputError("a world needs at least one row, got none.")
        s = sparsity if sparsity is not None else min(max(data.most_labels + extra, 1), data.n_actions)
        self.data = data
        self.problem = Problem(data.n_actions, list_size, s, feedback=feedback, places=places)
        self.place_effect = check_effect(place_effect, self.problem)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """n rounds. Uses a fixed count of numbers of `rng` per round, so that batches may be cut anywhere."""
        labels, K = self.data.labels, self.problem.n_actions
        probabilities = (self.click_probability < 1) * self.data.most_labels + 2 * (self.noise > 0)
        extra = isinstance(self.place_effect, np.ndarray) * self.problem.list_size
        drawn = rng.random((n, 1 + probabilities + extra))
        u, luck = drawn[:, : 1 + probabilities], drawn[:, 1 + probabilities :] if extra else None
        chosen = np.minimum((u[:, 0] * len(self.data)).astype(np.int64), len(self.data) - 1)
        rewards = labels[chosen]
        if self.click_probability < 1:
            row = np.repeat(np.arange(n), np.diff(rewards.indptr))
            position = np.arange(rewards.nnz) - rewards.indptr[row]
            kept = u[row, 1 + position] < self.click_probability
            rewards = sp.csr_array((rewards.data[kept], (row[kept], rewards.indices[kept])), shape=(n, K))
        if self.noise > 0:
            rewards = rewards + self._false_clicks(labels[chosen], u[:, -2:])
        contexts = take_contexts(self.data.features, chosen)
        return Batch(contexts, sp.csr_array(rewards), self.problem, self.place_effect, luck)

    def values(self, policies: PolicySet, *, shuffled: bool = False) -> NDArray[np.float64]:
        """Exact values (P,), by going through all rows: of the lists in their own order, or `shuffled`."""
        totals = np.zeros(len(policies))
        step = max(1, BLOCK // (len(policies) * self.problem.list_size))
        for start in range(0, len(self.data), step):
            some = self.data[slice(start, start + step)]
            lists = policies.predict(some.features, problem=self.problem)
            for p in range(len(policies)):
                totals[p] += self._expected(lists[:, p], some.labels, shuffled=shuffled)
        return np.asarray(totals / len(self.data), dtype=np.float64)

    def _expected(self, lists: NDArray[np.int32], labels: sp.csr_array, *, shuffled: bool) -> float:
        """Σ over rows of the expected rewards of the shown labels."""
        K, m, effect = self.problem.n_actions, self.problem.list_size, self.place_effect
        others = K - np.diff(labels.indptr)
        if isinstance(effect, np.ndarray):
            has = _answers(lists, labels)
            absent = np.divide(1.0, others, out=np.zeros(len(lists)), where=others > 0)
            by_place = self.click_probability * has + self.noise * (1 - has) * absent[:, None]
            return float(total_value(by_place.sum(axis=0)[None], effect, shuffled=shuffled)[0])
        true = _hits(lists, labels)
        false = np.divide(m - true, others, out=np.zeros(len(lists)), where=others > 0)
        if effect is not None:  # the chance of any reward: in a cascade there is one at most
            return float((1 - (1 - self.click_probability) ** true * (1 - self.noise * false)).sum())
        return float((self.click_probability * true + self.noise * false).sum())

    def _false_clicks(self, labels: sp.csr_array, u: NDArray[np.float64]) -> sp.csr_array:
        """At most one label per row, uniform among those it does not have."""
        n, K = labels.shape
        labels.sort_indices()
        counts = np.diff(labels.indptr)
        rank = np.minimum((u[:, 1] * (K - counts)).astype(np.int64), K - counts - 1)
        # The rank-th absent label: step over every present label at or below it, in increasing order.
        absent = rank.copy()
        row = np.repeat(np.arange(n), counts)
        position = np.arange(labels.nnz) - labels.indptr[row]
        for k in range(int(counts.max(initial=0))):
            at = np.flatnonzero(position == k)
            absent[row[at]] += labels.indices[at] <= absent[row[at]]
        hit = (u[:, 0] < self.noise) & (counts < K)
        return sp.csr_array((np.ones(int(hit.sum())), (np.flatnonzero(hit), absent[hit])), shape=(n, K))


def hits_at_m(lists: ArrayLike, labels: Any) -> float:
    """How many of the m shown labels a row has, on average over rows; `labels` is a 0/1 matrix (n, K) or a vector.

    Parameters
    ----------
    labels:
        (n, K) zeros and ones, or (n,) whole numbers.
    lists:
        (n, m) the shown labels.

    >>> import comband as cb
    >>> from comband.worlds import hits_at_m
    >>> hits_at_m([[0, 1], [1, 2]], [[1, 0, 0], [0, 1, 1]])  # one right, then two
    1.5
    """
    matrix = _as_labels(labels)
    return float(_hits(check_lists(lists, n=matrix.shape[0]), matrix).mean())


def _answers(lists: NDArray[np.int32], labels: sp.csr_array) -> NDArray[np.float64]:
    """Whether the row has each of the shown labels, (n, m)."""
    n, m = lists.shape
    found = labels[np.repeat(np.arange(n), m), lists.ravel()]
    return np.asarray(found.todense() if sp.issparse(found) else found, dtype=np.float64).reshape(n, m)


def _hits(lists: NDArray[np.int32], labels: sp.csr_array) -> NDArray[np.float64]:
    return np.asarray(_answers(lists, labels).sum(axis=1), dtype=np.float64)


def _as_labels(labels: Any) -> sp.csr_array:
    """A 0/1 CSR matrix (n, K), from a matrix or a vector of class numbers."""
    if not sp.issparse(labels):
        refuse_masked("labels", labels)
        array = np.asarray(labels)
        if array.ndim == 1:
            if not np.issubdtype(array.dtype, np.integer) or array.min(initial=0) < 0:
                raise InputError("a vector of labels must hold whole numbers of at least 0, one class per row.")
            n, K = len(array), int(array.max(initial=0)) + 1
            return sp.csr_array((np.ones(n), (np.arange(n), array)), shape=(n, K))
        labels = array
    matrix = sp.csr_array(labels, dtype=np.float64)
    if matrix.ndim != 2:
        raise InputError(f"labels must be a matrix (rows, labels), got shape {matrix.shape}.")
    matrix.eliminate_zeros()
    if (matrix.data != 1).any():
        raise InputError("labels must be zeros and ones.")
    return matrix
