"""Larger families that a finite set of candidates may stand for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cover:
    """What a finite set of representatives says about the family it stands for.

    eta, delta:
        η and δ′: with probability 1 − δ′ over the contexts, every policy of the family shows another set of actions
        than its representative with probability at most η.
    observed:
        The largest share of held-out contexts on which a representative and the end of its cell differed.
    shares, edges:
        t of each representative, (J,), and the cell [l, h] it stands for, (J, 2).
    n_contexts:
        How many contexts were held out.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.policies import cover_blends
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(2, 5, 20))
    >>> policies = cover_blends(first, second, rng.normal(size=(4000, 5)), problem=cb.Problem(20, 3, 1))
    >>> cover = policies.cover
    >>> len(cover.shares) == len(policies), 0 < cover.observed < cover.eta
    (True, True)
    """

    family: str
    eta: float
    delta: float
    observed: float
    n_contexts: int
    shares: tuple[float, ...]
    edges: tuple[tuple[float, float], ...]

    def sentence(self, epsilon: float, max_reward: float) -> str:
        """What a selection within ε of the best representative means for the whole family, where rewards depend on the
        set of items alone and every representative is a candidate; with probability 1 − δ − δ′.
        """
        return f"within ε + ρη = {min(epsilon + max_reward * self.eta, max_reward):.4g} of every {self.family}"

    @property
    def basis(self) -> str:
        """Where η comes from."""
        return f"η = {self.eta:.3g}, from {self.n_contexts:,} contexts"
