"""Forged certificates are refused, with the reason."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import comband as cb
from comband.certify import verify as verifier
from comband.certify.verify import verify
from tests.certify.checking.forging import HARMLESS, OTHERS, Bundle, Forgery, on_columns, on_records
from tests.certify.checking.forging import OF_SERVICE as FORGED_OF_SERVICE
from tests.serve.test_certificate import checked, ended
from tests.serve.worlds import World, play, service, spec

PROBLEM = cb.Problem(n_actions=20, list_size=3, sparsity=1)


def certified(path: Path, seed: int) -> str:
    """A certificate of a small shop, and the head that its first record had."""
    shop = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, seed=seed)
    learner = cb.AdaptiveComband(PROBLEM, shop.candidates(5, seed=2), epsilon=0.08, seed=seed, audited=0.1)
    cb.run(learner, shop, batch_size=100, max_rounds=30_000)
    learner.certificate(path)
    return learner.head


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forged")


@pytest.fixture(scope="module")
def honest(folder: Path) -> Bundle:
    head = certified(folder / "honest.zip", 5)
    report = verify(str(folder / "honest.zip"), [head])
    assert report.verified, report.reason
    bundle = Bundle.read(folder / "honest.zip")
    assert {"begin", "plan", "rounds", "dropped", "claim"} == {one["kind"] for one in bundle.records}
    again = verify(str(bundle.copy().write(folder / "again.zip")), [head])
    assert again.verified, again.reason  # taking apart and putting together changes nothing
    return bundle


@pytest.fixture(scope="module")
def other(folder: Path) -> Bundle:
    certified(folder / "other.zip", 6)
    return Bundle.read(folder / "other.zip")


COLUMNS = ["lists", "propensities", "epochs", "covered", "arms", "elsewhere"]
NAMES = [f"decisions.{name}" for name in COLUMNS] + ["answers.ids", "answers.told", "answers.rewards"]
FORGERIES = [*on_columns([*NAMES, "lists.0.ids", "lists.0.lists"]), *on_records(), *OTHERS]


def test_there_are_as_many_kinds_as_promised() -> None:
    assert len({one.name for one in FORGERIES}) == len(FORGERIES) >= 300
    assert {one.name for one in FORGERIES} >= HARMLESS.keys()


def refused(bundle: Bundle, folder: Path, heads: list[str]) -> str:
    """Why a bundle is refused; nothing if it is not."""
    report = verify(str(bundle.write(folder / "forged.zip")), heads)
    assert report.verified == (not report.reason)
    return report.reason


def test_what_is_changed_is_seen(honest: Bundle, folder: Path) -> None:
    """As it is: the chain does not fit, or the claim is another one."""
    passed = []
    for one in FORGERIES:
        bundle = honest.copy()
        one.change(bundle)
        if not refused(bundle, folder, []):
            passed.append(one.name)
    assert passed == []


def test_what_is_changed_and_chained_anew_is_seen_by_who_has_the_published_head(honest: Bundle, folder: Path) -> None:
    passed, head = [], honest.about["head"]
    for one in FORGERIES:
        bundle = honest.copy()
        one.change(bundle)
        bundle.rechain()
        if bundle.about["head"] == head and one.name == "another head":
            continue  # chained anew it is what it was
        if not refused(bundle, folder, [head]):
            passed.append(one.name)
    assert passed == []


def test_what_is_changed_and_chained_anew_is_seen_by_the_mathematics(honest: Bundle, folder: Path) -> None:
    """Where only the hash of what was declared is known: lists, propensities and claims must follow from it. What
    cannot be seen so is listed, each with the reason; for the rest there are heads that are published later.
    """
    passed = []
    for one in FORGERIES:
        bundle = honest.copy()
        one.change(bundle)
        bundle.rechain()
        if bundle.about["head"] != honest.about["head"] and not refused(bundle, folder, [first_head(honest)]):
            passed.append(one.name)
    assert set(passed) <= HARMLESS.keys()


def test_rounds_that_are_not_answered_yet_are_refused(honest: Bundle, folder: Path) -> None:
    """The last answer without a reward is left out: its round cannot be in the evidence."""
    bundle = honest.copy()
    rewards, last = bundle.columns["answers.rewards"], bundle.last("rounds")
    at = int(np.flatnonzero(~rewards.any(axis=1))[-1])
    assert len(rewards) - at <= last["rows"]["answers"]
    for name in ("ids", "told", "rewards"):
        bundle.columns[f"answers.{name}"] = np.delete(bundle.columns[f"answers.{name}"], at, axis=0)
    last["rows"]["answers"] -= 1
    bundle.rechain()
    assert "before it is answered" in refused(bundle, folder, [])


def first_head(bundle: Bundle) -> str:
    """The hash of the first record, which the second one holds."""
    return str(bundle.records[1]["before"])


@pytest.mark.parametrize("rechained", [False, True])
@pytest.mark.parametrize("cut", range(1, 12, 2))
def test_two_certificates_do_not_make_one(
    honest: Bundle, other: Bundle, folder: Path, cut: int, rechained: bool
) -> None:
    for columns in (honest, other):
        for about in (honest, other):
            records = honest.copy().records[:cut] + other.copy().records[cut:]
            bundle = Bundle(about.copy().about, records, columns.copy().columns)
            if rechained:
                bundle.rechain()
            assert refused(bundle, folder, [honest.about["head"]])
            assert refused(bundle, folder, [other.about["head"]])


# ---- files -----------------------------------------------------------------------------------------------------------


def rewritten(path: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """The zip with some of its parts changed, or left out."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


