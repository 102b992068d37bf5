"""What is known of a log's partitions, kept between looks, so that a look costs what changed since the last one.

Of each partition its part is kept (rewards, propensities, one bit per reward and candidate, the sample), with a digest
of its rows; and of each question that was asked of all parts the exact sum of the answers. A new partition adds its
own answer to that sum. A partition whose digest changed is read again, and the sums are made anew from the parts. Since
sums are exact, the answer is that of reading everything, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from comband.cluster import InProcess
from comband.cluster.work import Progress
from comband.evaluation.joining import Joined
from comband.evaluation.logs import sampling
from comband.evaluation.logs.candidates import CandidateLists
from comband.evaluation.logs.faults import Faults, LogError, OnError
from comband.evaluation.logs.shards import partition_keys
from comband.evaluation.logs.sql.table import SqlShard
from comband.evaluation.pushed import PushedDown
from comband.evaluation.sharded import Order, ReadParts, levels_of, settled
from comband.evaluation.state import Kept, State

_VERSION = 1


@dataclass(eq=False)
class Remembering(InProcess):
    """Work on kept parts: of a question whose sum is known, only parts that are new to it are asked."""

    state: State
    progress: Progress | None = None
    told: dict[str, tuple[list[str], Any]] = field(default_factory=dict)
    asked: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.progress)

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Kept], *shared: Any) -> Any:
        """See `Work`; handles are those of `Kept`."""
        question = f"{function.__name__}{shared!r}"
        names = [one.name for one in handles]
        known = self.state.answer(question)
        held, total = known if known is not None and known[0] <= set(names) else (set(), None)
        missing = [one for one in handles if one.name not in held]
        for done, one in enumerate(missing):
            self._tell(what, done, len(missing))
            own = function([self.state.part(one)], *shared)
            total = own if total is None else total + own
            self.asked += 1
        self.told[question] = (names, total)
        return total


def read_increments(
    state: State, joined: Joined, read: PushedDown, *, since: Any = None, on_error: OnError, source: str
) -> ReadParts:
    """Bring a state to what the table holds now: partitions that are new or changed are read, others are known.

    Partitions before `since` are taken as they are known if they have as many rows.
    """
    table, known = read.table, state.partitions()
    shards = {str(shard.partition): shard for shard in joined.shards if isinstance(shard, SqlShard)}
    trusted = _trusted(shards, known, since)
    marks = table.marks([shard.key for key, shard in shards.items() if key not in trusted] if trusted else None)
    for key in known.keys() - shards.keys():
        state.forget(key)
        del known[key]
    again = {key for key, mark in marks.items() if key not in known or known[key].digest != mark.digest}
    ends = {key: known[key].ids for key in known} | {key: mark.ids for key, mark in marks.items()}
    repeated = _repeated(read, sorted(again), shards, ends)
    while again:
        sizes = {key: shards[key].rows or 0 if key in again else known[key].rounds for key in shards}
        levels = _levels(shards, sizes)
        for key in sorted(again):
            order = Order(shards[key], 0, levels[key])
            reader = replace(read, repeated=key in repeated)
            part = reader(order, joined.candidates, joined.max_reward, joined.context)
            digest = marks[key].digest if key in marks else known[key].digest
            rows, facts = shards[key].rows or 0, part.facts
            known[key] = Kept(key, digest, levels[key], rows, facts.rounds, ends[key], facts.faults)
            state.keep(known[key], part if facts.rounds else None)
        levels = _levels(shards, {key: one.rounds for key, one in known.items()})
        again = {key for key in shards if known[key].rounds and known[key].level != levels[key]}
    ranked = sorted(shards, key=lambda key: shards[key].number)
    faults = Faults(source)
    for key in ranked:
        for kind, count in known[key].faults.counts.items():
            faults.note(kind, known[key].faults.examples[kind], count=count)
    return settled([known[key] for key in ranked if known[key].rounds], faults, on_error)


def _levels(shards: Mapping[str, SqlShard], sizes: Mapping[str, int]) -> dict[str, int]:
    levels = levels_of({shards[key].partition: n for key, n in sizes.items()})
    return {key: levels[shards[key].partition] for key in sizes}


def _trusted(shards: Mapping[str, SqlShard], known: Mapping[str, Kept], since: Any) -> set[str]:
    """Partitions that are not looked at again."""
    if since is None:
        return set()
    *own, limit = partition_keys([*shards, since])
    old = [key for key, place in zip(shards, own, strict=True) if place < limit]  # type: ignore[operator]
    return {key for key in old if key in known and known[key].rows == shards[key].rows}


def settings_of(log: Any, candidates: Any, **options: Any) -> dict[str, str]:
    """What a state depends on, each under the name that a message gives it."""
    told = {"version": f"{_VERSION} {sampling.FIRST}", "table": str(log), "set of candidates": _print_of(candidates)}
    named = {"list_columns": "choice of the candidates' columns", "on_error": "way to treat faulty rows"}
    for name, value in options.items():
        plain = sorted(value.items()) if isinstance(value, Mapping) else value
        told[named.get(name, name)] = _print_of(value) if name == "items" else repr(plain)
    return told


def _print_of(candidates: Any) -> str:
    """A digest of a file or of lists; what makes policies is known by its name alone."""
    if isinstance(candidates, CandidateLists):
        return hashlib.sha256(repr(candidates.names).encode() + candidates.lists.tobytes()).hexdigest()
    if candidates is None or not Path(str(candidates)).exists():
        return str(candidates)
    found = hashlib.sha256()
    path = Path(str(candidates))
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as opened:
                found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()


def _repeated(
    read: PushedDown, new: Sequence[str], shards: Mapping[str, SqlShard], ends: Mapping[str, tuple[int, int] | None]
) -> set[str]:
    """The partitions among the new ones that have an id twice; ids that are in several partitions are refused.

    Partitions between whose smallest and largest ids no other's lie cannot share any.
    """
    table = read.table
    others = {key: own for key, own in ends.items() if own is not None}
    clear = len(others) == len(ends) and all(
        other == key or others[other][1] < others[key][0] or others[key][1] < others[other][0]
        for key in new
        for other in others
    )
    if new and not clear and table.shared():
        raise LogError(
            f"{table.given} has ids that are in several partitions: a round belongs to one. Mend them, or name a "
            "partition that holds all rows of an id."
        )
    return {key for key in new if table.repeated(shards[key].key)}
