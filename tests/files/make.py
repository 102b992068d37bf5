"""Save one small file of every kind, and what is known of each, into a folder named by the day:
python -m tests.files.make YYYY-MM-DD.

Folders stay as they are: what a landed version has saved, every later one must load (`test_landed.py`). A version that
changes what is saved adds a folder of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb
from comband.learners import CustomLearner
from comband.page.problem import as_generator

FOLDER = Path(__file__).parent
PROBLEM = cb.Problem(n_actions=8, list_size=2, sparsity=1)
PLACED = cb.Problem(n_actions=8, list_size=2, sparsity=1, places=(1.0, 0.5))
TOTAL = cb.Problem(n_actions=8, list_size=2, sparsity=1, feedback="total")
CONTEXTS = 10
_LISTS = [[[(c + p + k * (1 + p)) % 8 for k in range(2)] for c in range(CONTEXTS)] for p in range(4)]


def policies(problem: cb.Problem = PROBLEM) -> cb.PolicySet:
    """Four candidates by their tables: nothing in them depends on a library."""
    return cb.PolicySet.from_lists(_LISTS, problem, names=["north", "east", "south", "west"])


class Follow(CustomLearner):
    """A learner of one's own, with an attribute that is saved."""

    def __init__(self, problem: Any, policies: Any, *, epsilon: float = 0.3, seed: Any = 0) -> None:
        super().__init__(problem, policies, seed=seed)
        self.epsilon = epsilon
        self.totals = np.zeros(len(policies))

    def choose(self, X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        leader = np.eye(4)[self.totals.argmax()]
        drawn = cb.Mixture(self.policies, leader, problem=self.problem, floor=self.epsilon).draw(X, rng)
        return drawn.lists, drawn.propensities

    def update(self, rounds: cb.Rounds) -> None:
        self.totals += self.gains(rounds)


LEARNERS: dict[str, Callable[[], Any]] = {
    "AdaptiveComband": lambda: cb.AdaptiveComband(PROBLEM, policies(), epsilon=0.05, first_epoch=60, seed=1),
    "AdaptiveComband-patience": lambda: cb.AdaptiveComband(
        PROBLEM, policies(), epsilon=0.05, patience=100, first_epoch=60, seed=1
    ),
    "AdaptiveComband-places": lambda: cb.AdaptiveComband(
        PLACED, policies(PLACED), epsilon=0.05, first_epoch=60, seed=1
    ),
    "AdaptiveComband-total": lambda: cb.AdaptiveComband(TOTAL, policies(TOTAL), epsilon=0.05, first_epoch=60, seed=1),
    "UniformLists": lambda: cb.UniformLists(PROBLEM, policies(), epsilon=0.05, first_epoch=60, seed=1),
    "UniformMixture": lambda: cb.UniformMixture(PROBLEM, policies(), epsilon=0.05, first_epoch=60, seed=1),
    "TwoPhaseComband": lambda: cb.TwoPhaseComband(PROBLEM, policies(), epsilon=0.05, first_epoch=60, seed=1),
    "ABTest": lambda: cb.ABTest(PROBLEM, policies(), epsilon=0.05, first_epoch=60, seed=1),
    "PacComband": lambda: cb.PacComband(PROBLEM, policies(), n_explore=60, n_estimate=900, seed=1),
    "UniformExploration": lambda: cb.UniformExploration(PROBLEM, policies(), n_rounds=900, seed=1),
    "Exp4": lambda: cb.Exp4(PROBLEM, policies(), horizon=900, seed=1),
    "Exp4CombSparse": lambda: cb.Exp4CombSparse(PROBLEM, policies(), propensities="when rewarded", seed=1),
    "EpsilonGreedy": lambda: cb.EpsilonGreedy(PROBLEM, policies(), horizon=900, seed=1),
    "ExploreThenCommit": lambda: cb.ExploreThenCommit(PROBLEM, policies(), horizon=900, n_explore=60, seed=1),
    "OnlineComband": lambda: cb.OnlineComband(PROBLEM, policies(), epsilon=0.3, exploration="learnt", seed=1),
    "SparseMSets": lambda: cb.SparseMSets(PROBLEM, horizon=900, seed=1),
    "Follow": lambda: Follow(PROBLEM, policies(), seed=1),
}
RECORDS: dict[str, Any] = {"decisions": cb.Decisions, "rounds": cb.Rounds, "events": cb.Events}


def play(learner: cb.Learner, n: int, rng: np.random.Generator, *, unanswered: int = 0) -> cb.Rounds:
    """n rounds; item 1 is wanted by half of all visitors. The last few decisions may stay open."""
    decisions = learner.ask(rng.integers(CONTEXTS, size=n))
    rewards = 1.0 * (decisions.lists == 1) * (rng.random((n, 1)) < 0.5)
    told = rewards.sum(axis=1) if learner.problem.feedback == "total" else rewards
    answered = n - unanswered
    assert learner.tell(decisions[:answered], told[:answered]).accepted == answered
    return cb.Rounds(decisions, rewards)


def load(path: Path, kind: type[Any], problem: cb.Problem) -> Any:
    """What a file holds; `kind` and `problem` are those of the learner it was saved from."""
    given = () if issubclass(kind, cb.SparseMSets) else (policies(problem),)
    return kind.load(path, *given)


def known(learner: cb.Learner) -> dict[str, Any]:
    """What is said of a learner, as plain values."""
    result = learner.result()
    return {
        "rounds": learner.rounds,
        "name": result.name,
        "value": result.value,
        "interval": list(result.interval),
        "epsilon": result.epsilon,
    }


def main(day: str) -> None:
    folder = FOLDER / day
    folder.mkdir()
    said: dict[str, Any] = {}
    for name, make in LEARNERS.items():
        learner, rng = make(), as_generator(2)
        for n, unanswered in ((70, 0), (1, 0), (80, 3)):
            play(learner, n, rng, unanswered=unanswered)
        learner.save(folder / f"{name}.npz")
        said[name] = known(learner)
    rounds = play(cb.UniformExploration(PROBLEM, policies(), n_rounds=900, seed=1), 20, as_generator(2))
    rounds.save(folder / "rounds.npz")
    rounds.decisions.save(folder / "decisions.npz")
    rounds.events().save(folder / "events.npz")
    cb.Mixture(policies(), [0.5, 0.5, 0, 0], problem=PROBLEM, floor=0.2).save(folder / "mixture.npz")
    said["rounds"] = {"rewards": rounds.rewards.tolist(), "lists": rounds.decisions.lists.tolist()}
    (folder / "known.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
