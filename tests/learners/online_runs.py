"""Runs of OnlineComband in worlds of known values: what it chose, what it claimed on the way, how near it was."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import comband as cb
from comband.experiments.catalogue.rate_worlds import KINDS, RateWorld, rate_world

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
    """A world in which the highest estimate stays wrong for as long as a search by chance can make it: it begins with
    the hardest of the three kinds; lists and chances of a few contexts are redrawn or copied from one candidate to
    another, and a change stays if the candidate of highest estimate settles no sooner.
    """
    rng = np.random.default_rng(seed)
    K, m, N = problem.n_actions, problem.list_size, 60

    def difficulty(world: RateWorld) -> float:
        values = world.exact_values()
        if (values.max() - values <= epsilon).all():
            return -1.0  # nothing can be wrong here
        return float(np.mean([play(world, epsilon, 10 + i, batch_size=20, early_stop=False).settled for i in range(5)]))

    starts = [rate_world(kind, problem, n_policies, epsilon, rng, N) for kind in KINDS]
    hardest, best = max(((difficulty(world), world) for world in starts), key=lambda pair: pair[0])
    for _ in range(steps):
        lists, chances = best.lists.copy(), best.chances.copy()
        where = rng.choice(N, int(rng.integers(1, 12)), replace=False)
        one, other = rng.choice(n_policies, 2, replace=False)
        kind = rng.integers(4)
        if kind == 0:
            lists[one, where] = np.argsort(rng.random((len(where), K)), axis=1)[:, :m]
        elif kind == 1:
            chances[where] = rng.random(len(where)) ** rng.choice([0.2, 1, 4])
        elif kind == 2:
            lists[one, where] = lists[other, where]
        else:
            lists[:-1, where] = lists[one, where]
        world = RateWorld(problem, best.relevant, lists, chances)
        found = difficulty(world)
        if found >= hardest:
            best, hardest = world, found
    return best
