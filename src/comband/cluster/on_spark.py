"""Parts on the executors of Spark, kept as files in a folder that all of them see."""

from __future__ import annotations

import functools
import operator
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from comband.cluster.spark import session_of
from comband.cluster.work import Progress, Tally
from comband.page.problem import InputError
from comband.page.threads import on_this_thread

_GROUPS = 4  # lists of parts for each task that can run at once
_FOLDER = "spark.comband.folder"


@dataclass(frozen=True, slots=True)
class Stored:
    """A handle: the file of a part, or of a value that many parts need."""

    path: str

    def load(self) -> Any:
        """What the file holds."""
        with open(self.path, "rb") as file:
            return pickle.load(file)


class OnSpark:
    """Parts are made by tasks and stay as files; a task whose executor is lost is run again by Spark.

    Tasks are pure, and a file is complete before it has its name. So it does not matter which executor runs a task, in
    which order, or how often.

    Parameters
    ----------
    session:
        A `SparkSession`; its executors must have comband, and see `folder`.
    folder:
        Where parts are kept meanwhile.
    progress:
        As for `InProcess`.
    """

    def __init__(self, session: Any, folder: str | os.PathLike[str], progress: Progress | None = None) -> None:
        self.session, self._folder, self._progress = session, str(folder), progress
        self.tallies: dict[str, Tally] = {}

    def each(self, what: str, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Stored]:
        """See `Work`."""
        return self._answers(what, _Make(function, shared, self._folder), items)

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> Any:
        """See `Work`."""
        context = self.session.sparkContext
        n = min(len(handles), max(_GROUPS * context.defaultParallelism, 1))
        groups = [list(handles[i::n]) for i in range(n)]
        return functools.reduce(operator.add, self._answers(what, _Sum(function, shared), groups))

    def gather(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> list[Any]:
        """See `Work`."""
        return self._answers(what, _Ask(function, shared), list(handles))

    def ask(
        self, what: str, function: Callable[..., Any], handles: Sequence[Any], questions: Sequence[Any]
    ) -> list[Any]:
        """See `Work`."""
        return self._answers(what, _AskEach(function), list(zip(handles, questions, strict=True)))

    def share(self, value: Any) -> Stored:
        """See `Work`: it is written once, and read where it is needed."""
        return _stored(value, self._folder)

    def _answers(self, what: str, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        answers = self._run(what, task, items)
        failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failed is not None:
            raise failed
        return answers

    def _run(self, what: str, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """What a task says of each item, in their order; what it raised, where it did."""
        if not items:
            return []
        self._tell(what, 0, len(items))
        numbered = [_dumps((i, item)) for i, item in enumerate(items)]
        packed = _dumps(task)
        with _readable():
            found = self.session.sparkContext.parallelize(numbered, len(numbered)).map(_Packed(packed)).collect()
        self._tell(what, len(items), len(items))
        return [answer for _, answer in sorted(map(pickle.loads, found), key=operator.itemgetter(0))]

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


class _Packed:
    """A task as bytes, which the executors open with their own comband."""

    def __init__(self, task: bytes) -> None:
        self._task = task

    def __call__(self, data: bytes) -> bytes:
        number, item = pickle.loads(data)
        try:
            with on_this_thread():
                answer = pickle.loads(self._task)(item)
        except (InputError, ValueError, TypeError, ArithmeticError) as error:
            answer = error  # another try would raise it too; what an executor dies of is Spark's to try again
        return pickle.dumps((number, answer))


def _resolved(item: Any) -> Any:
    """A part for its handle, and parts for a list of handles."""
    if isinstance(item, (list, tuple)):
        return type(item)(_resolved(one) for one in item)
    return item.load() if isinstance(item, Stored) else item


def _open(values: Sequence[Any]) -> list[Any]:
    return [_loaded(value) if isinstance(value, Stored) else value for value in values]


@functools.lru_cache(maxsize=4)
def _shared(path: str) -> Any:
    return Stored(path).load()


def _loaded(value: Stored) -> Any:
    """What many tasks of one process need is read once."""
    return _shared(value.path)


@dataclass(frozen=True, slots=True)
class _Make:
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    folder: str

    def __call__(self, item: Any) -> Stored:
        return _stored(self.function(_resolved(item), *_open(self.shared)), self.folder)


@dataclass(frozen=True, slots=True)
class _Sum:
    function: Callable[..., Any]
    shared: tuple[Any, ...]

    def __call__(self, handles: list[Stored]) -> Any:
        shared = _open(self.shared)
        return functools.reduce(operator.add, (self.function([handle.load()], *shared) for handle in handles))


@dataclass(frozen=True, slots=True)
class _Ask:
    function: Callable[..., Any]
    shared: tuple[Any, ...]

    def __call__(self, handle: Stored) -> Any:
        return self.function(handle.load(), *_open(self.shared))


@dataclass(frozen=True, slots=True)
class _AskEach:
    function: Callable[..., Any]

    def __call__(self, pair: tuple[Stored, Any]) -> Any:
        handle, question = pair
        return self.function(handle.load(), question)


def _dumps(value: Any) -> bytes:
    """Bytes of a value, which may hold functions of any kind."""
    from pyspark import cloudpickle

    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def _stored(value: Any, folder: str) -> Stored:
    """A value in a new file, which has its name once it is whole."""
    path = Path(folder) / uuid4().hex
    part = path.with_suffix(".unfinished")
    with part.open("wb") as file:
        file.write(_dumps(value))
    part.rename(path)
    return Stored(str(path))


@contextmanager
def spark_work(where: str, progress: Progress | None = None) -> Iterator[OnSpark]:
    """Work on Spark: spark://host:7077, spark:local[2]; parts are in the folder that `spark.comband.folder` names.

    Without that setting they are in a temporary folder of this machine, which its executors must see.
    """
    with session_of(where) as session:
        base = session.conf.get(_FOLDER, None)
        folder = tempfile.mkdtemp(prefix="comband-parts-", dir=base)
        try:
            yield OnSpark(session, folder, progress)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _readable() -> Iterator[None]:
    """What Spark raises, as a sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of py4j, with the trace of the JVM in it
        lines = [line for line in str(error).splitlines() if "Exception" in line or "Error" in line]
        why = (lines or [type(error).__name__])[-1].strip()
        raise InputError(f"Spark gave up a task ({why}); look at its logs. Nothing was written.") from error
