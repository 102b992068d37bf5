"""What the guards notice, and what nobody can: assumptions broken on purpose, in a running AdaptiveComband.

python -m benchmarks.guards [--runs N] [--rounds N] [--items K] [--epsilon E] [--clicks C] [--seconds S]
    [--faults NAME ...] [--first-seed S] [--quick] [--json FILE]

Worlds of 60 contexts, 8 candidates, lists of 3, at most one click per round (`clicks` with the best lists).
Each fault is played in runs of at most `rounds` rounds that stop when a winner is certified. A table says in how many
runs there was a warning before the end, after how many rounds of the fault (median and largest), and in how many the
claim at the end was wrong: some candidate's value exceeds the named one's by more than the certified epsilon. Values
are those of the world without the fault; with a change in the world, those after it; with places, those of lists in
the candidates' own order.
No more runs are begun when `seconds` are over. A second table has the drift guard alone, in one stretch of rounds that
is long enough: after how many rounds, and rewards, a change in the middle is noticed. A third has the place guard
alone: after how many rewarded rounds it notices what places do, in natural order (that of `benchmarks.company`), with
a share of lists in random order and with all, with 120 candidates and with 8; and false alarms where all is well. A
fourth has how well factors 1, .6, .3 are known after so many rewards: the band that holds at all times (`FactorBand`),
and the standard errors of a fit; the larger of the two factors' relative errors.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks._natural import natural_law
from comband.page.places import fit_factors
from comband.statistics.factor_band import FactorBand

Array = NDArray[np.float64]
N, P, M, BATCH = 60, 8, 3, 100
USED = 30  # actions that are ever listed or clicked
LATER = 1000  # rounds
PLACES = np.array([1.0, 0.6, 0.3])


@dataclass(frozen=True, eq=False, slots=True)
class World:
    """Chances (N, USED) that the one click of a round goes to an action, if it is shown, and the candidates' lists."""

    chances: Array
    lists: NDArray[np.int32]

    @classmethod
    def drawn(cls, rng: np.random.Generator, clicks: float) -> World:
        """So many clicks per round of the best lists; candidates rank by the truth with more or less noise."""
        chances = rng.gamma(0.3, size=(N, USED))
        chances *= clicks / np.sort(chances, axis=1)[:, -M:].sum(axis=1, keepdims=True)
        chances *= np.minimum(1.0, 0.95 / chances.sum(axis=1, keepdims=True))
        noise = clicks * rng.standard_normal((P, N, USED)) * np.linspace(0.2, 0.5, P)[:, None, None]
        order = np.argsort(-(chances + noise), axis=2)[:, :, :M]
        return cls(chances, order[rng.permutation(P)].astype(np.int32))

    def values(self, places: Array | None = None) -> Array:
        """Of all candidates."""
        factor = np.ones(M) if places is None else places
        of_items = np.take_along_axis(self.chances[None], self.lists.astype(np.int64), axis=2)
        return np.asarray((of_items * factor).sum(axis=2).mean(axis=1))

    def swapped(self) -> World:
        """The world in which the two best candidates have changed places, whatever else is so too."""
        second, first = np.argsort(self.values())[-2:]
        # Chances go with items: those of the one's list now belong to the other's, context by context.
        chances = self.chances.copy()
        for x in range(N):
            ours = [y for y in self.lists[first, x] if y not in self.lists[second, x]]
            theirs = [y for y in self.lists[second, x] if y not in self.lists[first, x]]
            chances[x, [*ours, *theirs]] = chances[x, [*theirs, *ours]]
        return World(chances, self.lists)

    def click(self, X: NDArray[np.int64], lists: NDArray[np.int32], factor: float, rng: np.random.Generator) -> Array:
        """Rewards (n, m)."""
        edges = np.cumsum(self.chances[X] * factor, axis=1)
        clicked = (rng.random(len(X))[:, None] >= edges).sum(axis=1)
        return np.asarray(lists == np.where(clicked < USED, clicked, -1)[:, None], dtype=np.float64)


class Wavering:
    """A candidate that answers one context in a hundred with the list of another."""

    def __init__(self, lists: NDArray[np.int32], seed: int) -> None:
        self._lists, self._rng = lists, np.random.default_rng(seed)

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.int32]:
        """Lists (n, m)."""
        other = self._rng.random(len(X)) < 0.01
        return self._lists[np.where(other, (X + 1) % N, X)]


