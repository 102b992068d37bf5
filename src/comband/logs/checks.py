"""What can be wrong with a logged round or a list, and how each fault is told."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.logs import list_faults, round_faults
from comband.logs.faults import Faults
from comband.problem import NO_SUCH_DRAW, SMALLEST_PROPENSITY, SMALLEST_REWARD, TOLERANCE

KINDS = {
    1: "unknown item",
    2: "missing propensity",
    3: "wrong propensity",
    4: "missing reward",
    5: "wrong reward",
    6: "repeated item",
    7: "too much reward",
}
_DESCRIBED = 3


def check_rounds(
    rows: NDArray[np.int64],
    codes: NDArray[np.int64],
    names: NDArray[Any],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    faults: Faults,
    *,
    max_reward: float,
    largest: float,
    repeats: bool,
) -> NDArray[np.bool_]:
    """Which rounds are good; the others are noted. `names` are the items as the file spells them, for messages."""
    found = round_faults(
        codes,
        rewards,
        propensities,
        SMALLEST_REWARD,
        max_reward + TOLERANCE,
        SMALLEST_PROPENSITY,
        largest + TOLERANCE,
        repeats,
    )
    for kind in np.unique(found[found > 0]):
        bad = np.flatnonzero(found == kind)
        described = []
        for i in bad[:_DESCRIBED]:
            text = _round_text(int(kind), codes[i], names[i], rewards[i], propensities[i], max_reward, largest)
            described.append((int(rows[i]), text))
        faults.add(KINDS[int(kind)], described, count=len(bad))
    return np.asarray(found == 0)


def _round_text(
    kind: int,
    codes: NDArray[np.int64],
    names: NDArray[Any],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    max_reward: float,
    largest: float,
) -> str:
    if kind == 1:
        return f"item {names[int(np.flatnonzero(codes < 0)[0])]} is not in the catalogue"
    if kind == 2:
        j = int(np.flatnonzero(np.isnan(propensities))[0])
        return f"item {names[j]} has no propensity"
    if kind == 3:
        j = int(np.flatnonzero(~((propensities >= SMALLEST_PROPENSITY) & (propensities <= largest + TOLERANCE)))[0])
        if 0 < propensities[j] < SMALLEST_PROPENSITY:
            return f"propensity {propensities[j]:g} of item {names[j]} is too small to be one: {NO_SUCH_DRAW}"
        return f"propensity {propensities[j]:g} of item {names[j]} is outside (0, 1]"
    if kind == 4:
        return f"item {names[int(np.flatnonzero(np.isnan(rewards))[0])]} has no reward"
    if kind == 5:
        j = int(np.flatnonzero(~((rewards == 0) | ((rewards >= SMALLEST_REWARD) & (rewards <= 1))))[0])
        if 0 < rewards[j] < SMALLEST_REWARD:
            return f"reward {rewards[j]:g} of item {names[j]} is too small to be told from 0"
        return f"reward {rewards[j]:g} of item {names[j]} is outside [0, 1]"
    if kind == 6:
        return f"the list {names.tolist()} repeats an item"
    return f"the rewards sum to {rewards.sum():g}, more than the sparsity {max_reward:g}"


def check_candidate_lists(
    rows: NDArray[np.int64], codes: NDArray[np.int64], names: NDArray[Any], faults: Faults, *, of: str = ""
) -> NDArray[np.bool_]:
    """Which lists are good; the others are noted."""
    found = list_faults(codes)
    for kind in np.unique(found[found > 0]):
        bad = np.flatnonzero(found == kind)
        described = []
        for i in bad[:_DESCRIBED]:
            if kind == 1:
                text = f"item {names[i][int(np.flatnonzero(codes[i] < 0)[0])]} is not in the catalogue"
            else:
                text = f"the list {names[i].tolist()} repeats an item"
            described.append((int(rows[i]), f"{text}{of}"))
        faults.add(KINDS[int(kind)], described, count=len(bad))
    return np.asarray(found == 0)
