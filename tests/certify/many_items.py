"""Short lives of learners, mixtures and evaluations among 2³¹ − 1 items, in an address space without room for them.

Run as a program: every case lives twice among few items, so that all is compiled, and then among as many as can be
numbered, with 256 MB more than the process has. An array with a byte for each item would be 2 GB.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband._kernels.numbering import FEW_ITEMS
from comband.policies import MidzunoLists, RequestedLists

LARGEST = 2**31 - 1
ROOM = 1 << 28
N_CONTEXTS, M = 5, 3
_POOL = 12  # items that anybody shows

Learn = Callable[[cb.Problem, cb.PolicySet], cb.Learner]


def adaptive(**options: Any) -> Learn:
    """An adaptive learner with these options."""
    return lambda problem, policies: cb.AdaptiveComband(problem, policies, epsilon=0.05, seed=1, **options)


LEARNERS: dict[str, tuple[Learn, dict[str, Any]]] = {
    "adaptive": (adaptive(), {}),
    "adaptive, reward": (adaptive(objective="reward"), {}),
    "adaptive, exposure": (adaptive(production="policy 1", exposure=0.3), {}),
    "adaptive, factors": (adaptive(), {"places": [1, 0.5, 0.3]}),
    "adaptive, pairs": (adaptive(), {"places": "pairs"}),
    "adaptive, totals": (adaptive(), {"feedback": "total"}),
    "UniformLists": (lambda *given: cb.UniformLists(*given, epsilon=0.05, seed=1), {}),
    "UniformMixture": (lambda *given: cb.UniformMixture(*given, epsilon=0.05, seed=1), {}),
    "UniformMixture, pairs": (lambda *given: cb.UniformMixture(*given, epsilon=0.05, seed=1), {"places": "pairs"}),
    "UniformMixture, totals": (lambda *given: cb.UniformMixture(*given, epsilon=0.05, seed=1), {"feedback": "total"}),
    "TwoPhaseComband": (lambda *given: cb.TwoPhaseComband(*given, epsilon=0.05, seed=1), {}),
    "ABTest": (lambda *given: cb.ABTest(*given, epsilon=0.05, seed=1), {}),
    "PacComband": (lambda *given: cb.PacComband(*given, n_explore=100, n_estimate=150, seed=1), {}),
    "PacComband, pairs": (
        lambda *given: cb.PacComband(*given, n_explore=100, n_estimate=150, seed=1),
        {"places": "pairs"},
    ),
    "Exp4CombSparse": (lambda *given: cb.Exp4CombSparse(*given, horizon=300, seed=1), {}),
    "Exp4": (lambda *given: cb.Exp4(*given, horizon=300, seed=1), {}),
    "EpsilonGreedy": (lambda *given: cb.EpsilonGreedy(*given, horizon=300, seed=1), {}),
    "ExploreThenCommit": (lambda *given: cb.ExploreThenCommit(*given, n_explore=100, horizon=300, seed=1), {}),
    "UniformExploration": (lambda *given: cb.UniformExploration(*given, n_rounds=250, seed=1), {}),
}


def candidates(problem: cb.Problem, *, gaps: bool = False) -> cb.PolicySet:
    """Four, of items that lie as far apart as they can."""
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(np.arange(_POOL), (4, N_CONTEXTS, 1)), axis=2)[:, :, :M]
    lists = (orders * (problem.n_actions // _POOL)).astype(np.int32)
    if gaps:
        lists[1, :, 2] = -1
    return cb.PolicySet.from_lists(lists, problem, fallback="nothing" if gaps else None)


def answers(lists: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.float64]:
    """At most one reward per round, for some of the shown items."""
    one = np.arange(M) == rng.integers(M, size=(len(lists), 1))
    return np.asarray((lists % 7 < 4) & (lists >= 0) & one, dtype=np.float64)


def live(learner: cb.Learner) -> None:
    """From the first call to a result."""
    rng = np.random.default_rng(1)
    for n in (1, 1, 30, 1, 100, 120):
        decisions = learner.ask(rng.integers(N_CONTEXTS, size=n))
        rewards = answers(decisions.lists, rng)
        learner.tell(decisions, rewards.sum(axis=1) if learner.problem.feedback == "total" else rewards)
    learner.status()
    learner.result()


def learn(name: str, n_actions: int) -> None:
    """A life of a learner."""
    make, kind = LEARNERS[name]
    most = (2**31 - 1) // M if "places" in kind else n_actions  # pairs of item and place are numbered, too
    problem = cb.Problem(min(n_actions, most), M, sparsity=1, **kind)
    live(make(problem, candidates(problem)))


def with_gaps(n_actions: int) -> None:
    """Candidates that do not fill their lists."""
    problem = cb.Problem(n_actions, M, sparsity=1)
    live(adaptive()(problem, candidates(problem, gaps=True)))


def requested(n_actions: int) -> None:
    """Lists that come with the request, and a learner that is saved and loaded."""
    problem, rng = cb.Problem(n_actions, M, sparsity=1), np.random.default_rng(2)
    policies = RequestedLists(["a", "b"], problem)
    learner = adaptive()(problem, policies)
    with tempfile.TemporaryDirectory() as folder:
        for n in (1, 50):
            tables = rng.permuted(np.tile(np.arange(_POOL), (n, 2, 1)), axis=2)[:, :, :M] * (n_actions // _POOL)
            decisions = learner.ask(tables)
            learner.tell(decisions, answers(decisions.lists, rng))
            learner.save(Path(folder) / "learner.npz")
            learner = cb.AdaptiveComband.load(Path(folder) / "learner.npz", policies)


def mixtures(n_actions: int) -> None:
    """Draws, propensities, designs and values of candidates."""
    problem, rng = cb.Problem(n_actions, M, sparsity=1), np.random.default_rng(3)
    policies, X = candidates(problem), rng.integers(N_CONTEXTS, size=300)
    mixture = cb.Mixture(policies, np.full(4, 0.25), problem=problem, floor=0.5)
    MidzunoLists(mixture).draw(X, 1)
    decisions = mixture.draw(X, 1)
    assert (mixture.propensities(X, decisions.lists) == decisions.propensities).all()
    sparse = mixture.sparse_propensities(X)
    assert (sparse.of(decisions.lists.astype(np.int64)) == decisions.propensities).all()
    cb.statistics.ExposureGuard(n_actions).update(decisions.lists, sparse)
    rounds = cb.Rounds(decisions, answers(decisions.lists, rng))
    assert cb.evaluate(rounds, policies, max_reward=1).epsilon <= 1
    cb.evaluate(rounds, policies, max_reward=1, logging=mixture)
    cb.design_exploration(rounds, cb.EnumerationOracle(policies), problem=problem, floor=0.5)
    with tempfile.TemporaryDirectory() as folder:
        log, lists = Path(folder) / "log.csv", Path(folder) / "lists.csv"
        cb.write_rounds(rounds, log)
        cb.write_candidates(policies, np.arange(N_CONTEXTS), lists)
        cb.evaluate_log(log, lists, sparsity=1, n_actions=n_actions)


CASES: dict[str, Callable[[int], None]] = {
    **{name: lambda n_actions, name=name: learn(name, n_actions) for name in LEARNERS},  # type: ignore[misc]
    "gaps": with_gaps,
    "requested": requested,
    "mixtures": mixtures,
}


def main() -> None:
    """Name every case that lived."""
    for name, case in CASES.items():
        case(2 * _POOL)
        case(40 * FEW_ITEMS)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
        case(LARGEST)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(name, flush=True)


if __name__ == "__main__":
    main()
