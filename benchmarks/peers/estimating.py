"""Job 2: estimating candidates' values from a log: error, coverage of intervals (also under peeking), time and memory.

The log is of a mixture of the candidates' lists and uniform ones (half and half) in a made world. For time and memory
each method works in a process of its own on the same file; what is timed is the work on arrays in memory: for
everybody, whatever they need to be told which candidate lists which item included. Coverage is of 95% intervals of two
of ten candidates' values, at the end of a log and at all of ten looks; a method that promises all ten at once promises
more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks.evaluate import timed
from benchmarks.loss import make_world
from benchmarks.peers.offpolicy import slate_value
from benchmarks.peers.results import Ledger, Row, grouped, markdown, peak_megabytes, peer, spread

Array = NDArray[np.float64]
FLOOR, LEVEL, LOOKS = 0.5, 0.05, 10
LOG_ROUNDS, LOG_CANDIDATES = 4000, 10  # of the logs on which coverage is measured
BETTING_BOUND = 0.9  # of ville's bets, chosen on other seeds among 0.5 (its default), 0.75 and 0.9
Log = dict[str, NDArray[Any]]


def make_log(world_name: str, n_candidates: int, n_rounds: int, seed: int) -> Log:
    """Lists of all candidates, what was shown with its propensities and rewards, and the true values."""
    world = make_world(None, world_name, n_candidates, seed)
    rng = np.random.default_rng([seed, 11])
    law = cb.Mixture(world.policies, np.full(n_candidates, 1 / n_candidates), problem=world.problem, floor=FLOOR)
    parts: list[tuple[NDArray[Any], ...]] = []
    for start in range(0, n_rounds, 100_000):
        batch = world.sample(min(100_000, n_rounds - start), rng)
        drawn = law.draw(batch.contexts, rng)
        parts.append((batch.contexts, drawn.lists, drawn.propensities, batch.answer(drawn.lists)))
    rows, shown, q, rewards = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {
        "lists": world.policies.predict(np.arange(len(world.chances))),
        "rows": rows,
        "shown": shown,
        "q": q,
        "rewards": rewards,
        "values": world.values(world.policies),
        "n_actions": np.array(world.problem.n_actions),
    }


def least(log: Log) -> float:
    """The smallest propensity, known from how lists were drawn."""
    return FLOOR * float(log["shown"].shape[1]) / int(log["n_actions"])


def listed_by(log: Log, p: int) -> NDArray[np.bool_]:
    """Which shown items (n, m) candidate p lists."""
    own = log["lists"][log["rows"], p]
    return np.asarray((log["shown"][:, :, None] == own[:, None, :]).any(axis=2))


def comband_evaluation(log: Log, policies: list[int] | None = None) -> Any:
    """comband.evaluate on the log, of all candidates or of some."""
    lists = log["lists"] if policies is None else log["lists"][:, policies]
    n, m = log["shown"].shape
    problem = cb.Problem(n_actions=int(log["n_actions"]), list_size=m, sparsity=1)
    candidates = cb.PolicySet.from_lists(np.ascontiguousarray(lists.transpose(1, 0, 2)), problem)
    decisions = cb.Decisions(
        ids=np.arange(n),
        lists=log["shown"],
        propensities=log["q"],
        epochs=np.zeros(n, np.int64),
        contexts=log["rows"],
    )
    rounds = cb.Rounds(decisions, log["rewards"])
    return cb.evaluate(rounds, candidates, max_reward=1, min_propensity=least(log), delta=LEVEL)


def by_comband(log: Log) -> Array:
    """With intervals and ε: it has no values without."""
    answer = comband_evaluation(log)
    return np.array([each.value for each in sorted(answer.candidates, key=lambda each: each.index)])


def by_obp(log: Log, clicked: bool = False) -> Array:
    """Independent IPS, a candidate at a time; on all rounds, or on those with a click, which gives the same."""
    some = log["rewards"].any(axis=1) if clicked else np.ones(len(log["rows"]), np.bool_)
    part = {**log, **{name: log[name][some] for name in ("rows", "shown", "q", "rewards")}}
    K = int(log["n_actions"])
    values = [
        slate_value("IIPS", listed_by(part, p), part["q"], part["rewards"], K) for p in range(log["lists"].shape[1])
    ]
    return np.asarray(np.array(values) * some.mean())


def by_vw(log: Log) -> Array:
    """vw-estimators' IPS, an example per shown item: a random one of m, so that values are m times its mean."""
    kind, m, values = peer("estimators.bandits.ips").Estimator, log["shown"].shape[1], []
    q, rewards = (log["q"] / m).ravel().tolist(), log["rewards"].ravel().tolist()
    for p in range(log["lists"].shape[1]):
        estimator = kind()
        for chance, reward, own in zip(q, rewards, (listed_by(log, p) / m).ravel().tolist(), strict=True):
            estimator.add_example(chance, reward, own)
        values.append(m * estimator.get())
    return np.array(values)


