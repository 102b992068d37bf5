"""Contexts of any kind: dense arrays, scipy sparse matrices, arrays of ids, data frames, or sequences of any objects.

comband never looks at what a context means; it counts, picks, joins, copies and compares them, and policies do the
rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband._kernels.records import csr_digests, float_digests, int_digests, word_digests
from comband.page.frames import is_frame, join_rows, row_count, take_rows
from comband.page.problem import InputError, refuse_masked
from comband.page.storage import Array, Part, State, check, require

Contexts = Any
"""A batch of contexts: ndarray (first axis = contexts), scipy sparse matrix, data frame or sequence."""


def n_contexts(X: Contexts) -> int:
    """How many contexts a batch holds."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        if len(shape) == 0:
            raise InputError("contexts must be a batch (an array with a first axis, or a sequence), got a scalar.")
        if type(X) is not np.ndarray:
            refuse_masked("contexts", X)
            if sp.issparse(X) and len(shape) != 2:
                raise InputError(f"contexts in a sparse array must be its rows, shape (n, d), got shape {shape}.")
        return int(shape[0])
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes)):
        return len(X)
    if is_frame(X):
        return row_count(X)
    raise InputError(f"contexts must be an array, a scipy sparse matrix or a sequence, got {type(X).__name__}.")


def take_contexts(X: Contexts, index: NDArray[Any] | slice) -> Contexts:
    """The contexts at `index` (integers, a mask or a slice), in the batch's own kind."""
    if isinstance(X, np.ndarray):
        return X[index]
    if sp.issparse(X):
        return X.tocsr()[index]
    if hasattr(X, "iloc"):
        return X.iloc[index]
    if is_frame(X):
        return take_rows(X, index)
    if isinstance(index, slice):
        return list(X[index])
    positions = np.arange(len(X))[index]
    return [X[int(i)] for i in positions]


def concat_contexts(batches: Sequence[Contexts]) -> Contexts:
    """Join batches of one kind."""
    if not batches:
        raise InputError("there must be at least one batch of contexts to join, got none.")
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    if isinstance(first, np.ndarray):
        return _joined(np.concatenate, batches)
    if sp.issparse(first):
        return _joined(lambda parts: sp.vstack(parts, format="csr"), batches)
    if hasattr(first, "iloc"):
        import pandas as pd

        return _joined(lambda parts: pd.concat(parts, ignore_index=True), batches)
    if is_frame(first):
        return _joined(join_rows, batches)
    return [x for batch in batches for x in batch]


def _joined(join: Callable[[Sequence[Contexts]], Contexts], batches: Sequence[Contexts]) -> Contexts:
    try:
        return join(batches)
    except (TypeError, ValueError):
        kinds = {f"{type(part).__name__} of shape {getattr(part, 'shape', '?')}" for part in batches}
        raise InputError(
            f"batches of contexts must be of one kind to be joined, got {', '.join(sorted(kinds))}."
        ) from None


def private_contexts(X: Contexts) -> Contexts:
    """A copy that no caller can alter: of arrays and sparse matrices (as CSR, in canonical form) closed to writing.

    Of a list or an array of objects only the list is copied, not the objects; sequences of other kinds are kept as they
    are. Refused are arrays that no file could give back: with masked entries, and of entries without any size.
    """
    if type(X) is np.ndarray and X.ndim and X.dtype.itemsize:
        copy = X.copy()
        copy.setflags(write=False)
        return copy[...]  # which, unlike the copy, cannot be opened again
    n_contexts(X)
    if isinstance(X, np.ndarray) and X.dtype.itemsize == 0:
        raise InputError(f"contexts must hold something, got an array of dtype {X.dtype}, whose entries have no size.")
    refuse_masked("contexts", X)
    if isinstance(X, np.ndarray):
        copy = X.copy()
        copy.flags.writeable = False
        return copy
    if sp.issparse(X):
        csr = X.tocsr(copy=True)
        csr.sum_duplicates()
        for part in (csr.data, csr.indices, csr.indptr):
            part.flags.writeable = False
        return csr
    if hasattr(X, "iloc"):
        return X.copy()
    if hasattr(X, "clone") and is_frame(X):  # polars; Arrow's own cannot be altered
        return X.clone()
    return list(X) if type(X) is list else X


