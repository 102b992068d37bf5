"""Small worlds with further metrics, in which all values are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.page.metrics import Metric

Floats = NDArray[np.float64]
HAIR = 1e-9
LAG = 400  # decisions that reports of the lagging world are waited for


@dataclass(frozen=True, eq=False)
class MetricWorld:
    """One item at most is clicked in a round, with chances (N, K) that sum to 1 at most where several are shown; a
    click on y is worth values[j, y] by metric j.
    """

    lists: NDArray[np.int32]  # (P, N, m)
    chances: Floats
    values: Floats  # (J, K)
    metrics: tuple[Metric, ...]
    production: int

    @property
    def problem(self) -> cb.Problem:
        return cb.Problem(n_actions=self.chances.shape[1], list_size=self.lists.shape[2], sparsity=1)

    @property
    def policies(self) -> cb.PolicySet:
        return cb.PolicySet.from_lists(self.lists, self.problem)

    def worth(self, of_items: Floats | float = 1.0) -> Floats:
        """(P,) the values of all candidates, if a click on y is worth so much."""
        return np.array([np.take_along_axis(self.chances * of_items, one, 1).sum(1).mean() for one in self.lists])

    @property
    def slacks(self) -> Floats:
        """(J, P) h + m, exactly."""
        rows = []
        for metric, of_items in zip(self.metrics, self.values, strict=True):
            v, sign = self.worth(of_items), 1.0 if metric.direction == "benefit" else -1.0
            share, margin = (1 - sign * metric.margin, 0.0) if metric.relative else (1.0, metric.margin)
            rows.append(sign * (v - share * v[self.production]) + margin)
        return np.array(rows)

    @property
    def safe(self) -> NDArray[np.bool_]:
        safe = np.asarray((self.slacks >= -1e-14).all(axis=0))
        safe[self.production] = True
        return np.asarray(safe)

    def learner(self, kind: Any = cb.AdaptiveComband, **settings: Any) -> Any:
        given = {"production": self.policies.names[self.production], "metrics": self.metrics, **settings}
        return kind(self.problem, self.policies, **given)

    def play(self, learner: Any, n: int, rng: np.random.Generator) -> tuple[cb.Decisions, Floats, dict[str, Floats]]:
        """A batch of rounds, told at once; what was told."""
        decisions = learner.ask(rng.integers(len(self.chances), size=n))
        rewards, further = self.answer(decisions, rng)
        learner.tell(decisions, rewards, **further)
        return decisions, rewards, further

    def answer(self, decisions: cb.Decisions, rng: np.random.Generator) -> tuple[Floats, dict[str, Floats]]:
        x = np.asarray(decisions.contexts)
        if decisions.lists.shape[1] == 1:
            chances = np.take_along_axis(self.chances[x], decisions.lists, 1)
            rewards = np.where(rng.random(chances.shape) < chances, 1.0, 0.0)
        else:
            clicked = (rng.random(len(x))[:, None] >= np.cumsum(self.chances, axis=1)[x]).sum(axis=1)
            rewards = np.where(decisions.lists == clicked[:, None], 1.0, 0.0)
        of_items = np.where(decisions.lists >= 0, decisions.lists, 0)
        return rewards, {
            metric.name: rewards * worth[of_items] for metric, worth in zip(self.metrics, self.values, strict=True)
        }


def single_items(rates: Any, worth: Any, metrics: tuple[Metric, ...], production: int = 0) -> MetricWorld:
    """One context, in which each candidate shows an item of its own: small, and quickly known."""
    lists = np.arange(len(rates), dtype=np.int32)[:, None, None]
    return MetricWorld(lists, np.asarray(rates, dtype=np.float64)[None], np.atleast_2d(worth), metrics, production)


def small_world(seed: int) -> MetricWorld:
    """A benefit and a cost, values as they come, large margins; any candidate is in production."""
    rng = np.random.default_rng([seed, 80])
    metrics = (Metric(name="purchases", margin=0.1), Metric(name="reports", margin=0.1, direction="cost"))
    return single_items(rng.uniform(0.1, 0.9, 4), rng.random((2, 4)), metrics, int(rng.integers(4)))


def boundary_world(seed: int, *, safe: bool) -> MetricWorld:
    """All others but production have just the margin, and are better by reward: unsafe by a hair, or safe with nothing
    to spare.
    """
    rates = np.array([0.5, 0.85, 0.75, 0.6]) + np.random.default_rng([seed, 78]).uniform(-0.02, 0.02, 4)
    worth = np.ones(4)
    worth[1:] = (rates[0] - 0.1 - (0.0 if safe else HAIR)) / rates[1:]
    return single_items(rates, worth, (Metric(name="purchases", margin=0.1),))


def decoy_world(seed: int) -> MetricWorld:
    """The best is not safe, and much better than the best safe one, which is much better than another safe one."""
    rates = np.array([0.2, 0.9, 0.5, 0.2]) + np.random.default_rng([seed, 79]).uniform(-0.01, 0.01, 4)
    worth = np.minimum(np.array([0.2, 0.06, 0.25, 0.18]) / rates, 1.0)
    return single_items(rates, worth, (Metric(name="purchases", margin=0.06),))


def cost_world(seed: int) -> MetricWorld:
    """A cost alone: the best by reward costs too much, the next does not, and neither is in production."""
    rates = np.array([0.3, 0.9, 0.7, 0.4]) + np.random.default_rng([seed, 81]).uniform(-0.02, 0.02, 4)
    costs = np.array([0.1, 0.4, 0.1, 0.05])
    return single_items(rates, costs / rates, (Metric(name="reports", margin=0.12, direction="cost"),))


def relative_world(seed: int) -> MetricWorld:
    """The small world with relative margins."""
    world = small_world(seed)
    relative = tuple(replace(metric, margin=0.3, relative=True) for metric in world.metrics)
    return replace(world, metrics=relative)


def lagging_world(seed: int) -> MetricWorld:
    """The small world, in which reports are waited for: most come late, some never."""
    world = small_world(seed)
    purchases, reports = world.metrics
    return replace(world, metrics=(purchases, replace(reports, patience=LAG)))


WORLDS = {
    "random": small_world,
    "decoy": decoy_world,
    "costs": cost_world,
    "lagging": lagging_world,
    "unsafe by a hair": lambda seed: boundary_world(seed, safe=False),
    "nothing to spare": lambda seed: boundary_world(seed, safe=True),
    "relative": relative_world,
}


@dataclass
class Outcome:
    """What was ever wrong in a run, and whether it ended."""

    claim: bool = False  # a safe candidate exceeds the one claimed by more
    safe: bool = False  # one was declared safe and is not
    uncorrected: bool = False  # one would have been declared safe, were each candidate tested by itself
    harm: bool = False  # the best safe one was called harmful
    lift: bool = False  # an interval missed the lift
    winner: bool = False  # the winner is not safe, or not within ε
    done: bool = False
    rounds: int = 0

    @property
    def wrong(self) -> bool:
        """Of what is promised together."""
        return self.claim or self.safe or self.winner


def outcome(
    world: MetricWorld, seed: int, *, epsilon: float = 0.15, delta: float, max_rounds: int = 2000, **settings: Any
) -> Outcome:
    """A run in which all claims are looked at after each batch."""
    learner = world.learner(epsilon=epsilon, delta=delta, first_epoch=100, seed=seed, **settings)
    found, rng = Outcome(), np.random.default_rng([seed, 5])
    v, safe = world.worth(), world.safe
    star = int(np.where(safe, v, -np.inf).argmax())
    everyone, asked, reports = np.arange(len(v)), 0, list[tuple[int, cb.Decisions, Floats]]()
    while not learner.done and asked < max_rounds:
        n = max(100, learner.rounds // 4)
        asked += n
        if all(one.patience is None for one in world.metrics):
            world.play(learner, n, rng)
        else:
            reports = _play_lagging(world, learner, n, rng, reports)
        if learner.rounds == 0:
            continue
        verdict, evidence = learner.verdict, learner.evidence
        guardrails = evidence.guardrails
        for claim in (verdict.certified, verdict.best_before):
            found.claim |= claim is not None and bool(v[star] - v[claim.leader] > claim.epsilon + 1e-12)
        for one in {verdict.leader, *guardrails.trusted}:  # some ε is claimed that is smaller than the gap
            gap, best = float(v[star] - v[one]), np.array([star])
            if gap > 1e-12:
                reached = evidence.against(one, gap * (1 - 1e-9), best)
                found.claim |= bool((reached >= verdict.enough(best)).all())
        declared = [one for one in guardrails.led if verdict.is_safe(one)]
        found.safe |= not safe[declared].all()
        # What would be said of any candidate without the purse and the union.
        alone = guardrails.wealths_of(guardrails.safe, everyone, evidence.n_rounds, safety=True)
        found.uncorrected |= bool(((alone >= verdict.safe_at).all(axis=0) & ~safe).any())
        found.harm |= bool(verdict.harms(np.array([star]))[0])
        for one in guardrails.led:
            lift = float(v[one] - v[world.production])
            found.lift |= not evidence.lifts.holds(one, lift, evidence.n_rounds, delta)
    found.done, found.rounds = learner.verdict.certified is not None, learner.rounds
    if found.done:
        winner = learner.verdict.certified.leader
        found.winner = bool(not safe[winner] or v[star] - v[winner] > epsilon + 1e-12)
    return found


def _play_lagging(
    world: MetricWorld,
    learner: Any,
    n: int,
    rng: np.random.Generator,
    before: list[tuple[int, cb.Decisions, Floats]],
) -> list[tuple[int, cb.Decisions, Floats]]:
    """A batch, in parts, of which the last metric comes later; of half of the rows without any it is never told."""
    waiting = list(before)
    for part in np.array_split(np.arange(n), int(np.ceil(4 * n / LAG))):
        decisions = learner.ask(rng.integers(len(world.chances), size=len(part)))
        rewards, further = world.answer(decisions, rng)
        late = world.metrics[-1].name
        values = further.pop(late)
        learner.tell(decisions, rewards, **further)
        told = np.flatnonzero(values.any(axis=1) | (rng.random(len(values)) < 0.5))
        waiting.append((int(decisions.ids[-1] + rng.integers(LAG // 2)), decisions[told], values[told]))
        for due, mine, its in waiting:
            if due <= decisions.ids[-1]:
                learner.tell(mine, **{late: its})
        waiting = [one for one in waiting if one[0] > decisions.ids[-1]]
    return waiting
