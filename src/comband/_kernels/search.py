"""The line search of the design's solvers."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def line_search(w: Any, Q: Any, direction: Any, slope: float, limit: float) -> float:
    """The t in [0, limit] that minimises slope·t − Σ_e w_e log(Q_e + t·direction_e), convex in t.

    Newton's iteration on the derivative, kept inside a shrinking bracket. The caller sees to it
    that Q + limit·direction >= 0. Returns 0 where no step lowers the function.
    """
    if len(Q) != len(w) or len(direction) != len(w):
        raise IndexError("line_search: one number for each event")
    low, high, t = 0.0, limit, 0.0
    for step in range(60):
        first, second = slope, 0.0
        for e in range(w.shape[0]):
            if w[e] > 0.0:
                ratio = direction[e] / (Q[e] + t * direction[e])
                first -= w[e] * ratio
                second += w[e] * ratio * ratio
        if step == 0 and first >= 0.0:
            return 0.0
        if t == limit and first <= 0.0:
            return limit
        if first < 0.0:
            low = t
        else:
            high = t
        move = -first / second if second > 0.0 else limit
        # Converged is tested before the bracket: near the minimum rounding may point outside it.
        if abs(move) <= 1e-13 * t:
            return t
        t += move
        if t >= high:
            t = high if step == 0 else 0.5 * (low + high)
        elif t <= low:
            t = 0.5 * (low + high)
    return t
