"""Exploration learnt online: rounds by theorem, the price of a round, its law in AdaptiveComband's place, regret.

`python -m benchmarks.optimal_rate [--quick] [--only rounds|price|certify|settled|regret]`

* rounds: T of `theory.pac_comband(route="online")` beside the routes for classes behind an oracle and uniform lists;
* price: processor time per round of `OnlineComband`, beside EXP4 and EXP4-COMB-SPARSE, one visitor at a time;
* certify: rounds until the paired evidence of the certifying learners knows the winner, if lists are drawn by these
  weights, by `AdaptiveComband`, by a uniform mixture and by uniform lists, in worlds that are hard to explore;
* settled: rounds until the highest estimate is right for good, learnt and uniform, where rivals share most lists and
  where they do not;
* regret: reward lost on the four adversaries of `benchmarks.regret`. No theorem says anything about it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

import comband as cb
from comband import theory
from comband._kernels.online import credit_rounds
from comband.certify import CertifyingLearner
from comband.explore.explorers import Explorer, Standing
from comband.explore.explorers.mixture import mixture_explorer
from comband.paper.catalogue.rate_worlds import KINDS, rate_world
from comband.regret import play
from comband.theory.online import Explorations
from comband.worlds.adversarial import drifting, entropy_trap, popularity_burst, switching

DELTA = 0.05


def rounds_by_theorem(quick: bool) -> None:
    """Each cell P = 100 / 10⁶, s = 1."""
    print(
        f"{'K':>5} {'m':>2} {'ε':>5} " + "".join(f"{name:>18}" for name in ("online", "joint", "held-out plan")), end=""
    )
    print("".join(f"{name:>18}" for name in ("gradient", "uniform lists")))
    for K in (10, 100, 1000)[: 2 if quick else 3]:
        for m in (1, 5):
            for epsilon in (0.1, 0.05, 0.01):
                problem, cells = cb.Problem(K, m, 1), []
                for route in ("online", "joint", "held-out", "gradient", "uniform"):
                    pair = []
                    for P in (100, 10**6):
                        promise: dict[str, Any] = {"n_policies": P, "epsilon": epsilon, "delta": DELTA}
                        if route == "uniform":
                            n = theory.uniform_exploration(problem, **promise)
                        elif route == "online":
                            n = theory.online_comband(problem, exploration="learnt", **promise).n_rounds
                        else:
                            n = theory.pac_comband(problem, **{**promise, "route": route}).n_rounds
                        pair.append(f"{n:.1e}".replace("e+0", "e").replace("e+", "e"))
                    cells.append(" / ".join(pair))
                print(f"{K:>5} {m:>2} {epsilon:>5} " + "".join(f"{cell:>18}" for cell in cells), flush=True)


def price_of_a_round(quick: bool) -> None:
    """Microseconds of processor time per round, one visitor at a time, all learners taking turns."""
    n = 1000 if quick else 4000
    for K, m, P in ((100, 5, 100), (100, 5, 1000), (1000, 5, 1000)):
        problem = cb.Problem(K, m, 1)
        rng = np.random.default_rng(1)
        lists = rng.integers(K - m, size=(P, 200, 1)) + np.arange(m)
        policies = cb.PolicySet.from_lists(lists, problem)
        wanted = rng.integers(K, size=200)
        learners: dict[str, cb.Learner] = {
            "OnlineComband": cb.OnlineComband(problem, policies, epsilon=0.01, exploration="learnt"),
            "EXP4": cb.Exp4(problem, policies, horizon=10 * n, propensities="when rewarded"),
            "EXP4-COMB-SPARSE": cb.Exp4CombSparse(problem, policies, horizon=10 * n, propensities="when rewarded"),
        }
        taken, rewarded = dict.fromkeys(learners, 0.0), dict.fromkeys(learners, 0)
        for step in range(-50, n):
            x = rng.integers(200, size=1)
            for name, learner in learners.items():
                began = time.process_time()
                decisions = learner.ask(x)
                spent = time.process_time() - began
                rewards = (decisions.lists == wanted[x][:, None]).astype(float)
                began = time.process_time()
                learner.tell(decisions, rewards)
                spent += time.process_time() - began
                if step >= 0:
                    taken[name] += spent
                    rewarded[name] += int(rewards.any())
        told = ", ".join(
            f"{name} {1e6 * taken[name] / n:.0f} µs ({rewarded[name] / n:.0%} rewarded)" for name in learners
        )
        print(f"K = {K}, m = {m}, P = {P}: {told}", flush=True)


class LearntLaw:
    """Weights ∝ exp(ηW) over those who are left, W = Σ ψ(λR) over all rewards seen, and the schedule's floor."""

    def __init__(self, schedule: theory.OnlineSchedule) -> None:
        self.schedule = schedule

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        events, left = standing.events, standing.candidates
        bends, losses = np.zeros(len(left)), np.zeros(len(left))
        if events.n_rewarded:
            lists = standing.policies.predict(events.contexts, left, problem=standing.problem)
            amounts = events.rewards / events.propensities
            credit_rounds(lists, events.rows, events.actions, amounts, self.schedule.scale, losses, bends)
        weights = np.zeros(len(standing.policies))
        weights[left] = np.exp(self.schedule.rate * (bends - bends.max()))
        return mixture_explorer(
            standing.policies,
            left,
            weights=weights / weights.sum(),
            floor=self.schedule.floor,
            problem=standing.problem,
        )


