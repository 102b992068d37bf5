"""A scheduler and workers started by command line, as a user would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.documents import ROOT
from tests.waiting import LIMIT, wait_for

_SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "30",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
    "PYTHONWARNINGS": "ignore",
}


def environment() -> dict[str, str]:
    """The processes find comband and the tests, and do not talk."""
    return {**os.environ, **_SETTINGS, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


class Cluster:
    """`dask scheduler` and any number of `dask worker`; all are killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        self._file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(self._file)
        )
        wait_for(self._file.exists, "the scheduler starts")
        from distributed import Client

        self.client: Any = Client(scheduler_file=str(self._file), timeout=f"{LIMIT:g}s")
        self.address = str(self.client.scheduler.address)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command[0]}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command, "--no-dashboard"],
                env=environment(),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def add_workers(self, n: int) -> None:
        """More workers of one thread each, watched by a nanny that starts them again."""
        there = len(self.client.scheduler_info()["workers"])
        for _ in range(n):
            self._start("worker", self.address, "--nthreads", "1", "--memory-limit", "0", "--host", "127.0.0.1")
        self.client.wait_for_workers(there + n, timeout=LIMIT)

    def worker_pids(self) -> list[int]:
        """The processes that work, not their nannies."""
        return list(self.client.run(os.getpid).values())

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close(timeout=2)
        for process in reversed(self.processes):  # each with its children, in a session of its own
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill(pid: int) -> None:
    """As the system kills who takes too much memory."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
