"""Lists, and the rewards and propensities of what they showed, as arrays that are checked at the border."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.inputs import as_input
from comband._kernels.lists import valid_lists, valid_propensities, valid_rewards
from comband.page.problem import (
    NO_SUCH_DRAW,
    SMALLEST_PROPENSITY,
    SMALLEST_REWARD,
    TOLERANCE,
    InputError,
    Problem,
    as_floats,
    refuse_masked,
)

_AGREE = 1e-6  # sums of probabilities that were written with few digits


def check_lists(
    lists: ArrayLike, problem: Problem | None = None, *, n: int | None = None, gaps: bool = False
) -> NDArray[np.int32]:
    """Return `lists` as an int32 array (n, m) of distinct actions, of the problem's size if it is given; with `gaps`,
    −1 (or a masked number) may stand in places that are empty.
    """
    if gaps and isinstance(lists, np.ma.MaskedArray):
        lists = lists.filled(-1)
    if type(lists) is not np.ndarray:
        refuse_masked("lists", lists)
    try:
        array = np.asarray(lists)
    except ValueError:
        raise InputError("lists must all have one length, got lists of different lengths.") from None
    except (TypeError, OverflowError):
        raise InputError(f"lists must be an array (n, m) of whole numbers, got {type(lists).__name__}.") from None
    m = "list_size" if problem is None else problem.list_size
    if array.ndim != 2 or (problem is not None and array.shape[1] != m):
        raise InputError(f"lists must have shape (n, {m}), got shape {array.shape}.")
    K = 2**31 if problem is None else problem.n_actions
    if n is not None and array.shape[0] != n:
        raise InputError(f"lists must have one row per context, {n} of them, got {array.shape[0]}.")
    if array.dtype == np.int32 and array.flags.c_contiguous and valid_lists(as_input(array), K):
        return array  # in one compiled pass; what follows is for other types and finds the fault
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    whole = np.issubdtype(array.dtype, np.integer) or (
        np.issubdtype(array.dtype, np.floating) and bool((array == np.floor(array)).all())
    )
    if not whole:
        named = array.dtype.kind in "USOT"
        hint = "; if items have keys of their own, say which there are: catalogue=Catalogue(keys)" if named else ""
        raise InputError(f"lists must hold whole numbers (actions), got dtype {array.dtype}{hint}.")
    bad = (array < (-1 if gaps else 0)) | (array >= K)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(f"actions must lie in 0 … {K - 1}, got {array[row, column]} in row {row} of lists.")
    ordered = np.sort(array, axis=1)
    repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if repeated.any():
        row = int(np.flatnonzero(repeated)[0])
        raise InputError(f"a list must not repeat an action, got {array[row].tolist()} in row {row}.")
    return np.ascontiguousarray(array, dtype=np.int32)


def check_rewards(rewards: ArrayLike, problem: Problem, *, n: int) -> NDArray[np.float64]:
    """Return the rewards of the shown actions as floats (n, m) in [0, 1] with row sums of at most s."""
    m = problem.list_size
    if problem.feedback == "total":
        raise InputError(
            "this problem's feedback is the total of a list, and rewards of single actions are asked for here; use a "
            'problem with feedback="items" if they are known, or TotalRounds if they are not.'
        )
    r = as_floats("rewards", rewards)
    if r.shape != (n, m):
        raise InputError(
            f"rewards must have shape (rounds, list_size) = ({n}, {m}), one number for each shown action, "
            f"got shape {r.shape}."
        )
    # Relative to a sparsity below 1, where an absolute tolerance could be as large as the bound.
    most = np.inf if problem.sparsity is None else problem.sparsity + TOLERANCE * min(problem.sparsity, 1.0)
    if valid_rewards(as_input(r), SMALLEST_REWARD, most):
        return r  # in one compiled pass; what follows finds the fault
    refuse_rewards(r)
    sums = r.sum(axis=1)
    row = int(np.flatnonzero(sums > most)[0])
    raise InputError(
        f"the rewards of one round must not sum above sparsity={problem.sparsity:g}, got "
        f"{sums[row]:g} in row {row}; raise the problem's sparsity or leave it out."
    )


def check_totals(totals: ArrayLike, problem: Problem, *, n: int) -> NDArray[np.float64]:
    """Return totals (n,), one number per round, in [0, ρ]: the sum of the rewards of the shown actions."""
    T = as_floats("totals", totals)
    if T.shape != (n,):
        raise InputError(
            f"totals must hold one number per round, shape ({n},), got shape {T.shape}; rewards of single actions are "
            'for problems with feedback="items".'
        )
    rho = problem.max_reward
    most = rho + TOLERANCE * min(rho, 1.0)
    bad = np.flatnonzero(~((T == 0) | ((T >= SMALLEST_REWARD) & (most >= T))))  # also true for NaN
    if len(bad) == 0:
        return np.minimum(T, rho)
    row = int(bad[0])
    if 0 < T[row] < SMALLEST_REWARD:
        raise InputError(f"a total must be 0 or at least {SMALLEST_REWARD:g}, got {T[row]} in row {row}; set it to 0.")
    if T[row] > most:
        raise InputError(
            f"a total must not exceed {rho:g}, the smaller of sparsity and list_size, got {T[row]:g} in row {row}; "
            "scale the rewards such that each is at most 1, or raise the problem's sparsity."
        )
    raise InputError(
        f"totals must lie in [0, {rho:g}], got {T[row]} in row {row}; leave out rounds whose totals are not known yet."
    )


def refuse_rewards(r: NDArray[np.float64]) -> None:
    """Raise if some reward is not in [0, 1], or so small that its square vanishes."""
    bad = ~((r == 0) | ((r >= SMALLEST_REWARD) & (r <= 1)))  # also true for NaN
    if bad.any():
        place, where = _first(bad)
        if 0 < r[place] < SMALLEST_REWARD:
            raise InputError(
                f"a reward must be 0 or at least {SMALLEST_REWARD:g}, got {r[place]} {where}; set such rewards to 0."
            )
        raise InputError(
            f"rewards must lie in [0, 1], got {r[place]} {where}; "
            "scale them to [0, 1], and leave out rounds whose rewards are not known yet."
        )


def check_propensities(propensities: ArrayLike, *, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return inclusion probabilities of shown actions as floats in (0, 1]."""
    q = as_floats("propensities", propensities)
    if q.shape != shape:
        raise InputError(f"propensities must have the shape of the lists, {shape}, got {q.shape}.")
    if not valid_propensities(as_input(q), SMALLEST_PROPENSITY, 1 + TOLERANCE) or np.isnan(q).any():
        refuse_propensities(q)
    return np.minimum(q, 1.0)


