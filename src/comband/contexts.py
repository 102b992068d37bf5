"""Contexts of any kind: dense arrays, scipy sparse matrices, arrays of ids, or sequences of any objects.

comband never looks inside a context; it counts, picks and joins them, and policies do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.problem import InputError
from comband.storage import Array, State, check, require

Contexts = Any
"""A batch of contexts: ndarray (first axis = contexts), scipy sparse matrix, data frame or sequence."""


def n_contexts(X: Contexts) -> int:
    """How many contexts a batch holds."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        if len(shape) == 0:
            raise InputError("contexts must be a batch (an array with a first axis, or a sequence), got a scalar.")
        return int(shape[0])
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes)):
        return len(X)
    raise InputError(f"contexts must be an array, a scipy sparse matrix or a sequence, got {type(X).__name__}.")


def take_contexts(X: Contexts, index: NDArray[Any] | slice) -> Contexts:
    """The contexts at `index` (integers, a mask or a slice), in the batch's own kind."""
    if isinstance(X, np.ndarray):
        return X[index]
    if sp.issparse(X):
        return X.tocsr()[index]
    if hasattr(X, "iloc"):
        return X.iloc[index]
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
        return np.concatenate(batches)
    if sp.issparse(first):
        return sp.vstack(batches, format="csr")
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat(batches, ignore_index=True)
    return [x for batch in batches for x in batch]


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
        raise InputError(
            "contexts of this kind cannot be saved without pickle; use arrays, scipy sparse matrices, "
            "or ids (whole numbers or strings) that your policies look up."
        )
    return {"array": array}


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


_CSR = {
    "csr_data": Array("", ("events",)),
    "csr_indices": Array("i", ("events",), 0),
    "csr_indptr": Array("i", ("rows",), 0),
    "csr_shape": Array("i8", (2,), 0),
}
