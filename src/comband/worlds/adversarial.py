"""Worlds against which nothing is i.i.d.: sequences fixed in advance by an adversary who knows the policies.

An adversary here is oblivious: it fixes contexts and rewards of all T rounds before the first list is shown. So the
best policy in hindsight is a property of the sequence, and is computed exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband._kernels.lists import credit
from comband.page.problem import InputError, Problem, as_generator, check_count, check_fraction
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.worlds.base import Batch

Seed = int | np.random.SeedSequence | np.random.Generator


@dataclass(frozen=True, eq=False, slots=True)
class AdversarialSequence:
    """T rounds: a context each, and the few rewarded actions with their rewards.

    Parameters
    ----------
    problem:
        K, m and s.
    contexts:
        (T,) numbers of contexts, for tabulated policies.
    actions, rewards:
        (T, w) the rewarded actions of each round and their rewards in [0, 1]; a reward of 0 marks an unused place.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.worlds import AdversarialSequence
    >>> problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0]], [[2]]], problem, names=["first", "third"])
    >>> sequence = AdversarialSequence(problem, np.zeros(3, int), np.array([[0], [2], [2]]), np.ones((3, 1)))
    >>> sequence.totals(policies).tolist()  # what each would have collected
    [1.0, 2.0]
    >>> sequence.answer(0, np.array([[2], [2], [2]])).ravel().tolist()
    [0.0, 1.0, 1.0]
    """

    problem: Problem
    contexts: NDArray[np.int64]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.contexts)

    def answer(self, start: int, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """Rewards (n, m) of the lists shown in rounds start … start + n − 1."""
        rows = slice(start, start + len(lists))
        same = lists[:, :, None] == self.actions[rows, None, :]
        return np.asarray((same * self.rewards[rows, None, :]).sum(axis=2))

    def batch(self, start: int, n: int) -> Batch:
        """Rounds start … start + n − 1 as every world hands them out."""
        rows = slice(start, start + n)
        rewards = self.rewards[rows]
        where, place = np.nonzero(rewards)
        matrix = sp.csr_array(
            (rewards[where, place], (where, self.actions[rows][where, place])),
            shape=(len(rewards), self.problem.n_actions),
        )
        return Batch(self.contexts[rows], matrix, self.problem)

    def totals(self, policies: PolicySet) -> NDArray[np.float64]:
        """What each policy would have collected in all T rounds, (P,), exactly."""
        where, place = np.nonzero(self.rewards)
        events = np.stack([self.contexts[where], self.actions[where, place].astype(np.int64)], axis=1)
        # Rounds of one context and action count together: a table needs each context once.
        distinct, group = np.unique(events, axis=0, return_inverse=True)
        amounts = np.zeros(len(distinct))
        np.add.at(amounts, group.ravel(), self.rewards[where, place])
        seen, rows = np.unique(distinct[:, 0], return_inverse=True)
        totals = np.zeros(len(policies))
        step = max(1, BLOCK // (len(policies) * self.problem.list_size))
        for start in range(0, len(seen), step):
            inside = (rows >= start) & (rows < start + step)
            lists = policies.predict(seen[start : start + step], problem=self.problem)
            credit(lists, rows[inside] - start, distinct[inside, 1].astype(np.int32), amounts[inside], totals)
        return totals

    def gains(self, policies: PolicySet, index: int) -> NDArray[np.float64]:
        """What one policy would have collected in each round, (T,)."""
        lists = np.asarray(policies.predict(self.contexts, [index], problem=self.problem)[:, 0])
        return np.asarray(self.answer(0, lists).sum(axis=1))


class Replay:
    """An `AdversarialSequence` as a world for `run`: hands out its rounds in order, once.

    Parameters
    ----------
    sequence:
        What is played.

    >>> import comband as cb
    >>> from comband.worlds import Replay, switching
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> lists = [[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50]  # three candidates, the same lists in fifty contexts
    >>> policies = cb.PolicySet.from_lists(lists, problem)
    >>> world = Replay(switching(policies, problem, horizon=600, seed=1))
    >>> learner = cb.Exp4CombSparse(problem, policies, horizon=600, seed=2)
    >>> cb.run(learner, world, batch_size=50).result.rounds
    600
    """

    def __init__(self, sequence: AdversarialSequence) -> None:
        self.sequence = sequence
        self.position = 0

    @property
    def problem(self) -> Problem:
        """K, m and s."""
        return self.sequence.problem

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """The next n rounds; nothing is random."""
        if self.position + n > len(self.sequence):
            raise InputError(
                f"the sequence has {len(self.sequence)} rounds, of which {self.position} are played; "
                f"{n} more were asked for. Give run() max_rounds, or the learner the sequence's horizon."
            )
        self.position += n
        return self.sequence.batch(self.position - n, n)

    def values(self, policies: PolicySet) -> NDArray[np.float64]:
        """Reward per round of each policy over the whole sequence, in hindsight."""
        return self.sequence.totals(policies) / len(self.sequence)


def switching(
    policies: PolicySet,
    problem: Problem,
    *,
    horizon: int,
    n_contexts: int = 50,
    n_phases: int = 8,
    rate: float = 0.3,
    seed: Seed = 0,
) -> AdversarialSequence:
    """Phases of equal length, each with its own favourite policy, whose lists hold the rewards of its phase.

    The favourite of every second phase is one and the same: the best policy in hindsight, which pays half of the time.

    Parameters
    ----------
    policies:
        The candidates, whose lists decide what is rewarded.
    problem:
        K, m and s.
    horizon:
        T, how many rounds there are.
    n_contexts:
        How many contexts there are to draw from.
    n_phases:
        How many phases there are.
    rate:
        The probability of a reward in a round.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same sequence.

    >>> import comband as cb
    >>> from comband.worlds import switching
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> lists = [[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50]  # three candidates, the same lists in fifty contexts
    >>> policies = cb.PolicySet.from_lists(lists, problem)
    >>> sequence = switching(policies, problem, horizon=1000, n_phases=4, seed=1)
    >>> len(sequence.contexts), sequence.totals(policies).shape
    (1000, (3,))
    """
    rng = as_generator(seed)
    check_count("n_phases", n_phases)
    others = rng.integers(len(policies), size=n_phases)
    hero = int(rng.integers(len(policies)))
    phase = np.minimum(np.arange(horizon) * n_phases // horizon, n_phases - 1)
    favourite = np.where(phase % 2 == 0, hero, others[phase])
    return _favour(policies, problem, rng, favourite, _coin(rng, horizon, rate), n_contexts)


def drifting(
    policies: PolicySet,
    problem: Problem,
    *,
    horizon: int,
    n_contexts: int = 50,
    rate: float = 0.3,
    seed: Seed = 0,
) -> AdversarialSequence:
    """The favourite of each round is drawn from shares that slide from one policy to another over the horizon.

    Parameters
    ----------
    horizon:
        T, how many rounds there are.
    policies:
        The candidates, whose lists decide what is rewarded.
    problem:
        K, m and s.
    n_contexts:
        How many contexts there are to draw from.
    rate:
        The probability of a reward in a round.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same sequence.

    >>> import comband as cb
    >>> from comband.worlds import drifting
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> lists = [[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50]  # three candidates, the same lists in fifty contexts
    >>> policies = cb.PolicySet.from_lists(lists, problem)
    >>> sequence = drifting(policies, problem, horizon=1000, seed=1)
    >>> len(sequence.contexts), sequence.totals(policies).shape
    (1000, (3,))
    """
    rng = as_generator(seed)
    first, second = rng.choice(len(policies), size=2, replace=len(policies) < 2)
    arrived = rng.random(horizon) < 1.4 * np.arange(horizon) / horizon  # the second policy rules the last two sevenths
    favourite = np.where(arrived, second, first)
    return _favour(policies, problem, rng, favourite, _coin(rng, horizon, rate), n_contexts)


def popularity_burst(
    policies: PolicySet,
    problem: Problem,
    *,
    horizon: int,
    n_contexts: int = 50,
    n_bursts: int = 5,
    burst_share: float = 0.2,
    rate: float = 0.2,
    seed: Seed = 0,
) -> AdversarialSequence:
    """One policy pays at `rate`; during bursts, instead, the list of a random other policy pays in every round.

    Bursts are short and intense, take up `burst_share` of the horizon and lead a learner that follows the last rewards
    astray.

    Parameters
    ----------
    burst_share:
        The share of the horizon that bursts take up.
    rate:
        The probability of a reward outside of them.
    horizon:
        T, how many rounds there are.
    policies:
        The candidates, whose lists decide what is rewarded.
    problem:
        K, m and s.
    n_contexts:
        How many contexts there are to draw from.
    n_bursts:
        How many bursts there are.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same sequence.

    >>> import comband as cb
    >>> from comband.worlds import popularity_burst
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> lists = [[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50]  # three candidates, the same lists in fifty contexts
    >>> policies = cb.PolicySet.from_lists(lists, problem)
    >>> sequence = popularity_burst(policies, problem, horizon=1000, n_bursts=3, seed=1)
    >>> len(sequence.contexts), sequence.totals(policies).shape
    (1000, (3,))
    """
    rng = as_generator(seed)
    check_count("n_bursts", n_bursts)
    check_fraction("burst_share", burst_share)
    hero = int(rng.integers(len(policies)))
    time = np.arange(horizon)
    cycle = horizon / n_bursts
    bursting = (time % cycle) >= (1 - burst_share) * cycle
    star = rng.integers(len(policies), size=n_bursts)[np.minimum((time // cycle).astype(int), n_bursts - 1)]
    favourite = np.where(bursting, star, hero)
    paying = np.where(bursting, True, _coin(rng, horizon, rate))
    return _favour(policies, problem, rng, favourite, paying, n_contexts)


def entropy_trap(
    policies: PolicySet,
    problem: Problem,
    *,
    horizon: int,
    n_contexts: int = 50,
    bait: float = 0.35,
    rate: float = 1.0,
    seed: Seed = 0,
) -> AdversarialSequence:
    """The worst case for weights kept by entropy alone: a bait pays for a share of the horizon, then another policy.

    With weights ∝ exp(−ηL) and no floor the later policy's weight is by then exp(−η·bait·T), which at
    η = √(log P/(smT)) vanishes as T grows: it is never drawn, nothing is ever learnt about it, and the regret is
    (1 − 2·bait)·rate·T. A log-barrier keeps weights of order 1/(ν·bait·T), enough to be drawn and found.

    Parameters
    ----------
    bait:
        The share of the horizon in which the bait pays.
    rate:
        The probability of a reward in a round.
    horizon:
        T, how many rounds there are.
    policies:
        The candidates, whose lists decide what is rewarded.
    problem:
        K, m and s.
    n_contexts:
        How many contexts there are to draw from.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same sequence.

    >>> import comband as cb
    >>> from comband.worlds import entropy_trap
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> lists = [[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50]  # three candidates, the same lists in fifty contexts
    >>> policies = cb.PolicySet.from_lists(lists, problem)
    >>> sequence = entropy_trap(policies, problem, horizon=1000, seed=1)
    >>> len(sequence.contexts), sequence.totals(policies).shape
    (1000, (3,))
    """
    rng = as_generator(seed)
    check_fraction("bait", bait)
    first, second = rng.choice(len(policies), size=2, replace=len(policies) < 2)
    favourite = np.where(np.arange(horizon) < bait * horizon, first, second)
    return _favour(policies, problem, rng, favourite, _coin(rng, horizon, rate), n_contexts)


ADVERSARIES: dict[str, Callable[..., AdversarialSequence]] = {
    "switching": switching,
    "drifting": drifting,
    "popularity burst": popularity_burst,
    "entropy trap": entropy_trap,
}


def _coin(rng: np.random.Generator, horizon: int, rate: float) -> NDArray[np.bool_]:
    if not 0 < rate <= 1:
        raise InputError(f"rate must lie in (0, 1], got {rate}.")
    return rng.random(check_count("horizon", horizon)) < rate


def _favour(
    policies: PolicySet,
    problem: Problem,
    rng: np.random.Generator,
    favourite: NDArray[np.int64],
    paying: NDArray[np.bool_],
    n_contexts: int,
) -> AdversarialSequence:
    """In paying rounds, ⌊ρ⌋ random actions of the favourite's list pay 1 (or one pays ρ, if ρ < 1)."""
    horizon = len(favourite)
    contexts = rng.integers(check_count("n_contexts", n_contexts), size=horizon)
    rho = problem.max_reward
    width = max(1, int(rho))
    table = policies.predict(np.arange(n_contexts), np.unique(favourite), problem=problem)
    lists = table[contexts, np.searchsorted(np.unique(favourite), favourite)]
    order = np.argsort(rng.random(lists.shape), axis=1)[:, :width]
    actions = np.take_along_axis(lists, order, axis=1)
    rewards = np.where(paying[:, None], min(rho, 1.0), 0.0) * np.ones((horizon, width))
    return AdversarialSequence(problem, contexts, actions, rewards)
