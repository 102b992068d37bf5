"""A log in files and its candidates, wherever these come from, as parts to be evaluated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from comband.cluster import Work
from comband.evaluation.filtered import FilteredLists, is_large
from comband.evaluation.logs.candidates import CandidateLists, read_candidates
from comband.evaluation.logs.faults import LogError, OnError
from comband.evaluation.logs.keys import read_catalogue
from comband.evaluation.logs.listed import with_context
from comband.evaluation.logs.reading import LogReading, read_log
from comband.evaluation.logs.shards import Shard, find_files
from comband.evaluation.sharded import ReadParts, read_part, read_parts
from comband.evaluation.sources import Description, ListsFile, Made, Source, load, of_lists
from comband.page.metrics import Metric
from comband.page.problem import InputError, check_number


class Joined:
    """Shards and candidates that fit together."""

    def __init__(
        self,
        work: Work,
        shards: Sequence[Shard],
        candidates: Any,
        *,
        sparsity: float | None,
        n_actions: int | None,
        items: str | Path | None,
        features: Sequence[str] = (),
        context: Sequence[str] = (),
        on_error: OnError = "refuse",
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self._work, self.shards, self._on_error = work, shards, on_error
        self.context = check_context(context)
        kind = shards[0].format
        self.candidates = _described(
            candidates,
            shards,
            n_actions=n_actions,
            items=items,
            features=features,
            context=self.context,
            on_error=on_error,
            columns=columns,
        )
        self.source = load(self.candidates)
        self.names = self.source.known.names
        m = self.source.known.list_size
        self.slots = kind.slots or m
        self.max_reward = (
            float(self.slots) if sparsity is None else min(check_number("sparsity", sparsity), float(self.slots))
        )
        if not self.max_reward > 0:
            raise InputError(f"sparsity must be above 0, got {sparsity!r}.")

    def of_metric(self, metric: Metric, shards: Sequence[Shard]) -> Joined:
        """The same candidates with shards in which a metric's values are the rewards."""
        other = copy(self)
        other.shards, other._on_error = shards, "refuse"
        other.max_reward = metric.most(self.max_reward)
        return other

    def parts(self, source: str, read: Callable[..., Any] = read_part) -> ReadParts:
        """Handles of the parts of the log, and the faults of its rows."""
        given: Any = self.candidates
        if isinstance(given, Source):
            given = self._work.share(given)
        return read_parts(
            self._work,
            self.shards,
            given,
            max_reward=self.max_reward,
            context=self.context,
            on_error=self._on_error,
            source=source,
            read=read,
        )


def read_totals(
    log: Any,
    candidates: Any,
    *,
    n_actions: int | None,
    items: str | Path | None,
    on_error: OnError,
    list_columns: Mapping[str, str] | None,
    **options: Any,
) -> LogReading:
    """A log of totals, which is one file, with candidates' lists; `options` are those of `read_log`."""
    files = find_files(log)
    if len(files) > 1:
        raise LogError(f"a log of totals must be one file, got {len(files)}: {log_name(log)}. Join them.")
    if isinstance(candidates, (str, os.PathLike)):
        if not Path(candidates).is_file():
            raise LogError(f"a log of totals needs a file with each candidate's lists, got {candidates}.")
        catalogue = None if items is None else read_catalogue(items)
        list_columns = with_context(candidates, list_columns, options.get("context", ()))
        candidates = read_candidates(
            candidates, n_actions=n_actions, catalogue=catalogue, columns=list_columns, on_error=on_error
        )
    return read_log(files[0], candidates, on_error=on_error, **options)


def _described(
    candidates: Any,
    shards: Sequence[Shard],
    *,
    n_actions: int | None,
    items: str | Path | None,
    features: Sequence[str],
    context: Sequence[str],
    on_error: OnError,
    columns: Mapping[str, str] | None,
) -> Description | Source:
    kind = shards[0].format
    if isinstance(features, str) or not all(isinstance(name, str) for name in features):
        raise InputError(f"features must be the names of columns, such as ('age',), got {features!r}.")
    if isinstance(candidates, Source):
        return candidates
    if isinstance(candidates, CandidateLists):
        return of_lists(candidates, positional=kind.positional)
    if is_factory(candidates):
        if kind.positional or (features and not kind.row_by_row):
            raise LogError(f"policies cannot be asked about a log in format {kind.name}; give lists.")
        return Made(candidates, shards[0], _path(items), tuple(features), tuple(context))
    if not isinstance(candidates, (str, os.PathLike)):
        raise InputError(
            "candidates must be a file of lists, module:factory, or what read_candidates gave, got "
            f"{type(candidates).__name__}."
        )
    if features:
        raise InputError("features are what policies are given; lists of candidates are found by their context.")
    columns = with_context(candidates, columns, context)
    if is_large(Path(candidates)):
        return FilteredLists.of(
            str(candidates),
            n_actions=n_actions,
            items=_path(items),
            positional=kind.positional,
            columns=columns or {},
        )
    return ListsFile(
        str(candidates), n_actions, _path(items), on_error, kind.positional, tuple((columns or {}).items())
    )


def is_factory(candidates: Any) -> bool:
    """Whether candidates are named by who makes them, "module:factory"."""
    return isinstance(candidates, str) and ":" in candidates and not Path(candidates).exists()


def _path(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


def check_context(context: Sequence[str]) -> Sequence[str]:
    """Return `context` if it is names of columns."""
    if isinstance(context, str) or not isinstance(context, Sequence) or not all(isinstance(c, str) for c in context):
        raise InputError(f"context must be the names of columns, such as ('user',), got {context!r}.")
    return context


def log_name(log: Any) -> str:
    """What messages call a log."""
    if isinstance(log, (str, os.PathLike)):
        return str(log)
    parts = [str(part) for part in log] if isinstance(log, Iterable) else [str(log)]
    return parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more"
