"""The journal: facts in the order in which they were made durable.

Every method but the reading ones belongs inside `with journal.database.transaction():`, several at a time if there
are many (see `comband.serve.writer`). The journal's clock (milliseconds since 1970) is that of the machine, held still
while that is set back; each experiment has its own.

What counts: a reward, if it is for an item that was shown, the first one for it, within the attribution window by the
journal's clock, and in before its decision is settled. Once the front has passed a decision, nothing changes for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

import msgspec

from comband.problem import TOLERANCE
from comband.serve.database import Database
from comband.serve.wire import Spec, as_json, spec_of

STRIDE = 1 << 40
State = Literal["running", "paused", "ended"]
_pack = msgspec.msgpack.Encoder().encode
_keys = msgspec.msgpack.Decoder(list[str | int]).decode


class NotRunningError(Exception):
    """A decision was asked for while the experiment does not decide; the state is the argument."""


class TakenError(Exception):
    """There is an experiment of this name already."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment as the journal has it."""

    id: int
    name: str
    spec: Spec
    seed: str
    state: State
    created: int
    changed: int


@dataclass(frozen=True, slots=True)
class NewDecision:
    """A decision that is to be made durable."""

    experiment: int
    request: str
    print: bytes
    epoch: int
    shown: list[str | int]
    propensities: list[float]
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision that is in the journal; `new` says whether it came just now, by the request that asks."""

    number: int
    request: str
    time: int
    epoch: int
    body: bytes
    new: bool = False


@dataclass(frozen=True, slots=True)
class NewRewards:
    """Rewards for one decision: pairs of item and value; what holds for them is said by the experiment's `limits`."""

    experiment: int
    number: int
    rewards: Sequence[tuple[str | int, float]]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Limits:
    """The attribution window in milliseconds, and the most that one list can collect."""

    window: int
    max_reward: float


