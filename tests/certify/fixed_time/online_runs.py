"""Runs of OnlineComband in worlds of known values: what it chose, what it claimed on the way, how near it was."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.paper.catalogue.rate_worlds import RateWorld

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
    """wrong: the answer is not within ε, or one is not that ties with it. ever_wrong: some claim on the way was wrong.
    settled: the share of T after which the candidate of highest estimate was within ε for good. spread: max W over its
    bound at the end.
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


def _a_tie_is_wrong(learner: cb.OnlineComband, gaps: NDArray[np.float64]) -> bool:
    """Whether another candidate might as well have been named in the last round, and is not within ε."""
    promise, sums = learner.promise, learner.schedule.scale * learner.estimated_totals
    if promise is None or promise.rounds < learner.rounds:
        return False
    if not promise.by_theorem:
        sums -= learner.spreads
    return bool(gaps[sums >= sums.max() - 1e-12 * abs(sums.max())].max() > learner.schedule.epsilon)


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
        wrong=bool(gaps[result.index] > epsilon) or _a_tie_is_wrong(learner, gaps),
        ever_wrong=bool(ever_wrong),
        share_of_rounds=learner.rounds / schedule.n_rounds,
        settled=last_bad / schedule.n_rounds,
        spread=float(learner.spreads.max() / bound),
    )
