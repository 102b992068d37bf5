"""Job 1: choosing the best of many candidates: how good is the pick, what was lost, when does it stop, is it right.

Worlds are those of `benchmarks.loss`: real multi-label sets (`--data`; without it the digits that scikit-learn ships),
needle, nearly equal and rare; "NAME, shuffled" is one whose lists are in random order. A method that stops shows its
winner from then on. "Old visitors" are 300 of whom all clicks are known, as offline scores would come from; who is told
of them knows more than the others, and says so.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import comband as cb
from benchmarks.certify import World
from benchmarks.loss import make_world
from benchmarks.peers import arms, experts, multileaving
from benchmarks.peers.offpolicy import UniformLogging, VowpalLogging
from benchmarks.peers.results import Ledger, Row, best_of

Array = NDArray[np.float64]
HORIZONS = tuple(int(round(250 * 2 ** (k / 2), -1)) for k in range(-4, 17))  # 60 … 64,000
DELTA, OLD_VISITORS = 0.05, 300


class Chooser(Protocol):
    """Shows lists, takes answers, and has a score for everybody."""

    def ask(self, rows: NDArray[np.int64]) -> cb.Decisions:
        """Lists to show."""
        ...

    def tell(self, decisions: cb.Decisions, clicks: Array) -> Any:
        """What was clicked."""
        ...

    def scores(self) -> Array:
        """The highest is the pick."""
        ...


class Composed:
    """What makes one list of all candidates' lists, as a chooser."""

    def __init__(self, policies: cb.PolicySet, kind: Any) -> None:
        self.policies, self.kind, self._rounds = policies, kind, 0

    def ask(self, rows: NDArray[np.int64]) -> cb.Decisions:
        """Composed; there are no propensities."""
        self._lists = self.policies.predict(rows)
        shown, n = self.kind.compose(self._lists), len(rows)
        return cb.Decisions(
            ids=np.arange(self._rounds, self._rounds + n),
            lists=shown,
            propensities=np.full(shown.shape, np.nan),
            epochs=np.zeros(n, np.int64),
            contexts=rows,
        )

    def tell(self, decisions: cb.Decisions, clicks: Array) -> None:
        """Credits."""
        self._rounds += len(decisions)
        self.kind.credit(self._lists, decisions.lists, clicks)

    def scores(self) -> Array:
        """The kind's own."""
        return np.asarray(self.kind.scores())


@dataclass
class Trial:
    """A world with its candidates, and what a method may be told beforehand."""

    world: World
    seed: int

    @cached_property
    def values(self) -> Array:
        """Exact values."""
        return self.world.values(self.world.policies)

    @cached_property
    def old_hits(self) -> Array:
        """Clicks that each candidate would have had from the old visitors (P,)."""
        old = self.world.sample(OLD_VISITORS, np.random.default_rng([self.seed, 7]))
        policies = self.world.policies
        return np.array([old.answer(policies[p].predict(old.contexts)).sum() for p in range(len(policies))])

    def learner(self, kind: type[cb.certify.CertifyingLearner], **options: Any) -> cb.certify.CertifyingLearner:
        """One of comband's that certify."""
        world = self.world
        return kind(world.problem, world.policies, epsilon=world.epsilon, delta=DELTA, seed=self.seed, **options)

    def with_scores(self, **options: Any) -> cb.certify.CertifyingLearner:
        """AdaptiveComband, told what the old visitors would have clicked."""
        scores = self.old_hits / OLD_VISITORS
        error = float(np.sqrt((scores * (1 - scores)).mean() / OLD_VISITORS))
        return self.learner(cb.AdaptiveComband, prior_scores=scores, prior_error=error, **options)

    def pac_comband(self, horizon: int) -> cb.PacComband:
        """Algorithm 1 for a budget: the horizon, divided as `plan_budget` advises."""
        problem, policies = self.world.problem, self.world.policies
        plan = cb.plan_budget(problem, horizon, n_policies=len(policies), delta=DELTA)
        return cb.PacComband(
            problem, policies, delta=DELTA, n_explore=plan.n_explore, n_estimate=plan.n_estimate, seed=self.seed
        )


def _composed(kind: Callable[..., Any]) -> Callable[[Trial], Chooser]:
    return lambda trial: Composed(
        trial.world.policies, kind(len(trial.world.policies), np.random.default_rng([trial.seed, 3]))
    )


def _obp(estimator: str, floor: float) -> Callable[[Trial], Chooser]:
    return lambda trial: UniformLogging(trial.world.problem, trial.world.policies, estimator, floor, trial.seed)