def totals(log: Log, p: int) -> Array:
    """Importance-weighted rewards of candidate p, per round."""
    return np.asarray((log["rewards"] * listed_by(log, p) / log["q"]).sum(axis=1))


def by_ville(log: Log) -> Array:
    """ville's betting sequence on the importance-weighted totals."""
    kind, values = peer("ville").BettingCS, []
    for p in range(log["lists"].shape[1]):
        values.append(kind(bounds=(0.0, 1 / least(log)), alpha=LEVEL).update(totals(log, p)).estimate_[-1])
    return np.array(values)


def by_sql(log: Log) -> Array:
    """DuckDB: clicks joined with the candidates' lists; the tables are made from arrays."""
    duckdb, pandas = peer("duckdb"), peer("pandas")
    (N, P, m), n = log["lists"].shape, len(log["rows"])
    clicks = pandas.DataFrame(
        {
            "context": np.repeat(log["rows"], m),
            "item": log["shown"].ravel(),
            "reward": log["rewards"].ravel(),
            "q": log["q"].ravel(),
        }
    )
    lists = pandas.DataFrame(
        {
            "context": np.repeat(np.arange(N), P * m),
            "candidate": np.tile(np.repeat(np.arange(P), m), N),
            "item": log["lists"].ravel(),
        }
    )
    found = duckdb.sql(
        "SELECT candidate, sum(reward / q) AS total, sum((reward / q) ** 2) AS squares "
        "FROM clicks JOIN lists USING (context, item) WHERE reward > 0 GROUP BY candidate"
    ).fetchnumpy()
    assert len(clicks) == n * m
    assert len(lists) == N * P * m
    values = np.zeros(P)
    values[found["candidate"]] = found["total"] / n
    return values


SPEED: dict[str, Callable[[Log], Array]] = {
    "comband.evaluate": by_comband,
    "obp IIPS": by_obp,
    "obp IIPS, clicked rounds only": lambda log: by_obp(log, clicked=True),
    "vw-estimators IPS": by_vw,
    "ville BettingCS": by_ville,
    "DuckDB SQL": by_sql,
    "loading the log alone": lambda log: np.asarray(log["values"]),
}
# Rounds × candidates beyond which a method would take more than some ten minutes; obp also keeps the log several times.
MOST = {"vw-estimators IPS": 2e7, "ville BettingCS": 1e6, "obp IIPS": 2e8, "obp IIPS, clicked rounds only": 1e9}


def child(method: str, file: Path) -> None:
    """In a process of its own: the work once, and its values; compiled code is compiled before."""
    log = dict(np.load(file))
    few = {name: value[:200] if name in ("rows", "shown", "q", "rewards") else value for name, value in log.items()}
    SPEED[method](few)
    start, cpu = time.perf_counter(), time.process_time()
    values = SPEED[method](log)
    ended, spent = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"wall": ended, "seconds": spent, "memory": peak_megabytes(), "values": values.tolist()}))


def speed(method: str, file: Path, truth: Array) -> Row:
    """Time, peak memory and largest error of one method on one file."""
    for module in {"obp": ["obp.ope"], "vw-": ["estimators"], "vil": ["ville"], "Duc": ["duckdb"]}.get(method[:3], []):
        peer(module)
    printed = timed([sys.executable, "-m", "benchmarks.peers.estimating", method, str(file)])[3]
    found = json.loads(printed.splitlines()[-1])
    error = float(np.abs(np.array(found.pop("values")) - truth).max())
    return {**found, "error": error}


Interval = tuple[float, float]


