"""A log evaluated where it lies, beside a bare `SELECT count(*), sum(reward)` of the same engine in the same run.

Run it with `python -m benchmarks.pushed [--quick] [--rounds N] [--candidates P] [--folder …] [--json …]`. The log is in
Parquet files, one day each, read by DuckDB. Measured, by the clock and in processor seconds:

- `bare`: SELECT count(*), sum(reward) over all rounds, before and after everything else;
- `columns`: the same with the sum or minimum of every column that an evaluation needs;
- `table`: an evaluation by statements, with the bytes that they move, twice; `unstated` the same without
  `min_propensity`, so that the smallest propensity is asked for too; `wide` with a column for each slot;
- `files`: an evaluation of the same files here; its document must be the same bytes;
- `first`, `again`, `one day more`: with a state, all days but one, the same again, and one day more; `since` the same
  where days before are trusted.

The last lines say what 10^10 rounds would take at these rates.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._cluster_world import FLOOR, M, factory, write_log

FAR = 10**10


class Counting:
    """DuckDB, with the bytes that its answers have."""

    def __init__(self, connection: Any) -> None:
        from comband.evaluation.logs.sql.engines import DuckDb

        self._inner, self.moved, self.dialect = DuckDb(connection), 0, DuckDb.dialect

    def fetch(self, statement: str) -> Any:
        """The answer, counted."""
        found = self._inner.fetch(statement)
        self.moved += int(found.nbytes)
        return found

    def frozen(self) -> Any:
        """One state of the tables."""
        return self._inner.frozen()


def timed(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds and processor seconds of some work, and what it gives."""
    began, used = time.perf_counter(), time.process_time()
    found = work()
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}, found


def by_day(folder: Path, n_rounds: int, per_day: int) -> int:
    """The log, each file in the folder of its day; how many bytes it takes."""
    log, plain = folder / "log", folder / "written"
    if not log.exists():
        write_log(plain, n_rounds, per_file=per_day)
        for i, path in enumerate(sorted(plain.glob("*.parquet"))):
            day = plain / f"day={i:04}"
            day.mkdir()
            path.rename(day / "rounds.parquet")
        plain.rename(log)
    return sum(path.stat().st_size for path in log.rglob("*.parquet"))


