"""A log in a database, as parts to be evaluated: quiet rounds are counted there, the others are read as a file is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comband.cluster import Work
from comband.evaluation.joining import Joined
from comband.evaluation.logs.candidates import CandidateLists
from comband.evaluation.logs.columns import as_keys
from comband.evaluation.logs.columns import list_columns as named_lists
from comband.evaluation.logs.faults import Faults, LogError, OnError
from comband.evaluation.logs.formats import PLACEMENTS, LogFormat
from comband.evaluation.logs.keys import ItemIndex, read_catalogue
from comband.evaluation.logs.reading import Gather, format_for_places
from comband.evaluation.logs.shards import Shard
from comband.evaluation.logs.sql.engines import open_engine
from comband.evaluation.logs.sql.lists import OpenLists
from comband.evaluation.logs.sql.table import OpenTable, Quiet, SqlShard, SqlTable
from comband.evaluation.sharded import Order, ShardPart, read_part
from comband.evaluation.sources import Description, Source, load, of_lists
from comband.page.catalogue import Keys
from comband.page.problem import InputError, check_places

_ROW = re.compile(r"^row ([\d,]+): ")


@dataclass(eq=False, slots=True)
class PushedDown:
    """Reads partitions of a table, one at a time, in the place of `read_part`.

    Parts know the smallest propensity of all their rounds only if `smallest` asks for it.
    """

    table: OpenTable
    repeated: bool
    lists: OpenLists | None = None
    on_error: OnError = "refuse"
    smallest: bool = True

    def __call__(
        self, order: Order, candidates: Description | Source, max_reward: float, context: Sequence[str]
    ) -> ShardPart:
        """The part of one partition."""
        shard = order.shard
        assert isinstance(shard, SqlShard)
        assert order.level is not None
        seen = self.table.see(shard, order.level, repeated=self.repeated, smallest=self.smallest)
        if self.lists is not None:
            items = load(candidates).fresh().items
            found = self.lists.read(seen.lists, items, self.on_error)
            candidates = of_lists(found, positional=shard.format.positional)
        fine, unknown = _known_contexts(load(candidates).known, seen.quiet)
        here = Shard(shard.number, seen.table, shard.format, seen.table.frame.num_rows, shard.partition)
        unique = not self.repeated and shard.format.row_by_row
        told = replace(order, shard=here, quiet=int(seen.quiet.counts[fine].sum()), unique=unique)
        least = seen.quiet.smallest
        for _ in range(2):
            told = replace(told, smallest=float(least[fine].min(initial=np.inf)))
            part = read_part(told, candidates, max_reward, context)
            if not (self.smallest and part.facts.faults.total and self.on_error == "skip"):
                break
            least = self.table.smallest(shard, seen.quiet.keys)  # it may have been that of a faulty round
        part.facts = replace(part.facts, level=order.level)
        self._name_rounds(part.facts.faults, here)
        for key, n in unknown:
            part.facts.faults.note("unknown context", [f"no candidate has a list for context {key}"], count=n)
        return part

    def _name_rounds(self, faults: Faults, shard: Shard) -> None:
        """A table has no row numbers: rounds are called by their ids."""
        statements = self.table.statements
        assert statements is not None
        ids = shard.table.frame[statements.id.name]
        for texts in faults.examples.values():
            for i, text in enumerate(texts):
                found = _ROW.match(text)
                if found:
                    name = ids[int(found[1].replace(",", "")) - 1].as_py()
                    texts[i] = f"{statements.id.name} {name}: {text[found.end() :]}"


def _known_contexts(known: CandidateLists, quiet: Quiet) -> tuple[np.ndarray, list[tuple[Any, int]]]:
    """Which groups of quiet rounds have a context that candidates know; and the others, with how many rounds."""
    if quiet.keys is None:
        return np.ones(len(quiet.counts), dtype=bool), []
    there = np.flatnonzero(quiet.counts)
    if any(isinstance(key, bool) for key in quiet.keys):  # the database looked them up
        fine = np.array(quiet.keys)
        return fine, [("that is in no list", int(quiet.counts[i])) for i in there if not fine[i]]
    keys: Keys = as_keys([quiet.keys[i] for i in there]).values
    fine = np.zeros(len(quiet.counts), dtype=bool)
    fine[there] = known.contexts.find(keys) >= 0
    return fine, [(quiet.keys[i], int(quiet.counts[i])) for i in there if not fine[i]]


def check_versions(
    table: OpenTable, candidates: Description | Source, max_reward: float, context: Sequence[str]
) -> None:
    """Refuse a table where two good rounds that differ have one id: which came first cannot be told."""
    assert table.statements is not None
    if table.statements.grouped:
        return
    different = table.versions()
    faults = Faults(str(table.given))
    known = load(candidates).fresh()
    gather = Gather(known, table.format, max_reward, faults, level=0)
    for batch in table.format.batches(different, known.list_size, context, faults):
        gather.take(batch)
    n = faults.counts.get("duplicate id", 0)
    if n:
        raise LogError(
            f"{table.given} has {n:,} ids that stand for several rounds that differ; rows of a table have no order "
            "that tells which came first: mend them."
        )


@contextmanager
def pushed_down(
    log: SqlTable,
    candidates: Any,
    work: Work,
    *,
    partition: str | None,
    format: str | LogFormat,
    columns: Mapping[str, str] | None,
    places: Any,
    sparsity: float | None,
    n_actions: int | None,
    items: Any,
    features: Sequence[str],
    context: Sequence[str],
    on_error: OnError,
    list_columns: Mapping[str, str] | None,
    increments: bool = False,
    smallest: bool = True,
) -> Iterator[tuple[Joined, PushedDown]]:
    """A table and its candidates, and what reads its partitions, while the database is open.

    Arguments as in `evaluate_log`; with `increments` ids are not compared here; `smallest` is as for `PushedDown`.
    """
    with open_engine(log.where) as engine, engine.frozen():
        table = OpenTable.open(engine, log, format=format, columns=columns, partition=partition)
        if places is not None and not isinstance(places, str):
            raise InputError("a log in a database is read as sets or as pairs; factors need read_log(…, places=…).")
        kind = format_for_places(table.format, check_places(places, 1), str(log))
        if places is not None and named_lists(list(table.columns), *PLACEMENTS) is not None:
            raise InputError(
                f"{log} has placements, and a database knows one propensity per item: give a view without them whose "
                "propensities are those of the item in its place, or read the rounds from files."
            )
        lists = None
        if isinstance(candidates, SqlTable):
            lists = OpenLists(engine, candidates, list_columns)
            index = ItemIndex(n_actions=n_actions, catalogue=None if items is None else read_catalogue(items))
            known = lists.known(index)
            candidates = Source(known, None, 0, lambda shard, found, rows, numbers: numbers, known.faults)
        joined = Joined(
            work,
            [replace(table.first(), format=kind)],
            candidates,
            sparsity=sparsity,
            n_actions=n_actions,
            items=items,
            features=features,
            context=context,
            on_error=on_error,
            columns=list_columns,
        )
        known = joined.source.known
        table.prepare(
            kind,
            list_size=known.list_size,
            context=context,
            items=known.items,
            by_context=not joined.source.asked or not table.whole_contexts(context),
            features=features,
            lists=None if lists is None else lists.columns,
        )
        joined.shards = table.shards()
        repeated = not increments and table.repeated()
        if repeated and on_error == "skip":
            if lists is not None:
                raise LogError(f"{log} has ids that come more than once; mend them, or give lists in a file.")
            check_versions(table, joined.candidates, joined.max_reward, joined.context)
        yield joined, PushedDown(table, repeated, lists, on_error, smallest)
        table.check_unchanged(joined.shards)
