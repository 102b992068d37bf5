"""The hot loops, compiled by numba and cached. Each has a plain numpy twin in the tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

# ---- lists -----------------------------------------------------------------------------------------------------------


@njit(cache=True)
def uniform_lists(u: NDArray[np.float64], n_actions: int) -> NDArray[np.int32]:
    """Uniform m-subsets of {0 … K−1} from uniforms u (n, m), O(m) each: Floyd's algorithm with a small hash table.

    m numbers a list, always: the same stream of numbers gives the same lists however it is cut into batches.
    """
    n, m = u.shape
    lists = np.empty((n, m), dtype=np.int32)
    size = 4
    while size < 2 * m:
        size *= 2
    keys = np.empty(size, dtype=np.int64)
    stamp = np.full(size, -1, dtype=np.int64)  # which row last wrote the slot: no clearing between rows
    for i in range(n):
        for k in range(m):
            top = n_actions - m + k
            y = int(u[i, k] * (top + 1))
            if not 0 <= y <= top:  # rounding, or a number that is no uniform one
                y = top
            for _ in range(2):  # second pass only if y was taken: then `top` itself, which cannot be taken yet
                slot = (y * 2654435761) & (size - 1)
                taken = False
                while stamp[slot] == i:
                    if keys[slot] == y:
                        taken = True
                        break
                    slot = (slot + 1) & (size - 1)
                if not taken:
                    stamp[slot] = i
                    keys[slot] = y
                    break
                y = top
            lists[i, k] = y
    return lists


@njit(cache=True)
def top_lists(scores: NDArray[np.float64], rank: NDArray[np.int32], m: int) -> NDArray[np.int32]:
    """The m best of each row of scores (n, B, K), best first; equal scores go by `rank` (B, K), lowest first.

    A row that holds NaN is answered with −1 in its first place.
    """
    n, n_blocks, n_actions = scores.shape
    if rank.shape != (n_blocks, n_actions) or m > n_actions:
        raise IndexError("top_lists: shapes do not fit together")
    lists = np.empty((n, n_blocks, m), dtype=np.int32)
    best = np.empty(m, dtype=scores.dtype)
    for i in range(n):
        for b in range(n_blocks):
            _top(scores[i, b], rank[b], best, lists[i, b])
    return lists


@njit(cache=True)
def linear_top_lists(
    X: NDArray[np.float64],
    weights: NDArray[np.float64],
    which: NDArray[np.int64],
    rank: NDArray[np.int32],
    m: int,
) -> NDArray[np.int32]:
    """`top_lists` of the scores X @ W_p, for X (n, d), weights (d, P, K) and the policies at `which`.

    Scores stay in the cache, and are summed in one order: a context gets the same list in any batch.
    """
    n, d = X.shape
    if d != len(weights) or len(rank) != weights.shape[1] or rank.shape[1] != weights.shape[2] or m > rank.shape[1]:
        raise IndexError("linear_top_lists: shapes do not fit together")
    lists = np.empty((n, len(which), m), dtype=np.int32)
    scores = np.empty(weights.shape[2], dtype=np.float64)
    best = np.empty(m, dtype=np.float64)
    for b in range(len(which)):
        p = which[b]
        if not 0 <= p < len(rank):
            raise IndexError("linear_top_lists: a policy is out of range")
        for i in range(n):
            scores[:] = 0.0
            for f in range(d):
                x = X[i, f]
                row = weights[f, p]
                for y in range(len(scores)):
                    scores[y] += x * row[y]
            _top(scores, rank[p], best, lists[i, b])
    return lists


@njit(cache=True)
def _top(
    scores: NDArray[np.float64], rank: NDArray[np.int32], best: NDArray[np.float64], chosen: NDArray[np.int32]
) -> None:
    """One pass in memory order: all but the few actions that enter the list cost a single comparison."""
    m = len(chosen)
    size = 0
    threshold = -np.inf
    for y in range(len(scores)):
        value = scores[y]
        if value < threshold:
            continue
        if value != value:
            chosen[0] = -1
            return
        if size < m:
            k = size
            size += 1
        elif value == threshold and rank[y] > rank[chosen[m - 1]]:
            continue
        else:
            k = m - 1
        while k > 0 and (best[k - 1] < value or (best[k - 1] == value and rank[chosen[k - 1]] > rank[y])):
            best[k] = best[k - 1]
            chosen[k] = chosen[k - 1]
            k -= 1
        best[k] = value
        chosen[k] = y
        if size == m:
            threshold = best[m - 1]


@njit(cache=True)
def reward_prints(rewards: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit print of the positive rewards of each row and their places; 0 for a row without any, and only for it."""
    bits = rewards.view(np.uint64)
    prints = np.zeros(len(rewards), dtype=np.uint64)
    for i in range(len(rewards)):
        for j in range(rewards.shape[1]):
            if rewards[i, j] > 0:
                prints[i] = _stir(_stir(prints[i], np.uint64(j)), bits[i, j]) | np.uint64(1)
    return prints


@njit(cache=True)
def valid_lists(lists: NDArray[np.int32], n_actions: int) -> bool:
    """Whether every row (n, m) holds distinct actions in 0 … n_actions − 1."""
    n, m = lists.shape
    for i in range(n):
        for j in range(m):
            if lists[i, j] < 0 or lists[i, j] >= n_actions:
                return False
        if m <= 32:
            for j in range(1, m):
                for k in range(j):
                    if lists[i, j] == lists[i, k]:
                        return False
        else:
            ordered = np.sort(lists[i])
            for j in range(1, m):
                if ordered[j] == ordered[j - 1]:
                    return False
    return True


@njit(cache=True)
def valid_rewards(rewards: NDArray[np.float64], least: float, most: float) -> bool:
    """Whether all are 0 or in [least, 1] and no row sums above `most`."""
    for i in range(rewards.shape[0]):
        total = 0.0
        for j in range(rewards.shape[1]):
            r = rewards[i, j]
            if not (r == 0.0 or least <= r <= 1.0):
                return False
            total += r
        if total > most:
            return False
    return True


@njit(cache=True)
def all_below(numbers: Any, limit: int) -> bool:
    """Whether all whole numbers (n,) lie in 0 … limit − 1."""
    for i in range(len(numbers)):  # noqa: SIM110 - a generator is no loop to the compiler
        if not 0 <= numbers[i] < limit:
            return False
    return True


@njit(cache=True)
def _all_actions(lists: Any, n_actions: int) -> bool:
    """Whether lists (n, S, m) hold actions only; without a way out of its loops, which lets them vectorise."""
    n, n_policies, m = lists.shape
    wrong = 0
    for i in range(n):
        for p in range(n_policies):
            for k in range(m):
                wrong |= (lists[i, p, k] < 0) | (lists[i, p, k] >= n_actions)
    return wrong == 0


@njit(cache=True)
def any_open(propensities: NDArray[np.float64]) -> bool:
    """Whether some row (n, m) is not known, that is NaN."""
    for i in range(propensities.shape[0]):
        for j in range(propensities.shape[1]):
            if np.isnan(propensities[i, j]):
                return True
    return False


@njit(cache=True)
def valid_propensities(propensities: NDArray[np.float64], least: float, most: float) -> bool:
    """Whether all are in [least, most], or NaN throughout their row."""
    n, m = propensities.shape
    for i in range(n):
        unknown = 0
        for j in range(m):
            q = propensities[i, j]
            if np.isnan(q):
                unknown += 1
            elif not least <= q <= most:
                return False
        if unknown != 0 and unknown != m:
            return False
    return True


