"""One way to save: named states, checked against a schema, in one npz file that is there as a whole or not at all.

A *state* is a dict by name of arrays, plain values (None, bool, int, float, text), lists and further states. In the
file each array has an entry of its own, called by its dotted place; all else is one JSON document; and a checksum
covers everything. Nothing is ever pickled. A file is taken apart only when its directory says that it does not unpack
to much more than its size, and whatever is wrong with it is told by an `InputError`; errors of the system (no such
file, no right to read it) stay what they are.

A *schema* is a dict by name of what a state must hold; `check` compares. A part that came later has a `Default` beside
it, which files from before take; a part that the schema does not know is refused by its name. The checksum finds
damage. The schema, with what each `from_state` checks besides, holds for files that were forged, too: what passes is a
state that could have come about. Whether it did, no file can tell: evidence from a source that is not trusted proves
nothing.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import InputError, check_path

FORMAT = 2
State = dict[str, Any]
Loaded = TypeVar("Loaded")

_MARK = "$array"  # stands in the JSON document where an array belongs
_ROOM = 1 << 28  # bytes to which any file may unpack,
_RATIO = 100  # or so many times its size
_LONGEST = 1 << 128  # whole numbers stay below: generators have states of 128 bits


# ---- whole files -----------------------------------------------------------------------------------------------------


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file to write to, which takes the place of `path` when the block ends without error.

    Readers, other writers, and a process that is killed see the old file or the new one, never a part. The mode of an
    existing file is kept; a symbolic link stays, and what it points to is replaced. What is no file (a pipe, a device)
    is written to as it is.
    """
    target = Path(os.path.realpath(check_path(path)))
    try:
        there = target.stat().st_mode
    except FileNotFoundError:
        there = None
    if there is not None and stat.S_ISDIR(there):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if there is not None and not stat.S_ISREG(there):
        yield target
        return
    part = target.with_name(f".comband-{secrets.token_hex(8)}.part")
    mode = 0o666 if there is None else stat.S_IMODE(there) | 0o600
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None  # the caller knows this name alone
    try:
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        if there is not None:
            os.chmod(part, stat.S_IMODE(there))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
        with suppress(OSError):  # nor synchronised everywhere
            folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file as a whole or not at all."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8", newline="")


# ---- states in files -------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], kind: str, state: State) -> None:
    """Write a state to exactly `path`, as a file that holds a `kind`."""
    entries = _to_write(kind, state)
    with whole_file(path) as part:
        _write(part, entries)


def pack(kind: str, state: State) -> bytes:
    """What `save` would write, to be kept elsewhere."""
    file = io.BytesIO()
    _write(file, _to_write(kind, state))
    return file.getvalue()


def _to_write(kind: str, state: State) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    document = json.dumps(_to_json(state, "state", arrays), separators=(",", ":"))
    entries: dict[str, NDArray[Any]] = {
        "kind": np.asarray(kind),
        "format": np.asarray(FORMAT),
        "header": np.frombuffer(document.encode(), dtype=np.uint8),
        **arrays,
    }
    entries["checksum"] = _digest(entries)
    return entries


def _write(target: Path | io.BytesIO, entries: Mapping[str, NDArray[Any]]) -> None:
    unpacked = sum(array.nbytes + 256 for array in entries.values())
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        if isinstance(target, io.BytesIO):
            target.truncate(0)
            target.seek(0)
        with zipfile.ZipFile(target, "w", method) as archive:
            for name, array in entries.items():
                info = zipfile.ZipInfo(f"{name}.npy")
                info.compress_type = method
                with archive.open(info, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, version=(2, 0), allow_pickle=False)
        size = target.stat().st_size if isinstance(target, Path) else target.getbuffer().nbytes
        if unpacked <= _largest_unpacked(size):  # else `load` would take it for a trap
            break


def load(path: str | os.PathLike[str], kind: str, build: Callable[[State], Loaded]) -> Loaded:
    """Read what `save` wrote, and `build` from its state; anything else is refused with a sentence that says why."""
    with open(check_path(path), "rb") as handle:
        return _build(path, handle, kind, build)


def unpack(data: bytes, kind: str, build: Callable[[State], Loaded], *, source: str = "what was kept") -> Loaded:
    """Of what `pack` returned, as `load` of a file; errors call it by its `source`."""
    return _build(source, io.BytesIO(data), kind, build)


def _build(path: str | os.PathLike[str], handle: Any, kind: str, build: Callable[[State], Loaded]) -> Loaded:
    found, state = _read(path, handle)
    if found != kind:
        known = found if len(found) < 40 and found.isprintable() else "something else"
        raise InputError(f"{path} should hold {kind}, but it holds {known}.")
    try:
        return build(state)
    except InputError as error:
        raise type(error)(f"{path} cannot be used: {error}") from None


