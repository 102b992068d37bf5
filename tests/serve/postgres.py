"""A PostgreSQL of one's own, from the programs on the machine; tests that need one are skipped where there are none."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def binaries() -> Path | None:
    """The folder with initdb and postgres."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def other_user() -> int | None:
    """PostgreSQL does not run as root: somebody else, if we are."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None


class Server:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        programs = binaries()
        assert programs is not None
        self.programs, self.folder, self.user = programs, folder, other_user()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if self.user is not None:
            os.chown(folder, self.user, -1)
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(folder / "data"), "-U", "comband", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://comband@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = ["-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"]
        self._process = subprocess.Popen(
            [str(self.programs / "postgres"), *options],
            user=self.user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
        )
        psycopg = pytest.importorskip("psycopg")
        for _ in range(600):
            try:
                psycopg.connect(self.address, connect_timeout=1).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("PostgreSQL does not start")

    def kill(self) -> None:
        """As if the machine had lost its power, but for what the system still writes."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)  # with all its children, which would answer for a while
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self.programs / program), *arguments],
            check=True,
            user=self.user,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
        )


@contextmanager
def server() -> Iterator[Server]:
    """A server in a new folder."""
    if binaries() is None:
        pytest.skip("there is no PostgreSQL on this machine")
    pytest.importorskip("psycopg")
    if os.getuid() == 0 and other_user() is None:
        pytest.skip("PostgreSQL does not run as root, and there is no other user")
    folder = Path(tempfile.mkdtemp(prefix="comband-postgres-"))
    made = None
    try:
        made = Server(folder)
        yield made
    finally:
        if made is not None:
            made.stop()
        shutil.rmtree(folder, ignore_errors=True)