@njit(cache=True)
def valid_events(
    rows: NDArray[np.int64],
    n_rewarded: int,
    actions: NDArray[np.int32],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    least_reward: float,
    least: float,
    most: float,
) -> bool:
    """Whether rows ascend within 0 … n_rewarded − 1, no action is negative, and rewards and propensities are fit to be
    divided.
    """
    before = 0
    for e in range(len(rows)):
        if not (before <= rows[e] < n_rewarded and actions[e] >= 0):
            return False
        if not (least_reward <= rewards[e] <= 1.0 and least <= propensities[e] <= most):
            return False
        before = rows[e]
    return True


@njit(cache=True)
def draw_policies(cumulative: NDArray[np.float64], u: NDArray[np.float64], floor: float) -> NDArray[np.int64]:
    """A policy for each row of u (n, ≥ 1), by the first number: −1 with probability `floor`, else by its weight."""
    last = len(cumulative) - 1
    if last < 0 or u.shape[1] == 0:
        raise IndexError("draw_policies: at least one policy, and a number for each row")
    drawn = np.empty(len(u), dtype=np.int64)
    for i in range(len(u)):
        if u[i, 0] < floor:
            drawn[i] = -1
        else:
            v = (u[i, 0] - floor) / (1 - floor) * cumulative[last]
            drawn[i] = min(np.searchsorted(cumulative, v, side="right"), last)
    return drawn


@njit(cache=True)
def _stir(state: np.uint64, word: np.uint64) -> np.uint64:
    state = (state ^ word) * np.uint64(0xBF58476D1CE4E5B9)
    return np.uint64(state ^ (state >> np.uint64(29)))


@njit(cache=True)
def inclusion(
    lists: NDArray[np.int32], weights: NDArray[np.float64], shown: NDArray[np.int32], n_actions: int
) -> NDArray[np.float64]:
    """Σ_p weights[p]·1[shown[i, j] ∈ lists[i, p]], for lists (n, P, m) and shown (n, k): O(P·m) a row."""
    n, n_policies, m = lists.shape
    if len(shown) != n or len(weights) != n_policies:
        raise IndexError("inclusion: a row of shown actions for each context, a weight for each policy")
    result = np.empty(shown.shape, dtype=np.float64)
    mass = np.zeros(n_actions, dtype=np.float64)
    wanted = np.zeros(n_actions, dtype=np.bool_)
    for i in range(n):
        for j in range(shown.shape[1]):
            if not 0 <= shown[i, j] < n_actions:
                raise IndexError("inclusion: an action is out of range")
            wanted[shown[i, j]] = True
        block = lists[i]
        for p in range(n_policies):
            for j in range(m):
                y = np.uint32(block[p, j])  # unsigned: one comparison keeps it in range
                if y < np.uint32(n_actions) and wanted[y]:
                    mass[y] += weights[p]
        for j in range(shown.shape[1]):
            result[i, j] = mass[shown[i, j]]
        for j in range(shown.shape[1]):
            mass[shown[i, j]] = 0.0
            wanted[shown[i, j]] = False
    return result


