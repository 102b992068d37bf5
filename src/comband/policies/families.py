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

    def promise(self, *, epsilon: float, delta: float, max_reward: float) -> str:
        """What a selection within ε of the best representative with probability 1 − δ means for the whole family."""
        total = min(epsilon + max_reward * self.eta, max_reward)
        return (
            f"within ε + ρη = {total:.4g} of every {self.family} with probability 1 − δ − δ′ = "
            f"{1 - delta - self.delta:g} (η = {self.eta:.3g}, from {self.n_contexts:,} contexts)"
        )