COMBAND: dict[str, Callable[[Trial], Any]] = {
    "comband: AdaptiveComband": lambda trial: trial.learner(cb.AdaptiveComband),
    "comband: AdaptiveComband, old visitors": Trial.with_scores,
    'comband: AdaptiveComband, objective="reward"': lambda trial: trial.learner(cb.AdaptiveComband, objective="reward"),
    'comband: AdaptiveComband, objective="reward", old visitors': lambda trial: trial.with_scores(objective="reward"),
    "comband: TwoPhaseComband": lambda trial: trial.learner(cb.TwoPhaseComband),
    "comband: UniformMixture": lambda trial: trial.learner(cb.UniformMixture),
    "comband: UniformLists": lambda trial: trial.learner(cb.UniformLists),
}
HORIZON_LEARNERS: dict[str, Callable[[Trial, int], Any]] = {
    "comband: PacComband": Trial.pac_comband,
    "comband: Exp4CombSparse": lambda trial, horizon: cb.Exp4CombSparse(
        trial.world.problem, trial.world.policies, horizon=horizon, seed=trial.seed
    ),
    "SemiExp4": lambda trial, horizon: cb.Exp4(
        trial.world.problem, trial.world.policies, horizon=horizon, seed=trial.seed
    ),
    "EXP4 on whole lists": lambda trial, horizon: Composed(
        trial.world.policies,
        experts.Exp4Lists(len(trial.world.policies), horizon, np.random.default_rng([trial.seed, 6])),
    ),
}
CHOOSERS: dict[str, Callable[[Trial], Chooser]] = {
    **{name: _composed(kind) for name, kind in multileaving.KINDS.items()},
    "uniform lists + obp IIPS": _obp("IIPS", 1.0),
    "uniform lists + obp RIPS": _obp("RIPS", 1.0),
    "uniform lists + obp SIPS": _obp("SIPS", 1.0),
    "random candidates + obp IIPS": _obp("IIPS", 0.05),
    "VW CCB + vw-estimators": lambda trial: VowpalLogging(trial.world.problem, trial.world.policies, trial.seed),
    "VCEE": lambda trial: experts.Vcee(trial.world.problem, trial.world.policies, DELTA, trial.seed),
}
# What would take hours beyond these sizes: a model's pass over all items per visitor; a sequence that wants every
# observation of every candidate.
MOST_ROUNDS = {"VW CCB + vw-estimators": 4000}
MOST_CANDIDATES = {"A/B/n, ville, eliminating": 64}
ARMS_WAIT = {"A/B/n, ville, eliminating": 600_000}


def play(trial: Trial, chooser: Any, horizons: tuple[int, ...]) -> Row:
    """Rounds until it is done or the last horizon: regrets of picks and shares of reward lost at all of them."""
    world, values = trial.world, trial.values
    best, lost, rounds, stop = float(values.max()), 0.0, 0, None
    rng, ties = np.random.default_rng([trial.seed, 1]), np.random.default_rng([trial.seed, 4])
    regrets: dict[int, float] = {}
    shares: dict[int, float] = {}
    learner = isinstance(chooser, cb.Learner)

    def regret() -> float:
        return best - float(values[chooser.result().index if learner else best_of(chooser.scores(), ties)])

    while rounds < horizons[-1] and stop is None:
        until = min(horizon for horizon in horizons if horizon > rounds)
        batch = world.sample(min(max(100, int(0.03 * rounds)), until - rounds), rng)
        decisions = chooser.ask(batch.contexts)
        worth = np.take_along_axis(world.chances[batch.contexts], decisions.lists.astype(np.int64), axis=1)
        lost += best * len(decisions) - float(worth.sum())
        chooser.tell(decisions, batch.answer(decisions.lists))
        rounds += len(decisions)
        if rounds in horizons:
            regrets[rounds], shares[rounds] = regret(), lost / (best * rounds)
        if learner and chooser.done and getattr(chooser, "epsilon", None) is not None:
            stop = rounds
    final = regret()
    for horizon in horizons:
        if stop is not None and horizon > stop:
            regrets[horizon], shares[horizon] = final, (lost + final * (horizon - stop)) / (best * horizon)
    return {"regrets": regrets, "lost": shares, "stop": stop, "final_regret": final, "lost_until": lost / best}


def own_runs(trial: Trial, make: Callable[[Trial, int], Any], horizons: tuple[int, ...]) -> Row:
    """One run per horizon, for those who are told it."""
    found: Row = {"regrets": {}, "lost": {}, "stop": None}
    for horizon in horizons:
        one = play(trial, make(trial, horizon), (horizon,))
        found["regrets"][horizon], found["lost"][horizon] = one["regrets"][horizon], one["lost"][horizon]
        found["final_regret"], found["lost_until"] = one["final_regret"], one["lost_until"]
    return found


