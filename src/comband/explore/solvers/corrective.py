"""Fully corrective Frank-Wolfe: each turn solves the problem on the columns found so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from comband._kernels.packed import packed_gram
from comband._kernels.search import line_search
from comband.explore.solvers.columns import ActiveSet, ColumnOracle, Columns
from comband.explore.solvers.frank_wolfe import minimise
from comband.explore.solvers.potential import Floats, LogBarrier
from comband.explore.solvers.stopping import State, Stopping
from comband.page.bits import Words

DENSE = 0.2  # share of set bits from which whole words beat single events in the Gram matrix
_GRAM_BYTES = 4096  # of each column of lists that are unpacked at a time, for each row of a list
RIDGE = 1e-9  # of the mean diagonal: columns that agree on every event are common


@dataclass(frozen=True)
class FullyCorrective:
    """Column generation: take the found columns in, re-solve over the support, drop the zeros.

    `accuracy` is the share of the current gap to which the restricted problem is solved; a better
    solution would be thrown away by the next column.
    """

    accuracy: float = 0.1

    def __call__(self, potential: LogBarrier, active: ActiveSet, found: Columns, state: State, step: int) -> bool:
        """Solve the restricted master problem."""
        active.add(found)
        moved = solve_master(potential, active, self.accuracy * state.gap)
        active.drop_zeros()
        return moved


def solve_master(potential: LogBarrier, active: ActiveSet, tolerance: float, *, max_newton: int = 50) -> bool:
    """Minimise the potential over the support's simplex until its own gap is within tolerance.

    On the simplex Q = Bp with B = (1−γ)A + γu, and the same p minimises −Σ w log(Bp) + (Σw)·Σp over
    p >= 0, because the logarithm makes the first term homogeneous up to a constant. So the equality
    constraint goes, and each Newton step is a non-negative quadratic programme (sequential
    quadratic programming with an active set). The point stays strictly inside the barrier's domain
    because B > 0; the step is found by exact line search. Returns whether p moved.
    """
    gamma, b = potential.floor, potential.floor * potential.uniform
    w, mass = potential.weights, potential.mass
    moved = False
    for _ in range(max_newton):
        p = active.weights
        Q = potential.mix(active.coverage)
        gains = w / Q
        scores = active.scores(gains)
        residual = (1.0 - gamma) * (scores - float(gains @ active.coverage))
        if residual.max() <= tolerance:
            break
        curvature = gains / Q
        H = _hessian(potential, active, curvature)
        x = nonnegative_quadratic(H, residual + H @ p, p)
        move = x - p
        change = potential.change(active.cover(move)) + b * move.sum()
        t = line_search(w, Q, change, mass * float(move.sum()), 1.0)
        if t == 0.0:
            break
        weights = p + t * move if t < 1.0 else x
        weights[weights < 1e-14] = 0.0
        active.set_weights(weights / weights.sum())
        moved = True
    return moved


def _hessian(potential: LogBarrier, active: ActiveSet, curvature: Floats) -> Floats:
    """Bᵀ diag(curvature) B with a ridge, from the Gram matrix of the columns."""
    gamma, b = potential.floor, potential.floor * potential.uniform
    k = len(active.keys)
    if active.real:
        columns = np.asarray(active.bits, dtype=np.float64)
        gram = (1.0 - gamma) ** 2 * ((columns * curvature) @ columns.T)
        edge = (1.0 - gamma) * b * active.scores(curvature)
    elif potential.group == 1:
        scale = float(curvature.max())
        gram = np.empty((k, k))
        dense = active.scores(np.ones_like(curvature)).sum() > DENSE * k * len(curvature)
        packed_gram(active.bits, (curvature / scale).astype(np.float32), gram, dense=dense)
        gram *= scale * (1.0 - gamma) ** 2
        edge = (b / (1.0 - gamma)) * np.diag(gram) if gamma < 1.0 else np.zeros(k)
    else:
        gram = (1.0 - gamma) ** 2 * _grouped_gram(active.bits, curvature, potential.group)
        edge = (1.0 - gamma) * b * active.scores(curvature)
    H = gram + edge[:, None] + edge[None, :] + b * b * float(curvature.sum())
    H[np.diag_indices(k)] += RIDGE * np.trace(H) / k
    return H


def _grouped_gram(bits: Words, curvature: Floats, group: int) -> Floats:
    """Σ over lists of (their curvature)·A_i·A_j, where A is the share of a list's rows that a column holds."""
    gram = np.zeros((len(bits), len(bits)))
    step = group * _GRAM_BYTES  # rows: whole lists and whole bytes
    flat = bits.view(np.uint8)
    for start in range(0, len(curvature) - len(curvature) % group, 8 * step):
        stop = min(start + 8 * step, len(curvature) - len(curvature) % group)
        rows = np.unpackbits(flat[:, start // 8 : -(-stop // 8)], axis=1, count=stop - start, bitorder="little")
        shares = rows.reshape(len(bits), -1, group).mean(axis=2)
        gram += (shares * curvature[start:stop].reshape(-1, group).sum(axis=1)) @ shares.T
    return gram


def nonnegative_quadratic(H: Floats, q: Floats, start: Floats) -> Floats:
    """Minimise ½xᵀHx − q·x over x >= 0, H positive definite, from a feasible start.

    The active-set method of Lawson and Hanson (1974, ch. 23) on the normal equations, warm-started;
    all promising variables enter at once in the first turn, one by one later.
    """
    x = start.copy()
    free = x > 0.0
    barred = np.zeros(len(x), dtype=np.bool_)  # entered and left at once: rounding, not progress
    tolerance = 1e-12 * float(np.abs(q).max())
    entered: int | None = None
    for turn in range(3 * len(x) + 10):
        for _ in range(len(x)):
            z = np.zeros_like(x)
            z[free] = np.linalg.solve(H[np.ix_(free, free)], q[free])
            leaving = free & (z <= 0.0)
            if not leaving.any():
                break
            with np.errstate(invalid="ignore", divide="ignore"):
                ratios = np.where(leaving, x / (x - z), np.inf)
            alpha = float(min(1.0, np.nanmin(ratios)))
            if entered is not None:
                barred[entered] |= leaving[entered] and x[entered] == 0.0
            x = np.where(free, x + alpha * (z - x), 0.0)
            free &= (x > 0.0) & ~(leaving & (ratios <= alpha))
            x[~free] = 0.0
        x = z
        slope = np.where(free | barred, -np.inf, q - H @ x)
        if slope.max() <= tolerance:
            break
        if turn == 0:
            free |= slope > tolerance
        else:
            entered = int(np.argmax(slope))
            free[entered] = True
    return x


class ThinnableOracle(ColumnOracle, Protocol):
    """A column oracle that can also answer for a share of the events at that share of the cost."""

    def thin(self, step: int) -> tuple[ColumnOracle, npt.NDArray[np.intp]]:
        """Every step-th event (or block of them); their indices, −1 for padding."""
        ...

    def columns(self, policies: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Full columns of some policies."""
        ...


def warm_start(
    potential: LogBarrier, oracle: ThinnableOracle, *, n_columns: int, step: int = 10
) -> tuple[tuple[Columns, Floats], int]:
    """Solve on every step-th block of events; returns a start for `minimise` and the calls made.

    The support found on a tenth of the events is most of the true one, at a tenth of the cost.
    """
    thinned, events = oracle.thin(step)
    weights = np.where(events >= 0, potential.weights[events], 0.0)
    rough = minimise(
        LogBarrier(weights, potential.floor, potential.uniform),
        thinned,
        rule=FullyCorrective(),
        stopping=Stopping(relative_gap=1e-2, max_calls=50),
        n_columns=n_columns,
    )
    policies = np.array([key for key in rough.keys if isinstance(key, int)], dtype=np.intp)
    columns = Columns(rough.keys, oracle.columns(policies), np.zeros(len(policies)))
    return (columns, rough.weights), rough.state.calls
