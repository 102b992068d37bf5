"""
The best of thirty film recommenders
====================================

Data like MovieLens', made here: films have genres and a popularity with a long tail, visitors have tastes, and a
visitor clicks on one of the five films shown, or on none. Thirty candidates: lists of what is popular, of the
visitor's favourite genres, and factor models that know more or less about tastes. Which is best?
"""

# %%
# The world
# ---------
# 120 films of 8 genres. A visitor's taste is a point among the genres; a film is wanted by how well it fits, and by
# how popular it is.
import numpy as np
from matplotlib import pyplot
from scipy.sparse import csr_array

import comband as cb

FILMS, GENRES, SHOWN = 120, 8, 5
rng = np.random.default_rng(1)
genres = rng.dirichlet(np.full(GENRES, 0.3), size=FILMS)  # (films, genres)
popularity = 1 / np.arange(1, FILMS + 1) ** 0.6
problem = cb.Problem(n_actions=FILMS, list_size=SHOWN, sparsity=1)


class Films:
    """Visitors with tastes, each of whom wants at most one film tonight."""

    problem = problem

    def sample(self, n, rng):
        tastes = rng.dirichlet(np.full(GENRES, 0.4), size=n)
        wanted = np.exp(6 * tastes @ genres.T) * popularity
        wanted = 0.9 * wanted / wanted.sum(axis=1, keepdims=True)  # one in ten wants none
        u = rng.random((n, 1))
        which = (u < wanted.cumsum(axis=1)).argmax(axis=1)
        some = u[:, 0] < wanted.sum(axis=1)
        rewards = csr_array((np.ones(some.sum()), (np.flatnonzero(some), which[some])), shape=(n, FILMS))
        return cb.Batch(tastes, rewards, self.problem)


# %%
# The candidates
# --------------
# Anything with ``predict(X) -> (n, 5)``. ``ScoredPolicy`` shows the films of highest score.
policies = {}
for noise in np.linspace(0, 2.7, 10):  # factor models that know the films more or less well
    known = genres + 0.15 * noise * rng.standard_normal(genres.shape)
    policies[f"factors, noise {noise:.1f}"] = cb.ScoredPolicy(
        lambda X, known=known: np.exp(6 * X @ known.T) * popularity, problem
    )
for weight in np.linspace(0.2, 2, 10):  # only genres, or mostly popularity
    policies[f"genres, popularity {weight:.1f}"] = cb.ScoredPolicy(
        lambda X, weight=weight: (X @ genres.T) * popularity**weight, problem
    )
for shift in range(10):  # the same films for everybody
    policies[f"chart from {shift + 1}"] = cb.ConstantPolicy(np.arange(shift, shift + SHOWN), problem)
candidates = cb.PolicySet(list(policies.values()), names=list(policies))

# %%
# The answer
# ----------
# Each visitor's click counts for every candidate that would have shown that film. Dots are estimated differences to
# the winner; a line ends where the candidate would be if all that is uncertain went its way, and none ends beyond ε.
learner = cb.AdaptiveComband(problem, candidates, epsilon=0.03, delta=0.05, seed=2)
outcome = cb.run(learner, Films(), batch_size=500, max_rounds=60_000, seed=3)

figure, axes = pyplot.subplots(figsize=(9, 7), layout="constrained")
cb.plot_differences(learner, axes)
result = outcome.result
axes.set_title(f"{result.name} is within {result.epsilon:.3f} of the best, after {result.rounds:,} visitors")

# %%
# How it got there: candidates that may still be the best, and the ε that was certified at each moment.
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
cb.plot_field(outcome, left)
cb.plot_certificate(outcome, right, target=0.03)
print(outcome.result)