def play_rule(trial: Trial, name: str, horizons: tuple[int, ...], wait: int) -> Row:
    """A rule over arms; those told the horizon have a run for each."""
    rng = np.random.default_rng([trial.seed, 2])

    def make(horizon: int) -> arms.Rule:
        best = float(trial.values.max())
        rule = arms.RULES[name](trial.world.epsilon, DELTA, len(trial.values), horizon, best)
        if isinstance(rule, arms.ThompsonSamplingOld):
            rule.old_clicks, rule.old_visitors = trial.old_hits, OLD_VISITORS
        return rule

    if name not in arms.TOLD_THE_HORIZON:
        stops = arms.RULES[name].look is not arms.Rule.look
        return arms.play_arms(make, trial.values, horizons, max(wait, horizons[-1]) if stops else horizons[-1], rng)
    found: Row = {"regrets": {}, "lost": {}}
    for horizon in horizons:
        one = arms.play_arms(make, trial.values, (horizon,), horizon, rng)
        found = {
            **one,
            "regrets": {**found["regrets"], **one["regrets"]},
            "lost": {**found["lost"], **one["lost"]},
        }
    return found


def work_of(trial: Trial, method: str, horizons: tuple[int, ...], wait: int) -> Callable[[], Row]:
    """What a line of the results takes."""

    def work() -> Row:
        start = time.process_time()
        if method in arms.RULES:
            row = play_rule(trial, method, horizons, min(wait, ARMS_WAIT.get(method, wait)))
        elif method in HORIZON_LEARNERS:
            row = own_runs(trial, HORIZON_LEARNERS[method], horizons)
        else:
            most = MOST_ROUNDS.get(method, horizons[-1])
            few = tuple(horizon for horizon in horizons if horizon <= most)
            row = play(trial, {**COMBAND, **CHOOSERS}[method](trial), few)
        wrong = row["stop"] is not None and row["final_regret"] > trial.world.epsilon + 1e-12
        best = float(trial.values.max())
        return {
            **row,
            "wrong": wrong,
            "epsilon": trial.world.epsilon,
            "best": best,
            "seconds": time.process_time() - start,
        }

    return work


METHODS = (*COMBAND, *arms.RULES, *CHOOSERS, *HORIZON_LEARNERS)


def worlds(data: Path | None, names: list[str] | None, folder: Path) -> dict[str, Path | None]:
    """Names of worlds and where their sets lie; the digits are written to `folder`."""
    if data is not None:
        found: dict[str, Path | None] = dict.fromkeys(("bibtex", "Corel5k", "enron"), data)
    else:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        sp.save_npz(folder / "digits_X.npz", sp.csr_array(X))
        sp.save_npz(folder / "digits_Y.npz", sp.csr_array(np.eye(10)[y]))
        found = {"digits": folder}
    found |= {"needle": None, "nearly equal": None, "rare": None}
    return {name: found.get(name, data) for name in names} if names else found


def world_of(name: str, folder: Path | None, P: int, seed: int) -> World:
    """A world by its name; "NAME, shuffled" has every list in random order, which changes the value of none."""
    base, comma, _ = name.partition(", shuffled")
    world = make_world(folder, base, P, seed)
    if not comma:
        return world
    lists = world.policies.predict(np.arange(len(world.chances))).transpose(1, 0, 2)
    mixed = np.random.default_rng([seed, 8]).permuted(lists, axis=2)
    return replace(world, policies=cb.PolicySet.from_lists(mixed, world.problem))


def run(ledger: Ledger, options: argparse.Namespace) -> None:
    """All worlds, numbers of candidates, seeds and methods that have no line yet."""
    quick = options.quick
    horizons = tuple(horizon for horizon in HORIZONS if horizon <= (8000 if quick else options.rounds))
    sizes = options.candidates or ([32] if quick else [64])
    methods = [name for name in METHODS if not options.methods or any(part in name for part in options.methods)]
    with tempfile.TemporaryDirectory() as name:
        places = worlds(options.data, options.sets, Path(name))
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for P, world_name in itertools.product(sizes, places):
                wanted = [
                    {"world": world_name, "candidates": P, "rounds": horizons[-1], "method": method, "seed": seed}
                    for method in methods
                    if MOST_CANDIDATES.get(method, P) >= P
                ]
                wanted = [key for key in wanted if not ledger.has(key)]
                if not wanted:
                    continue
                trial = Trial(world_of(world_name, places[world_name], P, seed), seed)
                for key in wanted:
                    ledger.run(key, work_of(trial, key["method"], horizons, 50_000 if quick else 30_000_000))
                print(f"choosing: {world_name}, {P} candidates, seed {seed}: {len(wanted)} runs", flush=True)
