"""The journal: facts in the order in which they were made durable.

Every method but the reading ones belongs inside `with journal.database.transaction():`, several at a time if there
are many (see `comband.serve.writer`). The journal's clock (milliseconds since 1970) is that of the store's server (with
SQLite: of the machine), held still while that is set back; each experiment has its own. One that was set forward and is
right again is put right by `comband.serve.repairing`.

What counts: a reward, if it is for an item that was shown, the first one for it, within the attribution window by the
journal's clock, and in before its decision is settled. Once the front has passed a decision, nothing changes for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from comband.page.problem import TOLERANCE, saved_order, usual_order
from comband.serve.chain import INSERT_LINE, LEAF, Links, decisions_record
from comband.serve.database import Database, Row, StoreError, outdated
from comband.serve.schema import VERSIONS
from comband.serve.wire import Spec, as_json, spec_of

STRIDE = 1 << 40
PLACES = 128  # a place of a metric is numbered on from those of the part of answers before it
RUN = 64  # decisions in one row, at most
INSERT_RUN = "INSERT INTO runs (first, time, epoch, items, shown, requests, bodies) VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_REQUEST = "INSERT INTO requests (digest, decision) VALUES (?, ?)"
# Runs that hold decisions from one key on and below another; and those that hold some keys, if any does.
BETWEEN = "WHERE first >= COALESCE((SELECT MAX(first) FROM runs WHERE first <= ?), 0) AND first < ? ORDER BY first"
_AROUND = "WHERE first IN (SELECT (SELECT MAX(first) FROM runs WHERE first <= column1) FROM (VALUES *) AS keys)"
_FACTS = "first, time, epoch, requests, bodies"
State = Literal["running", "paused", "ended", "deleted"]
LIVE = "state IN ('running', 'paused')"
ENVIRONMENT = "default"
_pack = msgspec.msgpack.Encoder().encode
_lists = msgspec.json.Decoder(list[list[str | int]]).decode
_texts = msgspec.msgpack.Decoder(list[str]).decode
_bodies = msgspec.msgpack.Decoder(list[bytes]).decode


class NotRunningError(Exception):
    """A decision was asked for while the experiment does not decide; the state is the argument."""


class GoneError(Exception):
    """The experiment was deleted."""


class TakenError(Exception):
    """There is an experiment of this name already."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment as the journal has it; `archived` says since when it is out of the way, if it is."""

    id: int
    name: str
    spec: Spec
    seed: str
    state: State
    created: int
    changed: int
    archived: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class NewDecisions:
    """Decisions of one experiment and epoch that are to be made durable, in their order.

    requests, index:
        Ids of the requests, and the numbers by which the journal looks for them.
    items:
        A byte for each: how many items it shows.
    shown, begins:
        What each shows: shown[begins[i] : begins[i + 1]] is a list as JSON, and a comma.
    propensities:
        (n, m), of which the first ones are for the items.
    bodies:
        What else is kept; see `comband.serve.requests`.
    placements:
        (n, m, m) of each shown item, the probability of each place; None where lists are in random order.
    leaves, uncovered:
        What the chain holds of each, and the positions of those without floors; empty where there is no chain.
    """

    experiment: int
    epoch: int
    requests: Sequence[str]
    index: Sequence[int]
    items: bytes
    shown: bytes
    begins: Sequence[int]
    propensities: NDArray[np.float64]
    bodies: Sequence[bytes]
    placements: NDArray[np.float64] | None = None
    leaves: bytes = b""
    uncovered: Sequence[int] = ()

    def some(self, chosen: Sequence[int]) -> NewDecisions:
        """Some of them."""
        texts = [self.shown[self.begins[i] : self.begins[i + 1]] for i in chosen]
        return NewDecisions(
            self.experiment,
            self.epoch,
            [self.requests[i] for i in chosen],
            [self.index[i] for i in chosen],
            bytes(self.items[i] for i in chosen),
            b"".join(texts),
            [0, *accumulate(map(len, texts))],
            self.propensities[list(chosen)],
            [self.bodies[i] for i in chosen],
            None if self.placements is None else self.placements[list(chosen)],
            b"".join(self.leaves[LEAF * i : LEAF * (i + 1)] for i in chosen),
            [at for at, i in enumerate(chosen) if i in self.uncovered],
        )

    def runs(self, key: int, now: int) -> Iterator[tuple[Any, ...]]:
        """Rows for `INSERT_RUN`, the first decision with this key."""
        n = len(self.requests)
        for i in range(0, n, RUN):
            j = min(i + RUN, n)
            shown = b"[" + self.shown[self.begins[i] : self.begins[j] - 1] + b"]"
            facts = (_pack(self.requests[i:j]), _pack(self.bodies[i:j]))
            yield key + i, now, self.epoch, self.items[i:j], shown, *facts


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision that is in the journal."""

    number: int
    request: str
    time: int
    epoch: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of new decisions: the number of each, or −1 and, by position, the decision that its request has
    already, or why there is none.
    """

    numbers: Sequence[int]
    others: Mapping[int, StoredDecision | NotRunningError]


