"""The second program after the page agrees with the one that is shipped: on all vectors, and on forgeries."""

from __future__ import annotations

import asyncio
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comband.certify.verify import verify
from tests.certify.checking.forging import Bundle
from tests.certify.checking.second import verdict
from tests.certify.checking.test_forged import FORGERIES, certified
from tests.serve.test_certificate import checked, ended
from tests.serve.worlds import World, play, service, spec

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.zip"))


def test_both_verify_all_vectors() -> None:
    assert len(VECTORS) >= 20
    for path in VECTORS:
        heads = [path.with_suffix(".head").read_text(encoding="utf-8").strip()]
        assert verify(str(path), heads).verified
        assert verdict(str(path), heads) == (True, ""), path.name
        assert not verdict(str(path), ["0" * 64])[0]


def differing(honest: Bundle, folder: Path, *, first: int, every: int) -> tuple[int, list[str]]:
    """How many forgeries were tried, each chained anew, and on which the two programs differ."""
    n, found = 0, []
    for one in FORGERIES[first::every]:
        bundle = honest.copy()
        one.change(bundle)
        bundle.rechain()
        path = str(bundle.write(folder / "forged.zip"))
        n += 1
        if verify(path).verified != verdict(path)[0]:
            found.append(one.name)
    return n, found


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("honest") / "honest.zip"
    certified(path, 5)
    return Bundle.read(path)


def test_both_say_the_same_of_forgeries(honest: Bundle, tmp_path: Path) -> None:
    n, found = differing(honest, tmp_path, first=0, every=9)
    assert n >= 25
    assert found == []


@pytest.mark.slow
def test_both_say_the_same_of_all_forgeries(honest: Bundle, tmp_path: Path) -> None:
    n, found = differing(honest, tmp_path, first=0, every=1)
    assert n >= 300
    assert found == []


OF_SERVICE: list[dict[str, Any]] = [
    {"places": [1.0, 0.6, 0.3], "order": "random"},
    {"fallback": "nothing", "open_field": True},
    {"period": 24, "block": 12, "audited": 0.3},
]


@pytest.mark.parametrize("more", OF_SERVICE)
def test_both_read_a_service_s_certificate(more: dict[str, Any], tmp_path: Path) -> None:
    async def run() -> str:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.02, **more))
            await play(made, World(best=0.06), 0, 288)
            head = await ended(made)
            assert checked(made, tmp_path, [head]).verified
            return head

    head, path = asyncio.run(run()), tmp_path / "certificate.zip"
    assert verdict(str(path), [head]) == (True, "")
    rng, other = np.random.default_rng(1), tmp_path / "other.zip"
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    for name in parts:
        data = bytearray(parts[name])
        data[int(rng.integers(len(data) // 2, len(data)))] ^= 1 << int(rng.integers(8))
        with zipfile.ZipFile(other, "w") as file:
            for one, text in parts.items():
                file.writestr(one, bytes(data) if one == name else text)
        assert verdict(str(other))[0] == verify(str(other)).verified, name
    shutil.rmtree(tmp_path, ignore_errors=True)
