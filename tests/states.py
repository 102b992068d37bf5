"""Saved states as plain values, and files that are damaged or altered in every way that comes to mind."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb
from comband.page import storage

NASTY: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    3,
    1e-300,
    1e308,
    2**40,
    2**70,
    "x",
    "",
    [],
    {},
    True,
    float("nan"),
    float("inf"),
    [1, 2],
)


def plain(value: Any) -> Any:
    """A state without arrays, fit for ==."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def text(state: Any) -> str:
    """As `plain`, with NaN equal to itself, and 1 to 1.0."""

    def same(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: same(part) for name, part in value.items()}
        if isinstance(value, list):
            return [same(part) for part in value]
        return float(value) if type(value) is int and abs(value) < 2**53 else value

    return json.dumps(same(plain(state)), sort_keys=True, default=repr)


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """A file with some bytes changed, cut off or left out, or with another archive's entries."""
    content = bytearray(raw)
    way = rng.randrange(6)
    if way == 0:
        for _ in range(rng.choice([1, 1, 2, 8])):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif way == 1:
        del content[rng.randrange(len(content)) :]
    elif way == 2:
        start = rng.randrange(len(content))
        content[start : start + rng.randrange(1, 200)] = rng.randbytes(rng.choice([0, 50]))
    elif way == 3:  # the directory
        start = raw.find(b"PK\x01\x02") if rng.random() < 0.5 else raw.rfind(b"PK\x01\x02")
        for _ in range(rng.choice([1, 2])):
            content[min(len(content) - 1, start + rng.randrange(60))] ^= 1 << rng.randrange(8)
    else:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = [(name, archive.read(name)) for name in archive.namelist()]
        which = rng.randrange(len(entries))
        name, data = entries[which]
        shape = rng.choice(
            ["(1000000000000,)", "(2000000000,)", "(-5,)", "(9223372036854775807,4)", "(0,)", "(((1,),),)"]
        )
        kind = rng.choice(["<f8", "|O", "|b1", "<U1000000", "<U0", "V3"])
        claim = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        forged = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(claim)) + claim.encode() + bytes(64)
        entries[which] = rng.choice(
            [
                (name, forged),
                (name, data[:-1]),
                (name, b""),
                (name + "x", data),
                ("../" + name, data),
                (name, data + data),
            ]
        )
        if rng.random() < 0.2:
            del entries[rng.randrange(len(entries))]
        if rng.random() < 0.2:
            entries.append((name + "\u2028.npy", data))
        method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, data in entries:
                archive.writestr(name, data)
        content = bytearray(buffer.getvalue())
    return bytes(content)


def places(state: Any, so_far: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a state."""
    for key, part in state.items() if isinstance(state, dict) else enumerate(state):
        yield (*so_far, key)
        if isinstance(part, (dict, list)):
            yield from places(part, (*so_far, key))


def altered(state: storage.State, rng: random.Random) -> None:
    """Change one thing in a state, so that a file of it has a checksum that is right."""
    everywhere = list(places(state))
    arrays = [place for place in everywhere if isinstance(_at(state, place), np.ndarray)]
    place = rng.choice(arrays if arrays and rng.random() < 0.7 else everywhere)
    holder, key, value = _at(state, place[:-1]), place[-1], _at(state, place)
    way = rng.randrange(8)
    if way == 0 and isinstance(holder, dict):
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder["extra"] = rng.choice([1, np.zeros(3)])
    elif way == 2:
        other = rng.choice(everywhere)
        if other[: len(place)] != place and place[: len(other)] != other:
            holder[key], _at(state, other[:-1])[other[-1]] = _at(state, other), value
    elif isinstance(value, np.ndarray):
        holder[key] = _other_array(value, rng)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and way < 6:
        holder[key] = value + rng.choice([1, -1, 1000, 0.5])
    elif isinstance(value, list) and value and way < 6:
        holder[key] = rng.choice([value[:-1], value + value[-1:], value[::-1]])
    else:
        holder[key] = rng.choice(NASTY)


def _other_array(value: Any, rng: random.Random) -> Any:
    array = value.copy()
    way = rng.randrange(9)
    if way < 5 and array.size and array.dtype.kind in "biuf":
        place = rng.randrange(array.size)
        if array.dtype.kind == "f":
            array.flat[place] = rng.choice([np.nan, np.inf, -np.inf, -1.0, 1e308, 5e-324, 0.0, 0.5, 2.0])
        elif array.dtype.kind == "b":
            array.flat[place] = not array.flat[place]
        else:
            info = np.iinfo(array.dtype)
            array.flat[place] = rng.choice([info.min, info.max, 0, 1, 7, min(10**6, info.max)])
        return array
    if way == 5:
        try:
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "U5", "c16", "?", "S3", ">i8", ">f8"]))
        except ValueError:
            return np.zeros(3)
    if way == 6 and array.ndim:
        return rng.choice([array[:-1], np.concatenate([array, array[-1:]]), array[:0], array[::-1].copy()])
    return rng.choice([array.ravel(), array.T.copy(), array[None], np.zeros(0, array.dtype), np.array(1.0)])


def _at(state: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        state = state[key]
    return state


def completed(state: Any, other: Any) -> Any:
    """A state with the parts of another that it lacks."""
    if isinstance(state, dict) and isinstance(other, dict):
        return {**other, **{name: completed(part, other.get(name)) for name, part in state.items()}}
    return state


def attack(
    path: Path,
    kind: str,
    read: Callable[[Path], Any],
    use: Callable[[Any], object],
    *,
    n: int,
    seed: int,
    says: Callable[[storage.State], Any] = text,
) -> Counter[str]:
    """Load `n` damaged and `n` altered copies of a file. Each is refused by an InputError, or what was loaded is what
    the file says, with defaults where it says nothing, and can be used.
    """
    raw, rng, outcomes = path.read_bytes(), random.Random(seed), Counter[str]()
    original = says(read(path).state())
    copy = path.with_name("copy.npz")
    for number in range(2 * n):
        if number < n:
            copy.write_bytes(damaged(raw, rng))
        else:
            state = storage.load(path, kind, lambda state: state)
            for _ in range(rng.choice([1, 1, 2])):
                altered(state, rng)
            try:
                storage.save(copy, kind, state)
            except (TypeError, ValueError):
                continue  # no file can hold that
        try:
            loaded = read(copy)
        except cb.InputError as error:
            outcomes["refused" if str(copy) in str(error) else "refused without the file's name"] += 1
            continue
        now = loaded.state()
        found = says(now)
        if found == original:
            outcomes["the same"] += 1
            continue
        assert number >= n, "damage went unnoticed"
        assert found == says(completed(state, now)), "what was loaded is not what the file says"
        outcomes["another, consistent"] += 1
        use(loaded)
    return outcomes
