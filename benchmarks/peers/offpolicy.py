"""Log first, choose later: lists drawn by a fixed or learning rule, and the estimators of obp and vw-estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks.peers.results import peer

Array = NDArray[np.float64]


class UniformLogging:
    """Uniform lists (floor 1) or mostly the lists of random candidates, then obp's slate estimators for everybody.

    obp's estimators are about items in their places. Where places do not matter, its best use is to say so: lists are
    shown in random order and candidates are evaluated as if they did the same. The weight of an item is then
    (1{listed}/m)/(Q/m) with independent IPS; whole lists must agree with standard IPS, and all items up to the place
    with reward-interaction IPS. Estimates are means over rounds, so those of parts of the log are averaged, and rounds
    without a click that has a weight are counted but not handed over, which changes nothing and saves obp most of its
    time.
    """

    def __init__(self, problem: cb.Problem, policies: cb.PolicySet, estimator: str, floor: float, seed: int) -> None:
        peer("obp.ope")
        self.estimator, self.policies, self.problem, self.floor = estimator, policies, problem, floor
        P = len(policies)
        self._mixture = cb.Mixture(policies, np.full(P, 1 / P), problem=problem, floor=floor)
        self._rng, self._rounds, self._sums = np.random.default_rng([seed, 5]), 0, np.zeros(P)
        self._log: list[tuple[cb.Decisions, Array]] = []

    def ask(self, rows: NDArray[np.int64]) -> cb.Decisions:
        """Drawn by the fixed law, in random order."""
        drawn = self._mixture.draw(rows, self._rng, first_id=self._rounds)
        order = np.argsort(self._rng.random(drawn.lists.shape), axis=1)
        return cb.Decisions(
            ids=drawn.ids,
            lists=np.take_along_axis(drawn.lists, order, axis=1),
            propensities=np.take_along_axis(drawn.propensities, order, axis=1),
            epochs=drawn.epochs,
            contexts=rows,
        )

    def tell(self, decisions: cb.Decisions, clicks: Array) -> None:
        """Into the log."""
        self._log.append((decisions, clicks))
        self._rounds += len(decisions)

    def scores(self) -> Array:
        """Estimated values: the log so far."""
        if self._log:
            parts, rewards = [part for part, _ in self._log], np.concatenate([clicks for _, clicks in self._log])
            shown, q = (
                np.concatenate([part.lists for part in parts]),
                np.concatenate([part.propensities for part in parts]),
            )
            rows, some = np.concatenate([part.contexts for part in parts]), rewards.any(axis=1)
            rows, shown, q, rewards = rows[some], shown[some], q[some], rewards[some]
            lists = self.policies.predict(rows)
            for p in range(len(self.policies) if some.any() else 0):
                listed = (shown[:, :, None] == lists[:, p, None, :]).any(axis=2)
                own = (weighted(self.estimator, listed) & (rewards > 0)).any(axis=1)
                if own.any():
                    value = slate_value(self.estimator, listed[own], q[own], rewards[own], self.problem.n_actions)
                    self._sums[p] += own.sum() * value
            self._log = []
        return np.asarray(self._sums / max(self._rounds, 1))


def weighted(estimator: str, listed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which clicks (n, m) would have a weight above 0."""
    if estimator == "SIPS":
        return np.broadcast_to(listed.all(axis=1, keepdims=True), listed.shape)
    return np.asarray(np.logical_and.accumulate(listed, axis=1)) if estimator == "RIPS" else listed


