"""How many rounds it takes as K grows: phase 2 of PAC-COMBAND against uniform exploration, from one run.

`python -m benchmarks.sample_complexity [--quick] [--json FILE]`

The world keeps everything fixed but K: each context wants one item, candidate j shows it for a fixed share of contexts
(the same contexts for every K), and fills its list with items that nobody wants. Two numbers are measured, on the
same worlds and repetitions for both ways of exploring:

* right: rounds after which the empirical best stays ε-optimal, the 95% quantile over repetitions;
* certified: rounds after which the paired betting bound says so, the median over repetitions.

Phase 1 is given enough uniform rounds to meet the same expected number of rewards for every K, so its length grows
with K; it is printed too.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import comband as cb
from comband import theory
from comband.estimates.pairs import mean_bound

LIST_SIZE, EPSILON, DELTA = 2, 0.08, 0.05
N_CONTEXTS, N_POLICIES = 300, 30
EVENTS = 400  # rewards that phase 1 may expect


class FixedQuality:
    """Candidates whose values, overlaps and wanted items do not depend on K."""

    def __init__(self, n_actions: int) -> None:
        self.problem = cb.Problem(n_actions, LIST_SIZE, 1)
        # Wanted items and knowledge are drawn for the smallest K and kept: item 0 … 7.
        fixed = np.random.default_rng(1)
        self._wanted = fixed.integers(8, size=N_CONTEXTS)
        shares = fixed.permutation(np.linspace(0.05, 0.5, N_POLICIES))
        knows = fixed.random((N_POLICIES, N_CONTEXTS)) < shares[:, None]
        rng = np.random.default_rng(n_actions)
        lists = np.empty((N_POLICIES, N_CONTEXTS, LIST_SIZE), dtype=np.int64)
        for j in range(N_POLICIES):
            for x in range(N_CONTEXTS):
                others = rng.choice(n_actions - 1, LIST_SIZE, replace=False)
                lists[j, x] = others + (others >= self._wanted[x])
                if knows[j, x]:
                    lists[j, x, 0] = self._wanted[x]
        self.policies = cb.PolicySet.from_lists(lists, self.problem)
        self.true_values: NDArray[np.float64] = knows.mean(axis=1)

    def sample(self, n: int, rng: np.random.Generator) -> cb.Batch:
        """n rounds."""
        who = rng.integers(N_CONTEXTS, size=n)
        rewards = sp.csr_array((np.ones(n), (np.arange(n), self._wanted[who])), shape=(n, self.problem.n_actions))
        return cb.Batch(who, rewards, self.problem)

    def values(self, policies: cb.PolicySet) -> NDArray[np.float64]:
        """Exact values."""
        return self.true_values


@dataclass(frozen=True)
class Row:
    """One K."""

    n_actions: int
    n_explore: int
    right: int
    right_uniform: int
    certified: int
    certified_uniform: int
    second_moment: float
    second_moment_uniform: float
    seconds: float


def checkpoints(last: int) -> NDArray[np.int64]:
    """Round numbers 5% apart."""
    return np.unique(np.geomspace(50, last, 1 + int(np.log(last / 50) / np.log(1.05))).astype(np.int64))


def rounds_needed(
    world: FixedQuality, mixture: cb.Mixture, last: int, rng: np.random.Generator
) -> tuple[int, float, float]:
    """Rounds until right for good, until certified (infinite if not within `last`), and the largest mean of R²."""
    batch = world.sample(last, rng)
    rounds = cb.Rounds(decisions := mixture.draw(batch.contexts, rng), batch.answer(decisions.lists))
    events = rounds.events()
    # One rewarded action a round at most (s = 1), so a row of R is one event.
    R = world.policies.contains(events.contexts, events.rows, events.actions) / events.propensities[:, None]
    when = events.ids[events.rows]
    marks = checkpoints(last)
    upto = np.searchsorted(when, marks)
    total = np.concatenate([np.zeros((1, N_POLICIES)), np.cumsum(R, axis=0)])[upto]
    leaders = total.argmax(axis=1)
    good = world.true_values[leaders] >= world.true_values.max() - EPSILON
    wrong = np.flatnonzero(~good)
    right = int(marks[min(wrong[-1] + 1, len(marks) - 1)]) if len(wrong) else int(marks[0])
    bound = theory.estimate_range(world.problem, floor=mixture.floor)
    certified = np.inf
    low, high = 0, len(marks)  # the certified ε falls with the rounds, up to noise: bisection is enough for a median
    while low < high:
        k = (low + high) // 2
        D = R[: upto[k]] - R[: upto[k], [leaders[k]]]
        gaps = mean_bound(
            D.sum(axis=0), np.square(D).sum(axis=0), int(marks[k]), bound=bound, delta=DELTA / (N_POLICIES - 1)
        )
        if np.delete(gaps, leaders[k]).max() <= EPSILON:
            certified, high = float(marks[k]), k
        else:
            low = k + 1
    return right, certified, float(np.square(R).sum(axis=0).max() / last)


def measure(n_actions: int, repetitions: int) -> Row:
    begin = time.perf_counter()
    world = FixedQuality(n_actions)
    n_explore = EVENTS * n_actions // LIST_SIZE
    uniform = cb.Mixture(world.policies, np.full(N_POLICIES, 1 / N_POLICIES), problem=world.problem, floor=1.0)
    designed, plain = [], []
    for k in range(repetitions):
        rng = np.random.default_rng([n_actions, k])
        learner = cb.PacComband(world.problem, world.policies, n_explore=n_explore, n_estimate=1, seed=rng)
        batch = world.sample(n_explore, rng)
        learner.tell(decisions := learner.ask(batch.contexts), batch.answer(decisions.lists))
        design = learner.design
        assert design is not None
        designed.append(rounds_needed(world, design.mixture, 40_000, rng))
        plain.append(rounds_needed(world, uniform, max(40_000, 2_500 * n_actions), rng))
    ours, theirs = np.array(designed), np.array(plain)
    return Row(
        n_actions=n_actions,
        n_explore=n_explore,
        right=int(np.quantile(ours[:, 0], 0.95)),
        right_uniform=int(np.quantile(theirs[:, 0], 0.95)),
        certified=int(np.median(ours[:, 1])),
        certified_uniform=int(np.median(theirs[:, 1])),
        second_moment=float(np.median(ours[:, 2])),
        second_moment_uniform=float(np.median(theirs[:, 2])),
        seconds=time.perf_counter() - begin,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    repetitions = 10 if arguments.quick else 60
    print(f"m={LIST_SIZE}, s=1, {N_POLICIES} candidates, ε={EPSILON}, δ={DELTA}, {repetitions} repetitions")
    print("        uniform      ----- rounds until right -----   ---- rounds until certified ----   ---- max E R² ----")
    print("    K   phase 1      phase 2     uniform     ratio    phase 2     uniform     ratio      phase 2   uniform")
    rows = []
    for K in (16, 32, 64, 128, 256):
        row = measure(K, repetitions)
        rows.append(row)
        print(
            f"{row.n_actions:5d} {row.n_explore:9,d} {row.right:12,d} {row.right_uniform:11,d} "
            f"{row.right_uniform / row.right:9.1f} {row.certified:10,d} {row.certified_uniform:11,d} "
            f"{row.certified_uniform / row.certified:9.1f} {row.second_moment:12.2f} {row.second_moment_uniform:9.2f}",
            flush=True,
        )
    for name in ("right", "right_uniform", "certified", "certified_uniform"):
        numbers = [getattr(row, name) for row in rows]
        print(f"{name}: largest over smallest, K from 16 to 256: {max(numbers) / min(numbers):.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([asdict(row) for row in rows], file, indent=1)


if __name__ == "__main__":
    main()