@njit(cache=True)
def contains(lists: NDArray[np.int32], rows: NDArray[np.int64], actions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether actions[e] ∈ lists[rows[e], p], for lists (n, P, m): a matrix (E, P)."""
    n_events, n_policies, m = len(rows), lists.shape[1], lists.shape[2]
    if len(actions) != n_events:
        raise IndexError("contains: one action for each row")
    found = np.zeros((n_events, n_policies), dtype=np.bool_)
    for e in range(n_events):
        i, y = rows[e], actions[e]
        if not 0 <= i < len(lists):
            raise IndexError("contains: a row is out of range")
        for p in range(n_policies):
            for j in range(m):
                if lists[i, p, j] == y:
                    found[e, p] = True
                    break
    return found


# ---- packed incidence: sums over the set bits of 64-bit words --------------------------------------------------------
#
# A column of the incidence is a bit string over events; wanted is Σ c_e over its set bits.
#
# One column, in double: spread 32 bits over 32 lanes, shift bit i of lane i into the sign, and keep either total or
# total + c by the sign. LLVM turns that into shift/add/blend on full vectors.
#
# All columns, in single precision: 16 columns lie side by side, 32 events in a word. Three events have eight sums,
# which fill one vector register, so that a permutation by the low three bits of each word looks up eight columns at
# once. It takes AVX2; elsewhere a plain loop does the same, several times slower. Byte tables, popcounts of bit planes
# and loops over bits were all slower; `python -m benchmarks.design` measures a pass against a bare read of the memory.
#
# Numba has no type for such vectors, so loops over words are emitted as intrinsics.

_intrinsic: Any = intrinsic  # its type describes calls from Python, of which there are none
_I32, _I64, _F32, _F64 = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
_LANES = 32


def _spread(builder: Any, scalar: Any) -> Any:
    """A vector with the scalar in every lane."""
    vector = ir.VectorType(scalar.type, _LANES)
    blank = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(blank, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, blank, ir.Constant(ir.VectorType(_I32, _LANES), None))


def _load(builder: Any, address: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align, typ=kind)


def _emit_masked_sum(builder: Any, args: Any, real: Any, lane: Any, size: int) -> Any:
    """Emit Σ c over the set bits of n words (of the AND of two strings of words, if two come)."""
    *strings, values, n = args
    vector, integers = ir.VectorType(real, _LANES), ir.VectorType(lane, _LANES)
    shifts = ir.Constant(integers, [lane.width - 1 - i for i in range(_LANES)])
    zero = ir.Constant(vector, None)
    entry = builder.block
    head, body, done = (builder.append_basic_block(f"sum.{x}") for x in ("head", "body", "done"))
    builder.branch(head)

    builder.position_at_end(head)
    i, totals = builder.phi(_I64), [builder.phi(vector) for _ in range(8 // size)]
    i.add_incoming(ir.Constant(_I64, 0), entry)
    for total in totals:
        total.add_incoming(zero, entry)
    builder.cbranch(builder.icmp_signed("<", i, n), body, done)

    builder.position_at_end(body)
    sums: list[Any] = list(totals)
    for half in (0, 1):
        here = builder.add(builder.mul(i, ir.Constant(_I64, 8)), ir.Constant(_I64, 4 * half))
        words = [_load(builder, builder.add(string, here), _I32, 4) for string in strings]
        word = builder.and_(*words) if len(words) == 2 else words[0]
        word = builder.zext(word, lane) if lane.width > 32 else word
        signs = builder.shl(_spread(builder, word), shifts)
        mask = builder.icmp_signed("<", signs, ir.Constant(integers, None))
        there = builder.add(values, builder.mul(here, ir.Constant(_I64, 8 * size)))
        c = _load(builder, there, vector, size)
        k = half % len(sums)  # two independent sums hide the latency where registers allow it
        sums[k] = builder.select(mask, builder.fadd(sums[k], c), sums[k])
    for total, updated in zip(totals, sums, strict=True):
        total.add_incoming(updated, body)
    i.add_incoming(builder.add(i, ir.Constant(_I64, 1)), body)
    builder.branch(head)

    builder.position_at_end(done)
    folded = builder.fadd(totals[0], totals[1]) if len(totals) == 2 else totals[0]
    lanes = _LANES
    while lanes > 1:
        if lanes == 8 and size == 4:  # three additions more in single precision, eight conversions less
            folded = builder.fpext(folded, ir.VectorType(_F64, lanes))
        lanes //= 2
        index = ir.VectorType(_I32, lanes)
        low, high = (
            builder.shuffle_vector(
                folded,
                ir.Constant(folded.type, ir.Undefined),
                ir.Constant(index, list(range(start, start + lanes))),
            )
            for start in (0, lanes)
        )
        folded = builder.fadd(low, high)
    return builder.extract_element(folded, ir.Constant(_I32, 0))


@_intrinsic
def _masked_sum_64(context: Any, bits: Any, values: Any, n: Any) -> Any:
    """Σ c over the set bits: addresses of n 64-bit words and of 64·n float64."""
    signature = types.float64(types.intp, types.intp, types.intp)
    return signature, lambda _c, b, _s, args: _emit_masked_sum(b, args, _F64, _I64, 8)


@_intrinsic
def _masked_sum_both(context: Any, first: Any, second: Any, values: Any, n: Any) -> Any:
    """Σ c over the bits set in both: addresses of n 64-bit words twice and of 64·n float32."""
    signature = types.float64(types.intp, types.intp, types.intp, types.intp)
    return signature, lambda _c, b, _s, args: _emit_masked_sum(b, args, _F32, _I32, 4)


@_intrinsic
def _masked_add(context: Any, bits: Any, amount: Any, values: Any, n: Any) -> Any:
    """Add an amount to the float64 at the set bits: addresses of n 32-bit words, of 32·n values."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        address, amount, values, n = args
        vector = ir.VectorType(_F64, _LANES)
        amounts = _spread(builder, amount)
        entry = builder.block
        head, body, done = (builder.append_basic_block(f"add.{x}") for x in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        i = builder.phi(_I64)
        i.add_incoming(ir.Constant(_I64, 0), entry)
        builder.cbranch(builder.icmp_signed("<", i, n), body, done)
        builder.position_at_end(body)
        here = builder.mul(i, ir.Constant(_I64, 4))
        word = _load(builder, builder.add(address, here), _I32, 4)
        mask = builder.bitcast(word, ir.VectorType(ir.IntType(1), _LANES))
        there = builder.add(values, builder.mul(here, ir.Constant(_I64, 64)))
        old = _load(builder, there, vector, 8)
        new = builder.fadd(old, builder.select(mask, amounts, ir.Constant(vector, None)))
        builder.store(new, builder.inttoptr(there, vector.as_pointer()), align=8)
        i.add_incoming(builder.add(i, ir.Constant(_I64, 1)), body)
        builder.branch(head)
        builder.position_at_end(done)
        return ir.Constant(_I64, 0)

    return types.intp(types.intp, types.float64, types.intp, types.intp), codegen


@_intrinsic
def _lookup_sums(context: Any, words: Any, tables: Any, n: Any, totals: Any) -> Any:
    """Add the sums over n · 64 events to 16 columns' totals: addresses of the words, tables and float64 totals."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        words, tables, n, totals = args
        vector, integers = ir.VectorType(_F32, 8), ir.VectorType(_I32, 8)
        insert: Any = cgutils.get_or_insert_function
        permute = insert(builder.module, ir.FunctionType(vector, [vector, integers]), "llvm.x86.avx2.permps")
        entry = builder.block
        head, body, done = (builder.append_basic_block(f"lookup.{x}") for x in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        i, sums = builder.phi(_I64), [builder.phi(vector) for _ in range(2)]
        i.add_incoming(ir.Constant(_I64, 0), entry)
        for total in sums:
            total.add_incoming(ir.Constant(vector, None), entry)
        builder.cbranch(builder.icmp_signed("<", i, n), body, done)

        builder.position_at_end(body)
        here = builder.add(words, builder.mul(i, ir.Constant(_I64, 128)))
        there = builder.add(tables, builder.mul(i, ir.Constant(_I64, 64 * _LOOKUPS)))
        chains: list[list[Any]] = [[], []]
        for half in (0, 1):
            eight = [
                _load(builder, builder.add(here, ir.Constant(_I64, 64 * half + 32 * side)), integers, 4)
                for side in (0, 1)
            ]
            for k in range(_LOOKUPS):
                table = _load(builder, builder.add(there, ir.Constant(_I64, 32 * (_LOOKUPS * half + k))), vector, 4)
                shift = ir.Constant(integers, [3 * k] * 8)
                for side in (0, 1):
                    found = builder.call(permute, [table, builder.lshr(eight[side], shift)])
                    if len(chains[side]) < 2:  # two independent sums a side hide the latency
                        chains[side].append(found)
                    else:
                        chains[side][k % 2] = builder.fadd(chains[side][k % 2], found)
        for side in (0, 1):
            updated = builder.fadd(sums[side], builder.fadd(*chains[side]))
            sums[side].add_incoming(updated, body)
        i.add_incoming(builder.add(i, ir.Constant(_I64, 1)), body)
        builder.branch(head)

        builder.position_at_end(done)
        wide = ir.VectorType(_F64, 8)
        for side in (0, 1):
            address = builder.add(totals, ir.Constant(_I64, 64 * side))
            total = builder.fadd(_load(builder, address, wide, 8), builder.fpext(sums[side], wide))
            builder.store(total, builder.inttoptr(address, wide.as_pointer()), align=8)
        return ir.Constant(_I64, 0)

    return types.intp(types.intp, types.intp, types.intp, types.intp), codegen


_LOOKUPS = 11  # for 32 events, three at a time


@njit(cache=True)
def _fill_tables(c: Any, tables: Any) -> None:
    """tables[i, k, b] = Σ c over the events 32·i + 3·k + {bits of b}."""
    for i in range(len(c) // 32):
        for k in range(_LOOKUPS):
            for b in range(8):
                total = np.float32(0)
                for j in range(3):
                    if (b >> j) & 1 and 3 * k + j < 32:
                        total += c[32 * i + 3 * k + j]
                tables[i, k, b] = total


@njit(cache=True)
def _packed_pass_avx2(lanes: Any, c: Any, scores: Any) -> None:
    n_blocks, n_groups, rows, width = lanes.shape
    if width != 16 or rows % 2 or len(c) != 32 * rows * n_blocks or len(scores) != width * n_groups:
        raise IndexError("packed_pass: shapes do not fit together")
    if not (_gapless(lanes[:1], 4) and _gapless(scores, 8)):
        raise IndexError("packed_pass: the numbers do not follow one another")
    size = rows * _LOOKUPS * 8
    space = np.empty(size + 16, dtype=np.float32)
    aligned = (-space.ctypes.data % 64) // 4  # a table within one cache line loads at once
    tables = space[aligned : aligned + size].reshape((rows, _LOOKUPS, 8))
    start, looked, totals = lanes.ctypes.data, tables.ctypes.data, scores.ctypes.data
    scores[:] = 0.0
    for block in range(n_blocks):
        first = start + block * lanes.strides[0]  # blocks may be skipped, a block is contiguous
        _fill_tables(c[32 * rows * block : 32 * rows * (block + 1)], tables)
        for g in range(n_groups):
            _lookup_sums(first + 64 * rows * g, looked, rows // 2, totals + 128 * g)


@njit(cache=True)
def _packed_pass_plain(lanes: Any, c: Any, scores: Any) -> None:
    n_blocks, n_groups, rows, width = lanes.shape
    if len(c) != 32 * rows * n_blocks or len(scores) != width * n_groups:
        raise IndexError("packed_pass: shapes do not fit together")
    scores[:] = 0.0
    inner, outer = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    for block in range(n_blocks):
        for g in range(n_groups):
            outer[:] = 0
            for i in range(rows):
                inner[:] = 0
                for e in range(32):
                    value = c[32 * (rows * block + i) + e]
                    for j in range(width):
                        inner[j] += value if (lanes[block, g, i, j] >> np.uint32(e)) & np.uint32(1) else np.float32(0)
                for j in range(width):
                    outer[j] += inner[j]
                if i % 16 == 15 or i == rows - 1:  # 48 additions are as many as the other way makes
                    for j in range(width):
                        scores[width * g + j] += outer[j]
                    outer[:] = 0


def packed_pass(lanes: Any, c: Any, scores: Any) -> None:
    """scores[j] = Σ_e c_e A[e, j] for all columns, in single precision, folded into double once a block.

    lanes (blocks, groups, words, 16) uint32: bit e of lanes[b, g, w, l] is event 32·(words·b + w) + e of column
    16·g + l. c (32 · blocks · words,) float32, scores (16 · groups,) float64. Words of a block come in pairs.
    """
    (_packed_pass_avx2 if _AVX2 else _packed_pass_plain)(lanes, c, scores)


# A processor that is named by hand may be another one than this.
_AVX2 = bool(get_host_cpu_features().get("avx2")) and not any(
    getattr(config, name, None) for name in ("CPU_NAME", "CPU_FEATURES")
)


@njit(cache=True)
def _gapless(table: Any, size: int) -> bool:
    """Whether numbers of `size` bytes follow one another in memory, as loops over addresses need them."""
    expected = size
    for axis in range(table.ndim - 1, -1, -1):
        if table.shape[axis] > 1 and table.strides[axis] != expected:
            return False
        expected *= table.shape[axis]
    return True


@njit(cache=True)
def packed_scores(columns: Any, c: Any, scores: Any) -> None:
    """scores[j] = Σ_e c_e A[e, j] in double: columns (k, words) uint64, c (64 · words,) float64."""
    k, words = columns.shape
    if len(c) != 64 * words or len(scores) != k or not (_gapless(columns, 8) and _gapless(c, 8)):
        raise IndexError("packed_scores: shapes do not fit together")
    start, values = columns.ctypes.data, c.ctypes.data
    for j in range(k):
        here = start + 8 * j * words
        scores[j] = _masked_sum_64(here, values, words)


@njit(cache=True)
def packed_coverage(columns: Any, p: Any, coverage: Any) -> None:
    """coverage[e] = Σ_j p_j A[e, j]: columns (k, words) uint64, coverage (64 · words,) float64."""
    k, words = columns.shape
    if len(coverage) != 64 * words or len(p) != k or not (_gapless(columns, 8) and _gapless(coverage, 8)):
        raise IndexError("packed_coverage: shapes do not fit together")
    block = 32  # 2048 sums, 16 kB: they stay in the first-level cache while the columns go by
    start, values = columns.ctypes.data, coverage.ctypes.data
    coverage[:] = 0.0
    for first in range(0, words, block):
        n = min(block, words - first)
        for j in range(k):
            if p[j] != 0.0:
                here = start + 8 * (j * words + first)
                _masked_add(here, p[j], values + 512 * first, 2 * n)


@_intrinsic
def _lowest_bit(context: Any, word: Any) -> Any:
    """The place of the lowest set bit of a uint64 that is not zero."""
    signature = types.uint64(types.uint64)
    return signature, lambda _c, builder, _s, args: builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))


@njit(cache=True)
def packed_gram(columns: Any, d: Any, gram: Any, *, dense: bool) -> None:
    """gram[i, j] = Σ_e d_e A[e, i] A[e, j], from columns (k, words) uint64 and d (64 · words,) float32.

    Dense: by the AND of two columns, in single precision, which is enough: the matrix only shapes a Newton
    direction, never a value or a certificate. Not dense: by the pairs of columns that meet in an event.
    """
    if len(d) != 64 * columns.shape[1] or gram.shape != (len(columns), len(columns)):
        raise IndexError("packed_gram: shapes do not fit together")
    if not (_gapless(columns, 8) and _gapless(d, 4)):
        raise IndexError("packed_gram: the numbers do not follow one another")
    if dense:
        _gram_by_pairs(columns, d, gram)
    else:
        _gram_by_events(columns, d, gram)
    for i in range(len(gram)):
        for j in range(i):
            gram[j, i] = gram[i, j]


@njit(cache=True)
def _gram_by_pairs(columns: Any, d: Any, gram: Any) -> None:
    k, words = columns.shape
    block = 32
    start, values = columns.ctypes.data, d.ctypes.data
    gram[:] = 0.0
    for first in range(0, words, block):
        n = min(block, words - first)
        for i in range(k):
            a = start + 8 * (i * words + first)
            for j in range(i + 1):
                b = start + 8 * (j * words + first)
                gram[i, j] += _masked_sum_both(a, b, values + 256 * first, n)


@njit(cache=True)
def _gram_by_events(columns: Any, d: Any, gram: Any) -> None:
    k, words = columns.shape
    members, sizes = np.empty((64, k), dtype=np.int32), np.empty(64, dtype=np.int64)
    gram[:] = 0.0
    for w in range(words):
        sizes[:] = 0
        for j in range(k):
            word = columns[j, w]
            while word != 0:
                e = _lowest_bit(word)
                members[e, sizes[e]] = j
                sizes[e] += 1
                word &= word - np.uint64(1)
        for e in range(64):
            weight = d[64 * w + e]
            for x in range(sizes[e]):
                row = gram[members[e, x]]
                for y in range(x + 1):
                    row[members[e, y]] += weight


@njit(cache=True)
def sparse_scores(starts: Any, events: Any, c: Any, scores: Any) -> None:
    """scores[j] = Σ_e c_e A[e, j]: events of column j are events[starts[j] : starts[j + 1]]."""
    if len(starts) != len(scores) + 1 or starts[0] < 0 or starts[len(scores)] > len(events):
        raise IndexError("sparse_scores: shapes do not fit together")
    for j in range(scores.shape[0]):
        total = 0.0
        if starts[j] > starts[j + 1]:
            raise IndexError("sparse_scores: columns begin in ascending order")
        for i in range(starts[j], starts[j + 1]):
            if not 0 <= events[i] < len(c):
                raise IndexError("sparse_scores: an event is out of range")
            total += c[events[i]]
        scores[j] = total


@njit(cache=True)
def take_bits(bits: Any, columns: Any, taken: Any) -> None:
    """Bit columns[j] of each row becomes its bit j: bits (n, words) uint64, taken (n, words') uint64."""
    n_columns = len(columns)
    if len(taken) != len(bits) or 64 * taken.shape[1] < n_columns:
        raise IndexError("take_bits: shapes do not fit together")
    for j in range(n_columns):
        if not 0 <= columns[j] < 64 * bits.shape[1]:
            raise IndexError("take_bits: a column is out of range")
    for i in range(bits.shape[0]):
        row = bits[i]
        for w in range(taken.shape[1]):
            word = np.uint64(0)
            for j in range(64 * w, min(64 * w + 64, n_columns)):
                c = columns[j]
                word |= ((row[c >> 6] >> np.uint64(c & 63)) & np.uint64(1)) << np.uint64(j & 63)
            taken[i, w] = word


@njit(cache=True)
def transpose_bits(rows: Any, columns: Any) -> None:
    """Bit j of rows[i] becomes bit i of columns[j]: rows (n, P/8) uint8, columns (P, >= n/8) uint8.

    n and P are multiples of 8. Blocks of 8 × 8 bits turn in one register (Knuth, TAOCP 7.1.3).
    """
    if columns.shape[0] < 8 * rows.shape[1] or columns.shape[1] < rows.shape[0] // 8:
        raise IndexError("transpose_bits: shapes do not fit together")
    for i in range(rows.shape[0] // 8):
        for j in range(rows.shape[1]):
            x = np.uint64(0)
            for k in range(8):
                x |= np.uint64(rows[8 * i + k, j]) << np.uint64(8 * k)
            t = (x ^ (x >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
            x ^= t ^ (t << np.uint64(7))
            t = (x ^ (x >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
            x ^= t ^ (t << np.uint64(14))
            t = (x ^ (x >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
            x ^= t ^ (t << np.uint64(28))
            for k in range(8):
                columns[8 * j + k, i] = np.uint8(x >> np.uint64(8 * k))


@njit(cache=True)
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


# ---- FTRL: weights p = (η/ν)/ω(u), u = η(L − min L) + θ, ω the Wright omega function ---------------------------------

_SUMS = {"reassoc", "contract", "nsz", "nnan"}  # sums may be reordered, which lets them vectorise
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


@njit(cache=True, error_model="numpy", fastmath={"contract"})
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
    tail = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01)
    tail = 2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * tail)
    tail = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * tail))
    h = 0.5 * f * f
    low = s * (h + tail) + k * 1.90821492927058770002e-10
    result: float = k * 6.93147180369123816490e-01 - ((h - low) - f)
    return result


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _split(p: float, scale: float) -> tuple[float, float]:
    """z = scale/p and v = 1/(1+z), from one division."""
    divided = 1.0 / (p * (p + scale))
    return scale * (p + scale) * divided, p * p * divided


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _advance(p: float, z: float, v: float, r: float) -> tuple[float, float]:
    """The weight whose residual u - z - log z is zero, from a weight p = scale/z where it is r.

    v is 1/(1+z). First the Taylor series of the Wright omega function to the fourth order in q = r v
    (relative error about q^5/100), then a Newton step whose residual needs no new logarithm, since
    log(z(1+e)) = log z + log(1+e). Exact to rounding for |q| <= 0.07, which is as far as one rewarded round
    moves a weight at the safe nu: q <= nu rho = 1/16. Returns the weight and its v.
    """
    q = r * v
    a = q * v
    third = (1.0 - 2.0 * z) * (1.0 / 6.0)
    fourth = (1.0 + z * (6.0 * z - 8.0)) * (1.0 / 24.0)
    e = q + (q * a) * ((0.5 + a * third) + (a * a) * fourth)
    e2 = e * e  # the polynomial of log(1+e) in pairs: short chains let more weights overlap
    tail = (0.125 - e * (1.0 / 9.0)) + e2 * ((0.1 - e * (1.0 / 11.0)) + e2 * (1.0 / 12.0 - e * (1.0 / 13.0)))
    tail = (0.25 - e * 0.2) + e2 * ((1.0 / 6.0 - e * (1.0 / 7.0)) + e2 * tail)
    log1p = e - e2 * ((0.5 - e * (1.0 / 3.0)) + e2 * tail)
    g = 1.0 + e
    w = 1.0 + z * g
    divided = 1.0 / (g * (w + (r - z * e - log1p)))
    return p * w * divided, g * divided


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _residual(loss: float, eta: float, theta: float, z: float) -> float:
    return eta * loss + theta - z - _log(z)


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _ftrl_advance(
    weights: NDArray[np.float64], residuals: NDArray[np.float64], delta: float, scale: float
) -> tuple[float, float, float, float, float]:
    """Weights whose residuals were `residuals` + delta, |residual v| <= 0.07, moved to where they are zero.

    Returns the sums of p and of its first four derivatives in theta, signs left out:
    p v, p v^2 (2-v), p v^3 (6-8v+3v^2) and p v^4 (24-58v+50v^2-15v^3), with v = 1/(1+z).
    """
    s0 = s1 = s2 = s3 = s4 = 0.0
    for i in range(weights.size):
        p = weights[i]
        z, v = _split(p, scale)
        p, v = _advance(p, z, v, residuals[i] + delta)
        weights[i] = p
        v2 = v * v
        pv, pv2 = p * v, p * v2
        s0 += p
        s1 += pv
        s2 += pv2 * (2.0 - v)
        s3 += pv2 * v * ((6.0 - 8.0 * v) + 3.0 * v2)
        s4 += pv2 * v2 * ((24.0 - 58.0 * v) + v2 * (50.0 - 15.0 * v))
    return s0, s1, s2, s3, s4


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _ftrl_aim(
    losses: NDArray[np.float64],
    shift: float,
    eta: float,
    theta: float,
    scale: float,
    weights: NDArray[np.float64],
    residuals: NDArray[np.float64],
) -> float:
    """The step in theta to where the weights, moved by their residuals, will sum to one to the second order.

    Fills `residuals`. Infinity if some weight has far to go.
    """
    far, a0, a1, a2 = 0, 0.0, 0.0, 0.0
    for i in range(weights.size):
        p = weights[i]
        z, v = _split(p, scale)
        r = _residual(losses[i] - shift, eta, theta, z)
        residuals[i] = r
        q = r * v
        far += 1 if abs(q) > 0.065 else 0
        bend = v * (1.0 - 0.5 * v)
        a0 += p * (1.0 - q * (1.0 - r * bend))
        a1 += p * v * (1.0 - 2.0 * r * bend)
        a2 += p * v * bend
    if far > 0:
        return math.inf
    step = (a0 - 1.0) / a1
    return step * (1.0 + a2 * step / a1)


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _ftrl_pass(
    losses: NDArray[np.float64], shift: float, eta: float, theta: float, scale: float, weights: NDArray[np.float64]
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
            b0, b1, b2, b3, b4 = _ftrl_advance(block, residuals, 0.0, scale)
        s0 += b0
        s1 += b1
        s2 += b2
        s3 += b3
        s4 += b4
    return s0, s1, s2, s3, s4


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _ftrl_move(delta: float, scale: float, weights: NDArray[np.float64]) -> tuple[float, float, float]:
    """As `_ftrl_pass`, from exact weights at theta - delta, |delta| <= 0.07: no logarithm at all. Three sums only."""
    s0 = s1 = s2 = 0.0
    for start in range(0, weights.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        b0 = b1 = b2 = 0.0
        for i in range(block.size):
            p = block[i]
            z, v = _split(p, scale)
            p, v = _advance(p, z, v, delta)
            block[i] = p
            pv = p * v
            b0 += p
            b1 += pv
            b2 += pv * v * (2.0 - v)
        s0 += b0
        s1 += b1
        s2 += b2
    return s0, s1, s2


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _ftrl_nudge(delta: float, scale: float, weights: NDArray[np.float64]) -> float:
    """As `_ftrl_move` for |delta| <= 1e-4, where three derivatives are exact to rounding. Returns the sum of p."""
    s0 = 0.0
    for start in range(0, weights.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        b0 = 0.0
        for i in range(block.size):
            p = block[i]
            v = p / (p + scale)
            d = v * delta
            p -= p * d * (1.0 - d * (1.0 - 0.5 * v - d * (1.0 - v * (4.0 / 3.0 - 0.5 * v))))
            block[i] = p
            b0 += p
        s0 += b0
    return s0


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _minimum(values: NDArray[np.float64]) -> float:
    low = float(values[0])
    for i in range(values.size):
        low = min(low, float(values[i]))
    return low


@njit(cache=True, error_model="numpy")
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
    shift = _minimum(losses)
    low = scale + math.log(scale)
    high = losses.size * scale + math.log(losses.size * scale)
    theta = min(max(theta + eta * (shift - old_shift), low), high)
    residuals = np.empty(losses.size)
    aim = _ftrl_aim(losses, shift, eta, theta, scale, weights, residuals)
    if abs(aim) <= 0.02 and low <= theta + aim <= high:
        theta += aim
        s0 = s1 = s2 = s3 = s4 = 0.0
        for start in range(0, losses.size, _BLOCK):
            b0, b1, b2, b3, b4 = _ftrl_advance(
                weights[start : start + _BLOCK], residuals[start : start + _BLOCK], aim, scale
            )
            s0 += b0
            s1 += b1
            s2 += b2
            s3 += b3
            s4 += b4
    else:
        s0, s1, s2, s3, s4 = _ftrl_pass(losses, shift, eta, theta, scale, weights)
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
            s0, s1, s2 = _ftrl_move(delta, scale, weights)
            s3 = s4 = 0.0
        else:
            s0, s1, s2, s3, s4 = _ftrl_pass(losses, shift, eta, theta, scale, weights)
        passes += 1
    return theta, shift, s0, passes


@njit(cache=True, error_model="numpy")
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


@njit(cache=True)
def credit(
    lists: NDArray[np.int32],
    rows: NDArray[np.int64],
    actions: NDArray[np.int32],
    amounts: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """totals[p] += amounts[e] for every event e with actions[e] ∈ lists[rows[e], p], for lists (n, P, m)."""
    n_policies, m = lists.shape[1], lists.shape[2]
    if len(actions) != len(rows) or len(amounts) != len(rows) or len(totals) != n_policies:
        raise IndexError("credit: shapes do not fit together")
    for e in range(len(rows)):
        if not 0 <= rows[e] < len(lists):
            raise IndexError("credit: a row is out of range")
        block, y, amount = lists[rows[e]], actions[e], amounts[e]
        for p in range(n_policies):
            hit = 0
            for j in range(m):
                hit |= 1 if block[p, j] == y else 0
            totals[p] += amount * hit


# ---- logs ------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def round_faults(
    items: NDArray[np.int64],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    least_reward: float,
    most: float,
    least: float,
    largest: float,
    repeats: bool,
) -> NDArray[np.uint8]:
    """The first thing wrong with each logged round, 0 if nothing is: see `comband.logs.checks.KINDS`.

    Rewards are 0 or at least `least_reward`, their sum at most `most`; propensities lie in [least, largest]; items of
    code −1 are unknown ones.
    """
    n, m = items.shape
    if rewards.shape != items.shape or propensities.shape != items.shape:
        raise IndexError("round_faults: shapes do not fit together")
    codes = np.zeros(n, dtype=np.uint8)
    for i in range(n):
        total = 0.0
        for j in range(m):
            q, r = propensities[i, j], rewards[i, j]
            if items[i, j] < 0:
                codes[i] = 1
            elif np.isnan(q):
                codes[i] = 2
            elif not least <= q <= largest:
                codes[i] = 3
            elif np.isnan(r):
                codes[i] = 4
            elif not (r == 0.0 or least_reward <= r <= 1.0):
                codes[i] = 5
            if codes[i]:
                break
            total += r
            if not repeats:
                for k in range(j):
                    if items[i, k] == items[i, j]:
                        codes[i] = 6
                if codes[i]:
                    break
        if codes[i] == 0 and total > most:
            codes[i] = 7
    return codes


@njit(cache=True)
def list_faults(items: NDArray[np.int64]) -> NDArray[np.uint8]:
    """1 where a list holds an unknown item (code −1), 6 where it repeats one, otherwise 0."""
    n, m = items.shape
    codes = np.zeros(n, dtype=np.uint8)
    for i in range(n):
        for j in range(m):
            if items[i, j] < 0:
                codes[i] = 1
                break
            for k in range(j):
                if items[i, k] == items[i, j]:
                    codes[i] = 6
    return codes


@njit(cache=True, error_model="numpy")
def split_histogram(values: NDArray[np.float64], counts: NDArray[np.float64], bound: float, log_ratio: float) -> None:
    """Add values (n, P) in [−bound, bound] to counts (P, 2k+1), whose columns stand for ±bound·e^(−j·log_ratio) and 0.

    A value between two columns is split so that its mean is kept; zeros are not counted. Works in place.
    """
    n, n_variables = values.shape
    if len(counts) != n_variables or counts.shape[1] < 3 or counts.shape[1] % 2 == 0:
        raise IndexError("split_histogram: shapes do not fit together")
    middle = counts.shape[1] // 2
    shrink = np.exp(-log_ratio)
    least = bound * np.exp(-log_ratio * (middle - 1))
    for i in range(n):
        for p in range(n_variables):
            z = values[i, p]
            if z == 0.0 or np.isnan(z):
                continue
            sign = 1 if z > 0 else -1
            size = min(abs(z), bound)
            if size <= least:
                share = size / least
                counts[p, middle + sign] += share
                counts[p, middle] += 1 - share
                continue
            j = int(np.log(bound / size) / log_ratio)  # from the bound downwards
            above = bound * np.exp(-log_ratio * j)
            if above < size:  # rounding
                j -= 1
                above /= shrink
            below = above * shrink
            share = min(max((size - below) / (above - below), 0.0), 1.0)
            column = middle + sign * (middle - min(max(j, 0), middle - 1))  # whatever the numbers, within the counts
            counts[p, column] += share
            counts[p, column - sign] += 1 - share


# ---- pairs (context, action) of a sparse matrix and one weight vector an action --------------------------------------


@njit(cache=True)
def _check_pairs(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    shape: tuple[int, int],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
) -> None:
    if len(actions) != len(rows) or len(data) != len(indices) or len(indptr) == 0:
        raise IndexError("pairs: shapes do not fit together")
    if indptr[0] < 0 or indptr[len(indptr) - 1] > len(indices):
        raise IndexError("pairs: the rows of the matrix do not fit its numbers")
    for i in range(1, len(indptr)):
        if indptr[i] < indptr[i - 1]:
            raise IndexError("pairs: the rows of the matrix do not ascend")
    for k in range(len(indices)):
        if not 0 <= indices[k] < shape[0]:
            raise IndexError("pairs: a column of the matrix is out of range")
    for e in range(len(rows)):
        if not (0 <= rows[e] < len(indptr) - 1 and 0 <= actions[e] < shape[1]):
            raise IndexError("pairs: a pair is out of range")


@njit(cache=True, fastmath=True)
def pair_products(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
) -> NDArray[np.float64]:
    """x_i · w_y for each pair e = (rows[e], actions[e]): x_i a row of a CSR matrix, w_y a column of (d, K)."""
    _check_pairs(indptr, indices, data, coefficients.shape, rows, actions)
    result = np.empty(len(rows))
    for e in range(len(rows)):
        i, y = rows[e], actions[e]
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * coefficients[indices[k], y]
        result[e] = total
    return result


@njit(cache=True, fastmath=True)
def pair_sums(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    values: NDArray[np.float64],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
    result: NDArray[np.float64],
) -> None:
    """Add Σ_e values[e] · x_{rows[e]} to column actions[e] of `result` (d, K): the transpose of `pair_products`."""
    _check_pairs(indptr, indices, data, result.shape, rows, actions)
    if len(values) != len(rows):
        raise IndexError("pair_sums: one value for each pair")
    for e in range(len(rows)):
        i, y, value = rows[e], actions[e], values[e]
        for k in range(indptr[i], indptr[i + 1]):
            result[indices[k], y] += data[k] * value


# ---- betting ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def add_paired_log_wealth(
    inside: NDArray[np.bool_],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    leader: int,
    levels: NDArray[np.int64],
    stakes: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None:
    """Add Σ_rounds log(1 − λ D(p)) to total[p, j], λ = stakes[levels[p, j]].

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
        stop = first + 1
        while stop < n_events and rows[stop] == rows[first]:
            stop += 1
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


@njit(cache=True)
def add_value_log_wealth(
    inside: NDArray[np.bool_],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    stakes: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> None:
    """Add Σ_rounds log(1 + λ_j X(p)) to low[p, j] and Σ_rounds log(1 − λ_j X(p)) to high[p, j].

    X(p) = Σ_e weights[e]·inside[e, p]; events of one round stand together.
    """
    n_events, n_policies = inside.shape
    n_bets = len(stakes)
    if len(rows) != n_events or len(weights) != n_events:
        raise IndexError("add_value_log_wealth: one row and weight for each event")
    if low.shape != (n_policies, n_bets) or high.shape != (n_policies, n_bets):
        raise IndexError("add_value_log_wealth: bets for each policy")
    won = np.empty(n_bets)
    lost = np.empty(n_bets)
    first = 0
    while first < n_events:
        stop = first + 1
        while stop < n_events and rows[stop] == rows[first]:
            stop += 1
        if stop == first + 1:
            for j in range(n_bets):
                bet = stakes[j] * weights[first]
                won[j] = np.log1p(bet)
                lost[j] = np.log1p(-bet) if bet < 1 else -np.inf
            for p in range(n_policies):
                if inside[first, p]:
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
                    for j in range(n_bets):
                        bet = stakes[j] * x
                        low[p, j] += np.log1p(bet)
                        high[p, j] += np.log1p(-bet) if bet < 1 else -np.inf
        first = stop


# ---- disagreement sampling -------------------------------------------------------------------------------------------


@njit(cache=True)
def _clipped_sum(t: float, weight: Any, lower: Any, size: int) -> tuple[float, float]:
    """Σ_a clip(t·weight, lower, 1), and its derivative by log t."""
    total, slope = 0.0, 0.0
    for a in range(size):
        free = t * weight[a]
        total += min(max(free, lower[a]), 1.0)
        if lower[a] < free < 1.0:
            slope += free
    return total, slope


@njit(cache=True)
def disagreement_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    floors: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.int32], NDArray[np.float64]]:
    """Draw a list for each context by systematic sampling with the inclusion probabilities of `DisagreementSampling`.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, floors (3,) for disputed actions outside the
    leader's list, disputed ones in it, and undisputed ones; u (n,) uniforms. `asked` (n, k) are further actions whose
    propensities are wanted. Returns shown lists (n, m), their propensities (n, m), whether the floors hold (n,), how
    many actions have a positive probability (n,), and the propensities of `asked` (n, k).
    """
    n, n_policies, m = lists.shape
    if len(attention) != n_policies or len(floors) != 3 or len(u) != n or len(asked) != n:
        raise IndexError("disagreement_lists: shapes do not fit together")
    if not _all_actions(lists, n_actions):
        raise IndexError("disagreement_lists: an action is out of range")
    shown = np.zeros((n, m), dtype=np.int32)
    propensities = np.zeros((n, m))  # no propensity at all where a list came out too short
    covered = np.ones(n, dtype=np.bool_)
    sizes = np.empty(n, dtype=np.int32)
    of_asked = np.zeros(asked.shape)
    place = np.full(n_actions, -1, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union = np.empty(most, dtype=np.int64)
    votes = np.empty(most, dtype=np.int64)
    care = np.empty(most)
    leads = np.empty(most, dtype=np.bool_)
    weight = np.empty(most)
    lower = np.empty(most)
    q = np.empty(most)
    last = 0.0
    for i in range(n):
        size = 0
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                if place[y] < 0:
                    place[y] = size
                    union[size] = y
                    votes[size] = 0
                    care[size] = 0.0
                    leads[size] = False
                    size += 1
                votes[place[y]] += 1
                care[place[y]] += attention[p]
                if p == leader:
                    leads[place[y]] = True
        total_lower = 0.0
        for a in range(size):
            if votes[a] == n_policies:
                weight[a] = 1e-9
                lower[a] = floors[2]
            else:
                matters = 1.0 - care[a] if leads[a] else care[a]
                weight[a] = np.sqrt(max(matters, 1e-9) * (votes[a] / n_policies + 0.01))
                lower[a] = floors[1] if leads[a] else floors[0]
            total_lower += lower[a]
        if total_lower > m:
            covered[i] = False
            for a in range(size):
                lower[a] *= m / total_lower
        # q = clip(t·weight, lower, 1) with Σq = m: bisection on log t, then the rest goes to actions inside their
        # limits. The sum grows with t, so what Newton's steps find out first spares the bisection most of its own.
        below, above = -np.inf, np.inf
        log_t = last
        for _ in range(12):
            total, slope = _clipped_sum(np.exp(log_t), weight, lower, size)
            if total > m:
                above = min(above, log_t)
            else:
                below = max(below, log_t)
            step = (m - total) / slope if slope > 0 else 0.0
            width = 4e-16 * max(abs(log_t), 1.0)
            if abs(step) < width:
                step = width if total <= m else -width  # to the other side, so that both are known
            if not (below < log_t + step < above and -25.0 < log_t + step < 50.0):
                break
            log_t += step
        small, large = -25.0, 50.0
        for _ in range(60):
            middle = 0.5 * (small + large)
            if middle >= above or (middle > below and _clipped_sum(np.exp(middle), weight, lower, size)[0] > m):
                large = middle
            else:
                small = middle
        last = small
        t = np.exp(small)
        total = 0.0
        for a in range(size):
            q[a] = min(max(t * weight[a], lower[a]), 1.0)
            total += q[a]
        rest = m - total
        for a in range(size):
            step = min(rest, 1.0 - q[a])
            q[a] += step
            rest -= step
        # Points u, u+1, … on the line of cumulated probabilities; no cell is longer than 1.
        edge = 0.0
        taken = 0
        for a in range(size):
            edge += q[a]
            if taken < m and (edge > u[i] + taken or size - a == m - taken):
                shown[i, taken] = union[a]
                propensities[i, taken] = q[a]
                taken += 1
        for k in range(asked.shape[1]):
            if not 0 <= asked[i, k] < n_actions:
                raise IndexError("disagreement_lists: an action that was asked for is out of range")
            if place[asked[i, k]] >= 0:
                of_asked[i, k] = q[place[asked[i, k]]]
        for a in range(size):
            place[union[a]] = -1
        sizes[i] = size
    return shown, propensities, covered, sizes, of_asked


@njit(cache=True)
def disputed_counts(lists: NDArray[np.int32], leader: int, n_actions: int) -> NDArray[np.int64]:
    """How many actions outside the leader's list stand in some other of lists (n, S, m), for each context."""
    n, n_policies, m = lists.shape
    counts = np.zeros(n, dtype=np.int64)
    stamp = np.full(n_actions, -1, dtype=np.int64)
    if not 0 <= leader < n_policies:
        raise IndexError("disputed_counts: the leader is not among the policies")
    if not _all_actions(lists, n_actions):
        raise IndexError("disputed_counts: an action is out of range")
    for i in range(n):
        for k in range(m):
            stamp[lists[i, leader, k]] = i
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                if stamp[y] != i:
                    stamp[y] = i
                    counts[i] += 1
    return counts


@njit(cache=True, inline="always")
def _shown_print(i: int, ids: NDArray[np.int64], lists: NDArray[np.int32], bits: NDArray[np.uint64]) -> np.uint64:
    state = _stir(np.uint64(0x9E3779B97F4A7C15), np.uint64(ids[i]))
    for j in range(lists.shape[1]):
        state = _stir(_stir(state, np.uint64(lists[i, j])), bits[i, j])
    return state


@njit(cache=True)
def issue_rows(
    ids: NDArray[np.int64],
    lists: NDArray[np.int32],
    propensity_bits: NDArray[np.uint64],
    versions: NDArray[np.int64],
    contexts: NDArray[np.uint64],
    known: NDArray[np.uint64],
    done: NDArray[np.bool_],
    tail: int,
) -> None:
    """Write the rows of new decisions from `tail` on: a print of list and propensities, the version, a print of the
    context.
    """
    n = len(ids)
    if len(lists) != n or propensity_bits.shape != lists.shape or len(versions) != n or len(contexts) != n:
        raise IndexError("issue_rows: shapes do not fit together")
    if not 0 <= tail <= min(len(known), len(done)) - n or known.shape[1] != 3:
        raise IndexError("issue_rows: there is no room")
    for i in range(len(ids)):
        known[tail + i, 0] = _shown_print(i, ids, lists, propensity_bits)
        known[tail + i, 1] = np.uint64(versions[i])
        known[tail + i, 2] = contexts[i]
        done[tail + i] = False


@njit(cache=True)
def compare_rows(
    ids: NDArray[np.int64],
    lists: NDArray[np.int32],
    propensity_bits: NDArray[np.uint64],
    versions: NDArray[np.int64],
    contexts: NDArray[np.uint64],
    makers: NDArray[np.int64],
    known: NDArray[np.uint64],
    done: NDArray[np.bool_],
    head: int,
    low: int,
    issued: int,
    starts: NDArray[np.int64],
    signatures: NDArray[np.int64],
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], int, int]:
    """What of each told row differs from the record (1 the id, 2 list or propensities, 4 version, 8 context, 16 maker),
    which rows are answered for the first time, and how many there are of both.

    Every id below `low` is answered and has no row; that of `low` has its row at `head`. Decisions from `starts[k]` on
    were made by `signatures[k]`. Nothing is changed.
    """
    n = len(ids)
    if len(lists) != n or propensity_bits.shape != lists.shape or len(versions) != n or len(contexts) != n:
        raise IndexError("compare_rows: shapes do not fit together")
    if len(makers) != n or len(starts) == 0 or len(signatures) != len(starts) or starts[0] > 0:
        raise IndexError("compare_rows: every decision has a maker")
    if head < 0 or head + issued - low > min(len(known), len(done)) or known.shape[1] != 3:
        raise IndexError("compare_rows: the record is shorter than it should be")
    differs, new = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.bool_)
    n_faults, n_new = 0, 0
    for i in range(n):
        if ids[i] < 0 or ids[i] >= issued:
            differs[i] = 1
            n_faults += 1
            continue
        k = len(starts) - 1
        if ids[i] < starts[k]:
            k = np.searchsorted(starts, ids[i], side="right") - 1
        fault = 0 if makers[i] == signatures[k] else 16
        if ids[i] >= low:
            place = head + ids[i] - low
            if known[place, 0] != _shown_print(i, ids, lists, propensity_bits):
                fault |= 2
            if known[place, 1] != np.uint64(versions[i]):
                fault |= 4
            if known[place, 2] != contexts[i]:
                fault |= 8
        differs[i] = fault
        n_faults += fault != 0
    if n_faults == 0:
        for i in range(n):  # marked for the moment, so that a row that comes twice is new only once
            place = head + ids[i] - low
            if ids[i] >= low and not done[place]:
                done[place] = new[i] = True
                n_new += 1
        for i in range(n):
            if new[i]:
                done[head + ids[i] - low] = False
    return differs, new, n_faults, n_new


@njit(cache=True)
def settle_rows(
    ids: NDArray[np.int64], new: NDArray[np.bool_], done: NDArray[np.bool_], head: int, low: int, issued: int
) -> int:
    """Mark the new rows as answered; how many from `head` on are answered by now."""
    if head < 0 or head + issued - low > len(done) or len(new) != len(ids):
        raise IndexError("settle_rows: the record is shorter than it should be")
    for i in range(len(ids)):
        if new[i]:
            if not low <= ids[i] < issued:
                raise IndexError("settle_rows: a decision is out of range")
            done[head + ids[i] - low] = True
    settled = 0
    while low + settled < issued and done[head + settled]:
        settled += 1
    return settled


_CONTEXT = np.uint64(0x6A09E667F3BCC909)
_LARGE = np.uint64(0xBB67AE8584CAA73B)
_NAN = np.float64(np.nan)


@njit(cache=True)
def float_prints(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit print of each row of numbers; −0 is 0, and all NaN are one."""
    n, d = rows.shape
    prints = np.empty(n, dtype=np.uint64)
    cell = np.empty(1)
    bits = cell.view(np.uint64)
    for i in range(n):
        state = _CONTEXT
        for j in range(d):
            value = rows[i, j]
            cell[0] = _NAN if value != value else value + 0.0
            state = _stir(state, bits[0])
        prints[i] = state
    return prints


@njit(cache=True)
def int_prints(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The same of whole numbers: that of the equal floats, where there are any."""
    n, d = rows.shape
    prints = np.empty(n, dtype=np.uint64)
    cell = np.empty(1)
    bits = cell.view(np.uint64)
    for i in range(n):
        state = _CONTEXT
        for j in range(d):
            value = rows[i, j]
            if -9007199254740992 <= value <= 9007199254740992:
                cell[0] = value
                state = _stir(state, bits[0])
            else:
                state = _stir(_stir(state, _LARGE), np.uint64(value))
        prints[i] = state
    return prints


@njit(cache=True)
def word_prints(words: NDArray[np.uint64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The same of words that stand for values: row i holds those before `ends[i]`."""
    prints = np.empty(len(ends), dtype=np.uint64)
    k = 0
    for i in range(len(ends)):
        state = _CONTEXT
        if ends[i] > len(words):
            raise IndexError("word_prints: a row ends beyond the words")
        while k < ends[i]:
            state = _stir(state, words[k])
            k += 1
        prints[i] = state
    return prints


@njit(cache=True)
def csr_prints(ends: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The same of the entries of a sparse matrix that are not zero; row i holds those before `ends[i]`."""
    prints = np.empty(len(ends), dtype=np.uint64)
    cell = np.empty(1)
    bits = cell.view(np.uint64)
    k = 0
    for i in range(len(ends)):
        state = _CONTEXT
        if ends[i] > min(len(columns), len(values)):
            raise IndexError("csr_prints: a row ends beyond the entries")
        while k < ends[i]:
            if values[k] != 0:
                cell[0] = _NAN if values[k] != values[k] else values[k]
                state = _stir(_stir(state, np.uint64(columns[k])), bits[0])
            k += 1
        prints[i] = state
    return prints
