"""Bring your own rankers, close the loop with a world, read the answer.

Run it with `python examples/select_best_ranker.py`; it takes a few seconds.
"""

import numpy as np

import comband as cb


class MostPopular:
    """A policy is anything with predict(X) -> (n, m): this one shows everybody the same items."""

    def __init__(self, items: list[int]) -> None:
        self.items = np.array(items)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The same list for every context."""
        return np.tile(self.items, (len(X), 1))


def main() -> None:
    """Compare three rankers on a simulated shop of 40 items."""
    problem = cb.Problem(n_actions=40, list_size=4, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.3, seed=1)
    rng = np.random.default_rng(2)
    rough = shop.items + 0.3 * rng.standard_normal(shop.items.shape)
    shuffled = rng.permuted(rough)
    policies = cb.PolicySet(
        [
            cb.ScoredPolicy(rough, problem),
            cb.ScoredPolicy(lambda X: X @ shuffled, problem),
            MostPopular([0, 1, 2, 3]),
        ],
        names=["rough scores", "shuffled scores", "most popular"],
    )
    learner = cb.UniformExploration(problem, policies, n_rounds=20_000, seed=3)
    outcome = cb.run(learner, shop, seed=4)
    print(outcome.result)


if __name__ == "__main__":
    main()
