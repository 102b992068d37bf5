"""What an oracle is: reward estimates in, the best policy of a class out."""

from __future__ import annotations

from typing import Any, Protocol

from comband.contexts import Contexts
from comband.policies.base import Policy


class Oracle(Protocol):
    """Empirical risk minimisation over a class Π: argmax_π Σ_i Σ_{y∈π(x_i)} r̂_i(y)."""

    @property
    def exact(self) -> bool:
        """Whether `fit` returns a true maximiser, or only a good policy."""
        ...

    def fit(self, X: Contexts, rewards: Any, /) -> Policy:
        """The best policy for reward estimates r̂ ≥ 0, a scipy sparse matrix (n, K)."""
        ...
