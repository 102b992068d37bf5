"""Lists, propensities and estimates at scale: rounds per second and peak memory, each case in a fresh process.

python -m benchmarks.foundation [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb

Case = tuple[int, float, float]  # rounds, seconds, what a naive array would take in MB


def uniform_lists(quick: bool) -> Case:
    """Uniform lists of 10 from K = 1,000,000."""
    n = 100_000 if quick else 1_000_000
    problem = cb.Problem(n_actions=1_000_000, list_size=10)
    policies = cb.PolicySet.from_lists([[list(range(10))]], problem)
    mixture = cb.Mixture(policies, [1.0], problem=problem, floor=1.0)
    contexts, rng = np.zeros(n, dtype=int), np.random.default_rng(0)
    mixture.draw(contexts[:2], rng)
    start = time.perf_counter()
    mixture.draw(contexts, rng)
    return n, time.perf_counter() - start, n * 1e6 * 8 / 1e6


def linear_mixture(quick: bool) -> Case:
    """A mixture of 50 linear policies over K = 10,000: lists and propensities for 10,000 contexts."""
    n, K, d, P = (1_000 if quick else 10_000), 10_000, 16, 50
    problem = cb.Problem(n_actions=K, list_size=10)
    rng = np.random.default_rng(0)
    policies = cb.PolicySet.linear(rng.standard_normal((P, d, K)), problem)
    mixture = cb.Mixture(policies, np.full(P, 1 / P), problem=problem, floor=0.5)
    X = rng.standard_normal((n, d))
    mixture.draw(X[:2], rng)
    start = time.perf_counter()
    mixture.draw(X, rng)
    return n, time.perf_counter() - start, n * K * 8 / 1e6


def estimate(quick: bool) -> Case:
    """Values of 1,000 linear policies (K = 500) from rounds of which about 1 in 100 is rewarded."""
    n, K, P = (20_000 if quick else 200_000), 500, 1000
    problem = cb.Problem(n_actions=K, list_size=5, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.25, seed=0)
    learner = cb.UniformExploration(problem, world.candidates(P, seed=1), n_rounds=n)
    rng = np.random.default_rng(1)
    batch = world.sample(n, rng)
    decisions = learner.ask(batch.contexts)
    rewards = batch.answer(decisions.lists)
    learner.tell(decisions[:100], rewards[:100])
    start = time.perf_counter()
    learner.tell(decisions[100:], rewards[100:])
    return n - 100, time.perf_counter() - start, n * P * 8 / 1e6


CASES: dict[str, Callable[[bool], Case]] = {
    "uniform lists": uniform_lists,
    "linear mixture": linear_mixture,
    "estimate 1000": estimate,
}


def measure(name: str, quick: bool) -> dict[str, Any]:
    """One case, with the growth of this process's peak memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rounds, seconds, naive = CASES[name](quick)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "case": name,
        "what": (CASES[name].__doc__ or "").strip(),
        "rounds_per_second": rounds / seconds,
        "peak_mb": peak,
        "grown_mb": peak - before,
        "naive_array_mb": naive,
    }


def main() -> None:
    """Print one row a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    rows = []
    for name in CASES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(measure, (name, arguments.quick))
        rows.append(row)
        print(
            f"{name:15}  {row['rounds_per_second']:12,.0f} rounds/s   peak {row['peak_mb']:6,.0f} MB "
            f"(grew {row['grown_mb']:,.0f}; one naive array would take {row['naive_array_mb']:,.0f})   {row['what']}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
