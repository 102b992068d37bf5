"""Closing the loop between a learner and a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.learners.base import Learner, Seed, check_learner
from comband.page.frames import Tabular
from comband.page.problem import InputError, as_generator, check_count
from comband.page.progress import BAR, progress_bar
from comband.page.rounds import Rounds
from comband.page.text import rough, visible
from comband.statistics.results import Selection, Status
from comband.worlds.base import Environment


@dataclass(frozen=True, slots=True)
class Run(Tabular):
    """What a run came to: the selection, and one row for each batch (columns by name).

    In `history["certified"]` NaN stands where nothing was certified, in `history["forecast"]` (rounds still needed, a
    rough guess) infinity where no end is in sight.

    Parameters
    ----------
    result:
        The answer.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> outcome = cb.run(cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3), shop, batch_size=500)
    >>> outcome.result.epsilon <= 0.2
    True
    >>> int(outcome.history["rounds"][-1]) == outcome.result.rounds
    True
    """

    result: Selection
    history: dict[str, NDArray[Any]]

    def columns(self) -> dict[str, list[Any]]:
        """The history: one row per batch."""
        return {name: values.tolist() for name, values in self.history.items()}

    def headline(self) -> str:
        """The answer in words."""
        return str(self.result)


def run(
    learner: Learner,
    environment: Environment,
    *,
    batch_size: int = 1000,
    max_rounds: int | None = None,
    seed: Seed = 0,
    progress: bool = False,
    stop: Callable[[], bool] | None = None,
    keep: Callable[[Rounds], None] | None = None,
    metrics: Callable[[NDArray[np.int32], NDArray[np.float64]], Mapping[str, NDArray[np.float64]]] | None = None,
) -> Run:
    """Ask, answer and tell until the learner is done, `max_rounds` rounds have passed, or `stop()` is true, which is
    asked after each batch. A batch is as large as the budget, this one or the learner's own, and its period and
    patience allow.

    `seed` is the world's; the learner has its own. Progress goes to standard error. `keep` is given each batch's rounds
    once they are told.

    Parameters
    ----------
    learner:
        It is asked for lists.
    max_rounds:
        A budget; None for as long as the learner needs.
    seed:
        The world's: an int, a SeedSequence or a Generator.
    stop:
        Asked after each batch.
    keep:
        Given each batch's rounds.
    metrics:
        What further metrics are, of lists and their rewards, by name; for learners that were declared to have some.
    environment:
        It is asked for contexts and rewards.
    batch_size:
        How many rounds are asked and told at once.
    progress:
        Whether a bar is shown, on standard error.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> outcome = cb.run(learner, shop, batch_size=500, max_rounds=20_000, seed=4)
    >>> outcome.result.epsilon <= 0.2
    True
    >>> sorted(outcome.history)
    ['certified', 'forecast', 'leader', 'reward', 'rounds', 'survivors']
    """
    check_learner(learner)
    check_count("batch_size", batch_size)
    if max_rounds is not None:
        check_count("max_rounds", max_rounds)
    # What a learner assumes of places is its own affair: the world may be otherwise.
    if replace(learner.problem, places=None, order=None) != replace(environment.problem, places=None, order=None):
        raise InputError(f"the learner solves {learner.problem}, but the environment is {environment.problem}.")
    rng = as_generator(seed)
    rows: list[tuple[int, float, str, float, int, float]] = []
    played, stopped = 0, False
    bar = progress_bar() if progress else None
    with bar if bar is not None else nullcontext():
        task = None if bar is None else bar.add_task("", total=max_rounds)
        while not learner.done and not stopped and (max_rounds is None or played < max_rounds):
            left = (
                None if max_rounds is None else max_rounds - played,
                learner.decisions_left,
                _largest_batch(learner),
            )
            n = min([batch_size, *(one for one in left if one is not None)])
            batch = environment.sample(n, rng)
            decisions = learner.ask(batch.contexts)
            rewards = batch.answer(decisions.lists)
            learner.tell(decisions, rewards, **({} if metrics is None else metrics(decisions.lists, rewards)))
            played += n
            if keep is not None:
                keep(Rounds(decisions, rewards))
            stopped = stop is not None and stop()
            status = learner.progress()
            rows.append(
                (
                    status.rounds,
                    float(rewards.reshape(n, -1).sum(axis=1).mean()),
                    status.leader,
                    np.nan if status.certified is None else status.certified,
                    status.survivors,
                    status.forecast,
                )
            )
            if bar is not None and task is not None:
                words = _describe(status, bar.console.width - len(f"{played:,} rounds: ") - BAR - 1)
                bar.update(task, completed=played, description=words)
    names = ("rounds", "reward", "leader", "certified", "survivors", "forecast")
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.empty(0) for _ in names]
    return Run(learner.result(), dict(zip(names, columns, strict=True)))


def _largest_batch(learner: Learner) -> int | None:
    return getattr(learner, "largest_batch", None)


def _describe(status: Status, width: int) -> str:
    """As much as fits into `width` characters."""
    certified, expected = status.certified, status.expected
    epsilon = expected if certified is None else certified
    word = "epsilon" if certified is not None or expected is None else "expected epsilon"
    to_go = f", ~{rough(status.forecast)} to go" if 0 < status.forecast < np.inf else ""
    leads, left = f"{visible(status.leader)} leads", f"{status.survivors:,} candidates left"
    versions = (
        f"{leads}, {left}, {f'no {word} yet' if epsilon is None else f'{word} {epsilon:.3g}'}{to_go}",
        f"{leads}, {status.survivors:,} left, {'no ε yet' if certified is None else f'ε {certified:.2g}'}{to_go}",
        f"{leads}, {status.survivors:,} left{to_go}",
        f"{leads}, {status.survivors:,} left",
        leads,
    )
    for text in versions:
        if len(text) <= width:
            return text
    return leads[: max(width - 1, 0)] + "…"
