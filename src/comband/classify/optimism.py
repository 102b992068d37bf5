"""How unsure a label's fitted rate is in a context, and scores that give an unsure one the benefit of the doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.page.contexts import take_contexts

# Of the ridge regression whose errors the widths are: that of `BanditListClassifier` by default.
_PENALTY = 3.0
# Upper bounds of so many widths; chosen with the tilt on seeds below 100 of bibtex, Corel5k, enron and digits.
_WIDTHS = 0.7
_TILT = (0.5, 1.5)
# A step of `add` touches about so many sums.
_STEP = 1 << 18


class Widths:
    """√(1/(λ + n_y) + Σ_j x_j²/(λ + S_jy)): the error of label y's rate in context x, in units of the noise.

    n_y counts the contexts in which y was shown, S_jy sums their x_j². It is the posterior standard deviation of a
    ridge regression of y's answers, with penalty λ = 3, if features were uncorrelated: instead of a matrix per label
    only its diagonal is kept, in two arrays (d + 1, K). Every answer counts, repeated ones too.

    >>> import numpy as np
    >>> widths = Widths(n_features=2, n_actions=3)
    >>> widths.add(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0], [1]]))
    >>> widths(np.array([[0.0, 1.0]])).round(3).tolist()  # label 2 was never shown, nor any with feature 1
    [[0.764, 0.764, 0.816]]
    """

    def __init__(self, n_features: int, n_actions: int) -> None:
        self.n_features, self.n_actions = n_features, n_actions
        self._precisions = np.full((n_features + 1, n_actions), _PENALTY)  # the last row is that of the intercept
        self._variances = 1 / self._precisions

    def add(self, contexts: Any, lists: NDArray[Any]) -> None:
        """Shown lists (n, m). The sums are the same, to the last bit, however rounds are divided among calls."""
        n, m = lists.shape
        entries = contexts.nnz if sp.issparse(contexts) else contexts.size
        step = max(1, int(_STEP * n / max(1, m * entries)))
        for start in range(0, n, step):
            part = slice(start, start + step)
            rows, features, squares = _entries(_squared(take_contexts(contexts, part)))
            at = features[:, None], lists[part][rows]
            with np.errstate(over="ignore"):
                np.add.at(self._precisions, at, squares[:, None])
            self._variances[at] = 1 / self._precisions[at]

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """(n, K)."""
        with np.errstate(over="ignore"):
            return np.asarray(np.sqrt(_squared(X) @ self._variances[:-1] + self._variances[-1]))


class Optimistic:
    """f_y(x) + .7·σ·tilt_y·width_y(x): an upper bound of a label's rate; σ is the standard deviation of 0/1 answers at
    the `rate` of every label, the most that answers in [0, 1] can have.

    `widths` shrink while answers come in. That is sound: propensities are computed when a list is drawn, with what is
    known then. The tilt differs from label to label, so that visitors who come together, and have lists by several of
    these, are not all shown the same untried labels.
    """

    def __init__(self, scorer: Any, widths: Widths, rate: float, rng: np.random.Generator) -> None:
        self._scorer, self._widths = scorer, widths
        self._scale = _WIDTHS * np.sqrt(rate * (1 - rate)) * rng.uniform(*_TILT, size=widths.n_actions)

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """(n, K)."""
        return np.asarray(self._scorer(X) + self._scale * self._widths(X), dtype=np.float64)


def _squared(X: Any) -> Any:
    """x_j², in the matrix's own kind."""
    if sp.issparse(X):
        numbers = X.astype(np.float64)
        return numbers.multiply(numbers).tocsr()
    return np.square(X, dtype=np.float64)


def _entries(squared: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Row, feature and value of every entry, by rows, and then of the intercept, which is 1 in each."""
    n, d = squared.shape
    if sp.issparse(squared):
        rows, features, values = np.repeat(np.arange(n), np.diff(squared.indptr)), squared.indices, squared.data
    else:
        rows, features, values = np.repeat(np.arange(n), d), np.tile(np.arange(d), n), squared.ravel()
    return (
        np.concatenate([rows, np.arange(n)]),
        np.concatenate([features, np.full(n, d)]),
        np.concatenate([values, np.ones(n)]),
    )
