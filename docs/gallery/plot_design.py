"""
What to show next
=================

A log leaves doubts; the exploration design says which candidates' lists to mix so that *every* candidate's value is
known well from the rounds to come.
"""

# %%
# Thirty candidates, of which some show what hardly any other shows, and some hours of uniform lists.
import numpy as np
from matplotlib import pyplot

import comband as cb

problem = cb.Problem(n_actions=60, list_size=4, sparsity=1)
shop = cb.SyntheticRecommender(problem, click_rate=0.3, seed=1)
candidates = shop.candidates(30, seed=2)
uniform = cb.Mixture(candidates, np.full(30, 1 / 30), problem=problem, floor=1)
rng = np.random.default_rng(3)
visitors = shop.sample(10_000, rng)
decisions = uniform.draw(visitors.contexts, rng)
log = cb.Rounds(decisions, visitors.answer(decisions.lists))

design = cb.design_exploration(log, candidates, problem=problem, floor=0.3)
print(design.message)

# %%
# Few lists are enough
# --------------------
# The weights of the mixture, and for each candidate the variance with which its value will be known (those in the
# mixture are marked). At the optimum the largest of all is as small as it can be.
figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
cb.plot_design_weights(design, left)
cb.plot_design_variance(design, log, right)
