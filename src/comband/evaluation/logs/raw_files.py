"""Files as bytes: whether one is there, and what a gzipped one holds."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from comband.evaluation.logs.faults import LogError
from comband.page.problem import check_path

_GZIP = ".gz"


def kind_ending(path: Path) -> str:
    """The ending that tells what a file is: that before .gz, if it ends so."""
    return (Path(path.stem) if path.suffix.lower() == _GZIP else path).suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it ends in .gz; one that is damaged is refused when that shows."""
    if path.suffix.lower() != _GZIP:
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as unpacked:
            yield cast(IO[bytes], unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LogError(f"{path} is not a complete gzip file ({str(error).rstrip('.')}).") from None


def check_file(path: str | Path) -> Path:
    """Return `path` if a file is there that is not empty, and not text of an encoding that nothing here reads."""
    path = Path(check_path(path))
    if path.is_dir():
        raise LogError(f"{path} is a folder; give a file in it.")
    if not path.is_file():
        raise LogError(f"there is no file {path}.")
    with open_bytes(path) as file:
        start = file.read(2)
    if not start:
        raise LogError(f"{path} is empty.")
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise LogError(f"{path} is text in UTF-16; save it as UTF-8.")
    return path