def pickled(data: bytes) -> bytes:
    held = io.BytesIO()
    np.save(held, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return held.getvalue()


def header(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new, 1)


PARTS: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "no bundle.json": ("bundle.json", lambda data: None),
    "no chain": ("chain.jsonl", lambda data: None),
    "bundle.json is no JSON": ("bundle.json", lambda data: data[:-5]),
    "bundle.json is a list": ("bundle.json", lambda data: b"[]"),
    "deep brackets": ("bundle.json", lambda data: b"[" * 100_000),
    "a number of many digits": ("bundle.json", lambda data: b'{"format": ' + b"9" * 100_000 + b"}"),
    "no text": ("chain.jsonl", lambda data: b"\xff" + data),
    "the chain ends within a record": ("chain.jsonl", lambda data: data[:-20]),
    "a line that is no record": ("chain.jsonl", lambda data: data + b"7\n"),
    "an empty line": ("chain.jsonl", lambda data: data + b"\n"),
    "spaces in a record": ("chain.jsonl", lambda data: data.replace(b": ", b":  ", 1)),
    "an array of objects": ("answers.rewards.npy", pickled),
    "an array that is too short": ("decisions.lists.npy", lambda data: data[:-8]),
    "an array that is too long": ("decisions.lists.npy", lambda data: data + bytes(8)),
    "no array": ("decisions.lists.npy", lambda data: b"lists"),
    "a shape beyond all memory": ("decisions.covered.npy", header(b"'shape': (", b"'shape': (9999999999999999, ")),
    "a negative shape": ("decisions.covered.npy", header(b"'shape': (", b"'shape': (-")),
    "columns by columns": ("decisions.lists.npy", header(b"False", b"True ")),
    "another order of bytes": ("decisions.propensities.npy", header(b"<f8", b">f8")),
    "a header that is a program": ("decisions.covered.npy", header(b"False", b"print")),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_not_as_they_should_be(name: str, honest: Bundle, folder: Path) -> None:
    part, change = PARTS[name]
    path = rewritten(folder / "honest.zip", folder / "part.zip", lambda n, data: change(data) if n == part else data)
    report = verify(str(path), [])
    assert not report.verified
    assert report.reason


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_is_cut_off(share: float, honest: Bundle, folder: Path) -> None:
    data = (folder / "honest.zip").read_bytes()
    (folder / "cut.zip").write_bytes(data[: int(len(data) * share)])
    assert not verify(str(folder / "cut.zip")).verified


def test_bytes_that_are_changed(honest: Bundle, folder: Path) -> None:
    data, rng = bytearray((folder / "honest.zip").read_bytes()), np.random.default_rng(1)
    with zipfile.ZipFile(folder / "honest.zip") as file:
        names = [one for one in file.infolist() if one.filename != "verify.py"]
    for one in names:
        for at in rng.integers(one.header_offset + 60, one.header_offset + 60 + max(one.compress_size - 60, 1), size=3):
            changed = bytearray(data)
            changed[at] ^= 0xFF
            (folder / "bytes.zip").write_bytes(changed)
            assert not verify(str(folder / "bytes.zip")).verified, (one.filename, at)


def test_what_would_unpack_to_too_much_is_not_unpacked(
    honest: Bundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "MOST_BYTES", 10_000_000)
    shutil.copy(folder / "honest.zip", folder / "bomb.zip")
    with zipfile.ZipFile(folder / "bomb.zip", "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("more", bytes(10_000_000))
    assert (folder / "bomb.zip").stat().st_size < 2_000_000
    assert "unpacks to more" in verify(str(folder / "bomb.zip")).reason


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_part_that_is_there_twice(honest: Bundle, folder: Path) -> None:
    shutil.copy(folder / "honest.zip", folder / "twice.zip")
    with zipfile.ZipFile(folder / "twice.zip", "a") as file:
        file.writestr("bundle.json", json.dumps(honest.about))
    assert "twice" in verify(str(folder / "twice.zip")).reason


def test_what_is_not_known_is_said(honest: Bundle, folder: Path) -> None:
    bundle = honest.copy()
    n = len(bundle.columns["decisions.lists"])
    bundle.columns["decisions.placements"] = np.zeros((n, 3), dtype=np.int32)
    bundle.records[0]["spec"]["moonlight"] = True
    bundle.records.append({"kind": "eclipse"})
    bundle.rechain()
    path = bundle.write(folder / "more.zip")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("metrics.json", "{}")
    report = verify(str(path))
    assert report.verified, report.reason
    said = [line for line in report.not_checked if line.startswith("unknown part")]
    assert len(said) == 4
    for word in ("placements", "moonlight", "eclipse", "metrics.json"):
        assert any(word in line for line in said), word


def test_a_forgery_changes_something(honest: Bundle) -> None:
    for one in FORGERIES:
        assert differs(one, honest), one.name


def differs(one: Forgery, honest: Bundle) -> bool:
    bundle = honest.copy()
    one.change(bundle)
    same = json.dumps([bundle.about, bundle.records]) == json.dumps([honest.about, honest.records])
    return not (
        same
        and bundle.columns.keys() == honest.columns.keys()
        and all(
            column.dtype == honest.columns[name].dtype and np.array_equal(column, honest.columns[name], equal_nan=True)
            for name, column in bundle.columns.items()
        )
    )


@pytest.fixture(scope="module")
def of_service(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The certificate of an experiment of the service."""
    folder = tmp_path_factory.mktemp("service")

    async def run() -> None:
        with service(folder) as made:
            await made.create(spec(epsilon=0.08, audited=0.1))
            await play(made, World(best=0.15), 0, 480)
            head = await ended(made)
            assert checked(made, folder, [head]).verified

    asyncio.run(run())
    bundle = Bundle.read(folder / "certificate.zip")
    kinds = {one["kind"] for one in bundle.records}
    assert {"begin", "plan", "decisions", "rounds", "dropped", "claim", "end"} <= kinds
    return bundle


OF_EPOCH = [f"lists.0.{name}" for name in ("ids", "lists", "shown", "propensities", "items")]


def of_a_service() -> list[Forgery]:
    columns = ["decisions.leaves", "answers.ids", "answers.told", "answers.rewards", *OF_EPOCH]
    return [*on_columns(columns), *on_records(), *OTHERS, *FORGED_OF_SERVICE]


def test_a_service_s_forged_certificates_are_refused(of_service: Bundle, folder: Path) -> None:
    """As they are, and chained anew by who does not know that the head was published."""
    passed, n = [], 0
    for one in of_a_service():
        bundle = of_service.copy()
        try:
            one.change(bundle)
        except (KeyError, IndexError, StopIteration):  # of tables that only a learner's certificate has
            continue
        n += 1
        if not refused(bundle, folder, []):
            passed.append(one.name)
        try:
            bundle.rechain()
        except Exception:  # it cannot be made to fit
            continue
        if bundle.about["head"] != of_service.about["head"] and not refused(bundle, folder, [of_service.about["head"]]):
            passed.append(f"{one.name}, chained anew")
    assert passed == []
    assert n >= 300
