"""Running tasks on several processes, so that it can be stopped at any moment and gone on with later."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import IO, Any

import numpy as np
from threadpoolctl import threadpool_limits

from comband.page.problem import InputError, check_count
from comband.paper.claim import Task
from comband.paper.records import Record, Setting, Values


class ResultsFile:
    """Results of one claim as JSON lines, only ever appended to.

    A line is written at once when a task ends. A process killed while writing leaves at most a torn last line, which
    `repair` cuts off; that task is then run anew, with the same result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Record]:
        """Records by key."""
        records: dict[str, Record] = {}
        for number, line in enumerate(self._whole_lines(), start=1):
            try:
                entry = json.loads(line)
                values = {name: _from_plain(value) for name, value in entry["values"].items()}
                records[entry["key"]] = Record(entry["setting"], entry["seed"], values)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InputError(
                    f"line {number} of {self.path} is not a result; remove that line (its task is then run again), "
                    "or choose another folder."
                ) from None
        return records

    def append(self, task: Task, values: Values, seconds: float) -> None:
        """Write one result, on a line of its own, and see that it is on disk."""
        entry = {"key": task.key, "setting": task.setting, "seed": task.seed, "values": values, "seconds": seconds}
        with open(self.path, "ab") as file:
            file.write(json.dumps(entry, sort_keys=True, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def repair(self) -> None:
        """Cut off a last line that was not written to its end."""
        whole = sum(len(line) + 1 for line in self._whole_lines())
        if self.path.exists() and self.path.stat().st_size > whole:
            os.truncate(self.path, whole)

    def _whole_lines(self) -> list[bytes]:
        if not self.path.exists():
            return []
        return self.path.read_bytes().split(b"\n")[:-1]


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    *,
    workers: int = 2,
    client: Any = None,
    seconds: float | None = None,
    on_done: Callable[[Task, bool], None] = lambda task, fresh: None,
) -> dict[str, list[Record]]:
    """Run what is not in `folder` yet, and return the records of all tasks by claim, in the order of the tasks.

    `on_done(task, fresh)` is called once for each task, with fresh = False if its result was there already. What is
    returned does not depend on `workers`, on the order in which tasks ended, or on how often the run was interrupted.
    With a `dask.distributed.Client` the tasks run on its cluster, and `workers` does not matter. After so many
    `seconds` of processor time no further task begins; claims of which tasks are missing are then left out of what is
    returned.
    """
    check_count("workers", workers)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder / ".lock"):
        files = {task.claim.name: ResultsFile(folder / f"{task.claim.name}.jsonl") for task in tasks}
        for file in files.values():
            file.repair()
        known = {key: record for file in files.values() for key, record in file.read().items()}
        missing = []
        for task in tasks:
            if task.key in known:
                on_done(task, False)
            else:
                missing.append(task)
        for task, values, used in _computed(missing, workers, client, seconds):
            files[task.claim.name].append(task, values, used)
            on_done(task, True)
        known = {key: record for file in files.values() for key, record in file.read().items()}
    left_out = {task.claim.name for task in tasks if task.key not in known}
    records: dict[str, list[Record]] = {name: [] for name in files if name not in left_out}
    for task in tasks:
        if task.claim.name in records:
            records[task.claim.name].append(known[task.key])
    return records


def _computed(
    tasks: Sequence[Task], workers: int, client: Any, limit: float | None
) -> Iterator[tuple[Task, Values, float]]:
    """Tasks with what they measured, as they end; none begins once those that ended took `limit` seconds."""
    if not tasks:
        return
    others = set(multiprocessing.active_children())
    if client is not None:
        pool = client.get_executor(pure=False)
    else:
        # Fresh processes: forking a process in which numba or BLAS has threads may hang.
        pool = ProcessPoolExecutor(
            min(workers, len(tasks)), mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
        )
    futures: dict[Any, Task] = {}
    try:
        waiting, used = list(tasks), 0.0
        while True:
            room = len(waiting) if limit is None else max(0, workers - len(futures)) if used < limit else 0
            for task in waiting[:room]:
                futures[pool.submit(_measure, task.claim.measure, dict(task.setting), task.seed)] = task
            del waiting[:room]
            if not futures:
                break
            done = wait(futures, return_when=FIRST_COMPLETED).done
            # What succeeded is handed on before a failure ends the run: no finished work is lost.
            for future in sorted(done, key=lambda f: f.exception() is not None):
                task = futures.pop(future)
                try:
                    values, seconds = future.result()
                except Exception as error:
                    error.add_note(f"while running {task.claim.name!r} with {dict(task.setting)}, seed {task.seed}")
                    raise
                used += seconds
                yield task, values, seconds
    except KeyboardInterrupt:  # what is running is run again next time: do not wait for its end
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        for future in futures:
            future.cancel()
        pool.shutdown(wait=True)


def _measure(measure: Callable[[Setting, int], Values], setting: Setting, seed: int) -> tuple[Values, float]:
    start = time.process_time()
    with threadpool_limits(1):  # one thread, whatever BLAS would like
        values = measure(setting, seed)
    return {name: as_plain(value) for name, value in values.items()}, round(time.process_time() - start, 3)


def as_plain(value: Any) -> Any:
    """Numpy numbers and arrays as Python's own, fit for JSON, which knows no NaN: null stands for it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return as_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_plain(part) for part in value]
    if isinstance(value, float) and math.isinf(value):
        raise InputError("a measured value must be finite, or NaN where nothing could be measured, got infinity.")
    return None if isinstance(value, float) and math.isnan(value) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(part) for part in value]
    return math.nan if value is None else value


def _start_worker() -> None:
    """No orphan goes on working when the parent is killed, and an interrupt is for the parent to tell of."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()


def _leave_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


@contextmanager
def _only_one(path: Path) -> Iterator[IO[str]]:
    """A lock that the system releases when its holder ends, however it ends (where the system has such locks)."""
    with open(path, "w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ModuleNotFoundError:
            pass
        except OSError:
            raise InputError(
                f"another run is writing to {path.parent}; wait for it, or choose another folder."
            ) from None
        yield file