Alter = Callable[[Array, NDArray[np.int32], np.random.Generator], Array]
Lose = Callable[[Array, NDArray[np.int32], np.random.Generator], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False, slots=True)
class Fault:
    """What is done to a run: rewards altered, answers lost, the world changed or multiplied from a moment on."""

    begins: int = 0  # rounds before it
    alter: Alter | None = None
    lose: Lose | None = None
    patience: bool = False
    factor: Callable[[int], float] | None = None  # of all chances, by the rounds that have passed
    swap: bool = False
    wavering: bool = False
    places: bool = False


def _told_as_zero(rewards: Array, hidden: NDArray[np.bool_]) -> Array:
    return np.where(hidden, 0.0, rewards)


def _bots(rewards: Array, lists: NDArray[np.int32], rng: np.random.Generator) -> Array:
    mine = rng.random(len(lists)) < 0.05
    return np.where(mine[:, None], np.arange(M) == 0, rewards).astype(np.float64)


FAULTS: dict[str, Fault] = {
    "none": Fault(),
    "none, a tenth of answers lost at random": Fault(lose=lambda r, y, rng: rng.random(len(y)) < 0.1, patience=True),
    "a candidate wavers in 1% of contexts": Fault(wavering=True),
    "answers lost in 30% of lists with item 0": Fault(
        lose=lambda r, y, rng: (y == 0).any(axis=1) & (rng.random(len(y)) < 0.3), patience=True
    ),
    "half of the answers with a click lost": Fault(
        lose=lambda r, y, rng: r.any(axis=1) & (rng.random(len(y)) < 0.5), patience=True
    ),
    "clicks on every second item told as zero": Fault(alter=lambda r, y, rng: _told_as_zero(r, y % 2 == 0)),
    "place 1 covered, told as zero": Fault(alter=lambda r, y, rng: _told_as_zero(r, np.arange(M)[None] == 0)),
    "5% bots, click the first place": Fault(alter=_bots),
    "5% bots after 1,000 rounds": Fault(begins=LATER, alter=_bots),
    "places examined 1/.6/.3": Fault(
        alter=lambda r, y, rng: _told_as_zero(r, rng.random(r.shape) >= PLACES), places=True
    ),
    "the two best change places after 1,000": Fault(begins=LATER, swap=True),
    "all rates halved after 1,000 rounds": Fault(begins=LATER, factor=lambda t: 0.5),
    "all rates fall by half in 10,000 rounds": Fault(factor=lambda t: 1 - 0.5 * min(t / 10_000, 1.0)),
    "night and day, ±50%, 2,000 rounds long": Fault(factor=lambda t: 0.6 + 0.3 * np.sin(2 * np.pi * t / 2000)),
}


def play(fault: Fault, seed: int, rounds: int, n_actions: int, epsilon: float, clicks: float) -> dict[str, Any]:
    """One run."""
    rng = np.random.default_rng([seed, 13])
    world = World.drawn(rng, clicks)
    problem = cb.Problem(n_actions=n_actions, list_size=M, sparsity=1)
    candidates = [Wavering(world.lists[p], seed + p) for p in range(P)] if fault.wavering else None
    policies = cb.PolicySet(candidates) if candidates else cb.PolicySet.from_lists(world.lists, problem)
    patience = 5 * BATCH if fault.patience else None
    learner = cb.AdaptiveComband(problem, policies, epsilon=epsilon, patience=patience, seed=seed)
    noticed = None
    played = 0
    while played < rounds and not learner.done:
        if played == fault.begins and fault.swap:
            world = world.swapped()
        X = rng.integers(N, size=BATCH)
        decisions = learner.ask(X)
        on = played >= fault.begins
        factor = fault.factor(played) if fault.factor and on else 1.0
        rewards = world.click(X, decisions.lists, factor, rng)
        if fault.alter and on:
            rewards = fault.alter(rewards, decisions.lists, rng)
        there = ~fault.lose(rewards, decisions.lists, rng) if fault.lose and on else np.ones(BATCH, dtype=np.bool_)
        learner.tell(decisions[there], rewards[there])
        played += BATCH
        if noticed is None and learner.status().warnings:
            noticed = played - fault.begins
    values = world.values(PLACES if fault.places else None) * (fault.factor(played) if fault.factor else 1.0)
    result = learner.result()
    return {
        "noticed": noticed,
        "certified": learner.done,
        "rounds": played,
        "began": played > fault.begins,
        "wrong": bool(values.max() - values[result.index] > result.epsilon),
    }


