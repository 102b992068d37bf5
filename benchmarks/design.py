"""`python -m benchmarks.design [--quick] [--json FILE]`: solvers of the exploration design.

Synthetic incidence: every event has a topic, every policy a chance of covering each topic. Times are seconds of one
core (CPU time of this process, one thread); all solvers of an instance run in turn in one process.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from comband.explore.design import COLUMNS_A_CALL, WARM_START_FROM
from comband.explore.solvers.corrective import FullyCorrective, warm_start
from comband.explore.solvers.frank_wolfe import ExactStep, PrintedStep, Rule, minimise
from comband.explore.solvers.incidence import (
    BLOCK_WORDS,
    LANES,
    Incidence,
    PackedIncidence,
    SparseIncidence,
    build_incidence,
)
from comband.explore.solvers.potential import LogBarrier
from comband.explore.solvers.stopping import State, Stopping

GAMMA = 0.5
SOLVERS: dict[str, tuple[Rule, int]] = {
    "corrective, several": (FullyCorrective(), COLUMNS_A_CALL),
    "corrective, one": (FullyCorrective(), 1),
    "pairwise": (ExactStep("pairwise"), 1),
    "away": (ExactStep("away"), 1),
    "line search": (ExactStep(), 1),
    "as printed": (PrintedStep(), 1),
}


@dataclass(frozen=True)
class Family:
    """Sizes of an instance."""

    name: str
    K: int
    m: int
    s: int
    P: int
    E: int
    density: float
    topics: int

    @property
    def mu(self) -> float:
        """The paper's accuracy."""
        return self.s * (GAMMA * self.m / self.K) ** 2 / 2


QUICK = [
    Family("few tags", 20, 5, 2, 100, 2_000, 0.4, 20),
    Family("one label", 20, 1, 1, 1_000, 5_000, 0.25, 20),
    Family("news", 200, 5, 1, 1_000, 10_000, 0.2, 40),
    Family("unstructured", 100, 5, 1, 300, 1_000, 0.2, 1_000),
    Family("long tail", 5_000, 5, 1, 2_000, 10_000, 0.02, 30),
]
FULL = [
    *QUICK,
    Family("many labels", 160, 10, 5, 2_000, 20_000, 0.35, 40),
    Family("shop", 1_000, 10, 3, 5_000, 20_000, 0.1, 50),
    Family("large long tail", 5_000, 5, 1, 20_000, 100_000, 0.02, 40),
]
LARGE = Family("large", 500, 5, 1, 20_000, 100_000, 0.2, 40)
LARGE_QUICK = Family("large (quick)", 500, 5, 1, 4_000, 20_000, 0.2, 40)


def make(family: Family, seed: int = 0) -> tuple[Incidence, LogBarrier]:
    """Uniform logging, rewards of 1, s of them per round: every event weighs s/E."""
    rng = np.random.default_rng(seed)
    a, topics = 0.3, rng.integers(family.topics, size=family.E)
    hit = rng.beta(a, a * (1 - family.density) / family.density, size=(family.topics, family.P))
    bound = np.round(256 * np.maximum(hit, family.m / family.K)).clip(0, 255).astype(np.uint8)

    def blocks() -> Iterator[tuple[NDArray[np.bool_], NDArray[np.float64]]]:
        for start in range(0, family.E, 64 * BLOCK_WORDS):
            z = topics[start : start + 64 * BLOCK_WORDS]
            drawn = rng.integers(0, 256, (len(z), family.P), dtype=np.uint8)
            yield drawn < bound[z], np.full(len(z), family.s / family.E)

    incidence, weights = build_incidence(blocks(), merge=False)
    return incidence, LogBarrier(weights, GAMMA, family.m / family.K)


@dataclass
class Target:
    """What it took to get somewhere."""

    calls: int
    seconds: float
    support: int


@dataclass
class Outcome:
    """When the targets were met, where the run ended, and the seconds it took in all."""

    reached: dict[str, Target]
    state: State
    seconds: float


class EnoughError(Exception):
    """The run has had its seconds of CPU time (the library's own limit is by the clock)."""


