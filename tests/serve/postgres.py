"""A PostgreSQL of one's own, from the programs on the machine; tests that need one are skipped where there are none."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.ports import reserved_port
from tests.waiting import LIMIT, wait_for


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


def children(parent: int) -> list[int]:
    """The processes that this one has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            number, rest = stat.read_text().split(" ", 1)[0], stat.read_text().rpartition(")")[2].split()
            if int(rest[1]) == parent:
                found.append(int(number))
    return found


class Server:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path, port: int) -> None:
        programs = binaries()
        assert programs is not None
        self.programs, self.folder, self.user, self.port = programs, folder, other_user(), port
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

        def answers() -> bool:
            try:
                psycopg.connect(self.address, connect_timeout=int(LIMIT)).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_for(answers, "PostgreSQL starts")

    def kill(self) -> None:
        """As if the machine had lost its power, but for what the system still writes."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # it makes no more children
        for child in children(self._process.pid):  # each leads a session of its own, and would answer for a while
            os.kill(child, signal.SIGKILL)
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # whether its clients have gone or not
            try:
                self._process.wait(timeout=LIMIT)
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
    with reserved_port() as port:
        try:
            made = Server(folder, port)
            yield made
        finally:
            if made is not None:
                made.stop()
            shutil.rmtree(folder, ignore_errors=True)
