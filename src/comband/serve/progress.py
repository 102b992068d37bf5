"""What the learner writes: how far decisions are settled, plans, snapshots, and what people are told.

Whatever it writes carries the number of its lease, and is refused when somebody else learns by now.
"""

from __future__ import annotations

from collections.abc import Iterator

from comband.serve.journal import BETWEEN, STRIDE, Journal


class FencedError(Exception):
    """Somebody else learns by now: what this process has computed since does not count."""


class Progress:
    """The learner's part of a journal; methods that write belong inside a transaction."""

    def __init__(self, journal: Journal) -> None:
        self.database, self.wall = journal.database, journal.wall

    def times(self, experiment: int, first: int, last: int) -> list[tuple[int, int, int]]:
        """Number and time of decisions, and how many items they show."""
        base = experiment * STRIDE
        rows = self.database.read(f"SELECT first, time, items FROM runs {BETWEEN}", [base + first, base + last])
        return [
            (number, time, shown)
            for start, time, items in rows
            for number, shown in enumerate(bytes(items), start - base)
            if first <= number < last
        ]

    def answers(self, experiment: int, first: int, last: int) -> dict[int, int]:
        """How many items of each decision are answered."""
        base = experiment * STRIDE
        rows = self.database.read(
            "SELECT decision, COUNT(*) FROM rewards WHERE decision >= ? AND decision < ? AND counted = 1 "
            "GROUP BY decision",
            [base + first, base + last],
        )
        return {row[0] - base: int(row[1]) for row in rows}

    def advance(self, experiment: int, front: int, clock: int, fence: int) -> None:
        """Settle all decisions below `front`, which had waited long enough by `clock`."""
        self._check_fence(experiment, fence)
        run = self.database.run
        run("UPDATE counters SET clock = ? WHERE experiment = ? AND clock < ?", [clock, experiment, clock])
        run("UPDATE fronts SET front = ? WHERE experiment = ? AND front < ?", [front, experiment, front])

    def publish(self, experiment: int, epoch: int, made_after: int, plan: bytes, fence: int) -> bytes:
        """Make a plan known, once: the plan of this epoch, which is the one that was published first."""
        self._check_fence(experiment, fence)
        rows = self.database.run("SELECT plan FROM plans WHERE experiment = ? AND epoch = ?", [experiment, epoch])
        if rows:
            return bytes(rows[0][0])
        self.database.run(
            "INSERT INTO plans (experiment, epoch, made_after, time, plan) VALUES (?, ?, ?, ?, ?)",
            [experiment, epoch, made_after, self.wall(), plan],
        )
        self.database.notify()
        return plan

    def snapshot(self, experiment: int, position: int, state: bytes, fence: int) -> None:
        """Keep the learner's state after `position` decisions, and the one before."""
        self._check_fence(experiment, fence)
        run = self.database.run
        run("DELETE FROM snapshots WHERE experiment = ? AND position = ?", [experiment, position])
        run(
            "INSERT INTO snapshots (experiment, position, time, state) VALUES (?, ?, ?, ?)",
            [experiment, position, self.wall(), state],
        )
        kept = run("SELECT position FROM snapshots WHERE experiment = ? ORDER BY position DESC", [experiment])[:2]
        run("DELETE FROM snapshots WHERE experiment = ? AND position < ?", [experiment, kept[-1][0]])

    def view(self, experiment: int, position: int, view: bytes, point: bytes | None, fence: int) -> None:
        """What people are told after `position` decisions; the point, if there is one, is kept for good."""
        self._check_fence(experiment, fence)
        run = self.database.run
        run("DELETE FROM views WHERE experiment = ?", [experiment])
        run("INSERT INTO views (experiment, position, view) VALUES (?, ?, ?)", [experiment, position, view])
        if point is not None:
            run("DELETE FROM points WHERE experiment = ? AND position = ?", [experiment, position])
            run(
                "INSERT INTO points (experiment, position, time, point) VALUES (?, ?, ?, ?)",
                [experiment, position, self.wall(), point],
            )

    def fail(self, experiment: int, holder: str, reason: str) -> None:
        """Learning stopped: every process is to say so. Needs no lease, which may be what is lost."""
        self.recover(experiment)
        self.database.run(
            "INSERT INTO failures (experiment, time, holder, reason) VALUES (?, ?, ?, ?)",
            [experiment, self.wall(), holder, reason[:2000]],
        )
        self.database.notify()

    def recover(self, experiment: int) -> None:
        """Learning goes on."""
        self.database.run("DELETE FROM failures WHERE experiment = ?", [experiment])
        self.database.notify()

    def failures(self) -> dict[int, str]:
        """Why learning stopped, for the experiments for which it has."""
        return dict(self.database.read("SELECT experiment, reason FROM failures"))

    def latest_plan(self, experiment: int) -> tuple[int, bytes] | None:
        """The newest plan and its epoch."""
        rows = self.database.read(
            "SELECT epoch, plan FROM plans WHERE experiment = ? ORDER BY epoch DESC LIMIT 1", [experiment]
        )
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def latest_epochs(self) -> dict[int, int]:
        """The newest epoch of each experiment."""
        return dict(self.database.read("SELECT experiment, MAX(epoch) FROM plans GROUP BY experiment"))

    def latest_snapshots(self, experiment: int) -> Iterator[tuple[int, bytes]]:
        """Positions and states of the snapshots, the newest first."""
        rows = self.database.read(
            "SELECT position, state FROM snapshots WHERE experiment = ? ORDER BY position DESC", [experiment]
        )
        return ((row[0], bytes(row[1])) for row in rows)

    def latest_view(self, experiment: int) -> bytes | None:
        """What people are told."""
        rows = self.database.read("SELECT view FROM views WHERE experiment = ?", [experiment])
        return bytes(rows[0][0]) if rows else None

    def points(self, experiment: int) -> list[tuple[int, int, bytes]]:
        """Position, time and point, in order."""
        rows = self.database.read(
            "SELECT position, time, point FROM points WHERE experiment = ? ORDER BY position", [experiment]
        )
        return [(row[0], row[1], bytes(row[2])) for row in rows]

    def minutes(self, experiment: int, last: int) -> list[tuple[int, int, int, int, int]]:
        """Minute, decisions, rewards, late ones and the sum of delays, for the last so many minutes."""
        rows = self.database.read(
            "SELECT minute, decisions, rewards, late, delay FROM minutes WHERE experiment = ? "
            "ORDER BY minute DESC LIMIT ?",
            [experiment, last],
        )
        return [tuple(map(int, row)) for row in reversed(rows)]  # type: ignore[misc]

    def _check_fence(self, experiment: int, fence: int) -> None:
        rows = self.database.run(
            f"SELECT fence FROM leases c WHERE experiment = ?{self.database.FOR_SHARE}", [experiment]
        )
        if rows[0][0] != fence:
            raise FencedError(f"fence {rows[0][0]} in place of {fence}")