def slate_value(estimator: str, listed: NDArray[np.bool_], q: Array, rewards: Array, n_actions: int) -> float:
    """obp's estimate for one candidate: `listed` (n, m) says which shown items are its own, q are propensities (n, m).

    Standard and reward-interaction IPS are for uniform lists, whose propensities as wholes are known.
    """
    ope, (n, m), K = peer("obp.ope"), listed.shape, n_actions
    common = {
        "slate_id": np.repeat(np.arange(n), m),
        "reward": rewards.ravel(),
        "position": np.tile(np.arange(m), n),
    }
    taken = 1.0 / (K - np.arange(m))  # chances of uniform items in turn
    own = listed / (m - np.arange(m))  # of its own list in random order
    if estimator == "IIPS":
        return float(
            ope.SlateIndependentIPS(len_list=m).estimate_policy_value(
                **common,
                pscore_item_position=q.ravel() / m,
                evaluation_policy_pscore_item_position=listed.ravel() / m,
            )
        )
    if estimator == "SIPS":
        return float(
            ope.SlateStandardIPS(len_list=m).estimate_policy_value(
                **common,
                pscore=np.full(n * m, math.prod(taken)),
                evaluation_policy_pscore=np.repeat(listed.all(axis=1) / math.factorial(m), m),
            )
        )
    return float(
        ope.SlateRewardInteractionIPS(len_list=m).estimate_policy_value(
            **common,
            pscore_cascade=np.tile(np.cumprod(taken), n),
            evaluation_policy_pscore_cascade=np.cumprod(own, axis=1).ravel(),
        )
    )


class VowpalLogging:
    """Vowpal Wabbit's CCB as the rule that shows lists, and vw-estimators' per-slot IPS for everybody.

    Its actions are the items that any candidate lists, each described by who lists it: so it learns at once whom to
    believe, which is more than it would from item numbers. SquareCB, as its documentation recommends. Each slot is
    evaluated as a bandit of its own: a candidate would choose among its items that are not shown yet, all equally
    likely. The sum over slots is too low for those whose items the logger favours; it still picked better, on other
    seeds, than the unbiased first slot alone and than `estimators.ccb.multislot`, which multiplies weights.
    """

    def __init__(self, problem: cb.Problem, policies: cb.PolicySet, seed: int) -> None:
        self.problem, self.policies = problem, policies
        kind = peer("vowpalwabbit").Workspace
        ips = peer("estimators.bandits.ips").Estimator
        self._vw: Any = kind(f"--ccb_explore_adf --squarecb --cb_type mtr -b 20 --quiet --random_seed {seed + 1}")
        self._estimators = [[ips() for _ in range(problem.list_size)] for _ in range(len(policies))]
        self._rounds = 0

    def ask(self, rows: NDArray[np.int64]) -> cb.Decisions:
        """One choice per slot, each with its probability given those before."""
        n, m = len(rows), self.problem.list_size
        shown, q = np.empty((n, m), dtype=np.int32), np.empty((n, m))
        for i, own in enumerate(self.policies.predict(rows)):
            items, example = self._example(own)
            for slot, scores in enumerate(self._vw.predict([*example, *(["ccb slot |"] * m)])):
                action, q[i, slot] = scores[0]
                shown[i, slot] = items[action]
        ids = np.arange(self._rounds, self._rounds + n)
        return cb.Decisions(ids=ids, lists=shown, propensities=q, epochs=np.zeros(n, np.int64), contexts=rows)

    def tell(self, decisions: cb.Decisions, clicks: Array) -> None:
        """Learn, and estimate everybody."""
        self._rounds += len(decisions)
        lists = self.policies.predict(decisions.contexts)
        for i, (own, shown) in enumerate(zip(lists, decisions.lists, strict=True)):
            items, example = self._example(own)
            actions = np.searchsorted(items, shown)
            slots = [
                f"ccb slot {action}:{-click}:{p} |"
                for action, click, p in zip(actions, clicks[i], decisions.propensities[i], strict=True)
            ]
            self._vw.learn([*example, *slots])
            listed = own[:, :, None] == shown[None, None, :]  # (P, m, place)
            left = self.problem.list_size - np.cumsum(listed.any(axis=1), axis=1) + listed.any(axis=1)
            chance = listed.any(axis=1) / np.maximum(left, 1)
            for p, estimators in enumerate(self._estimators):
                for slot, estimator in enumerate(estimators):
                    estimator.add_example(decisions.propensities[i, slot], clicks[i, slot], chance[p, slot])

    def _example(self, own: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[str]]:
        items = np.unique(own)
        listing = (own[None] == items[:, None, None]).any(axis=2)
        actions = ["ccb action |C " + " ".join(map(str, np.flatnonzero(by))) for by in listing]
        return items, ["ccb shared |", *actions]

    def scores(self) -> Array:
        """Sums over slots."""
        return np.array([sum(estimator.get() or 0.0 for estimator in each) for each in self._estimators])
