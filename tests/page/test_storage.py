"""Files are whole or not there, and hold what their schema says or are refused in a sentence."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import comband as cb
from comband.classify.persistence import load_model, save_model
from comband.page import storage
from comband.page.problem import InputError
from comband.page.storage import Array, Default, Flag, Key, Many, Maybe, Part, Real, Text, Whole, check, whole_file
from tests.states import attack, plain, text

PROBLEM = cb.Problem(n_actions=9, list_size=3, sparsity=1)
LISTS = np.array([[[0, 1, 2]] * 40, [[1, 2, 3]] * 40, [[5, 6, 7]] * 40])
POLICIES = cb.PolicySet.from_lists(LISTS, PROBLEM)


def mixture(weights: Any = (0.5, 0.5, 0.0), **more: Any) -> cb.Mixture:
    return cb.Mixture(POLICIES, weights, problem=PROBLEM, floor=0.4, **more)


def rounds(n: int = 40, contexts: Any = None) -> cb.Rounds:
    decisions = mixture().draw(np.arange(n) % 40, np.random.default_rng(0))
    if contexts is not None:
        names = ("ids", "lists", "propensities", "epochs")
        decisions = cb.Decisions(**{name: getattr(decisions, name) for name in names}, contexts=contexts)
    return cb.Rounds(decisions, 1.0 * (decisions.lists == 2))


# ---- whole files -----------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted() -> None:
        with whole_file(path) as part:
            part.write_text("half of the n")
            assert part.parent == tmp_path
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_rights_are_kept_and_never_wider_in_between(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = os.umask(0o027)
    try:
        storage.write_text(path, "new")
        assert path.stat().st_mode & 0o777 == 0o640  # as any new file
        for mode in (0o600, 0o444, 0o664):
            path.chmod(mode)
            with whole_file(path) as part:
                assert part.stat().st_mode & 0o777 & ~(mode | 0o600) == 0
                part.write_text(f"{mode}")
            assert path.stat().st_mode & 0o777 == mode
            assert path.read_text() == f"{mode}"
    finally:
        os.umask(before)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "real")
    for content in ("first", "second"):  # a link to nothing, then to a file
        storage.write_text(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere" / "real").read_text() == content
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link"]
    assert os.listdir(tmp_path / "elsewhere") == ["real"]


def test_folders_pipes_and_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        storage.write_text(tmp_path, "x")
    with pytest.raises(FileNotFoundError, match="none"):
        rounds().save(tmp_path / "none" / "rounds.npz")
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    read: list[str] = []
    reader.start()
    storage.write_text(tmp_path / "pipe", "through")
    reader.join()
    assert read == ["through"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    # Not below tmp_path, which others than its owner may not even enter.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.npz"
        rounds().save(path)
        whole = path.read_bytes()
        os.chmod(folder, 0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # the superuser may write anywhere
        try:
            with pytest.raises(PermissionError, match=r"rounds\.npz"):
                rounds().save(path)
        finally:
            os.seteuid(user)
        os.chmod(folder, 0o755)
        assert path.read_bytes() == whole
        assert os.listdir(folder) == ["rounds.npz"]


def _log_length(path: Path) -> int:
    # Whatever the order of writes: a header and 500 or 1000 rows.
    return len(path.read_text().splitlines())


@pytest.mark.parametrize(
    ("name", "write", "read", "allowed"),
    [
        ("log.csv", lambda n, path: cb.write_rounds(rounds(500 * n), path), _log_length, {501, 1001}),
        ("log.npz", lambda n, path: rounds(500 * n).save(path), lambda path: len(cb.Rounds.load(path)), {500, 1000}),
        ("text", lambda n, path: storage.write_text(path, "x" * 300_000 * n), _log_length, {1}),
    ],
)
def test_readers_beside_several_writers_see_whole_files(
    name: str, write: Callable[[int, Path], None], read: Callable[[Path], int], allowed: set[int], tmp_path: Path
) -> None:
    path = tmp_path / name
    write(1, path)
    end, errors = time.monotonic() + 0.7, []

    def keep_writing(n: int) -> None:
        try:
            while time.monotonic() < end:
                write(n, path)
        except Exception as error:
            errors.append(error)

    writers = [threading.Thread(target=keep_writing, args=(n,)) for n in (1, 2, 2)]
    for writer in writers:
        writer.start()
    seen = [read(path)]
    while time.monotonic() < end:
        seen.append(read(path))
    for writer in writers:
        writer.join()
    assert not errors
    assert set(seen) <= allowed
    assert os.listdir(tmp_path) == [name]


def test_models_of_several_writers_stay_whole(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))
    models = [cb.BanditListClassifier(list_size=2).fit(X[:, :d], np.arange(60) % 5) for d in (2, 4)]
    path = tmp_path / "model.skops"

    def keep_writing(model: cb.BanditListClassifier) -> None:
        for _ in range(5):
            save_model(model, path)

    writers = [threading.Thread(target=keep_writing, args=(model,)) for model in models]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert load_model(path).n_features_in_ in (2, 4)
    assert os.listdir(tmp_path) == ["model.skops"]


_ENDLESS = """
import sys, numpy as np, comband as cb
rng = np.random.default_rng(0)
problem = cb.Problem(9, 3)
log = cb.Rounds.from_log(np.arange(20000), lists=np.tile([1, 2, 3], (20000, 1)), rewards=rng.random((20000, 3)),
                         propensities=rng.uniform(.1, 1, (20000, 3)), problem=problem)
