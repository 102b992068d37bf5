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


def pack_contexts(X: Contexts) -> dict[str, NDArray[Any]]:
    """Contexts as plain arrays for an npz file, without pickle."""
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
    if array.dtype == object:
        raise InputError(
            "contexts of this kind cannot be saved without pickle; use arrays, scipy sparse matrices, "
            "or ids (whole numbers or strings) that your policies look up."
        )
    return {"array": array}


def unpack_contexts(arrays: dict[str, NDArray[Any]]) -> Contexts:
    """The inverse of `pack_contexts` (sequences of plain values come back as arrays)."""
    if "array" in arrays:
        return arrays["array"]
    return sp.csr_array(
        (arrays["csr_data"], arrays["csr_indices"], arrays["csr_indptr"]),
        shape=tuple(int(v) for v in arrays["csr_shape"]),
    )
