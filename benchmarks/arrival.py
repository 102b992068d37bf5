"""What an arrival in the middle costs: rounds to a certified winner when one of 100 candidates comes after half of the
rounds, over the rounds with all of them from the start.

    python -m benchmarks.arrival --runs 7
"""

from __future__ import annotations

import argparse

import numpy as np

import comband as cb

K, M, P, EPSILON = 200, 5, 100, 0.05


def rounds(seed: int, *, late: int | None, after: int, open_field: bool) -> int:
    """Rounds until the learner is done; candidate `late` comes `after` so many."""
    problem = cb.Problem(K, M, 1)
    world = cb.SyntheticRecommender(problem, click_rate=0.4, seed=seed)
    everybody = world.candidates(P, seed=seed + 1)
    first = [i for i in range(P) if i != late]
    learner = cb.AdaptiveComband(
        problem, everybody.subset(first), epsilon=EPSILON, open_field=open_field, max_rounds=60_000, seed=seed
    )
    rng = np.random.default_rng([seed, 3])
    while not learner.done or (late is not None and len(learner.policies) < P):
        if late is not None and learner.rounds >= after and len(learner.policies) < P:
            learner.add(everybody[late], name=everybody.names[late], planned=not open_field)
        batch = world.sample(100, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
    return learner.rounds


def main() -> None:
    """Print the ratios for any newcomer and for the best candidate, planned and in an open field."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="two runs")
    arguments = parser.parse_args()
    runs = 2 if arguments.quick else arguments.runs
    for open_field in (False, True):
        ratios = []
        for seed in range(runs):
            whole = rounds(seed, late=None, after=0, open_field=open_field)
            late = int(np.random.default_rng([seed, 4]).integers(P))
            ratios.append(rounds(seed, late=late, after=whole // 2, open_field=open_field) / whole)
        kind = "open field" if open_field else "planned"
        print(f"{kind}: ratios {', '.join(f'{r:.2f}' for r in sorted(ratios))}; median {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