while True:
    log.save(sys.argv[1])
"""


def _killed(path: Path, seconds: float) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(path)])
    try:
        while not list(path.parent.glob("*.part")) and writer.poll() is None:
            time.sleep(0.01)
        time.sleep(seconds)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "rounds.npz"
    rounds(7).save(path)
    _killed(path, 0.0)  # as soon as it has begun
    assert len(cb.Rounds.load(path)) in (7, 20_000)
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".part")] == ["rounds.npz"]


@pytest.mark.slow
def test_many_killed_writers_leave_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "rounds.npz"
    for number in range(30):
        _killed(path, 0.02 * number)
        for part in tmp_path.glob("*.part"):
            part.unlink()
        if path.exists():
            assert len(cb.Rounds.load(path)) == 20_000


# ---- the file --------------------------------------------------------------------------------------------------------

NESTED: storage.State = {
    "whole": 3,
    "large": 2**100,
    "real": 0.1,
    "infinite": float("inf"),
    "none": None,
    "flag": True,
    "text": "größer ☃",
    "names": ["a", 2],
    "table": np.arange(6.0).reshape(2, 3),
    "turned": np.arange(6).reshape(2, 3).T,
    "empty": np.empty((0, 4), dtype=np.int32),
    "words": np.array(["tea", "Käse"]),
    "flags": np.array([True, False]),
    "times": np.array(["2026-01-01"], dtype="M8[D]"),
    "parts": [{"x": np.array([1]), "more": {}}, {"x": np.array([2, 3]), "more": {"y": np.float64(0.3)}}],
}


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    storage.save(tmp_path / "file", "thing", NESTED)
    again = storage.load(tmp_path / "file", "thing", lambda state: state)
    assert plain(again) == plain(NESTED)
    assert list(again) == list(NESTED)
    for name in ("table", "turned", "empty", "words", "flags", "times"):
        assert again[name].dtype == NESTED[name].dtype
        again[name][...] = again[name]  # may be written to
    with np.load(tmp_path / "file") as file:  # an npz file like any other
        assert file["state.parts.1.x"].tolist() == [2, 3]
    first = (tmp_path / "file").read_bytes()
    storage.save(tmp_path / "file", "thing", NESTED)
    assert (tmp_path / "file").read_bytes() == first  # the same state, the same bytes


def test_any_changed_byte_of_the_content_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    storage.save(path, "thing", NESTED)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for name, data in entries.items():
        if len(data) == 128:
            continue  # a header and no values
        changed = {**entries, name: data[:-1] + bytes([data[-1] ^ 1])}
        with zipfile.ZipFile(path, "w") as archive:  # with sums of its own that are right
            for entry, content in changed.items():
                archive.writestr(entry, content)
        with pytest.raises(cb.InputError, match=r"checksum differs|not a complete|should hold|newer comband"):
            storage.load(path, "thing", lambda state: state)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.zeros(34_000_000))
        archive.writestr("kind.npy", buffer.getvalue())
    assert path.stat().st_size < 1_000_000

    def refuse(*_: Any) -> bytes:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "read", refuse)
    with pytest.raises(cb.InputError, match="would unpack to 272,000,128, more than any file that comband writes"):
        cb.Rounds.load(path)


def test_a_state_that_packs_well_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_ROOM", 1 << 20)
    path = tmp_path / "zeros.npz"
    storage.save(path, "thing", {"x": np.zeros(1_000_000)})
    assert not storage.load(path, "thing", lambda state: state["x"]).any()


def test_other_files_are_refused_and_missing_ones_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        cb.Rounds.load(path)
    with pytest.raises(IsADirectoryError):
        cb.Rounds.load(tmp_path)
    storage.save(path, "thing\x1b[31m", {})
    with pytest.raises(cb.InputError, match="should hold rounds, but it holds something else"):
        cb.Rounds.load(path)
    deep = json.loads("[" * 100 + "]" * 100)
    storage.save(path, "rounds", {"decisions": deep, "rewards": np.zeros((0, 3))})
    with pytest.raises(cb.InputError, match="decisions must hold parts by name"):
        cb.Rounds.load(path)
    for content in (b"", b"PK", b"x" * 1000):
        path.write_bytes(content)
        with pytest.raises(cb.InputError, match="not a complete comband file"):
            cb.Rounds.load(path)


# ---- schemas ---------------------------------------------------------------------------------------------------------


def test_a_missing_part_takes_its_default_and_an_unknown_one_is_refused_by_name() -> None:
    schema = {
        "x": Array("f8", ("n",)),
        "weights": Default(Array("f8", ("n",), 0), lambda sizes: np.ones(sizes["n"])),
        "note": Default(Text(), lambda sizes: ""),
        "limit": Default(Maybe(Real())),
    }
    state: dict[str, Any] = {"x": np.zeros(3)}
    storage.check(state, schema)
    assert text(state) == text({"x": [0.0] * 3, "weights": [1.0] * 3, "note": "", "limit": None})
    storage.check(state, schema)  # what is there is compared
    with pytest.raises(cb.InputError, match="weights must not be below 0"):
        storage.check({**state, "weights": -np.ones(3)}, schema)
    with pytest.raises(cb.InputError, match="holds unexpected 'colour'"):
        storage.check({**state, "colour": 1}, schema)
    with pytest.raises(cb.InputError, match="lacks 'x'"):
        storage.check({"note": ""}, schema)


def test_problems_and_decisions_of_files_that_lack_later_columns() -> None:
    state = rounds().state()
    for name in ("covered", "arms", "makers"):
        del state["decisions"][name]
    again = cb.Rounds.from_state(state)
    assert text(again.state()) == text(rounds().state())
    saved = mixture().state()
    for name in ("feedback", "places"):
        del saved["problem"][name]
    assert cb.Mixture.from_state(saved, POLICIES).problem == PROBLEM


@dataclass(frozen=True, slots=True)
class Span(storage.Record):
    """A value with two ends."""

    first: int
    last: int

    SCHEMA: ClassVar = {"first": Whole(0), "last": Whole(0, "limit")}

    def _agree(self) -> None:
        storage.require(self.first <= self.last, "a span must not end before it begins.")


class Tally(storage.Stored):
    """A part that is restored where it is, with a size of its own."""

    SCHEMA: ClassVar = {"counts": storage.Column("i8", ("bins",), 0)}

    def __init__(self, bins: int) -> None:
        self._counts = [0] * bins

    def _sizes(self) -> dict[str, int]:
        return {"bins": len(self._counts)}


class Everything(storage.Stored):
    """An object with parts of every kind."""

    SCHEMA: ClassVar = {
        "rate": Real(0),
        "tally": Tally.SCHEMA,
        "spans": Many(storage.Held(Span)),
        "best": Maybe(storage.Held(Span)),
        "seen": storage.Held(cb.Rounds),
        "late": Default(Flag(), lambda sizes: True),
    }

    def __init__(self, limit: int) -> None:
        self.limit, self._rate, self.tally, self.late = limit, 0.5, Tally(2), False
        self._spans: list[Span] = []
        self.best: Span | None = None
        self.seen = rounds()

    def _sizes(self) -> dict[str, int]:
        return {"limit": self.limit}

    def _agree(self) -> None:
        storage.require(self.best is None or self.best in self._spans, "the best must be one of them.")


def test_an_object_is_saved_and_restored_by_its_schema(tmp_path: Path) -> None:
    one = Everything(9)
    one._spans = [Span(0, 3), Span(4, 9)]
    one.best, one._rate = one._spans[1], 1.0
    one.tally._counts = [4, 2]
    storage.save(tmp_path / "file", "whole", one.state())
    again = storage.load(tmp_path / "file", "whole", lambda state: Everything.from_state(state, 9))
    assert text(again.state()) == text(one.state())
    assert (again._spans, again.best, again.tally._counts) == (one._spans, one.best, [4, 2])
    assert isinstance(again.seen, cb.Rounds)
    earlier = one.state()
    del earlier["late"]
    assert Everything.from_state(earlier, 9).late is True
    assert type(Everything.from_state({**one.state(), "rate": 1}, 9)._rate) is float
    for changes, says in (
        ({"rate": -1.0}, "rate must not be below 0"),
        ({"tally": {"counts": np.array([1, 2, 3])}}, r"counts must have the shape \(2\), got \(3,\)"),
        ({"spans": [{"first": 0, "last": 10}]}, r"spans\.0\.last must not be above 9"),
        ({"spans": [{"first": 5, "last": 4}]}, "must not end before it begins"),
        ({"best": {"first": 0, "last": 0}}, "the best must be one of them"),
        ({"seen": {"decisions": {}}}, "lacks 'rewards'"),
        ({"more": 1}, "unexpected 'more'"),
    ):
        with pytest.raises(cb.InputError, match=says):
            Everything.from_state({**one.state(), **changes}, 9)


def test_files_of_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for version, says in ((1, "there is no format 1"), (storage.FORMAT + 1, "written by a newer comband")):
        with path.open("wb") as file:
            np.savez_compressed(file, kind=np.asarray("rounds"), format=np.asarray(version))
        with pytest.raises(cb.InputError, match=says):
            cb.Rounds.load(path)


SCHEMA = {
    "n": Whole(1, 5, size="n"),
    "rate": Real(0, 1),
    "kind": Text(("a", "b")),
    "names": Many(Key(), "n"),
    "on": Flag(),
    "maybe": Maybe(Real()),
    "x": Array("f8", ("n", 2), 0, 1),
    "ids": Array("i8", ("n",), 0, "n-1", rising=True),
    "open": Array("f8", (...,), missing=True),
    "inner": {"edges": Array("i", ("n+1",)), "free": Array("", ("k", "k", ...))},
    "more": Part(),
}


def good() -> storage.State:
    return {
        "n": 2,
        "rate": 0.5,
        "kind": "a",
        "names": ["x", 7],
        "on": False,
        "maybe": None,
        "x": np.array([[0, 0.5], [1, 0.25]]),
        "ids": np.array([0, 1]),
        "open": np.array([np.nan, 3.0]),
        "inner": {"edges": np.array([1, 2, 3], dtype=np.int32), "free": np.empty((3, 3, 1), dtype="U2")},
        "more": {},
    }


def test_a_schema_accepts_what_it_describes() -> None:
    assert check(good(), SCHEMA) == {"n": 2}
    assert check({**good(), "maybe": 3}, SCHEMA, n=2) == {"n": 2}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": True}, "n must be a whole number, got True"),
        ({"n": 0}, "n must not be below 1, got 0"),
        ({"n": 6}, "n must not be above 5, got 6"),
        ({"n": 3}, "names must be a list of 3"),
        ({"rate": "0.5"}, "rate must be a number, got '0.5'"),
        ({"rate": float("nan")}, "rate must be finite"),
        ({"rate": float("-inf")}, "rate must be finite"),
        ({"kind": "c"}, "kind must be one of 'a', 'b', got 'c'"),
        ({"names": ["x", 1.5]}, r"names\.1 must be a whole number"),
        ({"names": ["x"]}, "names must be a list of 2"),
        ({"on": 1}, "on must be true or false, got 1"),
        ({"maybe": "x"}, "maybe must be a number"),
        ({"x": [[0, 1]]}, "x must be an array of f8, got list"),
        ({"x": np.zeros((2, 2), dtype=np.float32)}, "x must be an array of f8, got float32"),
        ({"x": np.zeros((3, 2))}, r"x must have the shape \(2, 2\), got \(3, 2\)"),
        ({"x": np.full((2, 2), 1.5)}, r"x must not be above 1, got 1\.5"),
        ({"x": np.full((2, 2), np.nan)}, "x must be finite"),
        ({"ids": np.array([0, 2])}, "ids must not be above 1, got 2"),
        ({"ids": np.array([1, 0])}, "ids must rise"),
        ({"ids": np.array([0, 0])}, "ids must rise"),
        ({"open": np.array([np.inf])}, "open must be finite"),
        ({"inner": None}, "inner must hold parts by name"),
        (
            {"inner": {**good()["inner"], "edges": np.arange(2)}},
            r"inner\.edges must have the shape \(n\+1\), got \(2,\)",
        ),
        ({"inner": {**good()["inner"], "free": np.empty((3, 2))}}, r"inner\.free must have the shape"),
        ({"inner": {"edges": np.arange(3)}}, "inner lacks 'free'"),
        ({"other": 1}, "the state holds unexpected 'other'"),
        ({"more": []}, "more must hold parts by name"),
    ],
)
def test_a_schema_refuses_all_else(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        check({**good(), **changes}, SCHEMA)


# ---- damaged and altered files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("rewards", np.nan, "rewards must be finite"),
        ("rewards", 2.0, "rewards must not be above 1"),
        ("propensities", 5e-324, "propensities must not be below"),
        ("propensities", 2.0, "propensities must not be above 1"),
        ("propensities", np.nan, "propensities of shown actions must lie in"),
        ("lists", -2, "lists must not be below -1"),
    ],
)
def test_no_value_out_of_range_comes_from_a_file(column: str, value: float, sentence: str, tmp_path: Path) -> None:
    state = rounds().state()
    holder = state if column == "rewards" else state["decisions"]
    holder[column] = holder[column].copy()
    holder[column][3, 1] = value
    storage.save(tmp_path / "file", "rounds", state)
    with pytest.raises(cb.InputError, match=f"file cannot be used: {sentence}"):
        cb.Rounds.load(tmp_path / "file")


def test_rounds_from_a_file_show_distinct_items_and_know_what_was_rewarded(tmp_path: Path) -> None:
    state = rounds().state()
    state["decisions"]["lists"] = np.ones((40, 3), dtype=np.int32)
    storage.save(tmp_path / "file", "rounds", state)
    with pytest.raises(cb.InputError, match="must not repeat an action"):
        cb.Rounds.load(tmp_path / "file")
    state = rounds().state()
    state["decisions"]["propensities"] = np.full((40, 3), np.nan)
    storage.save(tmp_path / "file", "rounds", state)
    with pytest.raises(cb.InputError, match="known where a reward was seen"):
        cb.Rounds.load(tmp_path / "file")


def _use_rounds(loaded: cb.Rounds) -> None:
    try:
        cb.evaluate(loaded, POLICIES, max_reward=3.0)
    except cb.InputError:
        pass
    except IndexError:
        assert loaded.decisions.contexts.max(initial=0) >= 40  # a context that the policies do not know


def _use_mixture(loaded: cb.Mixture) -> None:
    drawn = loaded.draw(np.arange(5), np.random.default_rng(0))
    assert ((drawn.propensities > 0) & (drawn.propensities <= 1)).all()


def _mixture_says(state: storage.State) -> Any:
    """Policies are found by name, and those without weight need not be there."""
    used = {name: weight for name, weight in zip(state["policies"], state["weights"], strict=True) if weight}
    return used, state["floor"], state["problem"], state["items"] and [str(item) for item in state["items"]]


def _saved(folder: Path) -> dict[str, tuple[Path, str, Callable[[Path], Any], Callable[[Any], object]]]:
    log = rounds()
    sparse = rounds(contexts=sp.csr_array(np.eye(40)))
    things: dict[str, tuple[Any, str, Callable[[Path], Any], Callable[[Any], object]]] = {
        "rounds": (log, "rounds", cb.Rounds.load, _use_rounds),
        "sparse rounds": (sparse, "rounds", cb.Rounds.load, lambda loaded: len(loaded[:2] + loaded[2:])),
        "decisions": (log.decisions, "decisions", cb.Decisions.load, lambda loaded: len(loaded[::2] + loaded[1::2])),
        "events": (log.events(), "events", cb.Events.load, lambda loaded: len(loaded + loaded)),
        "mixture": (
            mixture(items=[f"item {i}" for i in range(9)]),
            "mixture",
            lambda path: cb.Mixture.load(path, POLICIES),
            _use_mixture,
        ),
    }
    saved = {}
    for name, (thing, kind, read, use) in things.items():
        thing.save(folder / name)
        saved[name] = (folder / name, kind, read, use)
    return saved


SAYS = {"mixture": _mixture_says}
KINDS = ["rounds", "sparse rounds", "decisions", "events", "mixture"]


@pytest.mark.parametrize("name", KINDS)
def test_damaged_and_altered_files_are_refused_or_consistent(name: str, tmp_path: Path) -> None:
    outcomes = attack(*_saved(tmp_path)[name], n=60, seed=1, says=SAYS.get(name, text))
    assert outcomes["refused"] > 80
    assert not outcomes["refused without the file's name"]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_thousands_of_damaged_and_altered_files(name: str, tmp_path: Path) -> None:
    outcomes = attack(*_saved(tmp_path)[name], n=1500, seed=2, says=SAYS.get(name, text))
    assert sum(outcomes.values()) > 2500


def test_what_is_packed_is_what_a_file_would_hold(tmp_path: Path) -> None:
    state = {"a": np.arange(5), "b": {"c": "text", "d": [1.5, None]}}
    data = storage.pack("thing", state)
    storage.save(tmp_path / "thing.npz", "thing", state)
    (tmp_path / "packed.npz").write_bytes(data)
    for name in ("thing.npz", "packed.npz"):
        found = storage.load(tmp_path / name, "thing", lambda state: state)
        assert found["b"] == state["b"]
        np.testing.assert_array_equal(found["a"], np.arange(5))
    assert storage.unpack(data, "thing", lambda state: state)["b"] == state["b"]
    with pytest.raises(InputError, match="kept should hold other"):
        storage.unpack(data, "other", lambda state: state)
    with pytest.raises(InputError, match="snapshot 7"):
        storage.unpack(data[:-40], "thing", lambda state: state, source="snapshot 7")