def solve(
    potential: LogBarrier,
    incidence: Incidence,
    name: str,
    targets: dict[str, Callable[[State], bool]],
    stopping: Stopping,
    cap: float = math.inf,
) -> Outcome:
    """Run one solver; when did it first meet each target? Calls of the warm start are counted, at their cost."""
    rule, n_columns = SOLVERS[name]
    reached: dict[str, Target] = {}
    states: list[State] = []
    begin = time.process_time()
    start, warm_calls = None, 0
    if n_columns > 1 and np.count_nonzero(potential.weights) >= WARM_START_FROM:
        start, warm_calls = warm_start(potential, incidence, n_columns=n_columns)

    def watch(state: State) -> None:
        for target, met in targets.items():
            if target not in reached and met(state):
                reached[target] = Target(warm_calls + state.calls, time.process_time() - begin, state.support)
        states[:] = [state]
        if time.process_time() - begin > cap:
            raise EnoughError

    with suppress(EnoughError):
        minimise(potential, incidence, rule=rule, stopping=stopping, n_columns=n_columns, start=start, callback=watch)
    return Outcome(reached, states[-1], time.process_time() - begin)


def table(family: Family, incidence: Incidence, potential: LogBarrier, *, cap: float, repeats: int) -> dict[str, Any]:
    """Every solver on one family, in turn, `repeats` times; medians."""
    targets: dict[str, Callable[[State], bool]] = {
        "certificate": lambda state: state.gradient_norm <= 2 * family.s,
        "mu": lambda state: state.gap <= family.mu,
        "1e-6": lambda state: state.relative_gap <= 1e-6,
    }
    stopping = Stopping(gap=min(family.mu, 1e-6 * potential.mass))
    runs: dict[str, list[Outcome]] = {name: [] for name in SOLVERS}
    quickest = math.inf
    for _ in range(repeats):
        for name in SOLVERS:
            # on the large family the printed rule runs long enough to show the ratio, if it does not arrive before
            long = name == "as printed" and family.name == LARGE.name
            patience = 15 * cap if name.startswith("corrective") else cap
            run = solve(potential, incidence, name, targets, stopping, 205 * quickest if long else patience)
            runs[name].append(run)
            if "mu" in run.reached:
                quickest = min(quickest, run.reached["mu"].seconds)
    best = min((run.state for some in runs.values() for run in some), key=lambda state: state.gap)
    below = 2 * family.s / best.gradient_norm
    print(
        f"\n{family.name}: K={family.K} m={family.m} s={family.s} P={family.P} E={family.E} "
        f"({type(incidence).__name__}, density {family.density}); μ={family.mu:.2g}, "
        f"relative {family.mu / family.s:.2g}; 2s is {below:.2f} times the optimum's maximum"
    )
    print(f"  {'calls / seconds / support to':<22}{'certificate 2s':>22}{'μ':>24}{'relative gap 1e-6':>24}")
    result: dict[str, Any] = {"family": asdict(family), "2s/maximum": below, "solvers": {}}
    for name, some in runs.items():
        cells, row = [], {}
        for target in targets:
            got = [run.reached[target] for run in some if target in run.reached]
            if got:
                seconds = statistics.median(g.seconds for g in got)
                row[target] = {"calls": got[0].calls, "seconds": seconds, "support": got[0].support}
                cells.append(f"{got[0].calls} / {seconds:.3g} / {got[0].support}")
            else:
                run = some[0]
                row[target] = {
                    "not_after_calls": run.state.calls,
                    "not_after_seconds": run.seconds,
                    "gap": run.state.gap,
                }
                cells.append(f"not in {run.state.calls} / {run.seconds:.3g}")
        print(f"  {name:<22}{cells[0]:>22}{cells[1]:>24}{cells[2]:>24}", flush=True)
        result["solvers"][name] = row
    result["printed"] = printed_ratio(family, result["solvers"])
    return result


def printed_ratio(family: Family, rows: dict[str, Any]) -> dict[str, Any] | None:
    """How much longer the printed rule takes to μ; a bound and an extrapolation where it did not arrive."""
    ours = rows["corrective, several"].get("mu", {}).get("seconds")
    if ours is None:
        return None
    row = rows["as printed"]["mu"]
    if "seconds" in row:
        ratio = row["seconds"] / ours
        print(f"  the printed rule took {ratio:.3g} times as long to μ (measured)")
        return {"ratio": ratio, "kind": "measured"}
    spent, gap = row["not_after_seconds"], row["gap"]
    # Frank-Wolfe's gap falls as 1/t at best, so the remaining time is at least proportional.
    guess = spent * gap / family.mu / ours
    print(
        f"  the printed rule had not reached μ after {spent / ours:.3g} times as long (measured lower bound; "
        f"gap {gap:.2g}); extrapolated by gap ~ 1/t: {guess:.2g} times (not measured)"
    )
    return {"ratio_at_least": spent / ours, "extrapolated": guess, "kind": "lower bound"}


