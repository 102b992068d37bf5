"""Log-wealths of bets, and histograms for them."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.packed import _lowest_bit as lowest_bit

_SPARSE = 6  # so many of 64 candidates are found one by one sooner than all are gone through
_FEW = 6  # up to so many events of a round, each of their sets is looked up
ONE = float(1 << 40)  # what 1 is in whole numbers, in which sums are exact: in any order, cut into any parts
_ONE = 1 << 40


@njit(cache=True, nogil=True)
def _whole(x: float) -> int:
    """x in units of 2^−40, the nearest; what is far out of range, and will be refused, stays small."""
    return int(np.floor(min(max(x, -4.0), 4.0) * ONE + 0.5))


@njit(cache=True, nogil=True)
def _dust(x: float) -> int:
    """What `_whole` leaves of x, in units of 2^−80."""
    clipped = min(max(x, -4.0), 4.0) * ONE
    return int(np.floor((clipped - np.floor(clipped + 0.5)) * ONE + 0.5))


@njit(cache=True, nogil=True)
def _in_whole_numbers(x: float, share: float, exact: NDArray[np.int64]) -> None:
    """A share, x and x² as whole numbers: the share in one, the others in two each."""
    exact[0] = _whole(share)
    exact[1], exact[2] = _whole(x), _dust(x)
    exact[3], exact[4] = _whole(x * x), _dust(x * x)


@njit(cache=True, nogil=True, error_model="numpy")
def _split(z: float, middle: int, bound: float, log_ratio: float) -> tuple[int, int, float]:
    """The two rows of a histogram that a value z ≠ 0 lies between, and the share of the first."""
    sign = 1 if z > 0 else -1
    size = min(abs(z), bound)
    shrink = np.exp(-log_ratio)
    least = bound * np.exp(-log_ratio * (middle - 1))
    if size <= least:
        return middle + sign, middle, size / least
    j = int(np.log(bound / size) / log_ratio)  # from the bound downwards
    above = bound * np.exp(-log_ratio * j)
    if above < size:  # rounding
        j -= 1
        above /= shrink
    below = above * shrink
    share = min(max((size - below) / (above - below), 0.0), 1.0)
    row = middle + sign * (middle - min(max(j, 0), middle - 1))  # whatever the numbers, within the counts
    return row, row - sign, share


@njit(cache=True, nogil=True, error_model="numpy")
def split_histogram(values: NDArray[np.float64], counts: NDArray[np.int64], bound: float, log_ratio: float) -> None:
    """Add values (n, P) in [−bound, bound] to counts (2k+1, P), whose rows stand for ±bound·e^(−j·log_ratio) and 0.

    A value between two rows is split so that its mean is kept, in whole numbers of 2^−40 that sum to 1; zeros are
    not counted. Works in place.
    """
    n, n_variables = values.shape
    if counts.shape[1] != n_variables or len(counts) < 3 or len(counts) % 2 == 0:
        raise IndexError("split_histogram: shapes do not fit together")
    middle = len(counts) // 2
    for i in range(n):
        for p in range(n_variables):
            z = values[i, p]
            if z == 0.0 or np.isnan(z):
                continue
            row, other, share = _split(z, middle, bound, log_ratio)
            part = _whole(share)
            counts[row, p] += part
            counts[other, p] += _ONE - part


@njit(cache=True, nogil=True)
def _add_where(words: NDArray[np.uint64], flip: np.uint64, amount: int, total: NDArray[np.int64]) -> None:
    """Add the amount to total[p] wherever bit p is set, or with `flip` all ones is not.

    A few bits are looked for one by one; many have no branch for each.
    """
    for word in range(len(words)):
        some = words[word] ^ flip
        if some == 0:
            continue
        rest = some
        for _ in range(_SPARSE):  # of the bits that are set, the lowest first
            rest &= rest - np.uint64(1)
            if rest == 0:
                break
        if rest == 0 and 64 * word + 64 <= len(total):
            while some != 0:
                total[64 * word + np.int64(lowest_bit(some))] += amount
                some &= some - np.uint64(1)
            continue
        part = total[64 * word : min(64 * word + 64, len(total))]
        for b in range(len(part)):
            part[b] += amount & -np.int64((some >> np.uint64(b)) & np.uint64(1))


@njit(cache=True, nogil=True)
def _any_of(words: NDArray[np.uint64], flip: np.uint64, n: int) -> bool:
    """Whether one of the first n bits is set, or with `flip` all ones is not."""
    for word in range(len(words)):
        some = words[word] ^ flip
        if n - 64 * word < 64:
            some &= (np.uint64(1) << np.uint64(n - 64 * word)) - np.uint64(1)
        if some != 0:
            return True
        if n <= 64 * (word + 1):
            break
    return False


@njit(cache=True, nogil=True)
def _sets_of(words: NDArray[np.uint64], sets: NDArray[np.int64]) -> None:
    """For each of 64 bits in which of a few words it is set: bit e of sets[b] is bit b of words[e]."""
    sets[:] = 0
    for e in range(len(words)):
        if words[e] != 0:
            for b in range(64):
                sets[b] |= np.int64((words[e] >> np.uint64(b)) & np.uint64(1)) << e


@njit(cache=True, nogil=True, error_model="numpy")
def split_shared(
    bits: NDArray[np.uint64],
    starts: NDArray[np.int64],
    weights: NDArray[np.float64],
    offsets: NDArray[np.float64],
    counts: NDArray[np.int64],
    sums: NDArray[np.int64],
    squares: NDArray[np.int64],
    bound: float,
    log_ratio: float,
    unit: float,
) -> float:
    """`split_histogram` of X_r(p) = Σ_e weights[e]·bits[e, p] + offsets[r], which need not be in memory.

    Events starts[r] … starts[r+1]−1 are those of round r; bits (E, words) are packed over variables. Adds Σ_r X and
    Σ_r X² to `sums` and `squares` (2, P) too, unless these are (2, 0): X/unit in whole numbers of 2^−40 and of 2^−80,
    X² in those of unit².
    Returns the largest |X| (NaN if one is, and stops there). A few events have few sets, so that a value is mostly
    looked up; one event has two, and each goes to all who have it at once.
    """
    n_variables, middle = counts.shape[1], len(counts) // 2
    n_events, n_words = len(weights), bits.shape[1]
    if len(bits) != n_events or 64 * n_words < n_variables or len(counts) < 3 or len(counts) % 2 == 0:
        raise IndexError("split_shared: shapes do not fit together")
    if len(starts) != len(offsets) + 1 or starts[0] != 0 or starts[len(offsets)] != n_events:
        raise IndexError("split_shared: the rounds do not fit the events")
    for r in range(len(offsets)):
        if starts[r + 1] < starts[r]:
            raise IndexError("split_shared: the rounds do not ascend")
    summed = sums.shape[1] > 0 or n_variables == 0
    if summed and (sums.shape != (2, n_variables) or squares.shape != (2, n_variables)):
        raise IndexError("split_shared: two numbers of a sum for each variable, or none")
    values = np.zeros(1 << _FEW)
    between = np.zeros((1 << _FEW, 2), dtype=np.int64)
    looked = np.zeros((1 << _FEW, 5), dtype=np.int64)
    found = np.zeros(5, dtype=np.int64)
    sets = np.zeros(64, dtype=np.int64)
    largest = 0.0
    for r in range(len(offsets)):
        first, stop = starts[r], starts[r + 1]
        if stop - first == 1:
            for chosen in range(2):
                z = offsets[r] + (weights[first] if chosen else 0.0)
                flip = np.uint64(0) if chosen else ~np.uint64(0)
                if z == 0.0 or not _any_of(bits[first], flip, n_variables):
                    continue
                if np.isnan(z):
                    return np.nan
                row, other, share = _split(z, middle, bound, log_ratio)
                _in_whole_numbers(z / unit, share, found)
                _add_where(bits[first], flip, found[0], counts[row])
                _add_where(bits[first], flip, _ONE - found[0], counts[other])
                if summed:
                    _add_where(bits[first], flip, found[1], sums[0])
                    _add_where(bits[first], flip, found[2], sums[1])
                    _add_where(bits[first], flip, found[3], squares[0])
                    _add_where(bits[first], flip, found[4], squares[1])
                largest = max(largest, abs(z))
            continue
        few = stop - first <= _FEW
        if few:
            for chosen in range(1 << (stop - first)):
                z = 0.0
                for e in range(first, stop):
                    if chosen >> (e - first) & 1:
                        z += weights[e]
                values[chosen] = z + offsets[r]
                between[chosen, 0] = -1  # not asked for yet
        for word in range(n_words):
            some = np.uint64(0)
            for e in range(first, stop):
                some |= bits[e, word]
            if some == 0 and offsets[r] == 0.0:
                continue
            if few:
                _sets_of(bits[first:stop, word], sets)
            for b in range(min(64, n_variables - 64 * word)):
                p = 64 * word + b
                chosen = sets[b] if few else 0  # without views of a row here: to count their owners takes longer
                if not few:
                    if offsets[r] == 0.0 and not (some >> np.uint64(b)) & np.uint64(1):
                        continue
                    values[0] = 0.0
                    for e in range(first, stop):
                        if (bits[e, word] >> np.uint64(b)) & np.uint64(1):
                            values[0] += weights[e]
                    values[0] += offsets[r]
                    between[0, 0] = -1
                z = values[chosen]
                if z == 0.0:
                    continue
                if between[chosen, 0] < 0:
                    if np.isnan(z):
                        return np.nan
                    largest = max(largest, abs(z))
                    between[chosen, 0], between[chosen, 1], share = _split(z, middle, bound, log_ratio)
                    _in_whole_numbers(z / unit, share, looked[chosen])
                counts[between[chosen, 0], p] += looked[chosen, 0]
                counts[between[chosen, 1], p] += _ONE - looked[chosen, 0]
                if summed:
                    sums[0, p] += looked[chosen, 1]
                    sums[1, p] += looked[chosen, 2]
                    squares[0, p] += looked[chosen, 3]
                    squares[1, p] += looked[chosen, 4]
    return largest


@njit(cache=True, nogil=True, inline="always")
def _end_of_round(rows: NDArray[np.int64], first: int) -> int:
    """One beyond the last event of the round that begins with event `first`."""
    stop = first + 1
    while stop < len(rows) and rows[stop] == rows[first]:
        stop += 1
    return stop


@njit(cache=True, nogil=True)
def add_paired_log_wealth(
    inside: NDArray[np.bool_],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    leader: int,
    levels: NDArray[np.int64],
    stakes: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None:
    """Add Σ_rounds log(1 − λ D(p)) to total[p, j], λ = stakes[levels[p, j]], one round after the other.

    D(p) = Σ_e weights[e]·(inside[e, p] − inside[e, leader]).
    Events of one round stand together (equal `rows`). A round with one event needs a logarithm for each stake of the
    grid only, whatever the number of policies.
    """
    n_events, n_policies = inside.shape
    n_bets = levels.shape[1]
    if len(rows) != n_events or len(weights) != n_events or not 0 <= leader < n_policies:
        raise IndexError("add_paired_log_wealth: one row and weight for each event, a leader among the policies")
    if len(levels) != n_policies or total.shape != levels.shape:
        raise IndexError("add_paired_log_wealth: bets for each policy")
    largest, smallest = len(stakes), -1  # only stakes in use need a logarithm
    for p in range(n_policies):
        for j in range(n_bets):
            g = levels[p, j]
            if not 0 <= g < len(stakes):
                raise IndexError("add_paired_log_wealth: a stake is out of range")
            if stakes[g] > 0.0:
                largest, smallest = min(largest, g), max(smallest, g)
    won = np.zeros(len(stakes))
    lost = np.zeros(len(stakes))
    difference = np.empty(n_policies)
    first = 0
    while first < n_events:
        stop = _end_of_round(rows, first)
        if stop == first + 1:
            for g in range(largest, smallest + 1):
                bet = stakes[g] * weights[first]
                won[g] = np.log1p(bet)
                lost[g] = np.log1p(-bet) if bet < 1 else -np.inf
            leads = inside[first, leader]
            for p in range(n_policies):
                if inside[first, p] != leads:
                    for j in range(n_bets):
                        g = levels[p, j]
                        total[p, j] += won[g] if leads else lost[g]
        else:
            for p in range(n_policies):
                difference[p] = 0.0
                for e in range(first, stop):
                    if inside[e, p] and not inside[e, leader]:
                        difference[p] += weights[e]
                    elif inside[e, leader] and not inside[e, p]:
                        difference[p] -= weights[e]
                if difference[p] != 0.0:
                    for j in range(n_bets):
                        bet = stakes[levels[p, j]] * difference[p]
                        total[p, j] += np.log1p(-bet) if bet < 1 else -np.inf
        first = stop


@njit(cache=True, nogil=True, error_model="numpy")
def add_shared_log_wealth(
    inside: NDArray[np.bool_],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    base: int,
    share: float,
    sign: float,
    levels: NDArray[np.int64],
    stakes: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None:
    """Add Σ_rounds log(1 − sign·λ·D(p)) to total[p, j], λ = stakes[levels[p, j]], one round after the other, for every
    p but `base`.

    D(p) = Σ_e weights[e]·(inside[e, p] − share·inside[e, base]). Events of one round stand together (equal `rows`).
    """
    n_events, n_policies = inside.shape
    n_bets = levels.shape[1]
    if len(rows) != n_events or len(weights) != n_events or not 0 <= base < n_policies:
        raise IndexError("add_shared_log_wealth: one row and weight for each event, a base among the policies")
    if len(levels) != n_policies or total.shape != levels.shape:
        raise IndexError("add_shared_log_wealth: bets for each policy")
    difference = np.empty(n_policies)
    first = 0
    while first < n_events:
        stop = _end_of_round(rows, first)
        difference[:] = 0.0
        for e in range(first, stop):
            less = share * weights[e] if inside[e, base] else 0.0
            for p in range(n_policies):
                difference[p] += (weights[e] if inside[e, p] else 0.0) - less
        for p in range(n_policies):
            if difference[p] != 0.0 and p != base:
                for j in range(n_bets):
                    if not 0 <= levels[p, j] < len(stakes):
                        raise IndexError("add_shared_log_wealth: a stake is out of range")
                    bet = sign * stakes[levels[p, j]] * difference[p]
                    if bet != 0.0:
                        total[p, j] += np.log1p(-bet) if bet < 1 else -np.inf
        first = stop


@njit(cache=True, nogil=True)
def add_value_log_wealth(
    inside: NDArray[np.bool_],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    stakes: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add Σ_rounds log(1 + λ_j X(p)) to low[p, j], Σ_rounds log(1 − λ_j X(p)) to high[p, j] and Σ_rounds X(p) to
    sums[p], one round after the other.

    X(p) = Σ_e weights[e]·inside[e, p]; events of one round stand together.
    """
    n_events, n_policies = inside.shape
    n_bets = len(stakes)
    if len(rows) != n_events or len(weights) != n_events:
        raise IndexError("add_value_log_wealth: one row and weight for each event")
    if low.shape != (n_policies, n_bets) or high.shape != (n_policies, n_bets) or len(sums) != n_policies:
        raise IndexError("add_value_log_wealth: bets for each policy")
    won = np.empty(n_bets)
    lost = np.empty(n_bets)
    first = 0
    while first < n_events:
        stop = _end_of_round(rows, first)
        if stop == first + 1:
            for j in range(n_bets):
                bet = stakes[j] * weights[first]
                won[j] = np.log1p(bet)
                lost[j] = np.log1p(-bet) if bet < 1 else -np.inf
            for p in range(n_policies):
                if inside[first, p]:
                    sums[p] += weights[first]
                    for j in range(n_bets):
                        low[p, j] += won[j]
                        high[p, j] += lost[j]
        else:
            for p in range(n_policies):
                x = 0.0
                for e in range(first, stop):
                    if inside[e, p]:
                        x += weights[e]
                if x > 0.0:
                    sums[p] += x
                    for j in range(n_bets):
                        bet = stakes[j] * x
                        low[p, j] += np.log1p(bet)
                        high[p, j] += np.log1p(-bet) if bet < 1 else -np.inf
        first = stop