def check_placements(placements: NDArray[np.float64], propensities: NDArray[np.float64]) -> None:
    """Refuse probabilities of places (n, m, m) that cannot be those of items shown with these propensities (n, m): an
    item is possible in the place where it was shown.
    """
    n, m = propensities.shape
    if placements.shape != (n, m, m):
        raise InputError(
            f"placements must hold, of each shown item, the probability of each place, ({n}, {m}, {m}), got "
            f"{placements.shape}."
        )
    refuse_placements(placements.reshape(-1, m), propensities.reshape(-1))
    own = np.diagonal(placements, axis1=1, axis2=2)
    bad = ~(own >= SMALLEST_PROPENSITY)
    if bad.any():
        place, where = _first(bad)
        raise InputError(
            f"an item must be possible in the place where it was shown, got the probability {own[place]} {where} of "
            "placements: each row must say, of the item shown there, how likely it is in every place."
        )


def refuse_placements(placements: NDArray[np.float64], propensities: NDArray[np.float64]) -> None:
    """Raise if some row (E, m) is not made of probabilities of places of an item with its propensity (E,)."""
    sums = placements.sum(axis=1)
    bad = ~((placements >= 0).all(axis=1) & (sums <= 1 + TOLERANCE) & (sums >= propensities - _AGREE))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"probabilities of an item's places must not be negative, and sum to its propensity, got "
            f"{placements[row].tolist()} for a propensity of {propensities[row]}."
        )


def refuse_propensities(q: NDArray[np.float64], *, largest: float = 1.0) -> None:
    """Raise if some propensity is not a probability that can have been drawn."""
    bad = ~((q >= SMALLEST_PROPENSITY) & (q <= largest + TOLERANCE))
    if bad.any():
        place, where = _first(bad)
        if 0 < q[place] < SMALLEST_PROPENSITY:
            raise InputError(
                f"a propensity of {q[place]} ({where}) is too small to be one: {NO_SUCH_DRAW}. "
                "Log the probability that the action is anywhere in the list, not that of the whole list."
            )
        raise InputError(
            f"propensities of shown actions must lie in (0, {largest:g}], got {q[place]} {where}; "
            "log the probability that the action is anywhere in the list."
        )


def _first(bad: NDArray[np.bool_]) -> tuple[tuple[int, ...], str]:
    """The first place where something is wrong, and what a message calls it."""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    return place, f"in row {place[0]}, position {place[1]}" if bad.ndim == 2 else f"at {place[0]}"
