"""What the place of an item does to its reward, in worlds where it does something."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.problem import InputError, Problem, as_floats

PlaceEffect = NDArray[np.float64] | str | None


def check_effect(value: ArrayLike | None, problem: Problem) -> PlaceEffect:
    """Return None, "cascade", or probabilities (m,) with which a reward that an item would bring comes, by place."""
    if value is None or (isinstance(value, str) and value == "cascade"):
        return value
    m = problem.list_size
    probabilities = as_floats("place_effect", value) if not isinstance(value, str) else np.empty(0)
    if probabilities.shape != (m,) or not ((probabilities > 0) & (probabilities <= 1)).all():
        raise InputError(
            f'place_effect must be None, "cascade" or {m} probabilities in (0, 1], one for each place, got {value!r}.'
        )
    return probabilities


def answered(
    rewards: NDArray[np.float64], effect: PlaceEffect, luck: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """What is left of the rewards (n, m) that the shown items would bring anywhere.

    With factors each is given with the chance of its place. In a cascade the reader goes down the list and stops at the
    first reward.
    """
    if effect is None:
        return rewards
    if isinstance(effect, str):
        return np.where(np.cumsum(rewards > 0, axis=1) - (rewards > 0) == 0, rewards, 0.0)
    return np.where(np.asarray(luck) < effect, rewards, 0.0)


def total_value(by_place: NDArray[np.float64], effect: Any, *, shuffled: bool) -> NDArray[np.float64]:
    """Values (P,) from those of the items in each place of the lists (P, m), for factors or none."""
    if effect is None:
        return np.asarray(by_place.sum(axis=1))
    return np.asarray(by_place.sum(axis=1) * effect.mean() if shuffled else by_place @ effect)
