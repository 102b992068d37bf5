"""A log of many shards, evaluated wherever the shards are read: here, or on the workers of a cluster.

A shard is read by path, together with what it must know of the others: how many good rounds came before it, and how
many there are up to the end of its partition (which rounds are looked at whole depends on that,
`comband.evaluation.logs.sampling`), and which ids came before. All is guessed from the files at first. Where the guess
was wrong, because faulty rows were skipped or an id came before in another file, the shard is read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comband.cluster import Tally, Work
from comband.cluster.work import here
from comband.evaluation.logs.faults import Faults, LogError, OnError
from comband.evaluation.logs.id_memory import IdMemory, NoMemory
from comband.evaluation.logs.reading import Gather
from comband.evaluation.logs.sampling import sample_level
from comband.evaluation.logs.shards import Shard
from comband.evaluation.parts import Part
from comband.evaluation.sources import Description, Source, load
from comband.page.problem import InputError
from comband.page.rounds import Events

Ranges = tuple[NDArray[np.int64], NDArray[np.int64]]
_IDS_AT_ONCE = 4_000_000  # ranges of ids that are looked at together


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """Read a shard, `first` good rounds having come before it, and `seen` of its ids; sample at `level` if there are.

    `quiet` good rounds of it are not in its table, and have propensities of at least `smallest`. With `unique` it is
    known that no id comes twice.
    """

    shard: Shard
    first: int
    level: int | None = None
    seen: Ranges | None = None
    quiet: int = 0
    smallest: float = np.inf
    unique: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class ShardFacts:
    """What is told of a shard that was read; `digest` is of its rewards and propensities."""

    rounds: int
    faults: Faults
    level: int | None
    n_ids: int
    id_ends: tuple[int, int]
    worker: str
    tally: Tally
    digest: bytes = b""


class ShardPart(Part):
    """A part of a log that knows which shard it is."""

    number: int
    facts: ShardFacts
    ids: Ranges
    shortened: bool  # whether it has rounds with fewer places than the candidates' lists

    def __sizeof__(self) -> int:
        own = super().__sizeof__() if self.facts.rounds else 0
        return own + self.ids[0].nbytes + self.ids[1].nbytes


def read_part(order: Order, candidates: Description | Source, max_reward: float, context: Sequence[str]) -> ShardPart:
    """Read a shard, check it as `read_log` does, and ask the candidates on its rewarded and sampled rounds."""
    began = time.perf_counter()
    source, shard = load(candidates), order.shard
    known, faults, memory = source.fresh(), Faults(shard.name), NoMemory() if order.unique else IdMemory()
    if order.seen is not None:
        memory._remember(*order.seen)
    gather = Gather(known, shard.format, max_reward, faults, first=order.first, level=order.level, ids=memory)
    last_row = shard.table.first_row - 1
    for batch in shard.format.batches(shard.table, known.list_size, context, faults):
        gather.take(batch)
        last_row = int(batch.rows[-1]) if len(batch) else last_row
    gather.add_quiet(order.quiet, order.smallest)
    part = ShardPart.__new__(ShardPart)
    events = gather.events() if gather.n_rounds else Events.none()
    try:
        if gather.n_rounds:
            whole = gather.sample()
            narrow = source if gather.shortened else source.narrowed(known, events, whole)
            policies = source.shortened(shard) if gather.shortened else narrow.policies
            events, shown = narrow.events(shard, known, events), narrow.sample(shard, known, whole)
            assert policies is not None
            Part.__init__(part, events, policies, shown, smallest=float(gather.smallest))
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever a policy of the user's raises
        raise InputError(f"a candidate failed on {shard.name}: {type(error).__name__}: {error}") from error
    part.number, part.ids, part.shortened = shard.number, memory.ranges, gather.shortened
    ends = (int(part.ids[0][0]), int(part.ids[1][-1])) if len(part.ids[0]) else (0, -1)
    tally = Tally(1, max(last_row - shard.table.first_row + 1, 0), time.perf_counter() - began)
    digest = _digest(events) if gather.n_rounds else b""
    part.facts = ShardFacts(gather.n_rounds, faults, gather.level, len(part.ids[0]), ends, here(), tally, digest)
    return part


class ReadParts(NamedTuple):
    """Handles of the parts that have rounds, in the order of the shards; all faults; the sample's level (of ids).

    `renumbered` if ids begin anew in each file, and so were taken for numbers of rows.
    """

    parts: list[Any]
    faults: Faults
    level: int | None
    renumbered: bool = False


def read_parts(
    work: Work,
    shards: Sequence[Shard],
    candidates: Description | Source,
    *,
    max_reward: float,
    context: Sequence[str],
    on_error: OnError,
    source: str,
    read: Callable[..., Any] = read_part,
) -> ReadParts:
    """All shards, read as often as need be; refused if there are faults and they are not to be skipped."""
    firsts, levels = _before(shards, [shard.rows for shard in shards])
    orders = [Order(*given) for given in zip(shards, firsts, levels, strict=True)]
    shared = (candidates, max_reward, tuple(context))
    handles = work.each("reading", read, orders, *shared)
    facts: list[ShardFacts] = work.gather("facts", _facts_of, handles)
    renumbered = _renumbered(shards, facts)
    seen = _seen_within(work, shards, handles, facts) if renumbered else _seen_before(work, handles, facts)
    for _ in range(3):  # ids that came before are told at first, and rounds that came before at last
        if on_error == "refuse" and not seen and any(fact.faults.total for fact in facts):
            break  # it is refused, whatever is sampled
        firsts, levels = _before(shards, [fact.rounds for fact in facts])
        again = [
            i
            for i, order in enumerate(orders)
            if (facts[i].rounds and _sampled_wrongly(facts[i], order, firsts[i], levels[i]))
            or (i in seen and order.seen is None)
        ]
        if not again:
            break
        for i in again:
            orders[i] = Order(shards[i], firsts[i], levels[i], seen.get(i, orders[i].seen))
        made = work.each("reading again", read, [orders[i] for i in again], *shared)
        for i, handle, fact in zip(again, made, work.gather("facts", _facts_of, made), strict=True):
            handles[i], facts[i] = handle, fact
        seen = {i: ranges for i, ranges in seen.items() if orders[i].seen is None}
    for fact in facts:
        work.tallies[fact.worker] = work.tallies.get(fact.worker, Tally()) + fact.tally
    kept = [handle for handle, fact in zip(handles, facts, strict=True) if fact.rounds]
    level = max((fact.level for fact in facts if fact.level is not None), default=None)
    return settled(kept, _all_faults(source, shards, facts), on_error, level)._replace(renumbered=renumbered)


def _digest(events: Events) -> bytes:
    """What tells one part of a log from another, whatever they are called."""
    columns = (events.rows, events.actions, events.rewards, events.propensities)
    return blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).digest()


def _by_file(shards: Sequence[Shard]) -> dict[str, list[int]]:
    """The places of the shards of each file."""
    files: dict[str, list[int]] = {}
    for i, shard in enumerate(shards):
        files.setdefault(shard.name, []).append(i)
    return files


def _renumbered(shards: Sequence[Shard], facts: Sequence[ShardFacts]) -> bool:
    """Whether ids are no more than numbers of rows: in every file they begin at 0, or in every file at 1, and there are
    no more of them than rows. Files that are equal are one file twice, whose ids came before.
    """
    firsts: set[int] = set()
    digests: set[tuple[bytes, ...]] = set()
    files = [[facts[i] for i in some if facts[i].n_ids] for some in _by_file(shards).values()]
    files = [some for some in files if some]
    for some in files:
        first, last = min(fact.id_ends[0] for fact in some), max(fact.id_ends[1] for fact in some)
        if last - first >= sum(fact.tally.rows for fact in some):
            return False
        firsts.add(first)
        digests.add(tuple(fact.digest for fact in some))
    return len(files) > 1 and firsts in ({0}, {1}) and len(digests) == len(files)


def _seen_within(
    work: Work, shards: Sequence[Shard], handles: Sequence[Any], facts: Sequence[ShardFacts]
) -> dict[int, Ranges]:
    """`_seen_before` in each file by itself."""
    found: dict[int, Ranges] = {}
    for some in _by_file(shards).values():
        found |= _seen_before(work, [handles[i] for i in some], [facts[i] for i in some])
    return found


def settled(kept: list[Any], faults: Faults, on_error: OnError, level: int | None = None) -> ReadParts:
    """What was read, if there is something and its faults are not to be refused."""
    faults.settle(on_error)
    if not kept:
        skipped = f"; all {faults.total:,} faulty rows were skipped" if faults.total else ""
        raise LogError(f"{faults.source} holds no usable round{skipped}.")
    return ReadParts(kept, faults, level)


def _before(shards: Sequence[Shard], rounds: Sequence[int | None]) -> tuple[list[int], list[int | None]]:
    """How many rounds come before each shard, and at which level it is sampled; None where that is not known yet."""
    firsts = np.cumsum([0, *(n or 0 for n in rounds)])[:-1].tolist()
    if any(n is None for n in rounds):
        return firsts, [None] * len(shards)
    sizes: dict[Any, int] = {}
    for shard, n in zip(shards, rounds, strict=True):
        sizes[shard.partition] = sizes.get(shard.partition, 0) + (n or 0)
    levels = levels_of(sizes)
    return firsts, [levels[shard.partition] for shard in shards]


def levels_of(sizes: Mapping[Any, int]) -> dict[Any, int]:
    """At which level each partition is sampled, by the rounds up to its end; partitions are in the order of their keys.

    >>> levels_of({"2026-01-02": 30_000, "2026-01-01": 15_000})
    {'2026-01-01': 0, '2026-01-02': 2}
    """
    ends = np.cumsum([sizes[key] for key in sorted(sizes)])
    return {key: sample_level(int(end)) for key, end in zip(sorted(sizes), ends, strict=True)}


def _sampled_wrongly(fact: ShardFacts, order: Order, first: int, level: int | None) -> bool:
    return order.first != first if fact.level is None else fact.level != level


def _facts_of(part: ShardPart) -> ShardFacts:
    return part.facts


def _all_faults(source: str, shards: Sequence[Shard], facts: Sequence[ShardFacts]) -> Faults:
    """Those of all shards, as if read one after the other; rows are named with their file if there are several."""
    several = len({shard.name for shard in shards}) > 1
    total = Faults(source)
    for shard, fact in zip(shards, facts, strict=True):
        for kind, count in fact.faults.counts.items():
            told = fact.faults.examples[kind]
            total.note(kind, [f"{shard.name}, {text}" for text in told] if several else told, count=count)
    return total


@dataclass(frozen=True, eq=False, slots=True)
class _Ids:
    """Ranges of ids with the numbers of their shards; `a + b` has both."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    number: NDArray[np.int64]

    def __add__(self, other: _Ids) -> _Ids:
        pairs = ((self.first, other.first), (self.last, other.last), (self.number, other.number))
        return _Ids(*(np.concatenate(pair) for pair in pairs))


