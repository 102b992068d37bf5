"""
What a log says
===============

No new visitors are needed if you logged what was shown, with the probability that each item was in the list.
"""

# %%
# A log
# -----
# Last month's lists: half of them at random, the others from eight rankers in turn.
import numpy as np
from matplotlib import pyplot

import comband as cb

problem = cb.Problem(n_actions=50, list_size=4, sparsity=1)
shop = cb.SyntheticRecommender(problem, click_rate=0.3, seed=1)
rankers = shop.candidates(8, seed=2)
month = cb.Mixture(rankers, np.full(8, 1 / 8), problem=problem, floor=0.5)
rng = np.random.default_rng(3)
visitors = shop.sample(20_000, rng)
decisions = month.draw(visitors.contexts, rng)
log = cb.Rounds(decisions, visitors.answer(decisions.lists))

# %%
# Are the propensities right?
# ---------------------------
# An item that was shown with probability ¼ counts four times. So counted, each candidate must have had as many items
# per list as there are places, four, on average. Every line must cross the dashed one.
least = month.floor * problem.uniform_propensity
figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
cb.plot_propensity_check(log, rankers, axes, min_propensity=least)

# %%
# Values, and differences
# -----------------------
# Intervals of values may overlap where differences are certain: all candidates are estimated from the same rounds.
answer = cb.evaluate(log, rankers, max_reward=problem.max_reward, min_propensity=least)
figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
cb.plot_values(answer, left)
cb.plot_differences(answer, right)
print(answer.verdict)

# %%
# The usual figures
# -----------------
# What other tools print, on the same rounds: approximate, for one candidate and one look.
cb.evaluation.usual_estimates(log, rankers).to_frame("pandas").head(8).round(4)
