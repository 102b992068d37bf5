"""A learner, a world and a claim of one's own, each in a few lines, in the harness that runs the paper's.

Run it with: python examples/harness/own_experiment.py [folder]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import comband as cb
from comband.paper import Claim, Plan, Ratio, Record, grid, reproduce
from comband.paper.figures import panel, trend


# begin learner
class HalfGreedy(cb.learners.CustomLearner):
    """Half uniform lists, half the list of the candidate that looks best so far."""

    def __init__(self, problem: cb.Problem, policies: cb.PolicySet, *, horizon: int, seed: int = 0) -> None:
        super().__init__(problem, policies, horizon=horizon, seed=seed)
        self.totals = np.zeros(len(policies))

    def choose(self, X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """The leader's list, or a uniform one."""
        leader = np.eye(len(self.totals))[self.totals.argmax()]
        drawn = cb.Mixture(self.policies, leader, problem=self.problem, floor=0.5).draw(X, rng)
        return drawn.lists, drawn.propensities

    def update(self, rounds: cb.Rounds) -> None:
        """Add what each candidate would have collected."""
        self.totals += self.gains(rounds)


# end learner


# begin environment
class OneWish:
    """Every visitor wants one item, and the wish can be read off the context: visitor x wants item x mod K."""

    def __init__(self, problem: cb.Problem, n_visitors: int) -> None:
        self.problem, self.n_visitors = problem, n_visitors

    def sample(self, n: int, rng: np.random.Generator) -> cb.Batch:
        """n rounds."""
        who = rng.integers(self.n_visitors, size=n)
        K = self.problem.n_actions
        return cb.Batch(who, sp.csr_array((np.ones(n), (np.arange(n), who % K)), shape=(n, K)), self.problem)

    def values(self, policies: cb.PolicySet) -> NDArray[np.float64]:
        """Exact values (P,)."""
        who = np.arange(self.n_visitors)
        wanted = (who % self.problem.n_actions).astype(np.int32)
        return np.asarray(policies.contains(who, who, wanted).mean(axis=0), dtype=np.float64)


# end environment


# begin drawing
def draw(records: Sequence[Record], figure: Any) -> None:
    """Value lost against K."""
    axes = panel(figure.subplots(), "2000 rounds", "number of items K", "value lost (clicks per round)", log="x")
    for number, name in enumerate(("uniform", "half greedy")):
        trend(axes, records, "K", name, label=name, number=number)
    axes.legend()


# end drawing


# begin claim
def measure(setting: Mapping[str, Any], seed: int) -> dict[str, float]:
    """How much less than the best candidate each learner's answer is worth."""
    world = OneWish(cb.Problem(setting["K"], 2, 1), n_visitors=100)
    lists = np.argsort(np.random.default_rng(seed).random((30, 100, setting["K"])), axis=2)[:, :, :2]
    policies = cb.PolicySet.from_lists(lists, world.problem)
    truth, lost = world.values(policies), {}
    learners = {
        "uniform": cb.UniformExploration(world.problem, policies, n_rounds=2000, seed=seed),
        "half greedy": HalfGreedy(world.problem, policies, horizon=2000, seed=seed),
    }
    for name, learner in learners.items():
        lost[name] = float(truth.max() - truth[cb.run(learner, world, batch_size=100, seed=seed).result.index])
    return lost


CLAIM = Claim(
    name="half-greedy",
    title="Following the leader half of the time finds a better candidate",
    source="an example, not a theorem",
    statement="Half of the rounds spent on the leader's lists find a better candidate than uniform lists alone.",
    method="30 random candidates, 2000 rounds, value lost by the answer.",
    checks=(Ratio("Value lost, half greedy over uniform", "half greedy", "uniform", (0, 1)),),
    quick=Plan(grid(K=[20]), 2),
    full=Plan(grid(K=[20, 80]), 20),
    measure=measure,
    draw=draw,
)
# end claim

if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("own-experiment")
    for finding in reproduce([CLAIM], out, quick=True, workers=1):
        print(f"{finding.verdict}: {finding.claim.title}; see {out / 'report.html'}")
