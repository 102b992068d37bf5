"""Small worlds with further metrics, in which all values are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.page.metrics import Metric

Floats = NDArray[np.float64]
K, M, N, P = 10, 2, 12, 8
HAIR = 1e-9


@dataclass(frozen=True, eq=False)
class MetricWorld:
    """One item at most is clicked in a round, with chances (N, K); a click on y is worth values[j, y] by metric j."""

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
        clicked = (rng.random(len(x))[:, None] >= np.cumsum(self.chances, axis=1)[x]).sum(axis=1)
        rewards = np.where(decisions.lists == clicked[:, None], 1.0, 0.0)
        of_items = np.where(decisions.lists >= 0, decisions.lists, 0)
        return rewards, {
            metric.name: rewards * worth[of_items] for metric, worth in zip(self.metrics, self.values, strict=True)
        }


def random_world(seed: int) -> MetricWorld:
    """A benefit and a cost, with margins of 0.02; production is sixth of eight."""
    rng = np.random.default_rng([seed, 77])
    taste = rng.standard_normal((N, K))
    chances, profile = np.zeros((N, K)), 0.75 ** np.arange(6)
    np.put_along_axis(chances, np.argsort(-taste, 1)[:, :6], 0.8 * profile / profile.sum(), 1)
    noise = np.linspace(0.3, 1.5, P)
    lists = np.stack([np.argsort(-(taste + s * rng.standard_normal((N, K))), 1)[:, :M] for s in noise]).astype(np.int32)
    metrics = (Metric(name="purchases", margin=0.02), Metric(name="reports", margin=0.02, direction="cost"))
    world = MetricWorld(lists, chances, rng.random((2, K)), metrics, 0)
    return replace(world, production=int(np.argsort(-world.worth())[5]))


def boundary_world(seed: int, *, safe: bool) -> MetricWorld:
    """All others but production, unsafe by a hair by one metric that all are worse by; or a best candidate that is
    safe with nothing to spare.
    """
    world = random_world(seed)
    if safe:
        return replace(world, metrics=_fitted(world, 0.0))
    # One context, one item each: what a click is worth is set so that every other one is at the margin, less a hair.
    rng = np.random.default_rng([seed, 78])
    rates = np.sort(rng.uniform(0.05, 0.14, 7))
    chances, margin = rates[None, :], 0.02
    worth = np.minimum((0.5 * rates[0] + 0.03 - margin - HAIR) / rates, 1.0)
    worth[0] = (0.5 * rates[0] + 0.03) / rates[0] if 0.5 * rates[0] + 0.03 <= rates[0] else 1.0
    worth[1:] = (worth[0] * rates[0] - margin - HAIR) / rates[1:]
    lists = np.arange(7, dtype=np.int32)[:, None, None]
    return MetricWorld(lists, chances, worth[None], (Metric(name="purchases", margin=margin),), 0)


def _fitted(world: MetricWorld, hair: float) -> tuple[Metric, ...]:
    """Margins of what the best candidate by reward just keeps."""
    v = world.worth()
    best = int(np.where(np.arange(len(v)) == world.production, -1.0, v).argmax())
    lacking = [metric.margin - slack for metric, slack in zip(world.metrics, world.slacks[:, best], strict=True)]
    return tuple(
        replace(metric, margin=max(lack - hair, 0.005)) for metric, lack in zip(world.metrics, lacking, strict=True)
    )


def decoy_world(seed: int) -> MetricWorld:
    """The best is not safe, and better than the best safe one, which is better than another safe one by 0.1."""
    rng = np.random.default_rng([seed, 79])
    rates = np.array([0.10, 0.30, 0.20, 0.10, 0.04, 0.02]) + rng.uniform(-0.005, 0.005, 6)
    purchases = np.array([0.08, 0.03, 0.09, 0.09, 0.02, 0.01])
    lists = np.arange(6, dtype=np.int32)[:, None, None]
    metrics = (Metric(name="purchases", margin=0.03),)
    return MetricWorld(lists, rates[None], (purchases / rates)[None], metrics, 0)


def relative_world(seed: int) -> MetricWorld:
    """The random world with relative margins."""
    world = random_world(seed)
    relative = tuple(replace(metric, margin=0.15, relative=True) for metric in world.metrics)
    return replace(world, metrics=relative)


WORLDS = {
    "random": random_world,
    "decoy": decoy_world,
    "unsafe by a hair": lambda seed: boundary_world(seed, safe=False),
    "nothing to spare": lambda seed: boundary_world(seed, safe=True),
    "relative": relative_world,
}


@dataclass
class Outcome:
    """What was ever wrong in a run, and whether it ended."""

    claim: bool = False  # a safe candidate exceeds the one claimed by more
    safe: bool = False  # one was declared safe and is not
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
    world: MetricWorld, seed: int, *, epsilon: float = 0.05, delta: float, max_rounds: int = 4000, **settings: Any
) -> Outcome:
    """A run in which all claims are looked at after each batch."""
    learner = world.learner(epsilon=epsilon, delta=delta, first_epoch=100, seed=seed, **settings)
    found, rng = Outcome(), np.random.default_rng([seed, 5])
    v, safe = world.worth(), world.safe
    star = int(np.where(safe, v, -np.inf).argmax())
    while not learner.done and learner.rounds < max_rounds:
        world.play(learner, max(50, learner.rounds // 8), rng)
        verdict, evidence = learner.verdict, learner.evidence
        guardrails = evidence.guardrails
        for claim in (verdict.claim(), verdict.fallback()):
            found.claim |= bool(v[star] - v[claim.leader] > claim.epsilon + 1e-12)
        declared = [one for one in guardrails.led if verdict.is_safe(one)]
        found.safe |= not safe[declared].all()
        found.harm |= bool(verdict.harms(np.array([star]))[0])
        for one in guardrails.led:
            lift = float(v[one] - v[world.production])
            found.lift |= not evidence.lifts.holds(one, lift, evidence.n_rounds, delta)
    found.done, found.rounds = learner.verdict.certified is not None, learner.rounds
    if found.done:
        winner = learner.verdict.certified.leader
        found.winner = bool(not safe[winner] or v[star] - v[winner] > epsilon + 1e-12)
    return found
