"""One portable file for columns and learner states: npz, written whole or not at all, never pickle."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.problem import InputError

FORMAT = 1


def write_npz(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write `arrays` under `kind` to exactly `path`; an interrupted write leaves the old file."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            columns: dict[str, Any] = {"kind": np.asarray(kind), "format": np.asarray(FORMAT), **arrays}
            np.savez_compressed(file, **columns)
        readable(temporary)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def readable(path: str) -> None:
    """Give a temporary file the rights that a new file would have had."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def read_npz(path: str | os.PathLike[str], kind: str) -> dict[str, NDArray[Any]]:
    """Read what `write_npz` wrote, refusing any other file with a sentence that says why."""
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is not a complete comband file: {error}.") from None
    found = str(arrays.pop("kind", "something else"))
    version = int(arrays.pop("format", 0))
    if found != kind:
        raise InputError(f"{path} should hold {kind}, but it holds {found}.")
    if version > FORMAT:
        raise InputError(f"{path} was written by a newer comband (format {version}, this one reads {FORMAT}).")
    return arrays
