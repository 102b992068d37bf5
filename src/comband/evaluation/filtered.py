"""Lists that are never held whole: the keys of their contexts are, and of the lists those that one shard needs.

Groups of rows in which no such context can be, by the smallest and largest that the file notes for them, are not read.
So lists that are sorted by context, with a log that is too, are read about once; in any order they are read once per
shard, and memory follows the largest shard in both. Lists are checked where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from comband.evaluation.logs.candidates import CandidateLists, _assemble, _batches, _list_size
from comband.evaluation.logs.columns import as_keys
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import need_lists
from comband.evaluation.logs.keys import ItemIndex, read_catalogue, unify_keys
from comband.evaluation.logs.listed import lists_table
from comband.evaluation.logs.shards import ShardTable, find_files
from comband.evaluation.logs.tables import Piece, TableFile, _parquet_file, _parquet_pieces, arrow, open_table
from comband.evaluation.sources import Source, of_lists
from comband.page.catalogue import Catalogue, Keys

WHOLE = 512 << 20  # bytes of lists, without compression, that every process may hold
_CONTEXT = "context"


@dataclass(frozen=True, eq=False, slots=True)
class _Picked(ShardTable):
    """The rows of some contexts."""

    keys: Catalogue | None = None

    def own_pieces(self, columns: list[str], faults: Faults) -> Iterator[Piece]:
        """The rows that can be read, in order."""
        assert self.keys is not None
        context = dict(self.own).get(_CONTEXT, _CONTEXT)
        first = 1
        with _parquet_file(self.path) as file:
            groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        for i, group in enumerate(groups):
            if _may_hold(group, context, self.keys.keys):
                wanted = list(dict.fromkeys([*columns, context]))
                for piece in _parquet_pieces(self.path, wanted, faults, groups=[i], first=first):
                    found = as_keys(piece.columns[context])
                    kept = (self.keys.find(found.values) >= 0) & ~found.bad
                    mask = arrow().array(kept)
                    yield Piece(piece.rows[kept], {name: piece.columns[name].filter(mask) for name in columns})
            first += group.num_rows


def _may_hold(group: Any, column: str, keys: Keys) -> bool:
    """Whether some of the keys, if they are numbers, lie between the smallest and the largest of a group of rows."""
    for i in range(group.num_columns):
        chunk = group.column(i)
        if chunk.path_in_schema == column:
            ends = chunk.statistics
            known = ends is not None and ends.has_min_max and isinstance(ends.min, int)
            return _between(keys, (ends.min, ends.max) if known else None)
    return True


def _ends(keys: Keys) -> tuple[int, int] | None:
    """The smallest and the largest key, if they are numbers; of none, such that nothing is between them."""
    if keys.dtype == object:
        return None
    return (int(keys.min()), int(keys.max())) if len(keys) else (1, 0)


def _between(keys: Keys, ends: tuple[int, int] | None) -> bool:
    """Whether some of the keys lie between two, as far as that is known."""
    if keys.dtype == object or ends is None:
        return True
    return bool(((keys >= ends[0]) & (keys <= ends[1])).any())


@dataclass(frozen=True, slots=True)
class FilteredLists:
    """Lists in Parquet files, as one describes them to those who read."""

    paths: tuple[str, ...]
    names: tuple[str, ...]
    list_size: int
    n_actions: int | None = None
    items: str | None = None
    positional: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    token: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(
        cls, candidates: str, *, n_actions: int | None, items: str | None, positional: bool, columns: Mapping[str, str]
    ) -> FilteredLists:
        """What the files say before any list is read: who the candidates are, and how long lists are."""
        paths = find_files(candidates)
        tables = [lists_table(open_table(path), columns) for path in paths]
        names: dict[str, None] = {}
        for table in tables:
            if table.kind != "parquet":
                raise LogError(f"{table.path}: lists in many files must be Parquet files.")
            if _CONTEXT not in table.names:
                raise table.lacks(_CONTEXT)
            names.update(dict.fromkeys(_names(table)))
        for table in tables:
            absent = [] if "candidate" in table.names else [name for name in names if name not in table.names]
            if absent:
                raise table.lacks(absent[0], why="other files have lists of that candidate")
        first = tables[0]
        lists = need_lists(first, "items", "item") if "candidate" in first.names else [next(iter(names))]
        return cls(
            tuple(map(str, paths)),
            tuple(names),
            _list_size(first, lists),
            n_actions,
            items,
            positional,
            tuple(columns.items()),
        )

    def load(self) -> Source:
        """Read the keys of all contexts, and between which of them those of each file lie."""
        parts = []
        for path in self.paths:
            table = lists_table(open_table(path), dict(self.columns))
            pieces = table.pieces([_CONTEXT], Faults(path))
            parts.append(unify_keys([as_keys(piece.columns[_CONTEXT]).values for piece in pieces]))
        ends = [_ends(part) for part in parts]
        known = Catalogue(np.unique(unify_keys(parts)))
        nothing = np.empty((0, 0, self.list_size), dtype=np.int32)
        lists = CandidateLists(self.names, known, nothing, self._items(), Faults(self.paths[0]))

        def some(numbers: Any, items: ItemIndex) -> Source:
            keys = known.keys[numbers]
            paths = [path for path, own in zip(self.paths, ends, strict=True) if _between(keys, own)]
            source = of_lists(self._read(paths, Catalogue(keys), items), positional=self.positional)
            small = source.known.contexts
            return replace(source, contexts=lambda shard, found, rows, places: small.find(known.keys[places]))

        return Source(lists, None, 0, lambda shard, found, rows, numbers: numbers, lists.faults, some)

    def _items(self) -> ItemIndex:
        return ItemIndex(n_actions=self.n_actions, catalogue=None if self.items is None else read_catalogue(self.items))

    def _read(self, paths: Sequence[str], keys: Catalogue, items: ItemIndex) -> CandidateLists:
        """The lists of some contexts, which are in these files, whole and checked."""
        faults = Faults(self.paths[0] if len(self.paths) == 1 else str(Path(self.paths[0]).parent))
        names = {name: i for i, name in enumerate(self.names)}
        batches = []
        for path in paths:
            plain = lists_table(open_table(path), dict(self.columns))
            fields = {name: getattr(plain, name) for name in TableFile.__dataclass_fields__}
            batches += list(_batches(_Picked(**fields, keys=keys), names, items, faults, self.list_size))
        if not items.closed and not items.numeric:
            raise LogError(f"{faults.source}: items are text; name them all in a file (--items).")
        return _assemble(batches, tuple(names), items, faults, "refuse")


def _names(table: TableFile) -> list[str]:
    """The candidates of a file, as they come."""
    if "candidate" not in table.names:
        return [name for name in table.names if name != _CONTEXT]
    found: dict[str, None] = {}
    for piece in table.pieces(["candidate"], Faults(str(table.path))):
        found.update(dict.fromkeys(str(name) for name in as_keys(piece.columns["candidate"]).values))
    return list(found)


def is_large(path: Path) -> bool:
    """Whether lists should not be held whole by every process: a folder of them, or a large Parquet file."""
    if path.is_dir() or not path.is_file():
        return not path.is_file()
    if path.suffix.lower() not in (".parquet", ".pq"):
        return False
    with _parquet_file(path) as file:
        sizes = [int(file.metadata.row_group(i).total_byte_size) for i in range(file.num_row_groups)]
    return sum(sizes) > WHOLE