def at_looks(log: Log) -> Iterator[int]:
    """Rounds at which somebody looks."""
    n = len(log["rows"])
    return (n * look // LOOKS for look in range(1, LOOKS + 1))


def prefix(log: Log, n: int) -> Log:
    """The first n rounds."""
    return {name: value[:n] if name in ("rows", "shown", "q", "rewards") else value for name, value in log.items()}


def comband_intervals(log: Log, p: int, alone: bool) -> list[Interval]:
    """comband.evaluate: of one candidate alone, or of all at once (of which p is read)."""
    found = []
    for n in at_looks(log):
        answer = comband_evaluation(prefix(log, n), [p] if alone else None)
        wanted = 0 if alone else p
        found.append(next(each.interval for each in answer.candidates if each.index == wanted))
    return found


def bootstrap_intervals(log: Log, p: int) -> list[Interval]:
    """obp's bootstrap of round totals (1,000 resamples instead of 10,000, for time)."""
    kind = peer("obp.utils").estimate_confidence_interval_by_bootstrap
    values, found = totals(log, p), []
    for n in at_looks(log):
        one = kind(values[:n], alpha=LEVEL, n_bootstrap_samples=1000, random_state=n)
        bounds = sorted(value for name, value in one.items() if "CI" in name)
        found.append((bounds[0], bounds[1]))
    return found


def vw_intervals(log: Log, p: int, module: str, **options: float) -> list[Interval]:
    """An interval class of vw-estimators, an example per round: its importance-weighted total, as ville gets it."""
    interval, found, before = peer(f"estimators.bandits.{module}").Interval(**options), [], 0
    values = totals(log, p).tolist()
    for n in at_looks(log):
        for total in values[before:n]:
            interval.add_example(1, total, 1)
        before = n
        found.append(interval.get(alpha=LEVEL))
    return found


def cressie_read_intervals(log: Log, p: int) -> list[Interval]:
    """Cressie-Read wants weights of mean 1: an example per shown item, a random one of m."""
    kind, m, found, before = peer("estimators.bandits.cressieread").Interval, log["shown"].shape[1], [], 0
    interval = kind(wmax=1 / least(log), rmin=0, rmax=1)
    q, rewards, own = log["q"] / m, log["rewards"], listed_by(log, p) / m
    for n in at_looks(log):
        for chance, reward, mine in zip(
            q[before:n].ravel().tolist(),
            rewards[before:n].ravel().tolist(),
            own[before:n].ravel().tolist(),
            strict=True,
        ):
            interval.add_example(chance, reward, mine)
        before = n
        low, high = interval.get(alpha=LEVEL)
        found.append((m * low, m * high))
    return found


def ville_intervals(log: Log, p: int, kind: str) -> list[Interval]:
    """A sequence of ville on the importance-weighted totals; its bets' bound c was chosen on other seeds."""
    options: dict[str, Any] = {"bounds": (0.0, 1 / least(log))}
    if kind == "BettingCS":
        options["c"] = BETTING_BOUND
    if kind == "AsymptoticCS":
        options = {"t_opt": len(log["rows"])}
    sequence = getattr(peer("ville"), kind)(alpha=LEVEL, **options).update(totals(log, p))
    return [(float(sequence.lower_[n - 1]), float(sequence.upper_[n - 1])) for n in at_looks(log)]


COVERAGE: dict[str, Callable[[Log, int], list[Interval]]] = {
    "comband.evaluate, all at once": lambda log, p: comband_intervals(log, p, alone=False),
    "comband.evaluate, one candidate": lambda log, p: comband_intervals(log, p, alone=True),
    "obp bootstrap": bootstrap_intervals,
    "vw-estimators gaussian": lambda log, p: vw_intervals(log, p, "gaussian"),
    "vw-estimators Cressie-Read": cressie_read_intervals,
    "vw-estimators confidence sequence": lambda log, p: vw_intervals(log, p, "cs", rmin=0, rmax=1 / least(log)),
    "ville BettingCS": lambda log, p: ville_intervals(log, p, "BettingCS"),
    "ville EmpiricalBernsteinCS": lambda log, p: ville_intervals(log, p, "EmpiricalBernsteinCS"),
    "ville AsymptoticCS": lambda log, p: ville_intervals(log, p, "AsymptoticCS"),
}


def coverage(method: str, logs: list[Log]) -> Row:
    """How often intervals hold at the end and at all looks, and how wide they are; two candidates per log."""
    start, end, always, widths = time.process_time(), [], [], []
    for log in logs:
        for p in (0, LOG_CANDIDATES - 1):
            true = float(log["values"][p])
            found = COVERAGE[method](log, p)
            held = [bool(low - 1e-12 <= true <= high + 1e-12) for low, high in found]
            end.append(held[-1])
            always.append(all(held))
            widths.append(found[-1][1] - found[-1][0])
    return {
        "end": end,
        "always": always,
        "width": float(np.median(widths)),
        "cover_seconds": time.process_time() - start,
    }


def run(ledger: Ledger, options: argparse.Namespace) -> None:
    """Coverage on many small logs, then time and memory on growing ones."""
    wanted = [name for name in COVERAGE if not options.methods or any(part in name for part in options.methods)]
    per_seed = 4 if options.quick else 10
    for world in ("nearly equal", "rare"):
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            common = {"part": "coverage", "world": world, "logs": per_seed, "seed": seed}
            keys = [{**common, "method": method} for method in wanted]
            keys = [key for key in keys if not ledger.has(key)]
            if keys:
                firsts = range(per_seed * seed, per_seed * (seed + 1))
                logs = [make_log(world, LOG_CANDIDATES, LOG_ROUNDS, one) for one in firsts]
                for key in keys:
                    ledger.run(key, lambda key=key, logs=logs: coverage(key["method"], logs))  # type: ignore[misc]
                print(f"estimating: coverage, {world}, seed {seed}", flush=True)
    sizes = [(10, 20_000), (100, 20_000)] if options.quick else [
        (10, 100_000), (100, 100_000), (1000, 100_000), (100, 1_000_000), (10, 10_000_000)
    ]  # fmt: skip
    wanted = [name for name in SPEED if not options.methods or any(part in name for part in options.methods)]
    for P, n in sizes:
        repetitions = 10 if P * n <= 10_000_000 else 3 if n <= 1_000_000 else 1  # larger ones take minutes each
        for seed in range(options.first_seed, options.first_seed + min(options.seeds, repetitions)):
            keys = [
                {"part": "speed", "candidates": P, "rounds": n, "method": method, "seed": seed}
                for method in wanted
                if P * n <= MOST.get(method, np.inf)
            ]
            keys = [key for key in keys if not ledger.has(key)]
            if keys:
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / "log.npz"
                    log = make_log("nearly equal", P, n, seed)
                    np.savez(file, **log)  # type: ignore[arg-type]
                    truth = log["values"]
                    del log
                    for key in keys:
                        ledger.run(key, lambda key=key, file=file, truth=truth: speed(key["method"], file, truth))  # type: ignore[misc]
                print(f"estimating: time, {P} candidates, {n:,} rounds, seed {seed}", flush=True)


def tables(rows: list[Row]) -> str:
    """Coverage and widths; time, memory and error."""
    text = []
    for (world,), some in grouped((row for row in rows if row["part"] == "coverage"), "world").items():
        lines = []
        for (method,), runs in grouped(some, "method").items():
            end, always = (np.concatenate([row[name] for row in runs]) for name in ("end", "always"))
            width = spread((row["width"] for row in runs), ".4f")
            lines.append([method, f"{end.mean():.3f}", f"{always.mean():.3f}", str(len(end)), width])
        text.append(f"### Coverage of 95% intervals: {world}, {LOG_ROUNDS:,} rounds, {LOOKS} looks\n")
        text.append(markdown(["method", "at the end", "at all looks", "intervals", "width at the end"], lines) + "\n")
    for (P, n), some in grouped((row for row in rows if row["part"] == "speed"), "candidates", "rounds").items():
        lines = []
        methods = {method: runs for (method,), runs in grouped(some, "method").items()}
        own = np.median([row["seconds"] for row in methods.get("comband.evaluate", [])] or [np.nan])
        for method, runs in methods.items():
            seconds = [row["seconds"] for row in runs]
            memory, error = (float(np.median([row[name] for row in runs])) for name in ("memory", "error"))
            factor = f"{np.median(seconds) / own:.1f}"
            lines.append([method, spread(seconds, ".3g"), factor, f"{memory:,.0f}", f"{error:.5f}"])
        text.append(f"### Time and memory: {P:,} candidates, {n:,} rounds\n")
        header = ["method", "seconds of CPU", "times comband", "peak MB", "largest error"]
        text.append(markdown(header, lines) + "\n")
    return "\n".join(text)


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]))
