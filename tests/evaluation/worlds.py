"""A small log in many files and groups of rows, its candidates as lists and as policies, and ways to work on it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import comband as cb
from comband.cluster import InProcess
from tests.evaluation.logs.worlds import small_log

N_CONTEXTS = 30


def write_log(folder: Path, n: int = 3000, files: int = 3, group: int = 100) -> tuple[Path, Path, Path]:
    """One file, the same rows in several files of a folder, and the candidates' lists."""
    rounds, policies = small_log(n)
    whole, parts, lists = folder / "one.parquet", folder / "log", folder / "lists.parquet"
    cb.write_rounds(rounds, whole)
    cb.write_candidates(policies, np.arange(N_CONTEXTS), lists)
    split(pq.read_table(whole), parts, files, group)
    return whole, parts, lists


def split(table: pa.Table, folder: Path, files: int, group: int) -> None:
    """Rows in order, in several files, some of them in folders of hive partitions."""
    edges = [len(table) * k // files for k in range(files + 1)]
    for k in range(files):
        path = folder / f"day={k // 2}" / f"part-{k}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            table.slice(edges[k], edges[k + 1] - edges[k]), path, row_group_size=group, write_page_checksum=True
        )


class Table:
    """A policy of the user's own, which looks its lists up by the context's number."""

    def __init__(self, lists: np.ndarray, problem: cb.Problem) -> None:
        self.lists, self.problem = lists, problem

    def predict(self, X: Any) -> np.ndarray:
        assert X.dtype == np.int64
        return np.asarray(self.lists[X])


def make_policies() -> cb.PolicySet:
    """What `tests.evaluation.worlds:make_policies` names."""
    policies = small_log(1)[1]
    lists = policies.predict(np.arange(N_CONTEXTS))
    problem = policies[0].problem  # type: ignore[attr-defined]
    return cb.PolicySet([Table(lists[:, p], problem) for p in range(len(policies))], policies.names)


class Named(Table):
    """One whose contexts are called u0, u1, …"""

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(np.array([int(name[1:]) for name in X]))


def make_named() -> cb.PolicySet:
    """The same policies for contexts that are text."""
    made = make_policies()
    return cb.PolicySet([Named(policy.lists, policy.problem) for policy in made], made.names)  # type: ignore[attr-defined]


def make_linear() -> cb.PolicySet:
    """Policies of two features."""
    rng = np.random.default_rng(5)
    return cb.PolicySet.linear(rng.standard_normal((4, 2, 20)), cb.Problem(20, 3, 1))


COUNTS = {"made": 0, "asked": 0}


class Counted(Table):
    """One that counts the contexts it is asked about, in its process."""

    def predict(self, X: Any) -> np.ndarray:
        COUNTS["asked"] += len(X)
        return super().predict(X)


def make_counted() -> cb.PolicySet:
    """The same policies; how often they are made is counted too."""
    COUNTS["made"] += 1
    made = make_policies()
    return cb.PolicySet([Counted(policy.lists, policy.problem) for policy in made], made.names)  # type: ignore[attr-defined]


def counts() -> dict[str, int]:
    """What was counted in this process, which begins anew."""
    found = dict(COUNTS)
    COUNTS.update(made=0, asked=0)
    return found


class Scrambled(InProcess):
    """Parts are made in any order, some twice, sent elsewhere and back, and added up in any groups."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def each(self, what: str, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        made: list[Any] = [None] * len(items)
        for i in self.rng.permutation(np.concatenate([np.arange(len(items)), self.rng.integers(len(items), size=3)])):
            item, others = pickle.loads(pickle.dumps((items[i], shared)))
            made[i] = pickle.loads(pickle.dumps(function(item, *others)))
        return made

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> Any:
        order = self.rng.permutation(len(handles))
        cuts = np.unique(self.rng.integers(1, len(handles) + 1, size=3))
        groups = [group for group in np.split(order, cuts) if len(group)]
        sums = [pickle.loads(pickle.dumps(function([handles[i] for i in group], *shared))) for group in groups]
        return reduce(add, [sums[i] for i in self.rng.permutation(len(sums))])


class Slow(Table):
    """One that takes its time."""

    def predict(self, X: Any) -> np.ndarray:
        time.sleep(0.02)
        return super().predict(X)


def make_slow() -> cb.PolicySet:
    """The same policies, some 0.2 s per part."""
    made = make_policies()
    return cb.PolicySet([Slow(policy.lists, policy.problem) for policy in made], made.names)  # type: ignore[attr-defined]
