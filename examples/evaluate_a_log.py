"""From logged rounds to a decision: evaluate candidates on a log, then design what to show next.

Run it with `python examples/evaluate_a_log.py`; it takes a few seconds.
"""

import tempfile
from pathlib import Path

import numpy as np

import comband as cb


def main() -> None:
    """Log a week of a simulated shop, evaluate 30 rankers on it, and prepare the next week."""
    problem = cb.Problem(n_actions=80, list_size=5, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.2, seed=1)
    rankers = shop.candidates(30, seed=2)
    rng = np.random.default_rng(3)

    # Last week's lists: half of them uniform, the others from whichever ranker; propensities are logged with them.
    week = cb.Mixture(rankers, np.full(30, 1 / 30), problem=problem, floor=0.5)
    visitors = shop.sample(40_000, rng)
    decisions = week.draw(visitors.contexts, rng)
    log = cb.Rounds(decisions, visitors.answer(decisions.lists))

    least = week.floor * problem.uniform_propensity
    before = cb.evaluate(log, rankers, max_reward=problem.max_reward, min_propensity=least)
    print(f"after one week: {before.best}")
    print(f"  no candidate is better by more than {before.epsilon:.4f}, with probability {1 - before.delta:g}")

    # What to show next, as a file that another process can serve from.
    design = cb.design_exploration(log, cb.EnumerationOracle(rankers), problem=problem, floor=0.3)
    print(design.message)
    with tempfile.TemporaryDirectory() as folder:
        design.mixture.save(Path(folder) / "next_week.npz")
        served = cb.Mixture.load(Path(folder) / "next_week.npz", rankers)

    visitors = shop.sample(40_000, rng)
    decisions = served.draw(visitors.contexts, rng, first_id=len(decisions), epoch=1)
    both = log.events() + cb.Rounds(decisions, visitors.answer(decisions.lists)).events()
    least = min(least, served.floor * problem.uniform_propensity)
    after = cb.evaluate(both, rankers, max_reward=problem.max_reward, min_propensity=least)
    print(f"after two weeks: {after.best}")
    print(f"  no candidate is better by more than {after.epsilon:.4f}, with probability {1 - after.delta:g}")
    truth = shop.values(rankers)
    print(f"in truth it is worth {truth[after.best.index]:.4f}, the best of all {truth.max():.4f}")


if __name__ == "__main__":
    main()