def timed(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


def passes(family: Family, incidence: PackedIncidence, potential: LogBarrier) -> dict[str, float]:
    """One oracle pass against one read of the same memory, in turn."""
    gains = potential.gains(np.full(len(potential.weights), 0.3))
    words = incidence.lanes.reshape(-1).view(np.uint64)
    incidence.scores(gains), words.sum()
    pairs = [(timed(lambda: incidence.scores(gains)), timed(words.sum)) for _ in range(9)]
    one, read = (statistics.median(column) for column in zip(*pairs, strict=True))
    cells = family.P * family.E
    ratio = statistics.median(a / b for a, b in pairs)
    print(
        f"\nmemory: {incidence.nbytes / 1e6:.1f} MB, {incidence.nbytes / cells:.4f} bytes per cell (1/8 is 0.125); "
        f"a pass {one:.3f} s, a bare read {read:.3f} s, ratio {ratio:.1f}"
    )
    return {"bytes_per_cell": incidence.nbytes / cells, "pass": one, "read": read, "ratio": ratio}


def first_columns(incidence: PackedIncidence, n: int) -> PackedIncidence:
    """The first n policies."""
    return PackedIncidence(np.ascontiguousarray(incidence.lanes[:, : -(-n // LANES)]), n)


def scaling(incidence: PackedIncidence, potential: LogBarrier) -> dict[str, Any]:
    """Seconds to a relative gap of 1e-6 on parts of one instance; slopes of log time against log size."""
    lanes, n_blocks, n_policies = incidence.lanes, len(incidence.lanes), incidence.n_policies
    result: dict[str, Any] = {}
    for axis in ("events", "policies"):
        sizes, seconds = [], []
        for share in (8, 4, 2, 1):
            blocks, policies = (n_blocks // share, n_policies) if axis == "events" else (n_blocks, n_policies // share)
            part = first_columns(PackedIncidence(lanes[:blocks], n_policies), policies)
            weights = potential.weights[: 64 * part.n_words]
            scaled = LogBarrier(weights / weights.sum() * potential.mass, potential.floor, potential.uniform)
            stopping = Stopping(relative_gap=1e-6)
            again = (
                timed(lambda: solve(scaled, part, "corrective, several", {}, stopping))  # noqa: B023
                for _ in range(3)
            )
            sizes.append(64 * part.n_words if axis == "events" else policies)
            seconds.append(statistics.median(again))
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        steps = ", ".join(f"{n}: {t:.3f} s" for n, t in zip(sizes, seconds, strict=True))
        print(f"to 1e-6 by {axis}: {steps}; slope {slope:.2f} (1 is linear)", flush=True)
        result[axis] = {"sizes": sizes, "seconds": seconds, "slope": slope}
    return result


def densities() -> list[dict[str, float]]:
    """One pass over packed bits and over sparse indices of the same incidence."""
    rows = []
    rng = np.random.default_rng(0)
    E, P = 20_480, 2_000
    for density in (0.01, 1 / 32, 0.05, 0.1, 0.2):
        A = rng.random((E, P), dtype=np.float32) < density
        w = rng.random(E)
        packed, weights = build_incidence([(np.hstack([A, np.ones((E, 200), bool)]), w)], merge=False)
        where = np.nonzero(A.T)
        starts = np.concatenate([[0], np.cumsum(A.sum(axis=0))])
        sparse = SparseIncidence(starts, where[1].astype(np.int32), E)
        assert isinstance(packed, PackedIncidence)
        packed = first_columns(packed, P)
        packed.scores(weights), sparse.scores(weights)
        pairs = [(timed(lambda: packed.scores(weights)), timed(lambda: sparse.scores(weights))) for _ in range(5)]  # noqa: B023
        bits, indices = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"density {density:.3f}: bits {1e3 * bits:.1f} ms, {packed.nbytes / 1e6:.1f} MB; "
            f"indices {1e3 * indices:.1f} ms, {sparse.nbytes / 1e6:.1f} MB"
        )
        rows.append({"density": density, "bits": bits, "indices": indices})
    return rows


def against_cvxpy(sizes: list[tuple[int, int]], cap: float) -> list[dict[str, Any]]:
    """cvxpy with Clarabel on growing instances, as far as it gets; ours to a relative gap of 1e-9."""
    try:
        import cvxpy
    except ImportError:
        print("cvxpy is not installed (it is in the test extra): no comparison")
        return []
    cp: Any = cvxpy
    rows = []
    for P, E in sizes:
        family = Family("cvxpy", 200, 5, 1, P, E, 0.2, 40)
        incidence, potential = make(family)
        assert isinstance(incidence, PackedIncidence)
        every = incidence.columns(np.arange(P)).view(np.uint8)
        A = np.unpackbits(every, axis=1, bitorder="little").T[:E].astype(float)
        w = potential.weights[:E]
        p = cp.Variable(P, nonneg=True)
        model = cp.Problem(cp.Minimize(-w @ cp.log((1 - GAMMA) * (A @ p) + GAMMA * 5 / 200)), [cp.sum(p) == 1])
        stopping = Stopping(relative_gap=1e-9)
        ours = statistics.median(
            timed(lambda: solve(potential, incidence, "corrective, several", {}, stopping))  # noqa: B023
            for _ in range(3)
        )
        value = solve(potential, incidence, "corrective, several", {}, stopping).state.value
        begin = time.process_time()
        try:
            model.solve(solver="CLARABEL", time_limit=cap)
            status = str(model.status)
        except cp.error.SolverError:
            status = "failed"
        theirs = time.process_time() - begin
        row = {"P": P, "E": E, "ours": ours, "cvxpy": theirs, "status": status, "ratio": theirs / ours}
        if status == "optimal":
            row["value_difference"] = value - float(model.value)
        print(
            f"P={P} E={E}: cvxpy with Clarabel {theirs:.2f} s ({status}), ours {ours:.3f} s, ratio {theirs / ours:.0f}"
            + (f", our objective minus theirs {row['value_difference']:+.1e}" if status == "optimal" else ""),
            flush=True,
        )
        rows.append(row)
        if status != "optimal":
            break
    return rows


def main() -> int:
    """Print the tables; optionally write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--only", choices=["families", "large", "densities", "cvxpy"], help="one part of it")
    arguments = parser.parse_args()
    quick = arguments.quick
    with threadpool_limits(1):
        warm, barrier = make(Family("warm-up", 20, 2, 1, 64, 3_000, 0.3, 5))
        cold, cold_barrier = make(Family("warm-up", 2000, 2, 1, 64, 3_000, 0.01, 5))
        for name in SOLVERS:  # compile before anything is timed
            solve(barrier, warm, name, {}, Stopping(max_calls=5))
            solve(cold_barrier, cold, name, {}, Stopping(max_calls=5))
        warm_start(barrier, warm, n_columns=2)
        figures: dict[str, Any] = {"families": []}
        if arguments.only in (None, "families"):
            for family in QUICK if quick else FULL:
                incidence, potential = make(family)
                repeats = 1 if family.E > 50_000 else 3
                row = table(family, incidence, potential, cap=0.5 if quick else 4.0, repeats=repeats)
                figures["families"].append(row)
        if arguments.only in (None, "large"):
            large = LARGE_QUICK if quick else LARGE
            begin = time.process_time()
            incidence, potential = make(large)
            print(f"\nbuilding the large incidence (drawing it included): {time.process_time() - begin:.1f} s")
            assert isinstance(incidence, PackedIncidence)
            figures["memory"] = passes(large, incidence, potential)
            figures["scaling"] = scaling(incidence, potential)
            figures["families"].append(table(large, incidence, potential, cap=1.0 if quick else 25.0, repeats=1))
        if arguments.only in (None, "densities"):
            print()
            figures["densities"] = densities()
        if arguments.only in (None, "cvxpy"):
            print()
            small, more = [(100, 500), (300, 1_000)], [(500, 3_000), (1_000, 10_000), (2_000, 20_000)]
            figures["cvxpy"] = against_cvxpy(small if quick else small[1:] + more, cap=10.0 if quick else 240.0)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(figures, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
