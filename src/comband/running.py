"""Closing the loop between a learner and a world."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from comband.environments.base import Environment
from comband.learners.base import Learner, Seed, Selection, Status
from comband.problem import InputError, as_generator, check_count


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to: the selection, and one row for each batch (columns by name)."""

    result: Selection
    history: dict[str, NDArray[Any]]


def run(
    learner: Learner,
    environment: Environment,
    *,
    batch_size: int = 1000,
    max_rounds: int | None = None,
    seed: Seed = 0,
    progress: bool = False,
) -> Run:
    """Ask, answer and tell until the learner is done, or `max_rounds` rounds have passed.

    `seed` is the world's; the learner has its own. Progress goes to standard error.
    """
    check_count("batch_size", batch_size)
    if max_rounds is not None:
        check_count("max_rounds", max_rounds)
    if learner.problem != environment.problem:
        raise InputError(f"the learner solves {learner.problem}, but the environment is {environment.problem}.")
    rng = as_generator(seed)
    rows: list[tuple[int, float, str, float, int]] = []
    played = 0
    bar = progress_bar() if progress else None
    with bar if bar is not None else nullcontext():
        task = None if bar is None else bar.add_task("", total=max_rounds)
        while not learner.done and (max_rounds is None or played < max_rounds):
            n = batch_size if max_rounds is None else min(batch_size, max_rounds - played)
            batch = environment.sample(n, rng)
            decisions = learner.ask(batch.contexts)
            rewards = batch.answer(decisions.lists)
            learner.tell(decisions, rewards)
            played += n
            status = learner.status()
            rows.append(
                (
                    status.rounds,
                    float(rewards.sum(axis=1).mean()),
                    status.leader,
                    status.epsilon,
                    status.survivors,
                )
            )
            if bar is not None and task is not None:
                bar.update(task, completed=played, description=_describe(status))
    names = ("rounds", "reward", "leader", "epsilon", "survivors")
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.empty(0) for _ in names]
    return Run(learner.result(), dict(zip(names, columns, strict=True)))


def _describe(status: Status) -> str:
    text = f"{status.leader} leads, {status.survivors} may be best, certified to {status.epsilon:.3g}"
    if np.isfinite(status.forecast) and status.forecast > 0:
        text += f", ~{_rough(status.forecast)} to go"
    return text


def _rough(rounds: float) -> str:
    """A guess should not look exact: two digits."""
    return f"{float(f'{rounds:.2g}'):,.0f}"


def progress_bar() -> Progress:
    """A bar for rounds, on standard error."""
    return Progress(  # the bar comes last: a narrow terminal cuts it, not the words
        TextColumn("{task.completed:,.0f} rounds:"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        console=Console(stderr=True),
    )
