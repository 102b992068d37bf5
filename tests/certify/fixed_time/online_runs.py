"""Runs of OnlineComband in worlds of known values: what it chose, what it claimed on the way, how near it was."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.paper.catalogue.rate_worlds import KINDS, RateWorld, rate_world

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


def make(world: RateWorld, epsilon: float, seed: int, *, batch_size: int, early_stop: bool) -> cb.OnlineComband:
    """A learner for one run."""
    return cb.OnlineComband(
        world.problem,
        world.policies,
        epsilon=epsilon,
        batch_size=batch_size,
        early_stop=early_stop,
        exploration="learnt",
        seed=np.random.SeedSequence([seed, 1]),
    )


def step(learner: cb.OnlineComband, world: RateWorld, rng: np.random.Generator, gaps: NDArray[np.float64]) -> bool:
    """One batch; whether the candidate of highest estimate, the worst of equal ones, is then not within ε."""
    batch = world.sample(learner.schedule.batch_size, rng)
    decisions = learner.ask(batch.contexts)
    learner.tell(decisions, batch.answer(decisions.lists))
    totals = learner.estimated_totals
    return bool(gaps[totals >= totals.max() * (1 - 1e-12)].max() > learner.schedule.epsilon)


def play(world: RateWorld, epsilon: float, seed: int, *, batch_size: int = 100, early_stop: bool = True) -> Outcome:
    """One run to its end."""
    values = world.exact_values()
    gaps = values.max() - values
    learner = make(world, epsilon, seed, batch_size=batch_size, early_stop=early_stop)
    policies, schedule, rng = learner.policies, learner.schedule, np.random.default_rng([seed, 2])
    ever_wrong, last_bad = False, 0
    while not learner.done:
        if step(learner, world, rng, gaps):
            last_bad = learner.rounds
        promise = learner.promise
        ever_wrong |= promise is not None and gaps[promise.leader] > promise.epsilon + 1e-12
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


def share_wrong(world: RateWorld, epsilon: float, seeds: range) -> float:
    """In which share of the first tenth of T the highest estimate is not within ε, on average; −1 if it always is."""
    values, wrong = world.exact_values(), []
    gaps = values.max() - values
    if (gaps <= epsilon).all():
        return -1.0
    for seed in seeds:
        learner, rng = make(world, epsilon, seed, batch_size=10, early_stop=False), np.random.default_rng([seed, 2])
        wrong += [step(learner, world, rng, gaps) for _ in range(learner.schedule.n_rounds // 100)]
    return float(np.mean(wrong))


def found_by_search(problem: cb.Problem, epsilon: float, n_policies: int, steps: int, seed: int) -> RateWorld:
    """A world in which the highest estimate stays wrong for as long as a search by chance can make it: it begins with
    the hardest of the three kinds; lists and pay_rates of a few contexts are redrawn or copied from one candidate to
    another, and a change stays if the highest estimate is wrong no less often. Seeds change from step to step.
    """
    rng = np.random.default_rng(seed)
    K, m, N = problem.n_actions, problem.list_size, 60

    starts = [rate_world(kind, problem, n_policies, epsilon, rng, N) for kind in KINDS]
    best = max(starts, key=lambda world: share_wrong(world, epsilon, range(8)))
    for number in range(steps):
        lists, pay_rates = best.lists.copy(), best.pay_rates.copy()
        where = rng.choice(N, int(rng.integers(1, 12)), replace=False)
        one, other = rng.choice(n_policies, 2, replace=False)
        kind = rng.integers(4)
        if kind == 0:
            lists[one, where] = np.argsort(rng.random((len(where), K)), axis=1)[:, :m]
        elif kind == 1:
            pay_rates[where] = rng.random(len(where)) ** rng.choice([0.2, 1, 4])
        elif kind == 2:
            lists[one, where] = lists[other, where]
        else:
            lists[:-1, where] = lists[one, where]
        world, seeds = RateWorld(problem, best.relevant, lists, pay_rates), range(100 * number, 100 * number + 8)
        if share_wrong(world, epsilon, seeds) >= share_wrong(best, epsilon, seeds):
            best = world
    return best