def measure(folder: Path, n_rounds: int, per_day: int, n_policies: int) -> dict[str, Any]:
    """All figures, by name."""
    import duckdb

    from comband.evaluation import evaluate_log
    from comband.evaluation.logs.sql import SqlTable

    size = by_day(folder, n_rounds, per_day)
    log = folder / "log"
    days = sorted(path.name for path in log.iterdir())
    connection = duckdb.connect()
    engine = Counting(connection)
    table = f"read_parquet('{log}/*/*.parquet', hive_partitioning = true)"
    before = f"read_parquet('{folder}/before/*/*.parquet', hive_partitioning = true)"
    lists = factory(n_policies)
    options: dict[str, Any] = {"sparsity": 1, "min_propensity": FLOOR / 100}
    found: dict[str, Any] = {"rounds": n_rounds, "days": len(days), "candidates": n_policies, "file_bytes": size}

    def note(name: str, work: Callable[[], Any]) -> Any:
        moved = engine.moved
        figures, answer = timed(work)
        found[name] = {**figures, "moved": engine.moved - moved}
        print(
            f"{name:14} {figures['seconds']:8.2f} s, CPU {figures['cpu']:8.2f} s, moved {engine.moved - moved:>13,} B"
        )
        sys.stdout.flush()
        return answer

    def bare() -> Any:
        return connection.sql(f"SELECT count(*), sum(list_sum(rewards)) FROM {table}").fetchall()

    warm = evaluate_log(log / days[0], lists, **options)  # loops are compiled
    assert warm.trusted
    note("bare", bare)
    everything = (
        "count(*), sum(id), sum(context), sum(list_sum(items)), sum(list_sum(rewards)), min(list_min(propensities))"
    )
    note("columns", lambda: connection.sql(f"SELECT {everything} FROM {table}").fetchall())
    there = note("table", lambda: evaluate_log(SqlTable(engine, table), lists, **options))
    note("bare again", bare)
    note("table again", lambda: evaluate_log(SqlTable(engine, table), lists, **options))
    note("unstated", lambda: evaluate_log(SqlTable(engine, table), lists, sparsity=1))
    here = note("files", lambda: evaluate_log(log, lists, **options))
    found["same_bytes"] = json.dumps(there.as_dict()) == json.dumps(here.as_dict())
    slots = ", ".join(f"{one}s[{i + 1}] AS {one}_{i}" for one in ("item", "reward") for i in range(M))
    slots += ", " + ", ".join(f"propensities[{i + 1}] AS propensity_{i}" for i in range(M))
    connection.execute(f"CREATE TABLE wide AS SELECT id, context, {slots} FROM {table}")
    total = " + ".join(f"sum(reward_{i})" for i in range(M))
    note("bare, wide", lambda: connection.sql(f"SELECT count(*), {total} FROM wide").fetchall())
    wide = note("wide", lambda: evaluate_log(SqlTable(engine, "wide"), lists, **options))
    found["same_bytes"] &= json.dumps(wide.as_dict()) == json.dumps(here.as_dict())
    connection.execute("DROP TABLE wide")
    state = folder / "state.db"
    state.unlink(missing_ok=True)
    shutil.rmtree(folder / "before", ignore_errors=True)
    (folder / "before").mkdir()
    for name in days[:-1]:
        (folder / "before" / name).symlink_to(log / name)
    options |= {"partition": "day", "state": state}

    def look(**more: Any) -> Any:
        connection.execute(f"CREATE OR REPLACE VIEW growing AS SELECT * FROM {more.pop('source')}")
        return evaluate_log(SqlTable(engine, "growing"), lists, **options, **more)

    note("first", lambda: look(source=before))
    note("again", lambda: look(source=before))
    kept = state.read_bytes()
    one = note("one day more", lambda: look(source=table))
    state.write_bytes(kept)
    trusted = note("since", lambda: look(source=table, since=days[-1].partition("=")[2]))
    found["state_bytes"] = state.stat().st_size
    del options["state"]
    full = note("rescan", lambda: evaluate_log(SqlTable(engine, table), lists, **options))
    found["same_increments"] = all(json.dumps(a.as_dict()) == json.dumps(full.as_dict()) for a in (one, trusted))
    return found


def told(found: dict[str, Any]) -> list[str]:
    """What the figures say."""
    n, bare = found["rounds"], min(found["bare"]["cpu"], found["bare again"]["cpu"])
    found["table"] = min(found["table"], found["table again"], key=lambda one: float(one["cpu"]))
    lines = [f"same bytes: {found['same_bytes']}; increments as a rescan: {found['same_increments']}"]
    for name, base in (("table", bare), ("unstated", bare), ("wide", found["bare, wide"]["cpu"])):
        used, moved = found[name]["cpu"], found[name]["moved"]
        scans, share = used / found["columns"]["cpu"], moved / found["file_bytes"]
        lines.append(
            f"{name}: {used / base:.1f} bare statements of CPU (target 4), {scans:.1f} scans of all columns; moved "
            f"{share:.1%} of the files"
        )
    for name in ("bare", "table", "files"):
        rate = n / found[name]["cpu"]
        lines.append(f"{FAR:.0e} rounds, {name}: {FAR / rate / 3600:.1f} processor hours at {rate:,.0f} rounds/s")
    daily = FAR / found["days"]
    own = found["since"]["cpu"] / (n / found["days"])
    lines.append(f"a day of {daily:,.0f} of these rounds, with a state and --since: {own * daily / 60:.0f} minutes")
    moved, kept = (size * FAR / n / 1e9 for size in (found["table"]["moved"], found["state_bytes"]))
    lines.append(f"moved: {moved:,.0f} GB; state: {kept:,.0f} GB")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="400,000 rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--candidates", type=int, choices=(10, 100, 1000), default=10)
    parser.add_argument("--folder", type=Path, help="where the log stays; a temporary one otherwise")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    n_rounds = options.rounds or (400_000 if options.quick else 50_000_000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        found = measure(folder, n_rounds, max(n_rounds // 50, 1), options.candidates)
        print("\n".join(told(found)))
        if options.json:
            options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