def _read(path: str | os.PathLike[str], handle: Any) -> tuple[str, State]:
    """What the file holds, and its state, of which only the checksum has been compared."""
    try:
        entries = _entries(path, handle)
        if "kind" not in entries or "format" not in entries:
            return "something else", {}
        kind, version = str(entries["kind"].item()), int(entries["format"].item())
        if version > FORMAT:
            raise InputError(f"{path} was written by a newer comband (format {version}, this one reads {FORMAT}).")
        if version != FORMAT:
            raise ValueError(f"there is no format {version}")
        if entries.pop("checksum").tobytes() != _digest(entries).tobytes():
            raise InputError(f"{path} was damaged or altered since it was written: its checksum differs.")
        arrays = {name: array for name, array in entries.items() if name not in ("kind", "format", "header")}
        state = _from_json(json.loads(entries["header"].tobytes()), arrays)
        if arrays or not isinstance(state, dict):
            raise ValueError("its header does not describe it")
        return kind, state
    except InputError:
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # these two come from places that the file names wrongly
            raise
        raise InputError(f"{path} is not a complete comband file: {error}.") from None
    except Exception as error:  # a damaged archive may fail anywhere while it is taken apart
        raise InputError(f"{path} is not a complete comband file: {error or type(error).__name__}.") from None


def _entries(path: str | os.PathLike[str], handle: Any) -> dict[str, NDArray[Any]]:
    entries: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(handle) as archive:
        infos, size = archive.infolist(), handle.seek(0, os.SEEK_END)
        unpacked = sum(info.file_size for info in infos)
        if unpacked > _largest_unpacked(size):
            raise InputError(
                f"{path} has {size:,} bytes but would unpack to {unpacked:,}, more than any file that comband writes; "
                "it was not unpacked."
            )
        for info in infos:
            name, dot, _ = info.filename.rpartition(".npy")
            if not dot or name in entries or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"its entry {info.filename[:60]!r} is not one that comband writes")
            entries[name] = _array(archive.read(info))
    return entries


def _array(data: bytes) -> NDArray[Any]:
    """The array of one npy entry; its claims are compared with the bytes that are there before any room is made."""
    file = io.BytesIO(data)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, fortran, dtype = headers[np.lib.format.read_magic(file)](file)
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError("it holds objects that would have to be unpickled")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - file.tell():
        raise ValueError("an array is longer or shorter than it should be")
    flat = np.frombuffer(data, dtype, count, file.tell()) if count else np.empty(0, dtype)
    array = np.array(flat.reshape(shape, order="F" if fortran else "C"), dtype=dtype.newbyteorder("="))
    for kind, unsigned, most in (("b", np.uint8, 1), ("U", np.uint32, 0x10FFFF)):  # else no truth value, no letter
        if dtype.kind == kind and array.reshape(-1).view(unsigned).max(initial=0) > most:
            raise ValueError("an array holds bytes that its type does not have")
    return array


