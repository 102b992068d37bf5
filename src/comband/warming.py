"""Compiling beforehand what a learner will need."""

from __future__ import annotations

import inspect
import time
from dataclasses import replace
from typing import Any

import numpy as np

from comband._kernels.numbering import FEW_ITEMS
from comband.certify import AdaptiveComband, PacComband, SingleLabelComband
from comband.learners.base import Learner
from comband.page.problem import InputError, Problem
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.regret import Exp4CombSparse

# A life that comes to everything soon: constructors take those they know.
_ARGUMENTS = {
    "epsilon": 1e-3,
    "first_epoch": 60,
    "n_explore": 60,
    "n_estimate": 10**6,
    "n_verify": None,
    "n_steps": None,
    "n_rounds": 10**6,
    "max_rounds": None,
    "horizon": 10**6,
    "patience": None,
    "route": "gradient",
    "guards": (),
}
_BATCHES = [1] * 12 + [40] * 30
_N_POLICIES, _N_CONTEXTS, _N_FEATURES = 5, 7, 5


def warm_up(*learners: Any) -> float:
    """Compile now what `ask` and `tell` of these learners will need; returns the seconds it took.

    Loops are compiled when they are first called, and kept on disk for later processes (NUMBA_CACHE_DIR says where).
    With an empty cache, as in a new container, that is some ten seconds of the first calls, which a service had better
    spend before it is asked. Every learner given, an object or a class, has a short life of a small one like it, with
    candidates of its own; nothing that is given is changed or asked. Without any: `AdaptiveComband`, `PacComband` and
    `Exp4CombSparse`.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=100, list_size=5)
    >>> policies = cb.PolicySet.from_lists([[[0, 1, 2, 3, 4]], [[5, 6, 7, 8, 9]]], problem)
    >>> seconds = cb.warm_up(cb.Exp4CombSparse(problem, policies, horizon=1000))
    """
    start = time.perf_counter()
    for learner in learners or (AdaptiveComband, PacComband, Exp4CombSparse):
        kind = learner if isinstance(learner, type) else type(learner)
        if not issubclass(kind, Learner):
            raise InputError(f"warm_up takes learners, or classes of them, got {kind.__name__}.")
        list_size = 1 if issubclass(kind, SingleLabelComband) else 3
        problem, own, lives = Problem(n_actions=12, list_size=list_size, sparsity=1), {}, [(12, "numbers")]
        if isinstance(learner, Learner):
            problem, own = learner.problem, learner._config()
            lives = [(2 * problem.list_size + 6, "numbers")]
            if problem.n_actions > FEW_ITEMS and "policies" in inspect.signature(kind).parameters:
                lives.append((problem.n_actions, "numbers"))  # so many are numbered anew for each request
        for n_actions, contexts in (*lives, (lives[0][0], "features")):
            _live(kind, replace(problem, n_actions=n_actions), own, contexts)
    return time.perf_counter() - start


def _live(kind: type[Learner], problem: Problem, own: dict[str, Any], contexts: str) -> None:
    """A learner of this kind, from its first call to a plan made of what was seen."""
    rng = np.random.default_rng(0)
    K, m = problem.n_actions, problem.list_size
    if contexts == "numbers":
        named = min(K, 2 * m + 6)  # of all items, as far apart as they can be
        orders = rng.permuted(np.tile(np.arange(named, dtype=np.int32), (_N_POLICIES, _N_CONTEXTS, 1)), axis=2)
        policies = PolicySet.from_lists(orders[:, :, :m] * np.int32(K // named), problem)
    else:
        policies = PolicySet.linear(rng.standard_normal((_N_POLICIES, _N_FEATURES, K)), problem)
    known = inspect.signature(kind).parameters
    arguments: dict[str, Any] = {name: value for name, value in {**own, **_ARGUMENTS}.items() if name in known}
    if "policies" in known:
        arguments["policies"] = policies
    learner = kind(problem, **arguments)
    for i, n in enumerate(_BATCHES):
        X = rng.integers(_N_CONTEXTS, size=n) if contexts == "numbers" else rng.standard_normal((n, _N_FEATURES))
        decisions = learner.ask(X)
        rewards = np.zeros((n, m))
        if i % 3:  # a batch without any reward is one thing, a batch with some another
            # What the first two candidates show, and one item in a round: the others are soon dropped, these are not.
            wanted = policies.predict(X, [0, 1]).reshape(n, 1, -1)
            liked = (decisions.lists[:, :, None] == wanted).any(axis=2) & (rng.random((n, 1)) < (1 if n == 1 else 0.3))
            rewards[liked & (liked.cumsum(axis=1) == 1)] = min(1.0, problem.max_reward)
        learner.tell(decisions, rewards.sum(axis=1) if reading_of(problem).TOTAL else rewards)
    learner.status()
    learner.result()
