"""Lists of keys read from their JSON text are those that a JSON parser reads, or left to it."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from comband._kernels.requests import index_tokens, scan_lists

NAMES = ["a", "b b", "é", "d"]
KEYS: list[str | int] = ["x", "1", 1, -1, 0, 10**14, "yé", "long " * 30, "", " ", "[", '"', "\\", "\n", 10**15, "null"]


def scanned(text: str | bytes, m: int = 3, names: list[str] = NAMES) -> tuple[list[int], list[list[Any]]] | None:
    """Who has a list, and the lists; None if it is left to others."""
    tokens = [json.dumps(name, ensure_ascii=False).encode() for name in names]
    edges = np.cumsum([0, *map(len, tokens)])
    spans = np.stack([edges[:-1], edges[1:]], axis=1)
    known = np.frombuffer(b"".join(tokens), dtype=np.uint8)
    data = np.frombuffer(text.encode() if isinstance(text, str) else text, dtype=np.uint8)
    done, given, rows, keys = scan_lists(data, known, spans, *index_tokens(known, spans), m)
    if not done:
        return None
    found = json.loads(keys.tobytes())
    numbers = [k for row in rows.tolist() for k in row if k >= 0]
    assert list(dict.fromkeys(numbers)) == list(range(len(found)))  # numbered as they first occur
    return given.tolist(), [[found[k] for k in row if k >= 0] for row in rows.tolist()]


def expected(text: str, m: int = 3) -> tuple[list[int], list[list[Any]]] | None:
    """By a JSON parser; None if it is not as it should be."""
    try:
        lists = json.loads(text)
    except ValueError:
        return None
    if isinstance(lists, dict):
        if not set(lists) <= set(NAMES):
            return None
        pairs = sorted((NAMES.index(name), one) for name, one in lists.items())
    elif isinstance(lists, list) and len(lists) == len(NAMES):
        pairs = [(i, one) for i, one in enumerate(lists) if one is not None]
    else:
        return None
    for _, one in pairs:
        if not isinstance(one, list) or len(one) > m or len({repr(key) for key in one}) < len(one):
            return None
        if not all(type(key) in (str, int) for key in one):
            return None
    return [i for i, _ in pairs], [one for _, one in pairs]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_read_is_what_a_parser_reads(seed: int) -> None:
    """Random requests, some of them damaged: never another answer, and always one for plain lists."""
    rng, n_read = random.Random(seed), 0
    for _ in range(2000):
        plain = rng.random() < 0.5
        keys = [key for key in KEYS if not plain or (key not in ('"', "\\", "\n", 10**15))]
        lists: Any = [rng.sample(keys, rng.randrange(4)) if rng.random() < 0.8 else None for _ in NAMES]
        if rng.random() < 0.5:
            order = rng.sample(range(4), 4)
            lists = {NAMES[i]: lists[i] for i in order if lists[i] is not None}
        text = json.dumps(lists, ensure_ascii=False, indent=rng.choice([None, 1]))
        if not plain:
            for _ in range(rng.randrange(3)):
                at = rng.randrange(len(text))
                text = (
                    text[:at]
                    + rng.choice(['"', ",", "[", "]", "}", "0", "-", "e", " ", "", "\x00", "."])
                    + text[at + 1 :]
                )
        found, right = scanned(text), expected(text)
        if found is not None:
            assert found == right, text
            n_read += 1
        elif plain and lists:
            assert right is None, text
    assert n_read > 900


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "{",
        "null",
        "[]",
        "{}",
        '{"a"}',
        '{"a":}',
        '{"a":[1]',
        '{"a":[1],}',
        '{"a":[1,]}',
        '{"a":[01]}',
        '{"a":[-0]}',
        '{"a":[1.0]}',
        '{"a":[1e0]}',
        '{"a":[true]}',
        '{"a":[1,1]}',
        '{"a":[1,2,3,4]}',
        '{"a":[1],"a":[2]}',
        '{"a":null}',
        '{"z":[1]}',
        "[[1],[2],[3]]",
        "[[1],[2],[3],[4],[5]]",
        "[[1],[2],[3],[4]] x",
        '{"a":["\\u0061"]}',
        '{"a":["x]}',
    ],
)
def test_the_rest_is_left_to_a_parser(text: str) -> None:
    assert scanned(text) is None


def test_keys_that_collide_are_left_to_a_dictionary() -> None:
    """Numbers whose slots are all the same would make the search long: it is given up, not waited for."""
    lists = [[key] for key in range(1000)]
    assert scanned(json.dumps(lists), 1, [str(i) for i in range(1000)]) is not None
    same = [key for key in range(1, 400_000) if _slot(2 * key) == 7][:70]
    assert len(same) == 70
    assert scanned(json.dumps([[key] for key in same]), 1, [str(i) for i in range(70)]) is None


def _slot(code: int, size: int = 256) -> int:
    mixed = code * 0x9E3779B97F4A7C15 % (1 << 64)
    return (mixed ^ mixed >> 32) % size


def test_an_index_refuses_what_is_out_of_range() -> None:
    with pytest.raises(IndexError, match="out of range"):
        index_tokens(np.zeros(3, dtype=np.uint8), np.array([[0, 9]]))
