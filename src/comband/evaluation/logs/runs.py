"""Runs of retrieval systems as candidates: TREC run files, PyTerrier's and ranx's frames and objects.

A run ranks documents for queries. What a candidate shows for a query (the context) are the first documents of its
ranking, as many as `list_size` says. Documents are ranked as trec_eval does, by score, the highest first; where there
are no scores, by rank. Equal scores are ranked by rank if there are ranks, then as they stand.

Runs are one of these:

- a file (`.run`, `.res`, `.trec`, `.txt`; also `.gz`), or a folder of them: lines `query Q0 document rank score tag`;
  each tag is a candidate;
- a data frame with `qid`, `docno`, `rank`, `score` (PyTerrier) or `q_id`, `doc_id`, `score` (ranx); a column `name` or
  `run` tells several candidates apart;
- {name: any of these}, or {name: {query: {document: score}}};
- a `ranx.Run`, or a list of them, by their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.raw_files import check_file, kind_ending, open_bytes
from comband.evaluation.logs.tables import arrow
from comband.page.frames import as_table, is_frame
from comband.page.problem import InputError, check_count

ENDINGS = (".run", ".res", ".trec", ".txt")
QUERY = ("qid", "q_id", "query_id", "topic")
DOCUMENT = ("docno", "doc_id", "docid", "document_id")
_NAME = ("name", "run", "system", "tag", "candidate")
Ranked = tuple[str, str, str, float, float]
"""Candidate, query, document, score (NaN where there is none), rank."""


def is_run(source: Any) -> bool:
    """Whether a source holds runs rather than lists.

    >>> is_run("bm25.run"), is_run({"bm25": {"q1": {"d7": 3.5}}}), is_run("lists.csv")
    (True, True, False)
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return (
            any(kind_ending(file) in ENDINGS for file in path.iterdir())
            if path.is_dir()
            else (kind_ending(path) in ENDINGS)
        )
    if is_frame(source):
        names = as_table(source).column_names
        return any(name in names for name in QUERY) and any(name in names for name in DOCUMENT)
    if isinstance(source, (list, tuple)):
        return len(source) > 0 and all(_ranx(run) is not None for run in source)
    return isinstance(source, Mapping) or _ranx(source) is not None


def run_table(source: Any, list_size: int | None) -> Any:
    """Runs as a table of lists, (context, candidate, items), for `read_candidates`."""
    if list_size is None:
        raise InputError(
            "a run ranks more documents than are shown: say how many of them a list has, list_size=10 (--list-size 10)."
        )
    m = check_count("list_size", list_size)
    rankings: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for name, query, document, score, rank in _ranked(source, None):
        by_score = float("inf") if score != score else -score
        rankings.setdefault((query, name), []).append((by_score, rank, document))
    if not rankings:
        raise LogError(f"{_called(source)} ranks no document.")
    lists = [[d for _, _, d in sorted(ranked, key=lambda one: one[:2])][:m] for ranked in rankings.values()]
    columns = {"context": [query for query, _ in rankings], "candidate": [name for _, name in rankings], "items": lists}
    pa = arrow()
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _called(source: Any) -> str:
    return str(source) if isinstance(source, (str, os.PathLike)) else f"the {type(source).__name__}"


def _ranked(source: Any, name: str | None) -> Iterator[Ranked]:
    """All that a source ranks; `name` is its candidate's, where it is known."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        files = sorted(f for f in path.iterdir() if kind_ending(f) in ENDINGS) if path.is_dir() else [check_file(path)]
        for file in files:
            yield from _file(file, name)
    elif is_frame(source):
        yield from _frame(source, name)
    elif isinstance(source, (list, tuple)):
        for run in source:
            yield from _ranked(run, name)
    elif (found := _ranx(source)) is not None:
        yield from _nested(found[1], name or found[0])
    elif isinstance(source, Mapping):
        for key, part in source.items():
            if isinstance(part, Mapping) and not all(isinstance(inner, Mapping) for inner in part.values()):
                raise InputError(
                    "runs must be {candidate: {query: {document: score}}} or {candidate: a file or frame}, got "
                    f"{type(next(iter(part.values()), None)).__name__} below {key!r}; name the candidate first."
                )
            yield from (_nested(part, str(key)) if isinstance(part, Mapping) else _ranked(part, str(key)))
    else:
        raise InputError(f"a run must be a file, a data frame, a ranx.Run or a mapping, got {type(source).__name__}.")


def _ranx(source: Any) -> tuple[str, Mapping[str, Mapping[str, float]]] | None:
    """Name and scores of a `ranx.Run`, which is known by what it can do."""
    if isinstance(source, (str, Mapping)) or not (hasattr(source, "to_dict") and hasattr(source, "run")):
        return None
    return str(getattr(source, "name", None) or "run"), source.to_dict()


def _nested(queries: Mapping[Any, Mapping[Any, float]], name: str) -> Iterator[Ranked]:
    for query, documents in queries.items():
        for rank, (document, score) in enumerate(documents.items()):
            yield name, str(query), str(document), float(score), float(rank)


def _file(path: Path, name: str | None) -> Iterator[Ranked]:
    for number, fields in fields_of(path):
        if len(fields) != 6:
            raise LogError(
                f"{path}, line {number}: a run has query, Q0, document, rank, score and tag, got {len(fields)} fields."
            )
        query, _, document, rank, score, tag = fields
        try:
            yield name or tag, query, document, float(score), float(rank)
        except ValueError:
            raise LogError(
                f"{path}, line {number}: rank and score must be numbers, got {rank!r} and {score!r}."
            ) from None


def fields_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line that is not empty."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                fields = line.decode().split()
            except UnicodeDecodeError:
                raise LogError(f"{path}, line {number}: it is not UTF-8.") from None
            if fields:
                yield number, fields


def _frame(frame: Any, name: str | None) -> Iterator[Ranked]:
    table = as_table(frame)
    query, document = one_of(table.column_names, QUERY), one_of(table.column_names, DOCUMENT)
    named = next((column for column in _NAME if column in table.column_names), None)
    columns = [table.column(query).to_pylist(), table.column(document).to_pylist()]
    for column in ("score", "rank"):
        there = column in table.column_names
        columns.append(table.column(column).to_pylist() if there else [None] * table.num_rows)
    if "score" not in table.column_names and "rank" not in table.column_names:
        raise LogError(f"a run needs a column score or rank, got {', '.join(table.column_names)}.")
    names: Sequence[Any] = [name or "run"] * table.num_rows
    if named is not None and name is None:
        names = table.column(named).to_pylist()
    for row, (who, qid, docno, score, rank) in enumerate(zip(names, *columns, strict=True), 1):
        if None in (who, qid, docno):
            raise LogError(f"the data frame, row {row}: candidate, {query} and {document} must be there.")
        number = float(row) if rank is None else float(rank)
        yield str(who), str(qid), str(docno), float("nan") if score is None else float(score), number


def one_of(names: Sequence[str], wanted: Sequence[str]) -> str:
    """The first wanted column that is there."""
    for name in wanted:
        if name in names:
            return name
    raise LogError(f"one of the columns {', '.join(wanted)} is needed, got {', '.join(names)}.")