def _digest(entries: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    total = hashlib.blake2b(digest_size=32)
    for name in sorted(entries):
        array = np.asarray(entries[name], dtype=entries[name].dtype.newbyteorder("<"), order="C")
        total.update(json.dumps([name, np.lib.format.dtype_to_descr(array.dtype), array.shape]).encode())
        total.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return np.frombuffer(total.digest(), dtype=np.uint8)


def _largest_unpacked(size: int) -> int:
    return max(_ROOM, _RATIO * size)


def _to_json(value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """A state as JSON holds it; its arrays go into `arrays`."""
    if isinstance(value, np.ndarray):
        arrays[place] = np.asarray(value, order="C")
        return {_MARK: place}
    if isinstance(value, dict):
        return {name: _to_json(part, f"{place}.{name}", arrays) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(part, f"{place}.{i}", arrays) for i, part in enumerate(value)]
    return value


def _from_json(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The inverse of `_to_json`; takes the arrays out of `arrays`."""
    if isinstance(value, dict):
        if _MARK in value:
            return arrays.pop(value[_MARK])
        return {name: _from_json(part, arrays) for name, part in value.items()}
    if isinstance(value, list):
        return [_from_json(part, arrays) for part in value]
    if isinstance(value, int) and abs(value) >= _LONGEST:
        raise ValueError("it holds a number that is too long")
    return value


# ---- schemas ---------------------------------------------------------------------------------------------------------

Size = int | str
"""A number, or the name of one ("P"), which must be the same wherever it stands; also one more or less ("P+1")."""


def check(state: Any, schema: Mapping[str, Any], *, place: str = "", **sizes: int) -> dict[str, int]:
    """Refuse a state that is not as `schema` says, with a sentence; returns the sizes that were met.

    Parts that are missing and have a `Default` are put into the state. `sizes` are those that are known already. Names
    in a nested schema are its own, unless they were known before.
    """
    if not isinstance(state, dict):
        raise InputError(f"{place or 'a state'} must hold parts by name.")
    missing = {name for name, spec in schema.items() if name not in state and not isinstance(spec, Default)}
    extra = state.keys() - schema.keys()
    if missing or extra:
        word, names = ("lacks", missing) if missing else ("holds unexpected", extra)
        raise InputError(f"{place or 'the state'} {word} {', '.join(sorted(map(repr, names)))[:200]}.")
    known = dict(sizes)
    for name, spec in schema.items():
        if name in state:
            _compare(state[name], spec, f"{place}.{name}" if place else name, known)
        else:
            state[name] = spec.make(known)
    return known


class Spec:
    """What one part of a state must be."""

    __slots__ = ()

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else, with a sentence that names the place."""
        raise NotImplementedError

    def read(self, value: Any) -> Any:
        """What an object holds where the file holds this, which has been compared."""
        return value

    def write(self, value: Any) -> Any:
        """The inverse: parts that are objects say their own state."""
        state = getattr(value, "state", None)
        return value if state is None else state()


@dataclass(frozen=True, slots=True)
class Array(Spec):
    """An array: type as numpy writes it ("i8"; "i" has any length, "" is any without objects), shape (`...` at the
    end: any further axes), smallest and largest value, `rising` if each value must exceed the one before.

    Floats are finite, but for `missing` (NaN) and `infinite` ones.
    """

    dtype: str
    shape: tuple[Any, ...]
    low: float | Size | None = None
    high: float | Size | None = None
    rising: bool = False
    missing: bool = False
    infinite: bool = False

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse another array."""
        if not isinstance(value, np.ndarray) or not (
            self.dtype in ("", value.dtype.kind) or value.dtype == np.dtype(self.dtype)
        ):
            found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
            raise InputError(f"{place} must be an array of {self.dtype or 'values'}, got {found}.")
        shape: tuple[Any, ...] = self.shape
        if shape and shape[-1] is ...:
            shape = (*shape[:-1], *value.shape[len(shape) - 1 :])
        if value.ndim != len(shape) or not all(
            _has_size(n, size, sizes) for n, size in zip(value.shape, shape, strict=True)
        ):
            wanted = ", ".join(str(sizes.get(size, size)) for size in self.shape)
            raise InputError(f"{place} must have the shape ({wanted}), got {value.shape}.")
        if value.size == 0 or value.dtype.kind not in "biuf" or (not self.dtype and self.low is None):
            return
        some = value[~np.isnan(value)] if self.missing else value
        if some.size:
            _within(some.min(), some.max(), self.low, self.high, place, sizes, infinite=self.infinite)
        if self.rising and (value[1:] <= value[:-1]).any():
            raise InputError(f"{place} must rise from each value to the next.")


@dataclass(frozen=True, slots=True)
class Column(Array):
    """An array in the file, and a list in the object."""

    def read(self, value: Any) -> list[Any]:
        """As a list."""
        listed: list[Any] = value.tolist()
        return listed

    def write(self, value: Any) -> NDArray[Any]:
        """As an array."""
        return np.array(value, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Whole(Spec):
    """A whole number; `size` names it."""

    low: Size | None = None
    high: Size | None = 1 << 62
    size: str | None = None

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{place} must be a whole number, got {_short(value)}.")
        _within(value, value, self.low, self.high, place, sizes)
        if self.size is not None and not _has_size(value, self.size, sizes):
            raise InputError(f"{place} must be {sizes[self.size]}, got {value}.")


@dataclass(frozen=True, slots=True)
class Real(Spec):
    """A number, finite unless it may be `infinite`."""

    low: float | None = None
    high: float | None = None
    infinite: bool = False

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{place} must be a number, got {_short(value)}.")
        _within(float(value), float(value), self.low, self.high, place, sizes, infinite=self.infinite)

    def read(self, value: Any) -> float:
        """As a float: JSON may say 1 for 1.0."""
        return float(value)


@dataclass(frozen=True, slots=True)
class Text(Spec):
    """A text, one of the `choices` if there are any."""

    choices: tuple[str, ...] = ()

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            wanted = f"one of {', '.join(map(repr, self.choices))}" if self.choices else "text"
            raise InputError(f"{place} must be {wanted}, got {_short(value)}.")


@dataclass(frozen=True, slots=True)
class Key(Spec):
    """A name: text or a whole number."""

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        (Text() if isinstance(value, str) else Whole(-(1 << 63), (1 << 64) - 1)).compare(value, place, sizes)


@dataclass(frozen=True, slots=True)
class Flag(Spec):
    """True or false."""

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if not isinstance(value, bool):
            raise InputError(f"{place} must be true or false, got {_short(value)}.")


@dataclass(frozen=True, slots=True)
class Maybe(Spec):
    """None, or what `inner` says."""

    inner: Any

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if value is not None:
            _compare(value, self.inner, place, sizes)

    def read(self, value: Any) -> Any:
        """None, or as `inner` reads it."""
        return None if value is None else _object(value, self.inner)

    def write(self, value: Any) -> Any:
        """None, or as `inner` writes it."""
        return None if value is None else _written(value, self.inner)


@dataclass(frozen=True, slots=True)
class Many(Spec):
    """A list, each part of it as `inner` says; `size` names its length."""

    inner: Any
    size: Size | None = None

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if not isinstance(value, list) or (self.size is not None and not _has_size(len(value), self.size, sizes)):
            wanted = "" if self.size is None else f" of {sizes.get(str(self.size), self.size)}"
            raise InputError(f"{place} must be a list{wanted}, got {_short(value)}.")
        for i, part in enumerate(value):
            _compare(part, self.inner, f"{place}.{i}", sizes)

    def read(self, value: Any) -> list[Any]:
        """Each as `inner` reads it."""
        return [_object(part, self.inner) for part in value]

    def write(self, value: Any) -> list[Any]:
        """Each as `inner` writes it."""
        return [_written(part, self.inner) for part in value]


@dataclass(frozen=True, slots=True)
class Part(Spec):
    """The state of something else, which its own `from_state` checks."""

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse what is no state."""
        if not isinstance(value, dict):
            raise InputError(f"{place} must hold parts by name, got {_short(value)}.")


@dataclass(frozen=True, slots=True)
class Held(Part):
    """The state of an object of this class: a `Record`, whose sizes are those around it, or one that its own
    `from_state` checks, as `Saved` ones do.
    """

    kind: type[Any]

    @property
    def is_part(self) -> bool:
        """Whether it is checked with what is around it."""
        return issubclass(self.kind, Record) and not issubclass(self.kind, Saved)

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse what is no state of a record, or none at all."""
        if self.is_part:
            check(value, self.kind.SCHEMA, place=place, **sizes)
        else:
            Part.compare(self, value, place, sizes)

    def read(self, value: Any) -> Any:
        """The object."""
        return self.kind.read(value) if self.is_part else self.kind.from_state(value)


ABSENT: Any = object()
"""Stands for a part that a file lacks, where its reader has to know."""


@dataclass(frozen=True, slots=True)
class Default(Spec):
    """What `inner` says; in files from before there was such a part, what `make` returns, given the sizes met so far:
    something that `inner` allows, or `ABSENT`, which no file holds.
    """

    inner: Any
    make: Callable[[Mapping[str, int]], Any] = lambda sizes: None

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse what `inner` refuses."""
        if value is not ABSENT:
            _compare(value, self.inner, place, sizes)

    def read(self, value: Any) -> Any:
        """As `inner` reads it."""
        return _object(value, self.inner)

    def write(self, value: Any) -> Any:
        """As `inner` writes it."""
        return _written(value, self.inner)


@dataclass(frozen=True, slots=True)
class Places(Spec):
    """None, a word, or factors."""

    def compare(self, value: Any, place: str, sizes: dict[str, int]) -> None:
        """Refuse anything else."""
        if isinstance(value, str):
            Text(("pairs", "fit")).compare(value, place, sizes)
        elif value is not None:
            Many(Real(0)).compare(list(value) if isinstance(value, tuple) else value, place, sizes)


PROBLEM = {
    "n_actions": Whole(1),
    "list_size": Whole(1),
    "sparsity": Default(Maybe(Real(0))),
    "feedback": Default(Text(("items", "total")), lambda sizes: "items"),
    "places": Default(Places()),
    "order": Default(Maybe(Text(("natural", "random")))),
}
"""The schema of `asdict(problem)`; `Problem` itself checks the rest."""


def require(condition: bool, sentence: str) -> None:
    """Refuse a state whose parts do not go together."""
    if not condition:
        raise InputError(sentence)


# ---- objects that say what a file holds of them ----------------------------------------------------------------------


def state_of(whole: object, schema: Mapping[str, Any]) -> State:
    """What an object holds under these names: each is an attribute, with an underscore before it or without."""
    return {name: _written(getattr(whole, _attribute(whole, name)), spec) for name, spec in schema.items()}


def objects_of(state: State, schema: Mapping[str, Any]) -> dict[str, Any]:
    """What an object holds where a state, which has been compared, holds the parts of a schema."""
    return {name: _object(state[name], spec) for name, spec in schema.items()}


def put_into(whole: object, schema: Mapping[str, Any], state: State, **sizes: int) -> None:
    """The inverse of `state_of`, of a state that has been compared: parts that are `Stored` are restored in place, with
    `sizes`; all others are replaced.
    """
    for name, spec in schema.items():
        attribute = _attribute(whole, name)
        part = getattr(whole, attribute)
        if isinstance(part, Stored):
            part.restore(state[name], **sizes)
        else:
            setattr(whole, attribute, _object(state[name], spec))


class Stored:
    """An object whose `SCHEMA` says what a file holds of it; how it is saved and restored follows.

    Names are those of attributes; see `state_of`. What parts must be to each other is said in `_agree`.
    """

    SCHEMA: ClassVar[Mapping[str, Any]]

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        return state_of(self, self.SCHEMA)

    def restore(self, state: State, **sizes: int) -> None:
        """The inverse of `state`, checked, for an object that is new; `sizes` are those that are known outside."""
        known = {**sizes, **self._sizes()}
        check(state, self.SCHEMA, place="", **known)
        put_into(self, self.SCHEMA, state, **known)
        self._agree()

    @classmethod
    def from_state(cls, state: State, *given: Any, **named: Any) -> Self:
        """The inverse of `state`, checked; the rest as for a new one."""
        new = cls(*given, **named)
        new.restore(state)
        return new

    def _sizes(self) -> dict[str, int]:
        """Sizes of the schema that are known beforehand."""
        return {}

    def _agree(self) -> None:
        """Refuse parts, just restored, that do not go together."""


class Record:
    """A value whose constructor takes what `SCHEMA` names."""

    __slots__ = ()
    SCHEMA: ClassVar[Mapping[str, Any]]

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        return state_of(self, self.SCHEMA)

    @classmethod
    def from_state(cls, state: State, **sizes: int) -> Self:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA, place="", **sizes)
        return cls.read(state)

    @classmethod
    def read(cls, state: State) -> Self:
        """The inverse of `state`, which has been compared."""
        new = cls(**objects_of(state, cls.SCHEMA))
        new._agree()
        return new

    def _agree(self) -> None:
        """Refuse parts that do not go together."""


class Saved(Record):
    """A record with files of its own."""

    __slots__ = ()
    KIND: ClassVar[str]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one npz file."""
        save(path, self.KIND, self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return load(path, cls.KIND, cls.from_state)


def _attribute(whole: object, name: str) -> str:
    return f"_{name}" if hasattr(whole, f"_{name}") else name


def _object(value: Any, spec: Any) -> Any:
    return value if isinstance(spec, Mapping) else spec.read(value)


def _written(value: Any, spec: Any) -> Any:
    return (_PART if isinstance(spec, Mapping) else spec).write(value)


_PART = Part()


def _compare(value: Any, spec: Any, place: str, sizes: dict[str, int]) -> None:
    if isinstance(spec, Mapping):
        check(value, spec, place=place, **sizes)
    else:
        spec.compare(value, place, sizes)


def _has_size(n: int, size: Size, sizes: dict[str, int]) -> bool:
    """Whether `n` is the size of that name; the first that comes names it."""
    if isinstance(size, str) and size.isidentifier():
        return sizes.setdefault(size, n) == n
    return n == _number(size, sizes)


def _number(size: float | Size, sizes: dict[str, int]) -> float:
    if not isinstance(size, str):
        return size
    for sign in "+-":
        name, found, more = size.partition(sign)
        if found:
            return sizes[name] + int(sign + more)
    return sizes[size]


def _within(
    least: Any, most: Any, low: Any, high: Any, place: str, sizes: dict[str, int], *, infinite: bool = False
) -> None:
    if math.isnan(least) or (not infinite and not (math.isfinite(least) and math.isfinite(most))):
        raise InputError(f"{place} must be finite, got NaN or infinity.")
    if low is not None and least < _number(low, sizes):
        raise InputError(f"{place} must not be below {_number(low, sizes):g}, got {least!s:.40}.")
    if high is not None and most > _number(high, sizes):
        raise InputError(f"{place} must not be above {_number(high, sizes):g}, got {most!s:.40}.")


def _short(value: Any) -> str:
    return repr(value)[:60] if isinstance(value, (str, int, float, type(None))) else type(value).__name__
