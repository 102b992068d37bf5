"""The FTRL step with entropy and log-barrier, and the softmax beside it.

Sums are taken in lanes of their own and products are fused where it says so, and the compiler may do neither by itself:
it would do so differently from one compilation to the next, and a first run (which compiles) would differ in its last
bits from all later ones (which load what was compiled).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numpy.typing import NDArray

from comband._kernels.packed import _F64, _I32, _I64, _intrinsic

_BLOCK = 512  # weights per block: stays in the first cache while it is redone, and blocks the sums

_SHIFT = np.uint64(52)

_BIAS = np.uint64(1024 << 52)

_OFFSET = np.uint64((1024 << 52) - 0x3FE6A09E667F3BCD)  # minus the bits of sqrt(1/2)

_MAGIC = np.uint64(0x4330000000000000)  # the bits of 2**52: an or turns a small integer into a float


@_intrinsic
def _bits_of(typing_context: Any, x: Any) -> Any:
    """The 64 bits of a float."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@_intrinsic
def _float_of(typing_context: Any, x: Any) -> Any:
    """The float with these 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@_intrinsic
def _fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), generate


@njit(nogil=True, inline="always")
def _apart(a: float, b: float, c: float) -> float:
    return a * b + c


# Written out rather than left to the compiler, which fuses as it likes; without such an instruction it would be a call.
_fma = _fused if get_host_cpu_features().get("fma", True) else _apart


@njit(cache=True, nogil=True, error_model="numpy")
def _log(x: float) -> float:
    """Natural logarithm of a positive normal number to within an ulp (fdlibm's polynomial).

    Written out because a call of the C library's log keeps the loop around it from vectorising.
    """
    bits = _bits_of(x)
    exponent = (bits + _OFFSET) >> _SHIFT
    f = _float_of(bits + _BIAS - (exponent << _SHIFT)) - 1.0
    k = _float_of(exponent | _MAGIC) - (4503599627370496.0 + 1024.0)
    s = f / (2.0 + f)
    z = s * s
    tail = _fma(z, _fma(z, 1.479819860511658591e-01, 1.531383769920937332e-01), 1.818357216161805012e-01)
    tail = _fma(z, _fma(z, tail, 2.222219843214978396e-01), 2.857142874366239149e-01)
    tail = z * _fma(z, _fma(z, tail, 3.999999999940941908e-01), 6.666666666666735130e-01)
    h = 0.5 * f * f
    low = _fma(s, h + tail, k * 1.90821492927058770002e-10)
    result: float = _fma(k, 6.93147180369123816490e-01, f - (h - low))
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _wright_omega(u: float) -> float:
    """The root z of z + log z = u from scratch, by Fritsch-Shafer-Crowley steps."""
    if u < -1.0:
        z = math.exp(u)
        z /= 1.0 + z
    elif u < 3.0:
        d = u - 1.0
        z = 1.0 + d * (0.5 + d * (0.0625 - d / 192.0))
    else:
        z = u - _log(u)
    for _ in range(2):
        r = u - z - _log(z)
        t = 2.0 * (1.0 + z) * (1.0 + z + 2.0 / 3.0 * r)
        z *= 1.0 + r * (t - r) / ((1.0 + z) * (t - 2.0 * r))
    return z


@njit(cache=True, nogil=True, error_model="numpy")
def _split(p: float, scale: float) -> tuple[float, float]:
    """z = scale/p and v = 1/(1+z), from one division."""
    divided = 1.0 / (p * (p + scale))
    return scale * (p + scale) * divided, p * p * divided


@njit(cache=True, nogil=True, error_model="numpy")
def _advance(p: float, z: float, v: float, r: float) -> tuple[float, float]:
    """The weight whose residual u - z - log z is zero, from a weight p = scale/z where it is r.

    v is 1/(1+z). First the Taylor series of the Wright omega function to the fourth order in q = r v
    (relative error about q^5/100), then a Newton step whose residual needs no new logarithm, since
    log(z(1+e)) = log z + log(1+e). Exact to rounding for |q| <= 0.07, which is as far as one rewarded round
    moves a weight at the safe nu: q <= nu rho = 1/16. Returns the weight and its v.
    """
    q = r * v
    a = q * v
    third = _fma(-2.0, z, 1.0) * (1.0 / 6.0)
    fourth = _fma(z, _fma(6.0, z, -8.0), 1.0) * (1.0 / 24.0)
    e = _fma(q * a, _fma(a * a, fourth, _fma(a, third, 0.5)), q)
    e2 = e * e  # the polynomial of log(1+e) in pairs: short chains let more weights overlap
    tail = _fma(e2, _fma(e, -1.0 / 13.0, 1.0 / 12.0), _fma(e, -1.0 / 11.0, 0.1))
    tail = _fma(e2, tail, _fma(e, -1.0 / 9.0, 0.125))
    tail = _fma(e2, _fma(e2, tail, _fma(e, -1.0 / 7.0, 1.0 / 6.0)), _fma(e, -0.2, 0.25))
    log1p = _fma(-e2, _fma(e2, tail, _fma(e, -1.0 / 3.0, 0.5)), e)
    g = 1.0 + e
    w = _fma(z, g, 1.0)
    divided = 1.0 / (g * (w + (_fma(-z, e, r) - log1p)))
    return p * w * divided, g * divided


@njit(cache=True, nogil=True, error_model="numpy")
def _residual(loss: float, eta: float, theta: float, z: float) -> float:
    return _fma(eta, loss, theta) - z - _log(z)


@_intrinsic
def _lane_sums(typing_context: Any, address: Any, n: Any) -> Any:
    """The sum of 8 n numbers from this address on, in eight lanes that are then folded in halves."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values, n = args
        vector = ir.VectorType(_F64, 8)
        entry = builder.block
        head, body, done = (builder.append_basic_block(f"lanes.{x}") for x in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        i, total = builder.phi(_I64), builder.phi(vector)
        i.add_incoming(ir.Constant(_I64, 0), entry)
        total.add_incoming(ir.Constant(vector, None), entry)
        builder.cbranch(builder.icmp_signed("<", i, n), body, done)
        builder.position_at_end(body)
        here = builder.add(values, builder.mul(i, ir.Constant(_I64, 64)))
        part = builder.load(builder.inttoptr(here, vector.as_pointer()), align=8, typ=vector)
        total.add_incoming(builder.fadd(total, part), body)
        i.add_incoming(builder.add(i, ir.Constant(_I64, 1)), body)
        builder.branch(head)
        builder.position_at_end(done)
        folded, lanes = total, 8
        while lanes > 1:
            lanes //= 2
            index = ir.VectorType(_I32, lanes)
            blank = ir.Constant(folded.type, ir.Undefined)
            low, high = (
                builder.shuffle_vector(folded, blank, ir.Constant(index, list(range(start, start + lanes))))
                for start in (0, lanes)
            )
            folded = builder.fadd(low, high)
        return builder.extract_element(folded, ir.Constant(_I32, 0))

    return types.float64(types.intp, types.intp), generate


@njit(cache=True, nogil=True, error_model="numpy")
def _sum(values: NDArray[np.float64]) -> float:
    """The sum of numbers that lie side by side; always in the same order."""
    n = values.size
    total: float = _lane_sums(values.ctypes.data, n // 8)
    for i in range(n - n % 8, n):
        total += values[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _ftrl_advance(
    weights: NDArray[np.float64],
    residuals: NDArray[np.float64],
    delta: float,
    scale: float,
    terms: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Weights whose residuals were `residuals` + delta, |residual v| <= 0.07, moved to where they are zero.

    Returns the sums of p and of its first two derivatives in theta, signs left out: p v and p v^2 (2-v), with
    v = 1/(1+z).
    """
    n = weights.size
    first, second = terms[0, :n], terms[1, :n]
    for i in range(n):
        p = weights[i]
        z, v = _split(p, scale)
        p, v = _advance(p, z, v, residuals[i] + delta)
        weights[i] = p
        pv = p * v
        first[i] = pv
        second[i] = pv * v * (2.0 - v)
    return _sum(weights), _sum(first), _sum(second)


@njit(cache=True, nogil=True, error_model="numpy")
def _higher_derivatives(weights: NDArray[np.float64], scale: float, terms: NDArray[np.float64]) -> tuple[float, float]:
    """The sums of the third and fourth derivatives: p v^3 (6-8v+3v^2) and p v^4 (24-58v+50v^2-15v^3)."""
    n = weights.size
    third, fourth = terms[0, :n], terms[1, :n]
    for i in range(n):
        p = weights[i]
        v = p / (p + scale)
        v2 = v * v
        pv2 = p * v2
        third[i] = pv2 * v * _fma(3.0, v2, _fma(-8.0, v, 6.0))
        fourth[i] = pv2 * v2 * _fma(v2, _fma(-15.0, v, 50.0), _fma(-58.0, v, 24.0))
    return _sum(third), _sum(fourth)


@njit(cache=True, nogil=True, error_model="numpy")
def _ftrl_aim(
    losses: NDArray[np.float64],
    shift: float,
    eta: float,
    theta: float,
    scale: float,
    weights: NDArray[np.float64],
    residuals: NDArray[np.float64],
    terms: NDArray[np.float64],
) -> float:
    """The step in theta to where the weights, moved by their residuals, will sum to one to the second order.

    Fills `residuals`. Infinity if some weight has far to go.
    """
    far, a0, a1, a2 = 0, 0.0, 0.0, 0.0
    for start in range(0, losses.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        local = losses[start : start + _BLOCK]
        found = residuals[start : start + _BLOCK]
        n = block.size
        zeroth, first, second = terms[0, :n], terms[1, :n], terms[2, :n]
        for i in range(n):
            p = block[i]
            z, v = _split(p, scale)
            r = _residual(local[i] - shift, eta, theta, z)
            found[i] = r
            q = r * v
            far += 1 if abs(q) > 0.065 else 0
            bend = v * _fma(-0.5, v, 1.0)
            zeroth[i] = p * _fma(-q, _fma(-r, bend, 1.0), 1.0)
            first[i] = p * v * _fma(-2.0 * r, bend, 1.0)
            second[i] = p * v * bend
        a0 += _sum(zeroth)
        a1 += _sum(first)
        a2 += _sum(second)
    if far > 0:
        return math.inf
    step = (a0 - 1.0) / a1
    return step * (1.0 + a2 * step / a1)


@njit(cache=True, nogil=True, error_model="numpy")
def _ftrl_pass(
    losses: NDArray[np.float64],
    shift: float,
    eta: float,
    theta: float,
    scale: float,
    weights: NDArray[np.float64],
    terms: NDArray[np.float64],
) -> tuple[float, float, float, float, float]:
    """Weights at theta, improved in place from any positive guess; returns what `_ftrl_advance` does."""
    s0 = s1 = s2 = s3 = s4 = 0.0
    residuals = np.empty(min(_BLOCK, losses.size))
    for start in range(0, losses.size, _BLOCK):
        block = weights[start : start + _BLOCK]  # slices: an index from range(n) is known to be in range
        local = losses[start : start + _BLOCK]
        rough = 1
        while rough > 0:
            rough = 0
            for i in range(block.size):  # two loops: one would be a single long chain of operations
                z, v = _split(block[i], scale)
                r = _residual(local[i] - shift, eta, theta, z)
                residuals[i] = r
                rough += 1 if abs(r * v) > 0.07 else 0
            if rough > 0:
                # A few weights that moved far are solved one by one, and the block is done;
                # if many did, only the lost ones are, and the block is improved and looked at again.
                far = 0.07 if 8 * rough <= block.size else 0.4
                rough = 0 if far == 0.07 else rough
                for i in range(block.size):
                    if abs(residuals[i]) * block[i] > far * (block[i] + scale):
                        block[i] = scale / _wright_omega(eta * (local[i] - shift) + theta)
                        residuals[i] = 0.0
            b0, b1, b2 = _ftrl_advance(block, residuals, 0.0, scale, terms)
        b3, b4 = _higher_derivatives(block, scale, terms)
        s0 += b0
        s1 += b1
        s2 += b2
        s3 += b3
        s4 += b4
    return s0, s1, s2, s3, s4


@njit(cache=True, nogil=True, error_model="numpy")
def _ftrl_move(
    delta: float, scale: float, weights: NDArray[np.float64], terms: NDArray[np.float64]
) -> tuple[float, float, float]:
    """As `_ftrl_pass`, from exact weights at theta - delta, |delta| <= 0.07: no logarithm at all. Three sums only."""
    s0 = s1 = s2 = 0.0
    for start in range(0, weights.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        n = block.size
        first, second = terms[0, :n], terms[1, :n]
        for i in range(n):
            p = block[i]
            z, v = _split(p, scale)
            p, v = _advance(p, z, v, delta)
            block[i] = p
            pv = p * v
            first[i] = pv
            second[i] = pv * v * (2.0 - v)
        s0 += _sum(block)
        s1 += _sum(first)
        s2 += _sum(second)
    return s0, s1, s2


@njit(cache=True, nogil=True, error_model="numpy")
def _ftrl_nudge(delta: float, scale: float, weights: NDArray[np.float64]) -> float:
    """As `_ftrl_move` for |delta| <= 1e-4, where three derivatives are exact to rounding. Returns the sum of p."""
    s0 = 0.0
    for start in range(0, weights.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        for i in range(block.size):
            p = block[i]
            v = p / (p + scale)
            d = v * delta
            inner = _fma(-v, _fma(-0.5, v, 4.0 / 3.0), 1.0)
            block[i] = _fma(-p * d, _fma(-d, _fma(-d, inner, _fma(-0.5, v, 1.0)), 1.0), p)
        s0 += _sum(block)
    return s0


@njit(cache=True, nogil=True, error_model="numpy")
def _ftrl_step(s0: float, s1: float, s2: float, s3: float, s4: float) -> float:
    """The step in theta towards sum p = 1: Halley on log(sum), and near the root the quartic model.

    The logarithm is nearly linear where the entropy rules; the quartic's error is of the fifth order,
    which saves most warm starts a pass.
    """
    g = math.log(s0)
    slope = -s1 / s0
    bend = s2 / s0 - slope * slope
    step = -2.0 * g * slope / (2.0 * slope * slope - g * bend)
    if abs(g) < 0.05:
        for _ in range(2):
            third = s3 * (1.0 / 6.0) - step * s4 * (1.0 / 24.0)
            value = (s0 - 1.0) - step * (s1 - step * (0.5 * s2 - step * third))
            step += value / (s1 - step * (s2 - step * (0.5 * s3 - step * s4 * (1.0 / 6.0))))
    return step


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def _minimum(values: NDArray[np.float64]) -> float:
    low = float(values[0])
    for i in range(values.size):
        low = min(low, float(values[i]))
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def ftrl_solve(
    losses: NDArray[np.float64], eta: float, scale: float, theta: float, old_shift: float, weights: NDArray[np.float64]
) -> tuple[float, float, float, int]:
    """Minimise L.p + (1/eta) sum p log p - (1/nu) sum log p over the simplex; scale = eta/nu.

    `weights` holds any positive guess (the last solution: warm start) and receives the solution.
    Returns theta, the shift min L it belongs to, the sum of the weights and the passes made.

    The sum of p(theta) decreases and is convex, and its root lies where the largest weight is between
    1/P and 1: in [scale + log scale, P scale + log(P scale)]. Halley's step on the logarithm of the sum,
    which is nearly linear where the entropy rules, kept inside that bracket. When no weight has far to go,
    as after one rewarded round, theta is first corrected by what the residuals say, before any is moved.
    """
    if len(losses) == 0 or len(weights) != len(losses):
        raise IndexError("ftrl_solve: one weight for each loss")
    if weights.strides[0] != weights.itemsize:
        raise IndexError("ftrl_solve: weights must lie side by side")
    shift = _minimum(losses)
    low = scale + math.log(scale)
    high = losses.size * scale + math.log(losses.size * scale)
    theta = min(max(theta + eta * (shift - old_shift), low), high)
    residuals = np.empty(losses.size)
    terms = np.empty((3, min(_BLOCK, losses.size)))
    aim = _ftrl_aim(losses, shift, eta, theta, scale, weights, residuals, terms)
    if abs(aim) <= 0.02 and low <= theta + aim <= high:
        theta += aim
        s0 = s1 = s2 = s3 = s4 = 0.0
        for start in range(0, losses.size, _BLOCK):
            b0, b1, b2 = _ftrl_advance(
                weights[start : start + _BLOCK], residuals[start : start + _BLOCK], aim, scale, terms
            )
            s0 += b0
            s1 += b1
            s2 += b2
    else:
        s0, s1, s2, s3, s4 = _ftrl_pass(losses, shift, eta, theta, scale, weights, terms)
    passes = 1
    while abs(s0 - 1.0) > 2e-13 and passes < 200:
        if s0 > 1.0:
            low = max(low, theta)
        else:
            high = min(high, theta)
        target = theta + _ftrl_step(s0, s1, s2, s3, s4)
        if not low <= target <= high:
            target = 0.5 * (low + high)
        delta = target - theta
        if delta == 0.0:
            break  # theta cannot be told from the root in double precision
        theta = target
        if abs(delta) <= 1e-4:
            s0 = _ftrl_nudge(delta, scale, weights)  # the derivatives are still good enough
        elif abs(delta) <= 0.07:
            s0, s1, s2 = _ftrl_move(delta, scale, weights, terms)
            s3 = s4 = 0.0
        else:
            s0, s1, s2, s3, s4 = _ftrl_pass(losses, shift, eta, theta, scale, weights, terms)
        passes += 1
    return theta, shift, s0, passes


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_solve(losses: NDArray[np.float64], eta: float, weights: NDArray[np.float64]) -> float:
    """Minimise L.p + (1/eta) sum p log p over the simplex: weights proportional to exp(-eta L)."""
    if len(losses) == 0 or len(weights) != len(losses):
        raise IndexError("softmax_solve: one weight for each loss")
    shift = _minimum(losses)
    total = 0.0
    for i in range(losses.size):
        weight = math.exp(-eta * (losses[i] - shift))
        weights[i] = weight
        total += weight
    for i in range(losses.size):
        weights[i] /= total
    return shift