def certify(quick: bool) -> None:
    """Median rounds of some seeds; the same evidence for all."""
    seeds = 2 if quick else 5
    for K, m, epsilon in ((60, 2, 0.15), (400, 2, 0.15)):
        problem = cb.Problem(K, m, 1)
        schedule = theory.online_comband(problem, n_policies=60, epsilon=epsilon, delta=DELTA, exploration="learnt")
        makers: dict[str, Callable[..., CertifyingLearner]] = {
            "learnt weights": lambda *given, s=schedule, **named: CertifyingLearner(
                *given, exploration=LearntLaw(s), **named
            ),
            "AdaptiveComband": cb.AdaptiveComband,
            "uniform mixture": cb.UniformMixture,
            "uniform lists": cb.UniformLists,
        }
        for kind in KINDS:
            used: dict[str, list[int]] = {name: [] for name in makers}
            for seed in range(seeds):
                world = rate_world(kind, problem, 60, epsilon, np.random.default_rng(seed), 400)
                for name, make in makers.items():
                    learner = make(
                        problem,
                        world.policies,
                        epsilon=epsilon,
                        delta=DELTA,
                        max_rounds=3 * schedule.n_rounds,
                        seed=seed,
                    )
                    cb.run(learner, world, batch_size=200, seed=seed)
                    used[name].append(learner.rounds)
            told = ", ".join(f"{name} {median(rounds):,.0f}" for name, rounds in used.items())
            print(f"K = {K}, m = {m}, ε = {epsilon}, {kind}: {told} (T = {schedule.n_rounds:,})", flush=True)


def settled(quick: bool) -> None:
    """Median rounds until the candidate of highest estimate is within ε for good, looked at over 5,000 rounds."""
    epsilon, batch = 0.1, 20
    for K, m in ((20, 3), (20, 1), (100, 2), (200, 3)):
        for kind in ("needle", "agreement"):
            found: dict[Explorations, list[int]] = {"learnt": [], "uniform lists": []}
            for seed in range(4 if quick else 12):
                problem = cb.Problem(K, m, 1)
                world = rate_world(kind, problem, 100, epsilon, np.random.default_rng(seed), 500)
                values = world.exact_values()
                for exploration, last_wrong in found.items():
                    learner = cb.OnlineComband(
                        problem,
                        world.policies,
                        epsilon=epsilon,
                        batch_size=batch,
                        early_stop=False,
                        exploration=exploration,
                        seed=seed,
                    )
                    rng, last = np.random.default_rng([seed, 2]), 0
                    for number in range(250):
                        visitors = world.sample(batch, rng)
                        decisions = learner.ask(visitors.contexts)
                        learner.tell(decisions, visitors.answer(decisions.lists))
                        totals = learner.estimated_totals
                        best = totals >= totals.max() * (1 - 1e-12)  # the worst of equal ones
                        if values[best].min() < values.max() - epsilon:
                            last = batch * (number + 1)
                    last_wrong.append(last)
            told = ", ".join(f"{name} {median(rounds):,.0f}" for name, rounds in found.items())
            print(f"K = {K}, m = {m}, {kind}: {told}", flush=True)


def regret(quick: bool) -> None:
    """Regret after T rounds, mean of some seeds."""
    T, seeds, P = (2000, 3, 10) if quick else (10_000, 5, 10)
    problem = cb.Problem(100, 2, 1)
    for adversary in (switching, drifting, popularity_burst, entropy_trap):
        lost: dict[str, list[float]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            policies = cb.PolicySet.from_lists(np.argsort(rng.random((P, 20, 100)), axis=2)[:, :, :2], problem)
            sequence = adversary(policies, problem, horizon=T, n_contexts=20, seed=rng)
            best = sequence.totals(policies).max()
            players: dict[str, cb.Learner] = {
                "OnlineComband": cb.OnlineComband(problem, policies, epsilon=0.1, exploration="learnt", seed=seed),
                "EXP4-COMB-SPARSE": cb.Exp4CombSparse(problem, policies, horizon=T, seed=seed),
                "EXP4": cb.Exp4(problem, policies, horizon=T, seed=seed),
                "uniform lists": cb.ExploreThenCommit(problem, policies, horizon=T, n_explore=T, seed=seed),
            }
            for player, learner in players.items():
                lost.setdefault(player, []).append(float(best - play(learner, sequence).sum()))
        told = ", ".join(f"{player} {np.mean(values):,.0f}" for player, values in lost.items())
        print(f"{adversary.__name__}, T = {T:,}: {told}", flush=True)


PARTS = {
    "rounds": rounds_by_theorem,
    "price": price_of_a_round,
    "certify": certify,
    "settled": settled,
    "regret": regret,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run some parts, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    options = parser.parse_args(arguments)
    for name in options.only or PARTS:
        print(f"\n{name}")
        PARTS[name](options.quick)


if __name__ == "__main__":
    main()