@dataclass(slots=True)
class Receipt:
    """What became of rewards: how many were new, how many were known, and (item, outcome) of the others."""

    accepted: int = 0
    duplicates: int = 0
    faults: list[tuple[str | int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What happened in one minute."""

    decisions: int = 0
    rewards: int = 0
    late: int = 0
    delay: int = 0


class Journal:
    """Facts in a database; see the module."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def wall(self) -> int:
        """The machine's clock in milliseconds."""
        return time.time_ns() // 1_000_000

    # ---- experiments -------------------------------------------------------------------------------------------------

    def create(self, spec: Spec, seed: str) -> Experiment:
        """A new experiment, running."""
        run, now = self.database.run, self.wall()
        if run("SELECT id FROM experiments WHERE name = ?", [spec.name]):
            raise TakenError(spec.name)
        number = int(run("SELECT COALESCE(MAX(id), 0) + 1 FROM experiments")[0][0])
        run(
            "INSERT INTO experiments (id, name, spec, seed, state, created, changed) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [number, spec.name, as_json(spec), seed, "running", now, now],
        )
        run("INSERT INTO counters (experiment, next, clock) VALUES (?, 0, ?)", [number, now])
        run("INSERT INTO fronts (experiment, front) VALUES (?, 0)", [number])
        run("INSERT INTO leases (experiment, holder, fence, expires) VALUES (?, '', 0, 0)", [number])
        run("INSERT INTO changes (experiment, time, state, number) VALUES (?, ?, 'running', 0)", [number, now])
        return Experiment(number, spec.name, spec, seed, "running", now, now)

    def set_state(self, experiment: int, state: State) -> State | None:
        """Pause, resume or end; the state that it had, or None if it has ended and stays so."""
        run = self.database.run
        next_, clock = run(
            f"SELECT next, clock FROM counters c WHERE experiment = ?{self.database.FOR_UPDATE}", [experiment]
        )[0]
        was = run("SELECT state FROM experiments WHERE id = ?", [experiment])[0][0]
        if was == "ended" and state != "ended":
            return None
        if was != state:
            now = max(clock, self.wall())
            run("UPDATE experiments SET state = ?, changed = ? WHERE id = ?", [state, now, experiment])
            run(
                "INSERT INTO changes (experiment, time, state, number) VALUES (?, ?, ?, ?)",
                [experiment, now, state, next_],
            )
            self.database.notify()
        return was  # type: ignore[no-any-return]

    def experiments(self) -> list[Experiment]:
        """All of them, by age."""
        rows = self.database.read("SELECT id, name, spec, seed, state, created, changed FROM experiments ORDER BY id")
        return [Experiment(row[0], row[1], spec_of(bytes(row[2])), *row[3:]) for row in rows]

    def counts(self, experiment: int) -> tuple[int, int, int]:
        """How many decisions there are, how many are settled, and the journal's clock."""
        row = self.database.read(
            "SELECT c.next, f.front, c.clock FROM counters c JOIN fronts f ON f.experiment = c.experiment "
            "WHERE c.experiment = ?",
            [experiment],
        )[0]
        return int(row[0]), int(row[1]), max(int(row[2]), self.wall())

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, new: Sequence[NewDecision]) -> list[StoredDecision | NotRunningError]:
        """Make decisions durable, numbered in this order; a request that is known gets the decision that it has."""
        found: dict[int, StoredDecision | NotRunningError] = {}
        order = sorted(range(len(new)), key=lambda i: new[i].experiment)
        for experiment, positions in groupby(order, key=lambda i: new[i].experiment):
            self._decide(experiment, {i: new[i] for i in positions}, found)
        return [found[i] for i in range(len(new))]

    def _decide(
        self, experiment: int, new: Mapping[int, NewDecision], found: dict[int, StoredDecision | NotRunningError]
    ) -> None:
        run = self.database.run
        next_, clock, state = run(
            "SELECT c.next, c.clock, e.state FROM counters c JOIN experiments e ON e.id = c.experiment "
            f"WHERE c.experiment = ?{self.database.FOR_UPDATE}",
            [experiment],
        )[0]
        known = {
            row[0]: StoredDecision(row[1] - experiment * STRIDE, row[0], row[2], row[3], bytes(row[4]))
            for row in self.database.among(
                "SELECT request, id, time, epoch, body FROM decisions WHERE experiment = ? AND request IN (*)",
                [one.request for one in new.values()],
                [experiment],
            )
        }
        now = max(clock, self.wall())
        rows: list[tuple[Any, ...]] = []
        mine: dict[str, StoredDecision] = {}
        for i, one in new.items():
            request = one.request
            if request in known:
                found[i] = known[request]
            elif request in mine:
                found[i] = replace(mine[request], new=False)
            elif state != "running":
                found[i] = NotRunningError(state)
            else:
                number = next_ + len(rows)
                found[i] = mine[request] = StoredDecision(number, request, now, one.epoch, one.body, True)
                key = experiment * STRIDE + number
                rows.append((key, experiment, request, now, one.epoch, _pack(one.shown), one.body, len(one.shown)))
        if rows:
            self.database.run_many(
                "INSERT INTO decisions (id, experiment, request, time, epoch, shown, body, items) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            run("UPDATE counters SET next = ?, clock = ? WHERE experiment = ?", [next_ + len(rows), now, experiment])
            self._tally({(experiment, now // 60_000): Tally(decisions=len(rows))})

    def decisions(self, experiment: int, first: int, last: int) -> list[StoredDecision]:
        """Decisions numbered `first` … `last` − 1."""
        base = experiment * STRIDE
        rows = self.database.read(
            "SELECT id, request, time, epoch, body FROM decisions WHERE id >= ? AND id < ? ORDER BY id",
            [base + first, base + last],
        )
        return [StoredDecision(row[0] - base, row[1], row[2], row[3], bytes(row[4])) for row in rows]

    def decisions_at(self, experiment: int, numbers: Sequence[int]) -> list[StoredDecision]:
        """Some decisions, by number."""
        base = experiment * STRIDE
        with self.database.transaction(write=False):
            rows = self.database.among(
                "SELECT id, request, time, epoch, body FROM decisions WHERE id IN (*)", [base + n for n in numbers]
            )
        return [StoredDecision(row[0] - base, row[1], row[2], row[3], bytes(row[4])) for row in rows]

    # ---- rewards -----------------------------------------------------------------------------------------------------

    def reward(self, new: Sequence[NewRewards]) -> list[Receipt]:
        """Make rewards durable; see the module for what counts. They are taken one after the other."""
        among = self.database.among
        experiments = sorted({one.experiment for one in new})
        keys = sorted({one.experiment * STRIDE + one.number for one in new})
        fronts: dict[int, int] = dict(
            among(
                f"SELECT experiment, front FROM fronts c WHERE experiment IN (*){self.database.FOR_SHARE}", experiments
            )
        )
        clocks: dict[int, int] = dict(
            among("SELECT experiment, clock FROM counters WHERE experiment IN (*)", experiments)
        )
        decisions = {
            row[0]: (row[1], _keys(bytes(row[2])))
            for row in among(
                f"SELECT id, time, shown FROM decisions c WHERE id IN (*) ORDER BY id{self.database.FOR_UPDATE}", keys
            )
        }
        known: dict[int, dict[int, tuple[float, int]]] = {}
        for decision, place, value, counted in among(
            "SELECT decision, place, value, counted FROM rewards WHERE decision IN (*)", keys
        ):
            known.setdefault(decision, {})[place] = (value, counted)
        wall = self.wall()
        rows: list[tuple[int, int, float, int, int]] = []
        tallies: dict[tuple[int, int], Tally] = {}
        receipts = []
        for one in new:
            key, receipt = one.experiment * STRIDE + one.number, Receipt()
            receipts.append(receipt)
            if key not in decisions:
                receipt.faults = [(item, "unknown") for item, _ in one.rewards]
                continue
            now = max(clocks[one.experiment], wall)
            late = one.number < fronts[one.experiment] or now > decisions[key][0] + one.limits.window
            tally = tallies.setdefault((one.experiment, now // 60_000), Tally())
            rows += _taken(one, decisions[key], known.setdefault(key, {}), now, late, receipt, tally)
        if rows:
            self.database.run_many(
                "INSERT INTO rewards (decision, place, value, time, counted) VALUES (?, ?, ?, ?, ?)", rows
            )
            self._tally(tallies)
        return receipts

    def rewards(self, experiment: int, first: int, last: int) -> list[tuple[int, int, float]]:
        """Number of the decision, place and value of the rewards that count, for decisions `first` … `last` − 1."""
        base = experiment * STRIDE
        rows = self.database.read(
            "SELECT decision, place, value FROM rewards WHERE decision >= ? AND decision < ? AND counted = 1 "
            "ORDER BY decision, place",
            [base + first, base + last],
        )
        return [(row[0] - base, row[1], row[2]) for row in rows]

    def _tally(self, tallies: Mapping[tuple[int, int], Tally]) -> None:
        self.database.run_many(
            "INSERT INTO minutes (experiment, minute, decisions, rewards, late, delay) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (experiment, minute) DO UPDATE SET decisions = minutes.decisions + excluded.decisions, "
            "rewards = minutes.rewards + excluded.rewards, late = minutes.late + excluded.late, "
            "delay = minutes.delay + excluded.delay",
            [(*key, one.decisions, one.rewards, one.late, one.delay) for key, one in sorted(tallies.items())],
        )


def _taken(
    one: NewRewards,
    decision: tuple[int, list[str | int]],
    known: dict[int, tuple[float, int]],
    now: int,
    late: bool,
    receipt: Receipt,
    tally: Tally,
) -> list[tuple[int, int, float, int, int]]:
    """The rows for rewards of one decision (its time, and what it showed), beside those that are `known` by place."""
    (made, shown), rows = decision, []
    for item, value in one.rewards:
        if item not in shown:
            receipt.faults.append((item, "not shown"))
            continue
        place = shown.index(item)
        if place in known:
            if known[place][0] == value:
                receipt.duplicates += 1
            else:
                receipt.faults.append((item, "contradiction"))
            continue
        total = value + sum(earned for earned, counted in known.values() if counted)
        if not late and total > one.limits.max_reward * (1 + TOLERANCE):
            receipt.faults.append((item, "too much"))
            continue
        known[place] = (value, int(not late))
        rows.append((one.experiment * STRIDE + one.number, place, value, now, int(not late)))
        if late:
            receipt.faults.append((item, "late"))
            tally.late += 1
        else:
            receipt.accepted += 1
            if value:
                tally.rewards += 1
                tally.delay += now - made
    return rows


def detail(outcome: str) -> str:
    """In a sentence, why a reward does not count and what to do."""
    return _DETAILS[outcome]


_DETAILS: dict[str, str] = {
    "unknown": "there is no such decision in this experiment; send the number that came with the list",
    "not shown": "the item was not in the list of this decision; rewards are only for what was shown",
    "contradiction": "another reward for this item is in the journal already, and the first one counts",
    "late": "it came after the attribution window; it is kept, but does not count",
    "too much": "the rewards of this decision would exceed what one list can collect; state a larger sparsity when "
    "you create an experiment",
}
