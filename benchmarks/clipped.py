"""`python -m benchmarks.clipped [--quick]`: the ε of a log by a stated smallest propensity, and by clipped weights.

Beside both the ε of plain normal intervals, which is approximate and not valid under peeking, and the true gap.
"""

from __future__ import annotations

import argparse

import numpy as np

import comband as cb
from comband.evaluation import clipped_gaps

FLOORS = {"equal weights, floor 0.5": 0.5, "equal weights, floor 0.05": 0.05, "uneven weights, floor 0.05": 0.05}


def log(kind: str, n: int, seed: int) -> tuple[cb.PolicySet, cb.Mixture, cb.Rounds, np.ndarray]:
    """Rounds of a mixture of 40 candidates, lists of 5 of 200 items, at most one click; and the candidates' values."""
    P, K, m, N = 40, 200, 5, 2000
    rng = np.random.default_rng(seed)
    problem = cb.Problem(K, m, sparsity=1)
    taste = rng.standard_normal((N, K))
    noisy = [taste + rng.uniform(0.2, 1.2) * rng.standard_normal((N, K)) for _ in range(P)]
    lists = np.stack([np.argsort(-scores, axis=1)[:, :m] for scores in noisy])
    policies = cb.PolicySet.from_lists(lists, problem)
    weights = rng.dirichlet(np.full(P, 0.3)) if kind.startswith("uneven") else np.full(P, 1 / P)
    mixture = cb.Mixture(policies, weights, problem=problem, floor=FLOORS[kind])
    chance = 0.02 + 0.15 * (taste > np.quantile(taste, 0.97, axis=1)[:, None])
    chance /= chance.sum(axis=1).max()
    users = rng.integers(N, size=n)
    decisions = mixture.draw(users, rng)
    sums, u = np.cumsum(chance[users], axis=1), rng.random(n)
    wanted = np.where(u < sums[:, -1], (u[:, None] < sums).argmax(axis=1), -1)
    rounds = cb.Rounds(decisions, (decisions.lists == wanted[:, None]).astype(float))
    return policies, mixture, rounds, chance[np.arange(N)[:, None], lists].sum(axis=2).mean(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size only")
    sizes = (5000,) if parser.parse_args().quick else (5000, 30_000)
    print(f"{'log':28}{'rounds':>8}{'normal':>9}{'stated':>9}{'clipped':>9}{'true gap':>10}")
    for kind in FLOORS:
        for n in sizes:
            policies, mixture, rounds, truth = log(kind, n, 1)
            least = mixture.floor * mixture.problem.uniform_propensity
            answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=least)
            best = answer.best.index
            gaps = clipped_gaps(rounds, policies, best, logging=mixture, max_reward=1)
            print(
                f"{kind:28}{n:8,}{answer.approximate_epsilon:9.4f}{answer.epsilon:9.4f}{gaps.max():9.4f}"
                f"{truth.max() - truth[best]:10.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