@dataclass(frozen=True, slots=True)
class NewRewards:
    """Rewards for one decision, or values of a further metric (`part` from 1 on): pairs of item and value; what holds
    for them is said by the experiment's `limits`.
    """

    experiment: int
    number: int
    rewards: Sequence[tuple[str | int, float]]
    limits: Limits
    part: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of rewards, or of a further metric: the attribution window in milliseconds, the most that one list can collect,
    and how many later decisions a decision waits for them.
    """

    window: int
    max_reward: float
    patience: int | None = None


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
    """Facts in a database; see the module.

    Parameters
    ----------
    database:
        Where they are.
    environment:
        Whose experiments: those of others in the same store are not seen.
    """

    def __init__(self, database: Database, environment: str = ENVIRONMENT) -> None:
        self.database, self.environment = database, environment

    def wall(self) -> int:
        """The clock in milliseconds: that of the store's server, or of the machine where there is none."""
        return self.database.clock()

    # ---- experiments -------------------------------------------------------------------------------------------------

    def create(self, spec: Spec, seed: str) -> Experiment:
        """A new experiment, running."""
        run, now = self.database.run, self.wall()
        self.database.lock_schema()  # of two that are made at once, each gets a number of its own
        if self._id(spec.name) is not None:
            raise TakenError(spec.name)
        spec = structs.replace(spec, order=spec.order or usual_order(spec.places))  # what is meant is kept
        number = int(run("SELECT COALESCE(MAX(id), 0) + 1 FROM experiments")[0][0])
        run(
            "INSERT INTO experiments (id, environment, name, spec, seed, state, created, changed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [number, self.environment, spec.name, as_json(spec), seed, "running", now, now],
        )
        run("INSERT INTO counters (experiment, next, clock) VALUES (?, 0, ?)", [number, now])
        run("INSERT INTO fronts (experiment, front) VALUES (?, 0)", [number])
        run("INSERT INTO leases (experiment, holder, fence, expires) VALUES (?, '', 0, 0)", [number])
        run("INSERT INTO retained (experiment, upto, removed) VALUES (?, 0, 0)", [number])
        return Experiment(number, spec.name, spec, seed, "running", now, now)

    def _id(self, name: str) -> int | None:
        rows = self.database.run(
            "SELECT id FROM experiments WHERE environment = ? AND name = ? AND state <> 'deleted'",
            [self.environment, name],
        )
        return int(rows[0][0]) if rows else None

    def set_state(self, experiment: int, state: State) -> State | None:
        """Pause, resume or end, or delete what has ended; the state that it had, or None if that cannot be."""
        run = self.database.run
        rows = run(f"SELECT clock FROM counters c WHERE experiment = ?{self.database.FOR_UPDATE}", [experiment])
        if not rows:  # deleted and removed
            return None
        was: State = run("SELECT state FROM experiments WHERE id = ?", [experiment])[0][0]
        if state not in _AFTER[was]:
            return None
        if was != state:
            now = max(rows[0][0], self.wall())
            run("UPDATE experiments SET state = ?, changed = ? WHERE id = ?", [state, now, experiment])
            self.database.notify()
        return was

    def n_decisions(self, experiment: int) -> int:
        """How many there are. Inside a transaction."""
        return int(self.database.run("SELECT next FROM counters WHERE experiment = ?", [experiment])[0][0])

    def archive(self, experiment: int, archived: bool) -> int | None:
        """Put one that has ended out of the way, or back; since when it is. `NotRunningError` if it has not ended."""
        run = self.database.run
        rows = run("SELECT state, archived FROM experiments WHERE id = ?", [experiment])
        state, was = rows[0] if rows else ("deleted", None)
        if state != "ended":
            raise NotRunningError(state)
        if (was is not None) == archived:
            return was  # type: ignore[no-any-return]
        since = self.wall() if archived else None
        run("UPDATE experiments SET archived = ? WHERE id = ?", [since, experiment])
        return since

    def experiments(self, after: int = 0) -> list[Experiment]:
        """Those with larger ids, by age."""
        rows = self.database.read(
            "SELECT id, name, spec, seed, state, created, changed, archived FROM experiments "
            "WHERE id > ? AND environment = ? AND state <> 'deleted' ORDER BY id",
            [after, self.environment],
        )
        return [Experiment(row[0], row[1], saved_spec(bytes(row[2])), *row[3:]) for row in rows]

    def live_states(self) -> dict[int, State]:
        """The states of those that have not ended."""
        return dict(self.database.read(f"SELECT id, state FROM experiments WHERE {LIVE}"))

    def upcoming(self, experiment: int) -> tuple[int, int]:
        """The number of the next decision, and the epoch of the one before it. Inside a transaction: until it is over
        no other process decides.
        """
        run, base = self.database.run, experiment * STRIDE
        [(next_,)] = run(f"SELECT next FROM counters c WHERE experiment = ?{self.database.FOR_UPDATE}", [experiment])
        before = self._decisions_at(base, [next_ - 1]) if next_ else []
        return next_, before[0].epoch if before else 0

    def counts(self, experiment: int) -> tuple[int, int, int]:
        """How many decisions there are, how many are settled, and the journal's clock; `GoneError` if it is deleted."""
        found = self.counts_of([experiment])
        if not found:
            raise GoneError(experiment)
        return found[experiment]

    def counts_of(self, experiments: Sequence[int]) -> dict[int, tuple[int, int, int]]:
        """The same for several, by id, without those that are deleted."""
        rows = self.database.read_among(
            "SELECT c.experiment, c.next, f.front, c.clock FROM counters c "
            "JOIN fronts f ON f.experiment = c.experiment WHERE c.experiment IN (*)",
            experiments,
        )
        wall = self.wall()
        return {row[0]: (int(row[1]), int(row[2]), max(int(row[3]), wall)) for row in rows}

    def retained(self, experiment: int) -> tuple[int, int]:
        """Below which decision some were removed by age, and how many."""
        rows = self.database.read("SELECT upto, removed FROM retained WHERE experiment = ?", [experiment])
        return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)

    def check(self) -> None:
        """Raises `StoreError` if the store cannot be read, or is of no use for this version any more."""
        [(oldest,)] = self.database.read("SELECT oldest FROM comband_schema")
        if oldest > len(VERSIONS):
            raise StoreError(outdated(oldest, len(VERSIONS)))

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, new: Sequence[NewDecisions]) -> list[Stored]:
        """Make decisions durable, numbered in this order; a request that is known gets the decision that it has."""
        found: dict[int, Stored] = {}
        order = sorted(range(len(new)), key=lambda i: new[i].experiment)
        for experiment, positions in groupby(order, key=lambda i: new[i].experiment):
            mine = list(positions)
            found |= zip(mine, self._decide(experiment, [new[i] for i in mine]), strict=True)
        return [found[i] for i in range(len(new))]

    def _decide(self, experiment: int, new: Sequence[NewDecisions]) -> list[Stored]:
        run = self.database.run
        mine = self.database.ask(
            "SELECT c.next, c.clock, e.state, c.head, c.records FROM counters c "
            "JOIN experiments e ON e.id = c.experiment "
            f"WHERE c.experiment = ?{self.database.FOR_UPDATE}",
            [experiment],
        )
        of_requests = self.database.ask_among(
            "SELECT decision FROM requests WHERE digest IN (*)", [index for one in new for index in one.index]
        )
        rows = mine()
        next_, clock, state, head, records = rows[0] if rows else (0, 0, "deleted", "", 0)
        now, number, made, stored = max(clock, self.wall()), next_, [], []
        requests = [request for one in new for request in one.requests]
        known = self._known(experiment, requests, of_requests())
        if state == "running" and not known and len(set(requests)) == len(requests):
            for one in new:
                made.append(one)
                stored.append(Stored(range(number, number + len(one.requests)), {}))
                number += len(one.requests)
        else:
            for one in new:
                numbers: list[int] = []
                others: dict[int, StoredDecision | NotRunningError] = {}
                for i, request in enumerate(one.requests):
                    if request in known:
                        others[i] = known[request]
                    elif state != "running":
                        others[i] = NotRunningError(state)
                    else:
                        known[request] = StoredDecision(number, request, now, one.epoch, one.bodies[i])
                        number += 1
                    numbers.append(-1 if i in others else number - 1)
                made.append(one.some([i for i, found in enumerate(numbers) if found >= 0]))
                stored.append(Stored(numbers, others))
        if number > next_:
            self._write(experiment * STRIDE + next_, made, now)
            links = Links(experiment, head, records)
            if head:
                for one in made:
                    if one.requests:
                        links.add(decisions_record(one.epoch, one.leaves, one.uncovered))
                self.database.run_many(INSERT_LINE, links.rows)
            run(
                "UPDATE counters SET next = ?, clock = ?, head = ?, records = ? WHERE experiment = ?",
                [number, now, links.head, links.number, experiment],
            )
            self._tally({(experiment, now // 60_000): Tally(decisions=number - next_)})
        return stored

    def _known(self, experiment: int, requests: Sequence[str], rows: Sequence[Row]) -> dict[str, StoredDecision]:
        """The decisions that requests have already, if any, among those with these keys."""
        base, asked = experiment * STRIDE, set(requests)
        numbers = [row[0] - base for row in rows if base <= row[0] < base + STRIDE]
        found = self._decisions_at(base, numbers) if numbers else []
        return {one.request: one for one in found if one.request in asked}

    def _write(self, key: int, new: Sequence[NewDecisions], now: int) -> None:
        runs: list[tuple[Any, ...]] = []
        index: list[tuple[int, int]] = []
        for one in new:
            runs += one.runs(key, now)
            index += zip(one.index, range(key, key + len(one.index)), strict=True)
            key += len(one.index)
        self.database.run_many(INSERT_RUN, runs)
        self.database.run_many(INSERT_REQUEST, index)

    def decisions(self, experiment: int, first: int, last: int) -> list[StoredDecision]:
        """Decisions numbered `first` … `last` − 1."""
        base = experiment * STRIDE
        rows = self.database.read(f"SELECT {_FACTS} FROM runs {BETWEEN}", [base + first, base + last])
        return [one for one in _unpacked(base, rows) if first <= one.number < last]

    def decisions_at(self, experiment: int, numbers: Sequence[int]) -> list[StoredDecision]:
        """Some decisions, by number."""
        with self.database.transaction(write=False):
            return self._decisions_at(experiment * STRIDE, numbers)

    def _decisions_at(self, base: int, numbers: Sequence[int]) -> list[StoredDecision]:
        wanted = sorted(set(numbers))
        rows = self.database.among(f"SELECT {_FACTS} FROM runs {_AROUND}", [base + n for n in wanted])
        found = {one.number: one for one in _unpacked(base, rows)}
        return [found[number] for number in wanted if number in found]

    # ---- rewards -----------------------------------------------------------------------------------------------------

    def reward(self, new: Sequence[NewRewards]) -> list[Receipt]:
        """Make rewards durable; see the module for what counts. They are taken one after the other."""
        ask_among = self.database.ask_among
        experiments = sorted({one.experiment for one in new})
        wanted = {one.experiment * STRIDE + one.number for one in new}
        keys = sorted(wanted)
        of_fronts = ask_among(
            f"SELECT experiment, front FROM fronts c WHERE experiment IN (*){self.database.FOR_SHARE}", experiments
        )
        of_counters = ask_among("SELECT experiment, next, clock FROM counters WHERE experiment IN (*)", experiments)
        # Another process with rewards for one of these waits until we are done, and sees them.
        of_runs = ask_among(
            f"SELECT first, time, shown FROM runs c {_AROUND} ORDER BY first{self.database.FOR_UPDATE}", keys
        )
        of_rewards = ask_among("SELECT decision, place, value, counted FROM rewards WHERE decision IN (*)", keys)
        of_retained = ask_among("SELECT experiment, upto FROM retained WHERE experiment IN (*)", experiments)
        fronts: dict[int, int] = dict(of_fronts())
        counters: dict[int, tuple[int, int]] = {row[0]: (row[1], row[2]) for row in of_counters()}
        decisions = {
            first + i: (made, items)
            for first, made, shown in of_runs()
            for i, items in enumerate(_lists(bytes(shown)))
            if first + i in wanted
        }
        known: dict[int, dict[int, tuple[float, int]]] = {}
        for decision, place, value, counted in of_rewards():
            known.setdefault(decision, {})[place] = (value, counted)
        gone: dict[int, int] = dict(of_retained())
        wall = self.wall()
        rows: list[tuple[int, int, float, int, int]] = []
        tallies: dict[tuple[int, int], Tally] = {}
        receipts = []
        for one in new:
            key, receipt = one.experiment * STRIDE + one.number, Receipt()
            receipts.append(receipt)
            if one.number >= STRIDE or key not in decisions:  # beyond it are the decisions of other experiments
                outcome = "removed" if one.number < gone.get(one.experiment, 0) else "unknown"
                receipt.faults = [(item, outcome) for item, _ in one.rewards]
                continue
            next_, clock = counters[one.experiment]
            now, patience = max(clock, wall), one.limits.patience
            late = one.number < fronts[one.experiment] or now > decisions[key][0] + one.limits.window
            late = late or (patience is not None and one.number < next_ - patience)
            tally = tallies.setdefault((one.experiment, now // 60_000), Tally())
            rows += _taken(one, decisions[key], known.setdefault(key, {}), now, late, receipt, tally)
        if rows:
            self.database.run_many(
                "INSERT INTO rewards (decision, place, value, time, counted) VALUES (?, ?, ?, ?, ?)", rows
            )
            self._tally(tallies)
        return receipts

    def rewards(self, experiment: int, first: int, last: int, part: int = 0) -> list[tuple[int, int, float]]:
        """Number of the decision, place and value of the rewards that count, or of the values of a further metric, for
        decisions `first` … `last` − 1.
        """
        with self.database.transaction(write=False):
            return self.rewards_here(experiment, first, last, part)

    def rewards_here(self, experiment: int, first: int, last: int, part: int = 0) -> list[tuple[int, int, float]]:
        """The same inside a transaction."""
        base, place = experiment * STRIDE, part * PLACES
        rows = self.database.run(
            "SELECT decision, place, value FROM rewards WHERE decision >= ? AND decision < ? AND counted = 1 "
            "AND place >= ? AND place < ? ORDER BY decision, place",
            [base + first, base + last, place, place + PLACES],
        )
        return [(row[0] - base, row[1] - place, row[2]) for row in rows]

    def _tally(self, tallies: Mapping[tuple[int, int], Tally]) -> None:
        self.database.run_many(
            "INSERT INTO minutes (experiment, minute, decisions, rewards, late, delay) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (experiment, minute) DO UPDATE SET decisions = minutes.decisions + excluded.decisions, "
            "rewards = minutes.rewards + excluded.rewards, late = minutes.late + excluded.late, "
            "delay = minutes.delay + excluded.delay",
            [(*key, one.decisions, one.rewards, one.late, one.delay) for key, one in sorted(tallies.items())],
        )


def _unpacked(base: int, rows: Sequence[Row]) -> Iterator[StoredDecision]:
    """The decisions of runs with `_FACTS`."""
    for first, made, epoch, requests, bodies in rows:
        for i, (request, body) in enumerate(zip(_texts(bytes(requests)), _bodies(bytes(bodies)), strict=True)):
            yield StoredDecision(first - base + i, request, made, epoch, body)


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
        place = one.part * PLACES + shown.index(item)
        if place in known:
            if known[place][0] == value:
                receipt.duplicates += 1
            else:
                receipt.faults.append((item, "contradiction"))
            continue
        total = value + sum(earned for at, (earned, counted) in known.items() if counted and at // PLACES == one.part)
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
            if value and one.part == 0:
                tally.rewards += 1
                tally.delay += now - made
    return rows


_AFTER: dict[str, tuple[State, ...]] = {
    "running": ("running", "paused", "ended"),
    "paused": ("running", "paused", "ended"),
    "ended": ("ended", "deleted"),
    "deleted": (),
}


def saved_spec(spec: bytes) -> Spec:
    """What an experiment was made with."""
    made = spec_of(spec)
    return structs.replace(made, order=saved_order(made.places, made.order))


def detail(outcome: str) -> str:
    """In a sentence, why a reward does not count and what to do."""
    return _DETAILS[outcome]


_DETAILS: dict[str, str] = {
    "unknown": "there is no such decision in this experiment; send the number, or the ticket, that came with the list",
    "removed": "the decision is older than decisions are kept here, and was settled long ago",
    "no ticket": "this experiment takes no numbers of decisions; send the ticket that came with the list",
    "not shown": "the item was not in the list of this decision; rewards are only for what was shown",
    "contradiction": "another reward for this item is in the journal already, and the first one counts",
    "late": "it came after the attribution window; it is kept, but does not count",
    "too much": "the rewards of this decision would exceed what one list can collect; state a larger sparsity when "
    "you create an experiment",
}
