"""EXP4-COMB-SPARSE: price of the FTRL step and of a round, stability, regret against K, and a long run.

python -m benchmarks.regret [--quick] [--json FILE] [--figures DIRECTORY] [--only PART …]

Parts: steps (FTRL against softmax), rounds (whole rounds against EXP4), stability (the lemma for both ν), regret (every
adversary against the bound), actions (regret while K grows 16-fold), long (T = 100,000 rounds, P = K = 1000).
Everything that is compared is run interleaved, and timed by processor time.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

import comband as cb
from comband import theory
from comband._kernels.ftrl import ftrl_solve, softmax_solve
from comband._kernels.lists import credit, inclusion
from comband.page.contexts import Contexts
from comband.theory import Barrier

Figures = dict[str, Any]


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    start = time.process_time_ns()
    for _ in range(repeats):
        call()
    return (time.process_time_ns() - start) / repeats / 1e9


class OneTable(cb.PolicySet):
    """P policies over a few contexts as one array (contexts, P, m): a million policies without a million objects."""

    def __init__(self, table: NDArray[np.int32]) -> None:
        self.table, self.fallback = table, None
        self.names = tuple(map(str, range(table.shape[1])))

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __getitem__(self, index: int) -> cb.Policy:
        return _Column(self.table, index)

    def check(self, problem: cb.Problem) -> None:
        """As the set it stands for."""
        assert problem.list_size == self.table.shape[2]

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: cb.Problem | None = None
    ) -> NDArray[np.int32]:
        """As the set it stands for."""
        if indices is None and len(X) == 1:
            return np.asarray(self.table[int(X[0])][None])  # a view: the look-up is not what is measured here
        return np.asarray(self.table[X] if indices is None else self.table[X][:, np.asarray(indices)])


class _Column:
    def __init__(self, table: NDArray[np.int32], index: int) -> None:
        self.table, self.index = table, index

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        return np.asarray(self.table[X, self.index])


def random_table(n_contexts: int, n_policies: int, problem: cb.Problem, rng: np.random.Generator) -> NDArray[np.int32]:
    """Random lists: m distinct actions each, one from each of m equal ranges."""
    width = problem.n_actions // problem.list_size
    draws = rng.integers(width, size=(n_contexts, n_policies, problem.list_size), dtype=np.int32)
    return draws + width * np.arange(problem.list_size, dtype=np.int32)


@njit()  # not cached: the cache would not see that the kernels have changed
def replay(stream: NDArray[np.float64], use_ftrl: bool, eta: float, scale: float, weights: NDArray[np.float64]) -> None:
    """One solve for each row of losses, from compiled code."""
    theta, shift = np.inf, 0.0
    for t in range(len(stream)):
        if use_ftrl:
            theta, shift, _, _ = ftrl_solve(stream[t], eta, scale, theta, shift, weights)
        else:
            softmax_solve(stream[t], eta, weights)


def steps(quick: bool) -> Figures:
    """Warm-started solves along a stream of rewards, beside one softmax for each of the same losses.

    Timed from compiled code, and as Python calls them, which at P = 100 counts about as much as the work.
    """
    rows = []
    for size, n in ((100, 4000), (10_000, 200), (1_000_000, 8 if quick else 20)):
        rng = np.random.default_rng(0)
        schedule = theory.exp4_comb_sparse(cb.Problem(1000, 5, 1), n_policies=size, horizon=100_000)
        eta, nu = schedule.step_size, schedule.barrier
        ftrl, stream, other = (
            cb.explore.solvers.Ftrl(size, eta=eta, nu=nu),
            np.zeros((n, size)),
            np.full(size, 1 / size),
        )
        popularity = rng.random(size)
        passes, kkt, total = 0, 0.0, 0.0
        for t in range(n):
            hit = rng.random(size) < 0.025 * (0.5 + popularity)
            losses = stream[t]
            losses[:] = stream[t - 1] if t else 0.0
            losses[hit] -= 1 / max(ftrl.weights[hit].sum(), 1e-9)
            ftrl.solve(losses)
            passes += ftrl.passes
            if t % max(n // 5, 1) == 0:
                residuals = ftrl.residuals(losses)
                kkt, total = max(kkt, residuals.stationarity), max(total, residuals.simplex)
        times, called = np.zeros((2, 7)), np.zeros((2, 7))
        for repeat in range(7):  # interleaved; the first compiles
            for kind in (0, 1):
                start = np.full(size, 1 / size)
                times[kind, repeat] = seconds(lambda: replay(stream, kind == 0, eta, eta / nu, start)) / n  # noqa: B023
            again = cb.explore.solvers.Ftrl(size, eta=eta, nu=nu)
            called[0, repeat] = seconds(lambda: [again.solve(losses) for losses in stream]) / n  # noqa: B023
            called[1, repeat] = seconds(lambda: [softmax_solve(losses, eta, other) for losses in stream]) / n  # noqa: B023
        mine, softmax = np.median(times[:, 1:], axis=1)
        call = np.median(called[:, 1:], axis=1)
        row = {"P": size, "ftrl_us": mine * 1e6, "softmax_us": softmax * 1e6, "ratio": mine / softmax}
        row |= {"called_ratio": call[0] / call[1], "passes": passes / n, "kkt_residual": kkt, "sum_error": total}
        rows.append(row)
        print(
            f"  P={size:<9,} FTRL {mine * 1e6:10.2f} µs  softmax {softmax * 1e6:10.2f} µs  ratio {mine / softmax:.2f} "
            f"(wanted ≤ 2; called from Python {call[0] / call[1]:.2f})  passes {passes / n:.2f}  "
            f"KKT residual {kkt:.1e}  |Σp−1| {total:.1e}",
            flush=True,
        )
    return {"steps": rows}


@njit()  # not cached: the cache would not see that the kernels have changed
def compiled_rounds(
    table: NDArray[np.int32], uniforms: NDArray[np.float64], kind: int, eta: float, scale: float, n_actions: int
) -> float:
    """Rounds of the algorithms alone: draw, show, and in every 20th round propensities, estimate and new weights.

    kind 0: FTRL; 1: softmax after every round; 2: softmax after rewarded rounds. The kernels are those of the learners.
    """
    n_policies = table.shape[1]
    weights, losses = np.full(n_policies, 1 / n_policies), np.zeros(n_policies)
    cumulative = np.cumsum(weights)
    theta, shift, checksum = np.inf, 0.0, 0.0
    amount, row = np.empty(1), np.zeros(1, dtype=np.int64)
    for t in range(len(uniforms)):
        lists = table[t % len(table)]
        drawn = min(np.searchsorted(cumulative, uniforms[t] * cumulative[-1], side="right"), n_policies - 1)
        shown = lists[drawn]
        checksum += shown[0]
        rewarded = t % 20 == 10
        if rewarded:
            q = inclusion(table[t % len(table)][None], weights, shown[:1][None], n_actions)
            amount[0] = -1 / q[0, 0]
            credit(table[t % len(table)][None], row, shown[:1], amount, losses)
            if kind == 0:
                theta, shift, _, _ = ftrl_solve(losses, eta, scale, theta, shift, weights)
        if kind == 1 or (kind == 2 and rewarded):
            softmax_solve(losses, eta, weights)
        if rewarded or kind == 1:
            total = 0.0
            for i in range(n_policies):
                total += weights[i]
                cumulative[i] = total
    return checksum


def rounds(quick: bool) -> Figures:
    """One round at a time, 5% of them rewarded: the algorithms alone, and all of ask and tell around them."""
    rows = []
    sizes = ((100, 2000), (1000, 1000), (10_000, 400), (100_000, 120), (1_000_000, 40 if quick else 120))
    for size, n in sizes:
        problem = cb.Problem(n_actions=1000, list_size=5, sparsity=1)
        rng = np.random.default_rng(1)
        table = random_table(2 if size > 10_000 else 20, size, problem, rng)
        T = 100_000
        schedule = theory.exp4_comb_sparse(problem, n_policies=size, horizon=T)
        eta, nu = schedule.step_size, schedule.barrier
        names = ("sparse", "every", "skip")
        alone = dict.fromkeys(names, 0.0)
        for block in range(-1, 5):
            uniforms = rng.random(400 if size <= 100_000 else 100)  # 5 to 20 rewarded rounds, the first a cold start
            for kind, name in enumerate(names):
                spent = seconds(lambda: compiled_rounds(table, uniforms, kind, eta, eta / nu, 1000))  # noqa: B023
                alone[name] += spent / len(uniforms) / 5 if block >= 0 else 0.0
        policies = OneTable(table)
        learners: dict[str, Any] = {
            "sparse": cb.Exp4CombSparse(problem, policies, horizon=T, propensities="when rewarded"),
            "every": cb.Exp4(problem, policies, horizon=T, propensities="when rewarded", skip_unrewarded=False),
            "skip": cb.Exp4(problem, policies, horizon=T, propensities="when rewarded"),
        }
        told = dict.fromkeys(names, 0.0)
        for t in range(-20, n):
            x = rng.integers(len(table), size=1)
            for turn in range(3):  # each of them comes first equally often: the first finds the caches cold
                name = names[(t + turn) % 3]
                learner = learners[name]

                def one(learner: cb.Learner = learner, x: NDArray[np.int64] = x, paid: bool = t % 20 == 10) -> None:
                    decisions = learner.ask(x)
                    rewards = np.zeros((1, 5))
                    rewards[0, 0] = paid
                    learner.tell(decisions, rewards)

                spent = seconds(one)
                told[name] += spent / n if t >= 0 else 0.0
        batched = cb.Exp4CombSparse(problem, policies, horizon=T, propensities="when rewarded")
        twenty = np.zeros((20, 5))
        twenty[10, 0] = 1
        at_once = 0.0
        for block in range(-1, n // 20):
            X = rng.integers(len(table), size=20)
            spent = seconds(lambda: batched.tell(batched.ask(X), twenty))  # noqa: B023
            at_once += spent / (n // 20 * 20) if block >= 0 else 0.0
        row: Figures = {"P": size, "batches of 20": {"sparse": at_once, "a_second": 1 / at_once}}
        for label, each in (("algorithm", alone), ("ask and tell", told)):
            ratios = each["sparse"] / each["every"], each["sparse"] / each["skip"]
            row[label] = {**each, "to_every": ratios[0], "to_skip": ratios[1], "a_second": 1 / each["sparse"]}
            print(
                f"  P={size:<9,} {label:<13}{each['sparse'] * 1e6:9.1f} µs per round ({1 / each['sparse']:9,.0f}/s)"
                f"  EXP4 every round {each['every'] * 1e6:9.1f}, ratio {ratios[0]:.2f} (wanted ≤ 0.4)"
                f"  EXP4 skipping {each['skip'] * 1e6:9.1f}, ratio {ratios[1]:.2f} (wanted ≤ 1.3)"
            )
        print(
            f"  P={size:<9,} asked and told 20 at a time{at_once * 1e6:9.1f} µs per round ({1 / at_once:,.0f}/s)",
            flush=True,
        )
        rows.append(row)
    return {"rounds": rows}


def stability(quick: bool) -> Figures:
    """Largest p_{t+1}/p_t over streams in which rare policies are drawn and all of their list pays."""
    rows = []
    barriers: tuple[Barrier, ...] = ("safe", "sharp", "printed")
    for rho in (1, 4, 8, 9, 12, 16):
        worst: dict[str, float] = dict.fromkeys(barriers, 0.0)
        for barrier in barriers:
            for size in (10, 100, 1000) if quick else (3, 10, 100, 1000, 10_000):
                dense = cb.Problem(rho, rho, rho)
                schedule = theory.exp4_comb_sparse(dense, n_policies=size, horizon=1000, barrier=barrier)
                ftrl = cb.explore.solvers.Ftrl(size, eta=schedule.step_size, nu=schedule.barrier)
                losses = np.zeros(size)
                rng = np.random.default_rng(rho)
                for t in range(100 if quick else 400):
                    before = ftrl.weights.copy()
                    shown = int(np.argmin(before)) if t % 2 else int(rng.integers(size))
                    member = rng.random((rho, size)) < rng.choice([0.0, 0.0, 0.05, 0.5])
                    member[:, shown] = True
                    losses -= (1 / (member @ before)) @ member
                    worst[barrier] = max(worst[barrier], float((ftrl.solve(losses) / before).max()))
        rows.append({"rho": rho, **worst})
        broken = "  broken by ν = 1/16" if worst["printed"] > 2 else ""
        print(
            f"  ρ={rho:<3} largest p(t+1)/p(t): ν=1/(16ρ) {worst['safe']:.3f}   ν=1/(2ρ) {worst['sharp']:.3f}   "
            f"ν=1/16 {worst['printed']:.3f}{broken}"
        )
    return {"stability": rows}


def regret(quick: bool, figures: Path | None) -> Figures:
    """Every adversary, every learner, the same sequences; mean regret ± standard error over seeds.

    The quick form tells ten rounds at once, a tenth of the calls; the theorem is for one.
    """
    T, P, K, m, n_seeds, at_once = (5000, 8, 64, 4, 5, 10) if quick else (10_000, 8, 64, 4, 20, 1)
    problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
    policies = OneTable(random_table(50, P, problem, np.random.default_rng(0)))
    eta = theory.exp4_comb_sparse(problem, n_policies=P, horizon=T).step_size
    makers: dict[str, Callable[[int], cb.Learner]] = {
        "Exp4CombSparse, ν=1/(16ρ)": lambda i: cb.Exp4CombSparse(problem, policies, horizon=T, seed=i),
        "Exp4CombSparse, ν=1/(2ρ)": lambda i: cb.Exp4CombSparse(problem, policies, horizon=T, barrier="sharp", seed=i),
        "Exp4CombSparse, T unknown": lambda i: cb.Exp4CombSparse(problem, policies, barrier="sharp", seed=i),
        "Exp4": lambda i: cb.Exp4(problem, policies, horizon=T, seed=i),
        "Exp4, entropy alone": lambda i: cb.Exp4(problem, policies, horizon=T, floor=0, step_size=eta, seed=i),
        "EpsilonGreedy": lambda i: cb.EpsilonGreedy(problem, policies, horizon=T, seed=i),
        "ExploreThenCommit": lambda i: cb.ExploreThenCommit(problem, policies, horizon=T, seed=i),
    }
    bounds = {
        "Exp4CombSparse, ν=1/(16ρ)": theory.exp4_comb_sparse(problem, n_policies=P, horizon=T).regret,
        "Exp4CombSparse, ν=1/(2ρ)": theory.exp4_comb_sparse(problem, n_policies=P, horizon=T, barrier="sharp").regret,
        "Exp4": theory.exp4(problem, n_policies=P, horizon=T).regret,
    }
    rows = []
    for name, adversary in cb.worlds.ADVERSARIES.items():
        sequence = adversary(policies, problem, horizon=T, seed=1)
        best = float(sequence.totals(policies).max())
        print(f"  {name}: T={T}, P={P}, K={K}, m={m}, s=1, told every {at_once}; the best policy collects {best:.0f}")
        curves = {}
        for label, make in makers.items():
            curves[label] = one = cb.regret.regret_curves(
                make, sequence, policies, seeds=range(n_seeds), batch_size=at_once
            )
            mean, error = float(one.mean[-1]), float(one.standard_error[-1])
            rows.append(
                {"adversary": name, "learner": label, "regret": mean, "error": error, "bound": bounds.get(label)}
            )
            bound = f"   bound {bounds[label]:.0f}" if label in bounds else ""
            print(f"    {label:<28} {mean:8.0f} ± {error:.0f}{bound}", flush=True)
        if figures is not None:
            from matplotlib.figure import Figure

            figures.mkdir(parents=True, exist_ok=True)
            figure = Figure(figsize=(6, 4), layout="constrained")
            cb.plot_regret(curves, figure.add_subplot()).set_title(name)
            figure.savefig(figures / f"regret-{name.replace(' ', '-')}.png", dpi=120)
    return {"regret": rows}


def actions(quick: bool) -> Figures:
    """The same rewards at fixed s, m and P while K grows 16-fold."""
    T, P, m, n_seeds, at_once = (20_000, 6, 4, 5, 10) if quick else (20_000, 6, 4, 10, 1)
    rows = []
    for K in (64, 1024) if quick else (64, 128, 256, 512, 1024):
        problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
        policies = OneTable(random_table(50, P, problem, np.random.default_rng(0)))
        sequence = cb.worlds.switching(policies, problem, horizon=T, rate=0.8, seed=1)
        makers: dict[str, Callable[[int], cb.Learner]] = {
            "sparse": lambda i: cb.Exp4CombSparse(problem, policies, horizon=T, seed=i),  # noqa: B023
            "sharp": lambda i: cb.Exp4CombSparse(problem, policies, horizon=T, barrier="sharp", seed=i),  # noqa: B023
            "exp4": lambda i: cb.Exp4(problem, policies, horizon=T, seed=i),  # noqa: B023
        }
        row: dict[str, Any] = {"K": K, "best": float(sequence.totals(policies).max())}
        for label, make in makers.items():
            one = cb.regret.regret_curves(make, sequence, policies, seeds=range(n_seeds), batch_size=at_once)
            row[label], row[f"{label}_error"] = float(one.mean[-1]), float(one.standard_error[-1])
        rows.append(row)
        print(
            f"  K={K:<5} (best {row['best']:.0f})  Exp4CombSparse {row['sparse']:.0f} ± {row['sparse_error']:.0f}  "
            f"with ν=1/(2ρ) {row['sharp']:.0f} ± {row['sharp_error']:.0f}  "
            f"Exp4 {row['exp4']:.0f} ± {row['exp4_error']:.0f}"
        )
    grown = {label: rows[-1][label] / rows[0][label] for label in ("sparse", "sharp", "exp4")}
    print(
        f"  K × 16: Exp4CombSparse × {grown['sparse']:.2f} (wanted < 1.3), with ν=1/(2ρ) × {grown['sharp']:.2f}, "
        f"Exp4 × {grown['exp4']:.2f}"
    )
    return {"actions": rows, "actions_growth": grown}


def resident_mb() -> float:
    """Memory held now, where the system tells (Linux); elsewhere the most there ever was, in the system's own unit."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def long(quick: bool) -> Figures:
    """T rounds one at a time with P = K = 1000, through the public ask and tell."""
    T = 5000 if quick else 100_000
    problem = cb.Problem(n_actions=1000, list_size=5, sparsity=1)
    policies = OneTable(random_table(50, 1000, problem, np.random.default_rng(0)))
    sequence = cb.worlds.drifting(policies, problem, horizon=T, rate=0.3, seed=1)
    learner = cb.Exp4CombSparse(problem, policies, horizon=T, propensities="when rewarded")
    memory = []
    spent = 0.0
    for start in range(0, T, T // 5):
        part = slice(start, start + T // 5)
        fifth = cb.worlds.AdversarialSequence(
            problem, sequence.contexts[part], sequence.actions[part], sequence.rewards[part]
        )
        spent += seconds(lambda: cb.regret.play(learner, fifth, progress=True))  # noqa: B023
        memory.append(resident_mb())
    print(
        f"  T={T:,}, P=1000, K=1000: {spent:.0f} s of processor time, {1e6 * spent / T:.0f} µs per round; "
        f"memory held after each fifth: {', '.join(f'{mb:.0f}' for mb in memory)} MB"
    )
    return {"long": {"T": T, "seconds": spent, "memory_mb": memory}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--figures", type=Path, help="directory for the regret curves (needs matplotlib)")
    parts = ("steps", "rounds", "stability", "regret", "actions", "long")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="some of the parts")
    arguments = parser.parse_args()
    results: Figures = {}
    for part in arguments.only:
        print(f"{part}:", flush=True)
        if part == "regret":
            results |= regret(arguments.quick, arguments.figures)
        else:
            results |= globals()[part](arguments.quick)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
