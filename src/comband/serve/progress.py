"""What the learner writes: how far decisions are settled, plans, snapshots, and what people are told.

Whatever it writes carries the number of its lease, and is refused when another process learns by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from comband.serve import chain
from comband.serve.journal import BETWEEN, LIVE, PLACES, STRIDE, Journal
from comband.serve.thinning import thin_points


class FencedError(Exception):
    """Another process learns by now: what this process has computed since does not count."""


class Progress:
    """The learner's part of a journal; methods that write belong inside a transaction."""

    def __init__(self, journal: Journal) -> None:
        self.database, self._journal = journal.database, journal

    def wall(self) -> int:
        """The journal's clock."""
        return self._journal.wall()

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

    def answers(self, experiment: int, first: int, last: int) -> dict[tuple[int, int], int]:
        """How many items of each decision are answered, by decision and part of the answer."""
        base = experiment * STRIDE
        rows = self.database.read(
            f"SELECT decision, place / {PLACES}, COUNT(*) FROM rewards WHERE decision >= ? AND decision < ? "
            f"AND counted = 1 GROUP BY decision, place / {PLACES}",
            [base + first, base + last],
        )
        return {(row[0] - base, int(row[1])): int(row[2]) for row in rows}

    def advance(self, experiment: int, front: int, clock: int, fence: int, list_size: int) -> bool:
        """Settle all decisions below `front`, which had waited long enough by `clock`; False, and nothing is settled,
        if the journal's clock was set back since then (`repair_clock`).
        """
        self._check_fence(experiment, fence)
        run = self.database.run
        rows = run(f"SELECT clock FROM counters c WHERE experiment = ?{self.database.FOR_UPDATE}", [experiment])
        if clock > max(rows[0][0], self.wall()):
            return False
        run("UPDATE counters SET clock = ? WHERE experiment = ? AND clock < ?", [clock, experiment, clock])
        # The counters before the front, as where decisions and rewards are written together.
        [(before,)] = run(f"SELECT front FROM fronts c WHERE experiment = ?{self.database.FOR_UPDATE}", [experiment])
        if before < front:
            run("UPDATE fronts SET front = ? WHERE experiment = ?", [front, experiment])
            rewards = self._journal.rewards_here(experiment, before, front)  # no reward comes in between
            chain.settle(self.database, experiment, rewards, before, front, list_size)
        return True

    def publish(
        self, experiment: int, epoch: int, made_after: int, plan: bytes, fence: int, news: Iterable[chain.Record]
    ) -> bytes:
        """Make a plan known, once, and what the chain is to hold of it and before it: the plan of this epoch, which is
        the one that was published first.
        """
        self._check_fence(experiment, fence)
        rows = self.database.run("SELECT plan FROM plans WHERE experiment = ? AND epoch = ?", [experiment, epoch])
        if rows:
            return bytes(rows[0][0])
        self.database.run(
            "INSERT INTO plans (experiment, epoch, made_after, time, plan) VALUES (?, ?, ?, ?, ?)",
            [experiment, epoch, made_after, self.wall(), plan],
        )
        chain.tell(self.database, experiment, news)
        self.database.notify()
        return plan

    def tell(self, experiment: int, news: Iterable[chain.Record], fence: int) -> None:
        """What the chain is to hold, but for what stands there already."""
        self._check_fence(experiment, fence)
        chain.tell(self.database, experiment, news)

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

    def view(self, experiment: int, position: int, view: bytes, point: bytes | None, fence: int, *, thin: bool) -> None:
        """What people are told after `position` decisions; the point, if there is one, is kept until it is thinned out
        (`comband.serve.thinning`), which is done now and then.
        """
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
            if thin:
                thin_points(self.database, experiment)

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

    def plan(self, experiment: int, epoch: int) -> bytes:
        """The plan of an epoch, which must have been published. Inside a transaction."""
        rows = self.database.run("SELECT plan FROM plans WHERE experiment = ? AND epoch = ?", [experiment, epoch])
        return bytes(rows[0][0])

    def latest_epochs(self) -> dict[int, int]:
        """The newest epoch of each experiment that has not ended."""
        return dict(
            self.database.read(
                "SELECT p.experiment, MAX(p.epoch) FROM experiments e JOIN plans p ON p.experiment = e.id "
                f"WHERE e.{LIVE} GROUP BY p.experiment"
            )
        )

    def finished(self, experiment: int | None = None) -> set[int]:
        """Those (or this one, if it is) that have ended and in which nothing is left to settle, to learn or to tell."""
        rows = self.database.read(
            "SELECT e.id FROM experiments e JOIN counters c ON c.experiment = e.id "
            "JOIN fronts f ON f.experiment = e.id JOIN views v ON v.experiment = e.id "
            "WHERE e.state = 'ended' AND f.front >= c.next AND v.position >= c.next AND (c.head = '' OR EXISTS "
            "(SELECT 1 FROM chain h WHERE h.experiment = e.id AND h.kind = 'end' "
            "AND h.kind NOT IN ('decisions', 'rounds')))"
            f"{'' if experiment is None else ' AND e.id = ?'}",
            [] if experiment is None else [experiment],
        )
        return {row[0] for row in rows}

    def latest_snapshots(self, experiment: int) -> Iterator[tuple[int, bytes]]:
        """Positions and states of the snapshots, the newest first."""
        rows = self.database.read(
            "SELECT position, state FROM snapshots WHERE experiment = ? ORDER BY position DESC", [experiment]
        )
        return ((row[0], bytes(row[1])) for row in rows)

    def latest_view(self, experiment: int) -> bytes | None:
        """What people are told."""
        return self.latest_views([experiment]).get(experiment)

    def latest_views(self, experiments: Sequence[int]) -> dict[int, bytes]:
        """The same for several, by id."""
        rows = self.database.read_among("SELECT experiment, view FROM views WHERE experiment IN (*)", experiments)
        return {row[0]: bytes(row[1]) for row in rows}

    def positions(self, experiments: Sequence[int]) -> dict[int, int]:
        """After how many decisions what is told about each was made."""
        return dict(
            self.database.read_among("SELECT experiment, position FROM views WHERE experiment IN (*)", experiments)
        )

    def holders(self, experiments: Sequence[int]) -> dict[int, str]:
        """The holders of leases that have not run out."""
        rows = self.database.read_among(
            "SELECT experiment, holder, expires FROM leases WHERE experiment IN (*)", experiments
        )
        now = self.database.clock()
        return {number: holder for number, holder, expires in rows if expires > now}

    def points(self, experiment: int, since: int = 0) -> list[tuple[int, int, bytes]]:
        """Position, time and point, in order, from this position on."""
        rows = self.database.read(
            "SELECT position, time, point FROM points WHERE experiment = ? AND position >= ? ORDER BY position",
            [experiment, since],
        )
        return [(row[0], row[1], bytes(row[2])) for row in rows]

    def time_of(self, experiment: int, position: int) -> int:
        """When the last point up to this position was made; 0 if there is none."""
        rows = self.database.read(
            "SELECT time FROM points WHERE experiment = ? AND position <= ? ORDER BY position DESC LIMIT 1",
            [experiment, position],
        )
        return int(rows[0][0]) if rows else 0

    def minutes(self, experiment: int, last: int, since: int = 0) -> list[tuple[int, int, int, int, int]]:
        """Minute, decisions, rewards, late ones and the sum of delays, for the last so many minutes since some time."""
        rows = self.database.read(
            "SELECT minute, decisions, rewards, late, delay FROM minutes WHERE experiment = ? AND minute >= ? "
            "ORDER BY minute DESC LIMIT ?",
            [experiment, since // 60_000, last],
        )
        return [tuple(map(int, row)) for row in reversed(rows)]  # type: ignore[misc]

    def _check_fence(self, experiment: int, fence: int) -> None:
        rows = self.database.run(
            f"SELECT fence FROM leases c WHERE experiment = ?{self.database.FOR_SHARE}", [experiment]
        )
        if not rows or rows[0][0] != fence:
            raise FencedError(f"fence {rows[0][0] if rows else 'of a deleted experiment'} in place of {fence}")
