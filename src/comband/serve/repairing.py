"""What an operator can put right in a journal.

The journal's clock never goes back. Where it was set forward for a while (that of a machine with SQLite, or of the
store's server) it stands still until the time that it showed is reached: decisions that were made meanwhile carry that
time, wait for their rewards until long after it, and all later ones with them. `repair_clock` lets it go on from now.
"""

from __future__ import annotations

from dataclasses import dataclass

from comband.serve.audit import COMMAND, record
from comband.serve.journal import STRIDE, Journal


@dataclass(frozen=True, slots=True)
class Repaired:
    """An experiment whose clock was ahead: by how many seconds, and how many decisions had such a time."""

    experiment: str
    seconds: float
    decisions: int


def repair_clock(journal: Journal) -> list[Repaired]:
    """Let clocks that are ahead go on from now, and decisions with such times wait from now on: their whole window, so
    that no reward that could still count is lost. What was settled too early stays so. Inside a transaction; processes
    may serve meanwhile, if their clock is right.
    """
    run, now, done = journal.database.run, journal.wall(), []
    rows = run(
        "SELECT c.experiment, e.name, c.clock FROM counters c JOIN experiments e ON e.id = c.experiment "
        f"WHERE c.clock > ? ORDER BY c.experiment{journal.database.FOR_UPDATE}",
        [now],
    )
    for experiment, name, clock in rows:
        base = experiment * STRIDE
        mine = "first >= ? AND first < ? AND time > ?"
        ahead = run(f"SELECT items FROM runs WHERE {mine}", [base, base + STRIDE, now])
        run(f"UPDATE runs SET time = ? WHERE {mine}", [now, base, base + STRIDE, now])
        run("UPDATE counters SET clock = ? WHERE experiment = ?", [now, experiment])
        _gather_minutes(journal, experiment, now // 60_000)
        done.append(Repaired(name, (clock - now) / 1000, sum(len(bytes(row[0])) for row in ahead)))
    return done


def pause_all(journal: Journal) -> list[str]:
    """Pause the experiments of all environments that run, after a store was restored; their names. Numbers of decisions
    that were made after the back-up are given out again, so none may be while rewards for those can still come. Inside
    a transaction.
    """
    rows = journal.database.run("SELECT id, environment, name FROM experiments WHERE state = 'running' ORDER BY id")
    for number, environment, name in rows:
        mine = Journal(journal.database, environment)
        mine.set_state(number, "paused")
        record(mine, COMMAND, "paused", experiment=number, name=name, detail={"before": "running", "why": "restored"})
    return [row[2] for row in rows]


def _gather_minutes(journal: Journal, experiment: int, minute: int) -> None:
    """What is tallied for minutes to come belongs to this one."""
    run = journal.database.run
    names = ("decisions", "rewards", "late", "delay")
    sums = ", ".join(f"COALESCE(SUM({name}), 0)" for name in names)
    [found] = run(f"SELECT {sums} FROM minutes WHERE experiment = ? AND minute >= ?", [experiment, minute])
    run("DELETE FROM minutes WHERE experiment = ? AND minute >= ?", [experiment, minute])
    run(
        "INSERT INTO minutes (experiment, minute, decisions, rewards, late, delay) VALUES (?, ?, ?, ?, ?, ?)",
        [experiment, minute, *map(int, found)],
    )