def sealed(X: Contexts) -> bool:
    """Whether these `private_contexts` cannot be altered any more: numbers or text in an array, closed for good."""
    return type(X) is np.ndarray and not X.dtype.hasobject


def context_digests(X: Contexts) -> NDArray[np.uint64]:
    """A 64-bit print (n,) of each context by what it holds, whatever the batch that it stands in.

    Numbers count by value (3, 3.0 and np.int8(3) are one, and so are the rows of a list of lists, an array and a data
    frame), and so do strings, bytes, None, whatever has an equality and a text of its own (dates, decimals, enums),
    data classes, and tuples, lists, sets and mappings of all these. Of an object of any other kind only the type
    counts: whether it was replaced or altered cannot be seen.
    """
    if type(X) is np.ndarray and X.flags.c_contiguous:  # the usual kinds first, by the shortest way
        if X.dtype == np.float64 and X.ndim == 2:
            return float_digests(X)
        if X.dtype == np.int64 and X.ndim == 1:
            return int_digests(X[:, None])
    if sp.issparse(X):
        csr = X.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        ends, columns = csr.indptr[1:].astype(np.int64), csr.indices.astype(np.int64)
        return np.asarray(csr_digests(ends, columns, csr.data.astype(np.float64)))
    if not isinstance(X, np.ndarray):
        X = _as_array(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and not _huge(X):
        kind, kernel = (np.float64, float_digests) if X.dtype.kind == "f" else (np.int64, int_digests)
        rows = X.reshape(len(X), -1) if X.size else X.reshape(len(X), 0)
        return np.asarray(kernel(np.ascontiguousarray(rows, dtype=kind)))
    words: list[int] = []
    ends = np.empty(n_contexts(X), dtype=np.int64)
    for i, context in enumerate(X):
        words += _words(context, _DEPTH)
        ends[i] = len(words)
    return np.asarray(word_digests(np.array(words, dtype=np.uint64), ends))


def _as_array(X: Contexts) -> NDArray[Any] | Iterable[Any]:
    """Numbers as an array, however they are held; rows of a data frame as tuples; all else as it is."""
    if hasattr(X, "iloc") or hasattr(X, "shape") or is_frame(X):
        array = np.asarray(X)
        return array if array.dtype.kind in "fiub" or not hasattr(X, "itertuples") else list(X.itertuples(index=False))
    if all(isinstance(x, _PLAIN) for x in X):
        try:
            array = np.asarray(X)
        except (ValueError, OverflowError):
            return X  # type: ignore[no-any-return]
        if array.dtype.kind in "fiub":
            return array
    return X  # type: ignore[no-any-return]


def _huge(array: NDArray[Any]) -> bool:
    """Whether numbers pass what int64 can hold."""
    return array.dtype == np.uint64 and array.size > 0 and int(array.max()) >= 2**63


_DEPTH = 8  # how deep contexts within contexts are followed
_PLAIN = (int, float, list, tuple, np.ndarray, np.number, np.bool_)


def _words(x: Any, depth: int) -> list[int]:
    """Whole numbers in 0 … 2⁶⁴ − 1 that stand for what x holds; for a number the word that the kernels use."""
    if isinstance(x, (bool, np.bool_, float, np.floating)):
        return [int((np.float64(np.nan) if x != x else np.float64(x) + 0.0).view(np.uint64))]
    if isinstance(x, (int, np.integer)):
        if -(2**53) <= x <= 2**53:
            return [int(np.float64(int(x)).view(np.uint64))]
        return [0xBB67AE8584CAA73B, int(x) % 2**64]
    if isinstance(x, str):
        return [_hash(b"s" + x.encode("utf-8", "surrogatepass"))]
    if isinstance(x, (bytes, bytearray)):
        return [_hash(b"b" + x)]
    if x is None:
        return [_hash(b"None")]
    name = _hash(f"t{type(x).__module__}.{type(x).__qualname__}".encode())
    if depth == 0:
        return [name]
    if sp.issparse(x):
        return [int(v) for v in context_digests(x)] if x.ndim == 2 else [name]
    if hasattr(x, "__array__") and not isinstance(x, np.generic):
        x = np.asarray(x).ravel().tolist()
    if isinstance(x, (list, tuple)):
        return [word for each in x for word in _words(each, depth - 1)]
    if isinstance(x, Mapping):
        pairs = sorted(([*_words(key, depth - 1)], [*_words(value, depth - 1)]) for key, value in x.items())
        return [_hash(b"m"), len(pairs), *(word for pair in pairs for part in pair for word in (len(part), *part))]
    if isinstance(x, Set):
        return [_hash(b"e"), len(x), *(word for part in sorted(_words(each, depth - 1) for each in x) for word in part)]
    if is_dataclass(x) and not isinstance(x, type):
        values = [getattr(x, each.name) for each in fields(x) if each.compare]
        return [name, *(word for value in values for word in _words(value, depth - 1))]
    if _has_own(x, "__eq__") and _has_own(x, "__repr__"):
        return [name, _hash(b"r" + repr(x).encode("utf-8", "surrogatepass"))]
    return [name]


def _has_own(x: Any, method: str) -> bool:
    return getattr(type(x), method) is not getattr(object, method)


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def pack_contexts(X: Contexts) -> State:
    """Contexts as plain arrays for a file, without pickle."""
    if sp.issparse(X):
        csr = X.tocsr()
        return {
            "csr_data": csr.data,
            "csr_indices": csr.indices,
            "csr_indptr": csr.indptr,
            "csr_shape": np.asarray(csr.shape, dtype=np.int64),
        }
    try:
        array = np.asarray(X)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.hasobject:
        array = _without_objects(array)
    return {"array": array}


def _without_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Text or numbers that are held as objects, in an array of their own type."""
    values = array.ravel().tolist()
    if {type(value) for value in values} in ({str}, {int}, {float}):
        plain = np.array(values)
        if not plain.dtype.hasobject and plain.dtype.kind in "Uif" and plain.tolist() == values:  # "a\0" would lose a 0
            return plain.reshape(array.shape)
    raise InputError(
        "contexts of this kind cannot be saved without pickle; use arrays, scipy sparse matrices, "
        "or ids (whole numbers or strings) that your policies look up."
    )


def unpack_contexts(state: State, *, n: int | None = None) -> Contexts:
    """The inverse of `pack_contexts` (sequences of plain values come back as arrays), `n` of them if that is known."""
    known = {} if n is None else {"n": n}
    if "array" in state:
        check(state, {"array": Array("", ("n", ...))}, place="contexts", **known)
        return state["array"]
    check(state, _CSR, place="contexts")
    indptr, (rows, columns) = state["csr_indptr"], state["csr_shape"].tolist()
    require(
        state["csr_data"].dtype.kind in "biufc"
        and len(indptr) == rows + 1
        and indptr[0] == 0
        and indptr[-1] == len(state["csr_data"])
        and not (indptr[1:] < indptr[:-1]).any()
        and int(state["csr_indices"].max(initial=-1)) < columns
        and rows == known.get("n", rows),
        f"contexts must be a sparse matrix of the shape ({known.get('n', rows)}, {columns}) that it names.",
    )
    return sp.csr_array((state["csr_data"], state["csr_indices"], indptr), shape=(rows, columns))


class PackedContexts(Part):
    """Contexts, as `pack_contexts` makes them fit for a file."""

    def read(self, value: State) -> Contexts:
        """The contexts."""
        return unpack_contexts(value)

    def write(self, value: Contexts) -> State:
        """Fit for a file."""
        return pack_contexts(value)


def alike(first: Contexts, second: Contexts) -> bool:
    """Whether two batches are of one kind and can be joined; an empty one goes with all."""
    if n_contexts(first) == 0 or n_contexts(second) == 0:
        return True
    if sp.issparse(first) or sp.issparse(second):
        return bool(sp.issparse(first) and sp.issparse(second) and first.shape[1] == second.shape[1])
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        kinds = {"number" if part.dtype.kind in "biuf" else part.dtype.kind for part in (first, second)}
        return len(kinds) == 1 and first.shape[1:] == second.shape[1:]
    return isinstance(first, type(second))


_CSR = {
    "csr_data": Array("", ("events",)),
    "csr_indices": Array("i", ("events",), 0),
    "csr_indptr": Array("i", ("rows",), 0),
    "csr_shape": Array("i8", (2,), 0),
}