def _ids_between(parts: Sequence[ShardPart], low: int, high: int) -> _Ids:
    """The ids from low to high."""
    none = np.empty(0, dtype=np.int64)
    total = _Ids(none, none, none)
    for part in parts:
        first, last = part.ids
        inside = (last >= low) & (first <= high)
        clipped = np.maximum(first[inside], low), np.minimum(last[inside], high)
        total += _Ids(*clipped, np.full(int(inside.sum()), part.number))
    return total


def _seen_before(work: Work, handles: Sequence[Any], facts: Sequence[ShardFacts]) -> dict[int, Ranges]:
    """For each shard with ids that an earlier one has too, which they are."""
    ends = sorted(fact.id_ends for fact in facts if fact.n_ids)
    if all(before[1] < after[0] for before, after in pairwise(ends)):
        return {}
    low, high = ends[0][0], max(end[1] for end in ends)
    pieces = 1 + sum(fact.n_ids for fact in facts) // _IDS_AT_ONCE
    edges = [low + (high - low + 1) * k // pieces for k in range(pieces + 1)]
    found: dict[int, list[tuple[int, int]]] = {}
    for k in range(pieces):
        ids: _Ids = work.total("ids", _ids_between, handles, edges[k], edges[k + 1] - 1)
        for number, common in _common(ids):
            found.setdefault(number, []).append(common)
    ranges = {number: np.unique(np.array(common), axis=0) for number, common in found.items()}
    return {number: (common[:, 0].copy(), common[:, 1].copy()) for number, common in ranges.items()}


def _common(ids: _Ids) -> list[tuple[int, tuple[int, int]]]:
    """(shard, range) for whatever a shard shares with an earlier one."""
    order = np.lexsort((ids.number, ids.first))
    first, last, number = ids.first[order], ids.last[order], ids.number[order]
    if len(first) == 0:
        return []
    reach = np.maximum.accumulate(last)
    clusters = np.concatenate([[0], np.cumsum(first[1:] > reach[:-1])])
    crowded = np.flatnonzero(np.bincount(clusters)[clusters] > 1)
    found = []
    active: list[int] = []
    for i in crowded:
        active = [j for j in active if last[j] >= first[i]]
        for j in active:
            if number[j] != number[i]:
                later = int(max(number[i], number[j]))
                found.append((later, (int(first[i]), int(min(last[i], last[j])))))
        active.append(int(i))
    return found
