"""
A learner of your own
=====================

Two methods make a learner: ``choose`` draws lists, ``update`` learns from answers. Here ε-greedy, beside
EXP4-COMB-SPARSE, whose regret is bounded against any sequence.
"""

# %%
# The learner. It follows the candidate that has collected most, and shows a uniform list with probability ε.
import numpy as np
from matplotlib import pyplot

import comband as cb
from comband.regret import regret_curves
from comband.worlds import switching


class MyEpsilonGreedy(cb.learners.CustomLearner):
    def __init__(self, problem, policies, *, epsilon=0.1, horizon=None, seed=0):
        super().__init__(problem, policies, horizon=horizon, seed=seed)
        self.epsilon = epsilon
        self.totals = np.zeros(len(policies))

    def choose(self, X, rng):
        leader = np.eye(len(self.totals))[self.totals.argmax()]
        drawn = cb.Mixture(self.policies, leader, problem=self.problem, floor=self.epsilon).draw(X, rng)
        return drawn.lists, drawn.propensities

    def update(self, rounds):
        self.totals += self.gains(rounds)


# %%
# Ten candidates, and a sequence in which the favourite changes eight times.
problem = cb.Problem(n_actions=20, list_size=2, sparsity=1)
policies = cb.PolicySet.from_lists([[[2 * p, 2 * p + 1]] * 50 for p in range(10)], problem)
T = 3000
sequence = switching(policies, problem, horizon=T, seed=1)


def sparse(seed):
    """EXP4-COMB-SPARSE with the larger of its two barriers, which mostly does better."""
    return cb.Exp4CombSparse(problem, policies, horizon=T, barrier="sharp", seed=seed)


def curves(make):
    """Regret of five seeds, told after each ten rounds."""
    return regret_curves(make, sequence, policies, seeds=range(5), batch_size=10)


learners = {
    "EXP4-COMB-SPARSE": curves(sparse),
    "my ε-greedy, ε = 0.3": curves(lambda seed: MyEpsilonGreedy(problem, policies, epsilon=0.3, seed=seed)),
    "my ε-greedy, ε = 0.1": curves(lambda seed: MyEpsilonGreedy(problem, policies, epsilon=0.1, seed=seed)),
}

# %%
# Means, and the middle 80% of the seeds. The means are alike here, but ε-greedy depends far more on luck: no bound is
# known of it, and a run that follows the wrong candidate is late to notice.
figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
cb.plot_regret(learners, axes)
