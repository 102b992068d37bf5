"""How many rounds it takes as K grows: phase 2 of PAC-COMBAND against uniform exploration, from one run.

`python -m benchmarks.sample_complexity [--quick] [--json FILE]`

The world keeps everything fixed but K: each context wants one item, candidate j shows it for a fixed share of contexts
(the same contexts for every K), and fills its list with items that nobody wants. For both ways of exploring:

* right: rounds after which the empirical best stays ε-optimal for good, the 95% quantile over streams. Rows share
  their random numbers, so that they can be compared;
* max E R²: the largest second moment of a candidate's estimate, exactly;
* Bernstein: N₂ that the measured-variance bound of `theory.estimate_rounds` asks for, and the part of it that the
  variance is responsible for. The rest is the range of the estimates, the K/(mε) term of Theorem 1.

Phase 1 is given enough uniform rounds to meet the same expected number of rewards for every K, so its length grows
with K; it is printed too.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import comband as cb
from comband import theory

LIST_SIZE, EPSILON, DELTA = 2, 0.02, 0.05
N_CONTEXTS, N_POLICIES = 300, 30
EVENTS = 2000  # rewards that phase 1 may expect


class FixedQuality:
    """Candidates whose values, overlaps and wanted items do not depend on K."""

    def __init__(self, n_actions: int) -> None:
        self.problem = cb.Problem(n_actions, LIST_SIZE, 1)
        fixed = np.random.default_rng(1)  # the same for every K
        self._wanted = fixed.integers(8, size=N_CONTEXTS)
        shares = fixed.permutation(np.linspace(0.05, 0.5, N_POLICIES))
        ranks = np.argsort(fixed.random((N_POLICIES, N_CONTEXTS)), axis=1)
        self._knows = ranks < (shares * N_CONTEXTS).round()[:, None]
        rng = np.random.default_rng(n_actions)
        lists = np.empty((N_POLICIES, N_CONTEXTS, LIST_SIZE), dtype=np.int64)
        for j in range(N_POLICIES):
            for x in range(N_CONTEXTS):
                unwanted = rng.choice(n_actions - 1, LIST_SIZE, replace=False)
                lists[j, x] = unwanted + (unwanted >= self._wanted[x])
                if self._knows[j, x]:
                    lists[j, x, 0] = self._wanted[x]
        self.policies = cb.PolicySet.from_lists(lists, self.problem)
        self.true_values: NDArray[np.float64] = self._knows.mean(axis=1)

    def sample(self, n: int, rng: np.random.Generator) -> cb.Batch:
        """n rounds."""
        who = rng.integers(N_CONTEXTS, size=n)
        rewards = sp.csr_array((np.ones(n), (np.arange(n), self._wanted[who])), shape=(n, self.problem.n_actions))
        return cb.Batch(who, rewards, self.problem)

    def values(self, policies: cb.PolicySet) -> NDArray[np.float64]:
        """Exact values."""
        return self.true_values

    def second_moment(self, mixture: cb.Mixture) -> float:
        """max_π E R(π)², exactly: one wanted item per context, so R is 1/Q with probability Q."""
        q = mixture.propensities(np.arange(N_CONTEXTS))[np.arange(N_CONTEXTS), self._wanted]
        return float((self._knows / q).mean(axis=1).max())


def right(world: FixedQuality, mixture: cb.Mixture, last: int, rng: np.random.Generator) -> int:
    """Rounds, up to 3%, after which the leader of one stream is ε-optimal for good; `last` if it never is."""
    batch = world.sample(last, rng)
    decisions = mixture.draw(batch.contexts, rng)
    events = cb.Rounds(decisions, batch.answer(decisions.lists)).events()
    R = world.policies.contains(events.contexts, events.rows, events.actions) / events.propensities[:, None]
    marks = np.unique(np.geomspace(50, last, 1 + int(math.log(last / 50, 1.03))).astype(np.int64))
    seen = np.searchsorted(events.ids[events.rows], marks)
    leaders = np.concatenate([np.zeros((1, N_POLICIES)), np.cumsum(R, axis=0)])[seen].argmax(axis=1)
    wrong = np.flatnonzero(world.true_values[leaders] < world.true_values.max() - EPSILON)
    return int(marks[min(wrong[-1] + 1, len(marks) - 1)]) if len(wrong) else int(marks[0])


@dataclass(frozen=True)
class Row:
    """One K; names ending in _uniform are those of uniform exploration."""

    n_actions: int
    n_explore: int
    right: int
    right_uniform: int
    second_moment: float
    second_moment_uniform: float
    bernstein: int
    bernstein_uniform: int
    bernstein_variance_part: int
    seconds: float


def measure(n_actions: int, n_designs: int, n_streams: int) -> Row:
    """Everything for one K."""
    begin = time.perf_counter()
    world = FixedQuality(n_actions)
    n_explore = EVENTS * n_actions // LIST_SIZE
    uniform = cb.Mixture(world.policies, np.full(N_POLICIES, 1 / N_POLICIES), problem=world.problem, floor=1.0)
    ours, theirs, moments = [], [], []
    for d in range(n_designs):
        rng = np.random.default_rng(d)
        learner = cb.PacComband(world.problem, world.policies, n_explore=n_explore, n_estimate=1, seed=rng)
        batch = world.sample(n_explore, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
        design = learner.design
        assert design is not None
        moments.append(world.second_moment(design.mixture))
        for k in range(n_streams):
            ours.append(right(world, design.mixture, 30_000, np.random.default_rng([d, k])))
            if k % 4 == 0:  # these streams are long
                theirs.append(right(world, uniform, 1_500 * n_actions, np.random.default_rng([d, k])))
    moment, plain = float(np.median(moments)), world.second_moment(uniform)

    def bernstein(second_moment: float, floor: float) -> int:
        return theory.estimate_rounds(
            world.problem,
            n_policies=N_POLICIES,
            epsilon=EPSILON,
            delta=DELTA,
            floor=floor,
            second_moment=second_moment,
        )

    return Row(
        n_actions=n_actions,
        n_explore=n_explore,
        right=int(np.quantile(ours, 0.95)),
        right_uniform=int(np.quantile(theirs, 0.95)),
        second_moment=moment,
        second_moment_uniform=plain,
        bernstein=bernstein(moment, 0.5),
        bernstein_uniform=bernstein(plain, 1.0),
        bernstein_variance_part=math.ceil(4 * moment / EPSILON**2 * math.log((N_POLICIES - 1) / DELTA)),
        seconds=time.perf_counter() - begin,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    n_designs, n_streams = (3, 20) if arguments.quick else (10, 40)
    print(
        f"m={LIST_SIZE}, s=1, {N_POLICIES} candidates, ε={EPSILON}, δ={DELTA}; "
        f"{n_designs} designs, {n_streams} streams each"
    )
    print("                 -- rounds until right --    --- max E R² ---    ---- Bernstein N₂, measured variance ----")
    print("    K  phase 1    phase 2  uniform ratio    phase 2  uniform    phase 2  (variance)    uniform  ratio")
    rows = []
    for K in (32, 64, 128, 256, 512):
        row = measure(K, n_designs, n_streams)
        rows.append(row)
        print(
            f"{row.n_actions:5d} {row.n_explore:8,d} {row.right:10,d} {row.right_uniform:8,d} "
            f"{row.right_uniform / row.right:5.1f} {row.second_moment:10.2f} {row.second_moment_uniform:8.1f} "
            f"{row.bernstein:10,d} {row.bernstein_variance_part:11,d} {row.bernstein_uniform:10,d} "
            f"{row.bernstein_uniform / row.bernstein:6.1f}",
            flush=True,
        )
    print("largest over smallest while K grows 16-fold:")
    for name in ("right", "right_uniform", "bernstein", "bernstein_variance_part", "bernstein_uniform"):
        numbers = [getattr(row, name) for row in rows]
        print(f"  {name:<24}{max(numbers) / min(numbers):6.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([asdict(row) for row in rows], file, indent=1)


if __name__ == "__main__":
    main()
