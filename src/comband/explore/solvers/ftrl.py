"""Follow the regularised leader with entropy and log-barrier: the step of EXP4-COMB-SPARSE.

    p = argmin over the simplex of  L.p + (1/eta) sum_i p_i log p_i - (1/nu) sum_i log p_i

The paper prints the log-barrier with a plus sign; its analysis needs the minus (a positive Hessian).
Stationarity with a multiplier lambda gives, with the Wright omega function (omega + log omega = u),

    p_i = (eta/nu) / omega(u_i),   u_i = eta (L_i - min L) + theta,

where theta = eta (lambda + min L) + 1 + log(eta/nu) is the root of sum_i p_i(theta) = 1.

Reference: Erez & Koren, Algorithm 4 (EXP4-COMB-SPARSE); F. N. Fritsch, R. E. Shafer, W. P. Crowley,
Algorithm 443: Solution of the transcendental equation w exp(w) = x, CACM 1973.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from comband._kernels.ftrl import ftrl_solve
from comband.page.problem import check_count, check_positive
from comband.page.storage import Array, Real, State, check, require

_TINY = float(np.finfo(np.float64).tiny)
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FtrlResiduals:
    """How far weights are from the exact minimiser.

    `stationarity` is the largest residual of the optimality condition |u_i - z_i - log z_i| / (1 + z_i),
    z_i = eta/(nu p_i): to first order the relative error of p_i. `simplex` is |sum p - 1|.
    """

    stationarity: float
    simplex: float


class Ftrl:
    """The exact minimiser for a sequence of loss vectors, each solve started from the one before.

    Parameters
    ----------
    size:
        Number of weights P.
    eta, nu:
        Step sizes of the entropy and of the log-barrier, both positive.

    `weights` (P,) is the current solution, uniform at first (the solution for L = 0); it is
    overwritten by the next `solve`. For |L| up to 1e13 the weights sum to 1 within 2e-13 or the last
    digit of θ, and are exact for that sum to about 1e-15 each.

    >>> ftrl = Ftrl(3, eta=0.1, nu=0.5)
    >>> ftrl.solve(np.array([0.0, -5.0, 1.0])).round(4)
    array([0.3014, 0.4146, 0.284 ])
    """

    def __init__(self, size: int, *, eta: float, nu: float) -> None:
        size = check_count("size", size)
        self.eta = check_positive("eta", eta)
        self.nu = check_positive("nu", nu)
        self.weights: FloatArray = np.full(size, 1.0 / size)
        self.passes = 0
        self._theta = math.inf  # clipped to the upper end of the bracket, the root for L = 0
        self._shift = 0.0

    @property
    def multiplier(self) -> float:
        """The multiplier λ of the constraint Σp = 1 at the last solve."""
        return (self._root() - 1.0 - math.log(self.eta / self.nu)) / self.eta - self._shift

    def solve(self, losses: FloatArray) -> FloatArray:
        """The minimiser for cumulative losses L (P,), finite; returns `weights`, overwritten in place.

        `eta` and `nu` may be changed between solves.
        """
        self._theta, self._shift, _, self.passes = ftrl_solve(
            losses, self.eta, self.eta / self.nu, self._theta, self._shift, self.weights
        )
        return self.weights

    def residuals(self, losses: FloatArray) -> FtrlResiduals:
        """The optimality residuals of the current weights for these losses."""
        z = self.eta / self.nu / self.weights
        u = self.eta * (losses - losses.min()) + self._root()
        stationarity = np.abs(u - z - np.log(z)) / (1.0 + z)
        return FtrlResiduals(float(stationarity.max()), float(abs(self.weights.sum() - 1.0)))

    def state(self) -> State:
        """The last solve, for a file: its weights, θ, and the shift that θ belongs to; see `comband.page.storage`."""
        return {"weights": self.weights, "theta": self._theta, "shift": self._shift}

    SCHEMA: ClassVar = {"weights": Array("f8", ("P",), _TINY, 1), "theta": Real(infinite=True), "shift": Real()}

    @classmethod
    def from_state(cls, state: State, losses: FloatArray, *, eta: float, nu: float) -> "Ftrl":
        """The inverse of `state`, checked: `losses` are those that were solved last, with these step sizes."""
        check(state, cls.SCHEMA, P=len(losses))
        ftrl = cls(len(losses), eta=eta, nu=nu)
        ftrl.weights = state["weights"].copy()
        ftrl._theta, ftrl._shift = state["theta"], state["shift"]
        error = ftrl.residuals(losses)
        require(
            error.stationarity < 1e-6 and error.simplex < 1e-9 and ftrl._shift == losses.min(),
            "the weights of a solver must be those of its losses.",
        )
        return ftrl

    def _root(self) -> float:
        top = self.weights.size * self.eta / self.nu
        return min(self._theta, top + math.log(top))
