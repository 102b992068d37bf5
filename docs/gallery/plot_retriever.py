"""
Choose a retriever from thumbs
==============================

Four retrievers answer questions with three passages each, and readers give thumbs up. Which retriever is best?
"""

# %%
# Runs
# ----
# Each retriever leaves a run in TREC's format, as trec_eval, PyTerrier, ranx or Anserini write it: query, Q0, passage,
# rank, score, name. These are made here: a passage is relevant or not, and retrievers see that through noise.
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot

import comband as cb

rng, folder = np.random.default_rng(1), Path(tempfile.mkdtemp())
n_queries, n_passages = 60, 40
relevance = rng.gamma(0.5, size=(n_queries, n_passages))
for name, noise in (("bm25", 1.2), ("dense", 0.9), ("hybrid", 0.5), ("rerank", 0.35)):
    scores = relevance + noise * rng.standard_normal(relevance.shape)
    with (folder / f"{name}.run").open("w") as file:
        for query, row in enumerate(scores):
            for rank, passage in enumerate(np.argsort(-row)[:10], start=1):
                print(f"q{query} Q0 p{passage} {rank} {row[passage]:.4f} {name}", file=file)
print((folder / "bm25.run").read_text().splitlines()[0])

# %%
# Candidates
# ----------
# The first three passages of each run are what that retriever would show.
candidates = cb.read_candidates(folder, list_size=3)
policies = candidates.policies()
print(policies.names, candidates.n_contexts, "queries")

# %%
# Thumbs
# ------
# Readers come with a query, see the three passages that comband draws, and may give one of them a thumb up.
problem = candidates.problem(sparsity=1)
passages = np.array([int(key[1:]) for key in policies.catalogue.keys])
queries = np.array([int(key[1:]) for key in candidates.contexts.keys])
chance = 0.6 * relevance / relevance.max(axis=1, keepdims=True)
learner = cb.AdaptiveComband(problem, policies, epsilon=0.03, seed=2)
while not learner.done:
    readers = rng.integers(len(queries), size=250)
    shown = learner.ask(readers)
    thumbs = rng.random(shown.lists.shape) < chance[queries[readers][:, None], passages[shown.lists]]
    thumbs &= np.arange(3) == rng.integers(3, size=(len(readers), 1))  # each looks at one of them
    learner.tell(shown, thumbs)
print(learner.result().verdict)

# %%
# The picture
# -----------
# How far each retriever is behind the one that is decided on, and the most by which it could be better.
figure, axes = pyplot.subplots(figsize=(8, 2.8), layout="constrained")
cb.plot_differences(learner, axes)