# Chances per round of a reward for and against the leader, before and after.
CHANGES = {
    "all rates halve (8% to 4% of rounds)": ((0.04, 0.04), (0.02, 0.02)),
    "all rates double (4% to 8%)": ((0.02, 0.02), (0.04, 0.04)),
    "balance turns, 60:40 to 40:60 (5%)": ((0.03, 0.02), (0.02, 0.03)),
    "balance turns, 70:30 to 30:70 (5%)": ((0.035, 0.015), (0.015, 0.035)),
    "balance turns, 70:30 to 30:70 (20%)": ((0.14, 0.06), (0.06, 0.14)),
}


def time_to_notice(before: tuple[float, float], after: tuple[float, float], seed: int, half: int) -> int | None:
    """Rounds from a change after `half` rounds to the alarm of a guard that has seen ten clean stretches before."""
    rng, guard = np.random.default_rng([seed, 14]), cb.statistics.DriftGuard()
    for stretch in range(11):
        length = 2 * half if stretch == 10 else 200
        early, late = (rng.random((length, 2)) < rates for rates in (before, after))
        late[: length if stretch < 10 else half] = early[: length if stretch < 10 else half]
        wins, losses = (np.flatnonzero(late[:, i]) for i in range(2))
        guard.begin(length)
        for seen in range(100, length + 1, 100):
            guard.update(wins[wins < seen], losses[losses < seen], seen)
            if guard.alarm:
                return seen - half if stretch == 10 else -1
    return None


def drift_table(runs: int, half: int) -> None:
    """Print the second table."""
    print(f"\n{'change within a stretch':42s} runs  noticed  rounds after it: median, 95%   rewards: median, 95%")
    for name, (before, after) in CHANGES.items():
        times = [time_to_notice(before, after, seed, half) for seed in range(runs)]
        late = np.array([np.inf if t is None else t for t in times])
        median, most = np.quantile(late, [0.5, 0.95], method="higher")
        rate = sum(after)
        print(
            f"{name:42s} {runs:4d} {int(np.isfinite(late).sum()):8d} {median:18,.0f}, {most:,.0f} "
            f"{rate * median:18,.0f}, {rate * most:,.0f}"
        )


# What is stated (nothing: places do not matter) and what is true.
EFFECTS: dict[str, tuple[tuple[float, ...] | None, tuple[float, ...]]] = {
    "1/.6/.3, nothing stated": (None, (1.0, 0.6, 0.3)),
    "DCG of five, nothing stated": (None, tuple((1 / np.log2(np.arange(5) + 2)).tolist())),
    "no effect, 1/.6/.3 stated": ((1.0, 0.6, 0.3), (1.0, 1.0, 1.0)),
    "1/.5/.5, 1/.6/.3 stated": ((1.0, 0.6, 0.3), (1.0, 0.5, 0.5)),
    "nothing, nothing stated": (None, (1.0, 1.0, 1.0)),
    "1/.6/.3, as stated": ((1.0, 0.6, 0.3), (1.0, 0.6, 0.3)),
}


def place_rows(n_candidates: int, m: int, seed: int) -> tuple[Array, Array]:
    """Q(y, k) (N, K, m) of 60 contexts in natural order, and the items' relevances (N, K)."""
    rng = np.random.default_rng([seed, 15])
    K = 100
    relevance = rng.gamma(0.3, size=(N, K))
    noise = rng.standard_normal((n_candidates, N, K)) * np.linspace(0.3, 1.5, n_candidates)[:, None, None]
    lists = np.argsort(-(np.log(relevance + 0.01) + noise), axis=2)[:, :, :m]
    weights = np.full(n_candidates, 1 / n_candidates)
    return np.stack([natural_law(lists[:, x], weights, K)[2] for x in range(N)]), relevance


def place_alarm(law: tuple[Array, Array], stated: Any, true: Any, share: float, seed: int, most: int) -> float:
    """After how many rewarded rounds the place guard alarms; infinite if not within `most`."""
    natural, relevance = law
    rows = (1 - share) * natural + share * natural.mean(axis=2, keepdims=True)
    m = rows.shape[2]
    chances = (rows * relevance[:, :, None] * np.array(true)).ravel()
    rng = np.random.default_rng([seed, 16])
    x, y, k = np.unravel_index(rng.choice(chances.size, size=most, p=chances / chances.sum()), rows.shape)
    guard = cb.statistics.PlaceGuard(stated, list_size=m, max_reward=1)
    placements = np.zeros((most, m, m))
    placements[np.arange(most), k] = rows[x, y]
    rewards = np.eye(m)[k]
    for start in range(0, most, 10):
        guard.update(rewards[start : start + 10], placements[start : start + 10])
        if guard.alarm:
            return start + 10.0
    return np.inf


