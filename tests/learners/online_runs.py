"""Runs of OnlineComband in worlds whose values are known: what it chose, what it claimed on the way, how near it was."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.experiments.catalogue.rate_worlds import RateWorld

SETTINGS = (
    (20, 1, 1, 0.1),
    (20, 3, 1, 0.1),
    (100, 2, 1, 0.1),
    (200, 1, 1, 0.1),
    (200, 3, 1, 0.1),
    (200, 3, 1, 0.05),
    (60, 3, 3, 0.3),
)
"""K, m, s, ε: three ratios K/m at which uniform lists are near, far and hopeless, and a problem of several rewards."""


@dataclass(frozen=True)
class Outcome:
    """wrong: the answer is not within ε. ever_wrong: some claim on the way was wrong. settled: the share of T after
    which the candidate of highest estimate was within ε for good. spread: max W over its bound at the end.
    """

    wrong: bool
    ever_wrong: bool
    share_of_rounds: float
    settled: float
    spread: float


def play(world: RateWorld, epsilon: float, seed: int, *, batch_size: int = 100, early_stop: bool = True) -> Outcome:
    """One run to its end; of equal estimates the worst candidate is taken for the answer."""
    policies, values = world.policies, world.exact_values()
    gaps = values.max() - values
    learner = cb.OnlineComband(
        world.problem,
        policies,
        epsilon=epsilon,
        batch_size=batch_size,
        early_stop=early_stop,
        exploration="learnt",
        seed=np.random.SeedSequence([seed, 1]),
    )
    schedule, rng = learner.schedule, np.random.default_rng([seed, 2])
    ever_wrong, last_bad = False, 0
    while not learner.done:
        batch = world.sample(batch_size, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
        totals = learner.estimated_totals
        if gaps[totals >= totals.max() * (1 - 1e-12)].max() > epsilon:
            last_bad = learner.rounds
        claim = learner.claim
        ever_wrong |= claim is not None and gaps[claim.leader] > claim.epsilon + 1e-12
    assert learner.in_step
    result = learner.result()
    assert result.epsilon <= epsilon
    bound = (math.log(len(policies) / schedule.delta_of_rounds) + learner.rounds * schedule.drift) / schedule.rate
    return Outcome(
        wrong=bool(gaps[result.index] > epsilon),
        ever_wrong=bool(ever_wrong),
        share_of_rounds=learner.rounds / schedule.n_rounds,
        settled=last_bad / schedule.n_rounds,
        spread=float(learner.spreads.max() / bound),
    )


def found_by_search(problem: cb.Problem, epsilon: float, n_policies: int, steps: int, seed: int) -> RateWorld:
    """A world in which the highest estimate stays wrong for as long as a search by chance can make it: lists and
    chances of a few contexts are redrawn, and a change stays if the candidate of highest estimate settles later.
    """
    rng = np.random.default_rng(seed)
    N, K, m, s = 40, problem.n_actions, problem.list_size, int(problem.sparsity or 1)

    def fresh(n: int) -> NDArray[np.int64]:
        return np.argsort(rng.random((n_policies, n, K)), axis=2)[:, :, :m]

    def difficulty(world: RateWorld) -> float:
        gaps = world.exact_values().max() - world.exact_values()
        if (gaps > epsilon).sum() == 0:
            return 0.0
        return float(np.mean([play(world, epsilon, 10 + i, early_stop=False).settled for i in range(3)]))

    relevant = np.argsort(rng.random((N, K)), axis=1)[:, :s]
    lists = fresh(N)
    known = rng.random((n_policies, N)) < 0.3
    lists[:, :, 0] = np.where(
        known & ~(lists == relevant[None, :, :1]).any(axis=2), relevant[None, :, 0], lists[:, :, 0]
    )
    best = RateWorld(problem, relevant, lists, rng.random(N))
    hardest = difficulty(best)
    for _ in range(steps):
        lists, chances = best.lists.copy(), best.chances.copy()
        where = rng.choice(N, int(rng.integers(1, 8)), replace=False)
        kind = rng.integers(3)
        if kind == 0:
            lists[:, where] = fresh(len(where))
        elif kind == 1:
            chances[where] = rng.random(len(where)) ** rng.choice([0.2, 1, 4])
        else:
            one, other = rng.choice(n_policies, 2, replace=False)
            lists[one, where] = lists[other, where]
        world = RateWorld(problem, relevant, lists, chances)
        found = difficulty(world)
        if found >= hardest:
            best, hardest = world, found
    return best
