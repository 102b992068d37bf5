"""Regret of learners on adversarial sequences: one run, and curves with bands over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.learners.base import Learner, check_learner
from comband.page.problem import InputError, check_count
from comband.page.progress import progress_bar
from comband.policies.policy_set import PolicySet
from comband.worlds.adversarial import AdversarialSequence


def play(
    learner: Learner, sequence: AdversarialSequence, *, batch_size: int = 1, progress: bool = False
) -> NDArray[np.float64]:
    """Play a whole sequence, telling each batch before the next is asked; the reward of each round, (T,).

    Parameters
    ----------
    sequence:
        What the adversary has chosen.
    learner:
        It is asked for every list.
    batch_size:
        How many rounds are asked and told at once.
    progress:
        Whether a bar is shown, on standard error.

    >>> import comband as cb
    >>> from comband.worlds import switching
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50], problem)
    >>> sequence = switching(policies, problem, horizon=400, seed=1)
    >>> from comband.regret import play
    >>> rewards = play(cb.Exp4CombSparse(problem, policies, horizon=400, seed=2), sequence)
    >>> rewards.shape
    (400,)
    """
    check_learner(learner)
    check_count("batch_size", batch_size)
    if learner.problem != sequence.problem:
        raise InputError(f"the learner solves {learner.problem}, but the sequence is of {sequence.problem}.")
    collected = np.empty(len(sequence))
    bar = progress_bar() if progress else None
    with bar if bar is not None else nullcontext():
        task = None if bar is None else bar.add_task("", total=len(sequence))
        for start in range(0, len(sequence), batch_size):
            decisions = learner.ask(sequence.contexts[start : start + batch_size])
            rewards = sequence.answer(start, decisions.lists)
            learner.tell(decisions, rewards)
            collected[start : start + batch_size] = rewards.sum(axis=1)
            if bar is not None and task is not None and start % 200 < batch_size:
                text = f"{learner.status().leader}  {collected[: start + 1].mean():.3g} per round"
                bar.update(task, completed=start + len(decisions), description=text)
        if bar is not None and task is not None:
            bar.update(task, completed=len(sequence))
    return collected


@dataclass(frozen=True, eq=False, slots=True)
class RegretCurves:
    """Regret against the best policy in hindsight, after each of some rounds, for several seeds of a learner.

    `rounds` (n,) are the numbers of rounds played, `regrets` (seeds, n) the regret then; `best` is the index of the
    policy that collects most over the whole sequence, the comparator throughout.

    >>> import comband as cb
    >>> from comband.worlds import switching
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50], problem)
    >>> sequence = switching(policies, problem, horizon=400, seed=1)
    >>> from comband.regret import regret_curves
    >>> def learner(seed):
    ...     return cb.Exp4CombSparse(problem, policies, horizon=400, seed=seed)
    ...
    >>> curves = regret_curves(learner, sequence, policies, seeds=range(2))
    >>> low, high = curves.band(0.8)
    >>> bool((low <= curves.mean).all()), curves.standard_error.shape == curves.mean.shape
    (True, True)
    """

    rounds: NDArray[np.int64]
    regrets: NDArray[np.float64]
    best: int

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean over seeds, (n,)."""
        return np.asarray(self.regrets.mean(axis=0))

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Standard error of the mean, (n,); zero for one seed."""
        n = len(self.regrets)
        return np.asarray(self.regrets.std(axis=0, ddof=1 if n > 1 else 0) / np.sqrt(n))

    def band(self, coverage: float = 0.8) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The middle `coverage` of the seeds, (n,) and (n,)."""
        low, high = np.quantile(self.regrets, [(1 - coverage) / 2, (1 + coverage) / 2], axis=0)
        return low, high


def regret_curves(
    make_learner: Callable[[int], Learner],
    sequence: AdversarialSequence,
    policies: PolicySet,
    *,
    seeds: Iterable[int] = range(10),
    batch_size: int = 1,
    n_points: int = 200,
) -> RegretCurves:
    """Play the sequence once for each seed, with a new learner `make_learner(seed)`.

    Parameters
    ----------
    make_learner:
        A new learner for each seed.
    sequence:
        What the adversary has chosen.
    policies:
        The candidates; the best of them in hindsight is the comparator.
    seeds:
        One run each.
    batch_size:
        How many rounds are asked and told at once.
    n_points:
        At how many rounds the regret is noted.

    >>> import comband as cb
    >>> from comband.worlds import switching
    >>> problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]] * 50, [[2, 3]] * 50, [[4, 5]] * 50], problem)
    >>> sequence = switching(policies, problem, horizon=400, seed=1)
    >>> from comband.regret import regret_curves
    >>> def learner(seed):
    ...     return cb.Exp4CombSparse(problem, policies, horizon=400, seed=seed)
    ...
    >>> curves = regret_curves(learner, sequence, policies, seeds=range(2))
    >>> curves.regrets.shape[0], int(curves.rounds[-1])
    (2, 400)
    """
    best = int(np.argmax(sequence.totals(policies)))
    target = np.cumsum(sequence.gains(policies, best))
    horizon = len(sequence)
    rounds = np.unique(np.linspace(1, horizon, min(n_points, horizon)).astype(np.int64))
    curves = [
        (target - np.cumsum(play(make_learner(seed), sequence, batch_size=batch_size)))[rounds - 1] for seed in seeds
    ]
    return RegretCurves(rounds, np.array(curves), best)