def place_table(runs: int, most: int) -> None:
    """Print the third table."""
    print(f"\n{'true, stated':30s} candidates  in random order  runs  noticed  rewarded rounds: median, 95%")
    for name, (stated, true) in EFFECTS.items():
        for n_candidates in (120, 8):
            laws = [place_rows(n_candidates, len(true), seed) for seed in range(4)]
            for share in (0.0, 0.05, 0.2, 1.0):
                times = [place_alarm(laws[seed % 4], stated, true, share, seed, most) for seed in range(runs)]
                median, late = np.quantile(times, [0.5, 0.95], method="higher")
                print(
                    f"{name:30s} {n_candidates:10d} {share:16.0%} {runs:5d} {int(np.isfinite(times).sum()):8d} "
                    f"{median:18,.0f}, {late:,.0f}",
                    flush=True,
                )


def band_table(runs: int, largest: int) -> None:
    """Print the fourth table."""
    print(f"\n{'in random order':16s} rewarded rounds  half-width of the band at level .005  1.96 standard errors")
    theta, (natural, relevance) = PLACES, place_rows(8, M, 0)
    for share in (0.05, 0.2, 1.0):
        rows = (1 - share) * natural + share * natural.mean(axis=2, keepdims=True)
        chances = (rows * relevance[:, :, None] * theta).ravel()
        n = 500
        while n <= largest:
            widths, errors = [], []
            for run in range(runs):
                rng = np.random.default_rng([run, 17])
                x, y, k = np.unravel_index(rng.choice(chances.size, size=n, p=chances / chances.sum()), rows.shape)
                placements = np.zeros((n, M, M))
                placements[np.arange(n), k] = rows[x, y]
                band = FactorBand(list_size=M, max_reward=1, level=0.005)
                band.update(np.eye(M)[k], placements)
                low, high = band.bounds()
                widths.append(np.log(high / low)[1:].max() / 2)
                fitted = fit_factors(np.eye(M)[k], placements)
                errors.append(1.96 * max(e / f for e, f in zip(fitted.standard_errors[1:], fitted[1:], strict=True)))
            print(f"{share:15.0%} {n:16,d} {np.median(widths):38.1%} {np.median(errors):20.1%}", flush=True)
            n *= 4


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--epsilon", type=float, default=0.001, help="small: runs seldom end before `rounds`")
    parser.add_argument("--clicks", type=float, default=0.1, help="per round of the best lists")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=list(FAULTS), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="2 runs of 4,000 rounds, at most a minute")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs, arguments.rounds, arguments.seconds = 2, 4000, 60
    deadline = time.monotonic() + arguments.seconds
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in arguments.faults}
    for run in range(arguments.runs):
        for name in arguments.faults:
            if time.monotonic() < deadline:
                seed = arguments.first_seed + run
                found[name].append(
                    play(FAULTS[name], seed, arguments.rounds, arguments.items, arguments.epsilon, arguments.clicks)
                )
    print(
        f"{'fault':42s} runs  reached  noticed  after (median, most)  certified  median rounds  wrong, of them silent"
    )
    for name, outcomes in found.items():
        reached = [one for one in outcomes if one["began"]]
        when = [one["noticed"] for one in reached if one["noticed"] is not None]
        after = f"{np.median(when):,.0f}, {max(when):,}" if when else "-"
        wrong = [one for one in reached if one["wrong"]]
        print(
            f"{name:42s} {len(outcomes):4d} {len(reached):8d} {len(when):8d} {after:>21s} "
            f"{sum(one['certified'] for one in reached):10d} "
            f"{np.median([one['rounds'] for one in reached]) if reached else 0:14,.0f} "
            f"{len(wrong):6d} {sum(one['noticed'] is None for one in wrong):5d}"
        )
    drift_table(20 if arguments.quick else 100, 10_000)
    place_table(20 if arguments.quick else 200, 2000 if arguments.quick else 8000)
    band_table(2 if arguments.quick else 9, 2000 if arguments.quick else 32_000)
    if arguments.json:
        arguments.json.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
