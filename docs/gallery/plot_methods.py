"""
How many visitors each method needs
===================================

The same shop, the same candidates, the same stopping rule and the same promise; only what is shown differs.
"""

# %%
from matplotlib import pyplot

import comband as cb

problem = cb.Problem(n_actions=60, list_size=4, sparsity=1)
shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
candidates = shop.candidates(20, seed=2)
methods = {
    "AdaptiveComband": cb.AdaptiveComband,
    "mixture of all": cb.UniformMixture,
    "uniform lists": cb.UniformLists,
    "A/B/n test": cb.ABTest,
}
runs = {
    name: cb.run(make(problem, candidates, epsilon=0.05, seed=3), shop, batch_size=1000, max_rounds=60_000, seed=4)
    for name, make in methods.items()
}

# %%
# What was certified at each moment: below the line the promise is kept. The A/B/n test is stopped at 60,000 visitors.
figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
for name, run in runs.items():
    axes.step(run.history["rounds"], run.history["certified"], where="post", label=name)
axes.axhline(0.05, color="grey", linestyle="--", label="asked for")
axes.set(xlabel="visitors", ylabel="certified ε", xscale="log", ylim=(0, 0.4))
axes.legend()

for name, run in runs.items():
    print(f"{name:16} {run.result.rounds:7,} visitors, ε = {run.result.epsilon:.3f}")
