"""Broken assumptions are noticed in a running learner, and a result that may be wrong says so in its first line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import comband as cb
from comband.show import selection_page
from comband.statistics.results import UNWATCHED, WARNING

FIRST, SECOND = np.arange(3), np.arange(3, 6)  # the lists of two candidates, wherever the context


class Wavering:
    """A candidate that answers with another list while `away`."""

    def __init__(self, here: ArrayLike, away: ArrayLike) -> None:
        self.lists, self.away = np.array([here, away], dtype=np.int32), False

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.repeat(self.lists[[int(self.away)]], len(X), axis=0)


def learner_for(n_actions: int, candidates: list[cb.Policy] | None = None, **options: object) -> cb.AdaptiveComband:
    problem = cb.Problem(n_actions=n_actions, list_size=3, sparsity=1)
    chosen = candidates or [Wavering(FIRST, FIRST), Wavering(SECOND, SECOND)]
    return cb.AdaptiveComband(problem, cb.PolicySet(chosen), epsilon=0.001, seed=3, **options)  # type: ignore[arg-type]


def clicks(lists: NDArray[np.int32], chances: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """At most one click per round: on action y with probability chances[y], if it is shown."""
    edges = np.cumsum(chances)
    clicked = np.searchsorted(edges, rng.random(len(lists)), side="right")
    return np.asarray(lists == clicked[:, None], dtype=np.float64)


@pytest.mark.parametrize("n_actions", [10, 200_000])
def test_a_candidate_that_changes_its_mind_is_noticed_at_any_number_of_actions(n_actions: int) -> None:
    rng, candidate = np.random.default_rng(0), Wavering(SECOND, FIRST)
    learner = learner_for(n_actions, [Wavering(FIRST, FIRST), candidate, Wavering(FIRST + 4, FIRST + 4)])
    chances = np.full(7, 0.1)
    for away in (False, True):
        decisions = learner.ask(np.zeros(50, dtype=np.int64))
        candidate.away = away
        learner.tell(decisions, clicks(decisions.lists, chances, rng))
        result = learner.result()
        assert bool(result.warnings) == away
        assert str(result).startswith(WARNING) == away
        assert str(learner.status()).startswith(WARNING) == away
    assert "recorded propensities are not those of the design" in str(result).splitlines()[0]


def test_late_answers_for_some_lists_are_no_fault() -> None:
    """Answers that come later when certain actions are shown are no sign that lists are drawn wrongly."""
    # One guard at level .001 could give a false alarm: more than 2 in 10 runs have a probability below 1e-6.
    alarms = 0
    for seed in range(10):
        rng, learner = np.random.default_rng([seed, 1]), learner_for(10, first_epoch=200)
        held: list[tuple[cb.Decisions, NDArray[np.float64]]] = []
        for _ in range(30):
            decisions = learner.ask(np.zeros(100, dtype=np.int64))
            rewards = clicks(decisions.lists, np.full(6, 0.02), rng)
            slow = (decisions.lists == 0).any(axis=1)
            learner.tell(decisions[~slow], rewards[~slow])
            held.append((decisions[slow], rewards[slow]))
            if len(held) > 4:
                learner.tell(*held.pop(0))
        alarms += bool(learner.result().warnings)
    assert alarms <= 2


def drifting(learner: cb.AdaptiveComband, n_rounds: int, rng: np.random.Generator, chances: ArrayLike) -> int | None:
    """Play rounds; after how many there was a warning."""
    for played in range(0, n_rounds, 50):
        if learner.status().warnings:
            return played
        decisions = learner.ask(np.zeros(50, dtype=np.int64))
        learner.tell(decisions, clicks(decisions.lists, np.asarray(chances, dtype=np.float64), rng))
    return None


def test_a_change_is_noticed_while_its_epoch_runs() -> None:
    before, after = [0.06] * 3 + [0.05] * 3, [0.01] * 3 + [0.15] * 3
    for seed in range(3):
        rng, learner = np.random.default_rng([seed, 2]), learner_for(10, first_epoch=4000)
        assert drifting(learner, 1500, rng, before) is None
        when = drifting(learner, 2000, rng, after)
        assert when is not None
        assert len(learner.epochs) == 1
        result = learner.result()
        assert str(result).startswith("Not valid. The world is not at rest")
        page = selection_page(
            result,
            {"rounds": np.empty(0)},
            problem=learner.problem,
            n_candidates=2,
            comparison=learner.comparison(),
        )
        assert (
            page.index('class="verdict not-valid"') < page.index("The world is not at rest") < page.index("data-chart")
        )


def test_a_drift_that_returns_is_noticed_over_epochs() -> None:
    rng, learner = np.random.default_rng(3), learner_for(10, first_epoch=400, epoch_growth=1.001)
    for part in range(20 * 8):  # rates rise within every epoch of 400 rounds
        if drifting(learner, 50, rng, [0.02 + 0.16 * (part % 8) / 7] * 3 + [0.1] * 3) is not None:
            break
    assert learner.status().warnings


def test_results_that_nothing_watched_say_so() -> None:
    problem = cb.Problem(n_actions=10, list_size=3, sparsity=1)
    policies = cb.PolicySet([Wavering(FIRST, FIRST), Wavering(SECOND, SECOND)])
    rng = np.random.default_rng(4)
    for learner in (
        cb.UniformExploration(problem, policies, n_rounds=50, seed=1),
        cb.PacComband(problem, policies, n_explore=20, n_estimate=20, seed=1),
    ):
        decisions = learner.ask(np.zeros(50, dtype=np.int64))
        learner.tell(decisions, clicks(decisions.lists, np.full(6, 0.1), rng))
        assert UNWATCHED in learner.result().notes
    assert UNWATCHED not in str(learner_with_rounds(rng).result())


def learner_with_rounds(rng: np.random.Generator) -> cb.AdaptiveComband:
    learner = learner_for(10)
    drifting(learner, 50, rng, [0.1] * 6)
    return learner
