"""
Against an adversary
====================

If nothing is promised about visitors, not even that they stay alike, a learner can still do nearly as well as the
best candidate in hindsight: its *regret* grows like the root of the rounds.
"""

# %%
# A sequence in which the favourite changes eight times, and two learners.
from matplotlib import pyplot

import comband as cb
from comband.regret import regret_curves
from comband.worlds import switching

problem = cb.Problem(n_actions=20, list_size=2, sparsity=1)
policies = cb.PolicySet.from_lists([[[2 * p, 2 * p + 1]] * 50 for p in range(10)], problem)
T = 3000
sequence = switching(policies, problem, horizon=T, seed=1)


def curves(make):
    """Regret of five seeds, told after each ten rounds."""
    return regret_curves(make, sequence, policies, seeds=range(5), batch_size=10)


learners = {
    "EXP4-COMB-SPARSE": curves(lambda seed: cb.Exp4CombSparse(problem, policies, horizon=T, seed=seed)),
    "ε-greedy": curves(lambda seed: cb.EpsilonGreedy(problem, policies, horizon=T, seed=seed)),
}

# %%
# Means, and the middle 80% of the seeds.
figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
cb.plot_regret(learners, axes)
