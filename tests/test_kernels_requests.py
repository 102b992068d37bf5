"""Lists of keys read from their JSON text are those that a JSON parser reads, or left to it."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from comband._kernels.requests import PADDING, index_tokens, lists_text, scan_requests

NAMES = ["a", "b b", "é", "d"]
KEYS: list[str | int] = ["x", "1", 1, -1, 0, 10**14, "yé", "long " * 30, "", " ", "[", '"', "\\", "\n", 10**15, "null"]


Found = tuple[str | None, list[int], list[list[Any]]]  # a request's id, who has a list, and the lists


def requests_of(text: str | bytes, m: int = 3, names: list[str] = NAMES, most: int = 9) -> list[Found] | None:
    """What is read; None if it is left to others."""
    tokens = [json.dumps(name, ensure_ascii=False).encode() for name in names]
    edges = np.cumsum([0, *map(len, tokens)])
    spans = np.stack([edges[:-1], edges[1:]], axis=1)
    known = np.frombuffer(b"".join(tokens) + b"1" * PADDING, dtype=np.uint8)
    raw = text.encode() if isinstance(text, str) else text
    data = np.frombuffer(raw + b"1" * PADDING, dtype=np.uint8)
    n, plain, ends, ids, given, rows, where, keys = scan_requests(
        data, known, spans, *index_tokens(known, spans), m, most, 200
    )
    if not n:
        return None
    assert plain == (keys.tobytes().isascii() and all(raw[slice(*one)].isascii() for one in ids.tolist()))
    assert ends[-1].tolist() == [len(given), len(where), len(keys)]
    found: list[Found] = []
    for i in range(n):
        (row, key, byte), (next_row, next_key, next_byte) = ends[i : i + 2].tolist()
        mine, numbers = json.loads(keys[byte:next_byte].tobytes()), rows[row:next_row].tolist()
        assert [json.loads(keys[slice(*span)].tobytes()) for span in where[key:next_key]] == mine
        shown = [k for one in numbers for k in one if k >= 0]
        assert list(dict.fromkeys(shown)) == list(range(len(mine)))  # numbered as they first occur
        name = raw[slice(*ids[i].tolist())].decode() or None
        found.append((name, given[row:next_row].tolist(), [[mine[k] for k in one if k >= 0] for one in numbers]))
    return found


def scanned(text: str | bytes, m: int = 3, names: list[str] = NAMES) -> tuple[list[int], list[list[Any]]] | None:
    """Who has a list, and the lists, of one request with this text for its lists."""
    raw = text.encode() if isinstance(text, str) else text
    found = requests_of(b'{"lists":' + raw + b"}", m, names)
    return None if found is None else found[0][1:]


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
    same = [key for key in range(1, 400_000) if _slot(key) == 7][:70]
    assert len(same) == 70
    assert scanned(json.dumps([[key] for key in same]), 1, [str(i) for i in range(70)]) is None


def _slot(key: int, size: int = 256) -> int:
    code = int.from_bytes(str(key).encode(), "little")
    return (code * 0x9E3779B97F4A7C15 % (1 << 64) >> 40) % size


@pytest.mark.parametrize("seed", range(3))
def test_many_requests_are_those_that_a_parser_reads(seed: int) -> None:
    """Any order of fields, ids or none, keys of any length, damaged or not."""
    rng, n_read = random.Random(seed), 0
    for _ in range(600):
        asked = []
        for i in range(rng.randrange(1, 6)):
            pool: list[Any] = ["".join(rng.choices("abé", k=rng.randrange(20))) for _ in range(5)]
            pool += [rng.choice([-1, 1]) * rng.randrange(10 ** rng.randrange(1, 16)) for _ in range(5)]
            keys = list(dict.fromkeys(map(repr, pool)))
            lists = [[eval(key) for key in rng.sample(keys, rng.randrange(4))] for _ in NAMES]
            fields: dict[str, Any] = {"lists": lists, **({"request": f"r é {i}"} if rng.random() < 0.5 else {})}
            fields |= {name: None for name in ("request", "context") if name not in fields and rng.random() < 0.2}
            asked.append(dict(rng.sample(list(fields.items()), len(fields))))
        text = json.dumps(asked, ensure_ascii=False, indent=rng.choice([None, 1]))
        damaged = rng.random() < 0.3
        if damaged:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(['"', ",", "[", "]", "{", "}", "0", "-", " ", ""]) + text[at + 1 :]
        found = requests_of(text)
        assert damaged or found is not None
        if found is not None:
            n_read += 1
            parsed = json.loads(text)
            right = [(one.get("request"), *(expected(json.dumps(one["lists"])) or ())) for one in parsed]
            assert found == right, text
    assert n_read > 350


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[{}]",
        '[{"request":"a"}]',
        '{"lists":{"a":[1]},"lists":{"a":[1]}}',
        '{"lists":{"a":[1]},"request":"a","request":"b"}',
        '{"lists":{"a":[1]},"request":""}',
        '{"lists":{"a":[1]},"request":1}',
        '{"lists":{"a":[1]},"context":[1]}',
        '{"lists":{"a":[1]},"requests":"a"}',
        '{"lists":{"a":[1]}}{"lists":{"a":[1]}}',
        '[{"lists":{"a":[1]}}',
        '[{"lists":{"a":[1]}},]',
        '{"lists":{"a":[1]}',
        '{"lists":{"a":[1]},}',
        '{"lists":{"a":[1]},"request":"' + "x" * 201 + '"}',
        '{"lists":{"a":["' + "x" * 201 + '"]}}',
        "[" + ",".join(['{"lists":{"a":[1]}}'] * 10) + "]",
    ],
)
def test_other_requests_are_left_to_a_parser(text: str) -> None:
    assert requests_of(text) is None


def test_what_stands_behind_the_text_is_not_read() -> None:
    """A number, a text and a field that end with the data do not go on in the bytes behind them."""
    for text in (
        '{"lists":{"a":[1',
        '{"lists":{"a":["x',
        '{"lists":{"a":[1]},"request":"',
        '{"lists":{"a":[1]},"reques',
    ):
        for end in range(len(text) + 1):
            assert requests_of(text[:end]) is None


def test_lists_as_text() -> None:
    text = np.frombuffer(b'["a","b c"][1,-22]', dtype=np.uint8)
    spans = np.array([[1, 4], [5, 10], [12, 13], [14, 17]])
    begins, made = lists_text(
        np.array([[1, 0], [1, -1], [-1, -1]], dtype=np.int32), np.array([0, 2, 4, 4]), spans, text
    )
    assert made.tobytes() == b'["b c","a"],[-22],[],'
    assert begins.tolist() == [0, 12, 18, 21]
    for wrong in ([[2, 0]], [[9, 0]]):
        with pytest.raises(IndexError, match="key"):
            lists_text(np.array(wrong, dtype=np.int32), np.array([0, 2]), spans, text)
    with pytest.raises(IndexError, match="edge"):
        lists_text(np.array([[0, 0]], dtype=np.int32), np.array([0, 9]), spans, text)
    with pytest.raises(IndexError, match="edge"):
        lists_text(np.array([[0, 0]], dtype=np.int32), np.array([0]), spans, text)


def test_an_index_refuses_what_is_out_of_range() -> None:
    with pytest.raises(IndexError, match="out of range"):
        index_tokens(np.zeros(3, dtype=np.uint8), np.array([[0, 9]]))
