"""Passes over matrices of zeros and ones, packed in words of 64 bits, and over sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _packed_pass_avx2(lanes: Any, c: Any, scores: Any, begin: int, end: int) -> None:
    n_blocks, n_groups, rows, width = lanes.shape
    if width != 16 or rows % 2 or len(c) != 32 * rows * n_blocks or len(scores) != width * n_groups:
        raise IndexError("packed_pass: shapes do not fit together")
    if not 0 <= begin <= end <= n_groups:
        raise IndexError("packed_pass: a group is out of range")
    if not (_gapless(lanes[:1], 4) and _gapless(scores, 8)):
        raise IndexError("packed_pass: the numbers do not follow one another")
    size = rows * _LOOKUPS * 8
    space = np.empty(size + 16, dtype=np.float32)
    aligned = (-space.ctypes.data % 64) // 4  # a table within one cache line loads at once
    tables = space[aligned : aligned + size].reshape((rows, _LOOKUPS, 8))
    start, looked, totals = lanes.ctypes.data, tables.ctypes.data, scores.ctypes.data
    scores[width * begin : width * end] = 0.0
    for block in range(n_blocks):
        first = start + block * lanes.strides[0]  # blocks may be skipped, a block is contiguous
        _fill_tables(c[32 * rows * block : 32 * rows * (block + 1)], tables)
        for g in range(begin, end):
            _lookup_sums(first + 64 * rows * g, looked, rows // 2, totals + 128 * g)


@njit(cache=True, nogil=True)
def _packed_pass_plain(lanes: Any, c: Any, scores: Any, begin: int, end: int) -> None:
    n_blocks, n_groups, rows, width = lanes.shape
    if len(c) != 32 * rows * n_blocks or len(scores) != width * n_groups:
        raise IndexError("packed_pass: shapes do not fit together")
    if not 0 <= begin <= end <= n_groups:
        raise IndexError("packed_pass: a group is out of range")
    scores[width * begin : width * end] = 0.0
    inner, outer = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    for block in range(n_blocks):
        for g in range(begin, end):
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


def packed_pass(lanes: Any, c: Any, scores: Any, begin: int, end: int) -> None:
    """scores[j] = Σ_e c_e A[e, j] for the columns of groups begin … end − 1, in single precision, folded into double
    once a block.

    lanes (blocks, groups, words, 16) uint32: bit e of lanes[b, g, w, l] is event 32·(words·b + w) + e of column
    16·g + l. c (32 · blocks · words,) float32, scores (16 · groups,) float64. Words of a block come in pairs.
    """
    (_packed_pass_avx2 if _AVX2 else _packed_pass_plain)(lanes, c, scores, begin, end)


# A processor that is named by hand may be another one than this.
_AVX2 = bool(get_host_cpu_features().get("avx2")) and not any(
    getattr(config, name, None) for name in ("CPU_NAME", "CPU_FEATURES")
)


@njit(cache=True, nogil=True)
def _gapless(table: Any, size: int) -> bool:
    """Whether numbers of `size` bytes follow one another in memory, as loops over addresses need them."""
    expected = size
    for axis in range(table.ndim - 1, -1, -1):
        if table.shape[axis] > 1 and table.strides[axis] != expected:
            return False
        expected *= table.shape[axis]
    return True


@njit(cache=True, nogil=True)
def packed_scores(columns: Any, c: Any, scores: Any) -> None:
    """scores[j] = Σ_e c_e A[e, j] in double: columns (k, words) uint64, c (64 · words,) float64."""
    k, words = columns.shape
    if len(c) != 64 * words or len(scores) != k or not (_gapless(columns, 8) and _gapless(c, 8)):
        raise IndexError("packed_scores: shapes do not fit together")
    start, values = columns.ctypes.data, c.ctypes.data
    for j in range(k):
        here = start + 8 * j * words
        scores[j] = _masked_sum_64(here, values, words)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
