"""From totals: a learner's evidence, values and verdicts are those of a twin that knows only lists, their inclusion
probabilities and totals.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from tests.certify.test_twin import BATCH, LISTS, M, P, compare, contexts, rewards_for
from tests.certify.twin import Asked, Facts, Floats, Twin, log_mean_exp, read_kinds

K = 40
PROBLEM = cb.Problem(n_actions=K, list_size=M, sparsity=2, feedback="total")
F = (M - 1) / (K - 1)
LEARNERS: dict[str, tuple[type[cb.certify.CertifyingLearner], dict[str, Any]]] = {
    "AdaptiveComband": (cb.AdaptiveComband, {}),
    "UniformLists": (cb.UniformLists, {}),
    "UniformMixture": (cb.UniformMixture, {}),
    "UniformMixture, pseudo-inverse": (cb.UniformMixture, {"weighting": "pseudo-inverse"}),
    "ABTest": (cb.ABTest, {}),
    "ABTest, eliminating": (cb.ABTest, {"eliminate": True}),
}
UNIFORM = {"AdaptiveComband": 0.05, "UniformLists": 1.0}  # the share of uniform first actions


class TotalTwin(Twin):
    """A round is worth T·|π∩a|/((1−f)·q(a)), q(a) = Σ (Q − f)/(1−f), T over the probability of the very list, or
    T·πᵀC⁺a with C of all K actions.
    """

    def __init__(self, learner: cb.certify.CertifyingLearner, name: str) -> None:
        self.name, self.filled = name, name in UNIFORM
        self.z_low, self.z_high, self.z_sum = np.zeros(10), np.zeros(10), 0.0
        super().__init__(learner, LISTS)
        if self.filled:
            self.most = self.rho + F * M * 2 / (1 - F)
            self.z_bound = self.rho / ((1 - F) * UNIFORM[name] * M / K)
            self.z_stakes = np.minimum(self.value_stakes, 0.9 / self.z_bound)

    def worth(self, asked: Asked, rewards: Floats, epoch: Facts) -> Floats:
        X, T = np.zeros(self.P), float(rewards[0])
        assert rewards.shape == (1,)
        same = [i for i in epoch.candidates if set(self.lists[i, asked.context]) == set(asked.shown)]
        q = sum((Q - F) / (1 - F) for Q in asked.propensities)
        for i in epoch.candidates:
            if self.ab_test:
                X[i] = T * (self.P if self.everyone else len(epoch.candidates)) * (asked.arm == i)
            elif self.filled:
                X[i] = T * len(set(self.lists[i, asked.context]) & set(asked.shown)) / ((1 - F) * q)
            elif self.name.endswith("pseudo-inverse"):
                shown = np.zeros((len(epoch.candidates), K))
                for row, j in zip(shown, epoch.candidates, strict=True):
                    row[self.lists[j, asked.context]] = 1
                inverse = np.linalg.pinv(shown.T @ shown / len(shown), rcond=1e-9, hermitian=True)
                mine, a = np.zeros(K), np.zeros(K)
                mine[self.lists[i, asked.context]], a[asked.shown] = 1, 1
                X[i] = T * mine @ inverse @ a
            elif i in same:
                X[i] = T * len(epoch.candidates) / len(same)
        if self.filled and asked.covered:
            Z = T / ((1 - F) * q)
            assert self.z_bound * (1 + 1e-9) >= Z
            self.z_low += np.log(1 + self.z_stakes * Z)
            self.z_high += np.log(1 - self.z_stakes * Z)
            self.z_sum += Z
        return X

    def enter(self, asked: Asked, rewards: Floats | None) -> None:
        if self.filled and not asked.covered:
            self.z_high += np.log(1 - self.z_stakes * 2 / (1 - F))
        super().enter(asked, rewards)

    def value(self, i: int) -> float:
        excess = F * M * self.z_sum / max(self.front, 1) if self.filled else 0.0
        return super().value(i) - excess

    def intervals(self) -> tuple[Floats, Floats]:
        if not self.filled:
            return super().intervals()
        low, high = self.refuted_outside(self.delta / 2)
        ends = []
        for sign, sums in ((1, self.z_low), (-1, self.z_high)):
            left, right = 0.0, 2 / (1 - F)
            for _ in range(60):
                z = (left + right) / 2
                wealth = log_mean_exp(sums - self.front * np.log(1 + sign * self.z_stakes * z))
                against = wealth >= np.log(4 / self.delta)
                left, right = (z, right) if against == (sign > 0) else (left, z)
            ends.append(left if sign > 0 else right)
        return np.clip(low - F * M * ends[1], 0, self.rho), np.clip(high - F * M * ends[0], 0, self.rho)


def follow(name: str, seed: int, *, patience: int | None, n_batches: int, folder: Path, **options: Any) -> set[str]:
    """A run in which a quarter of the answers comes late or, with a patience, never, and the learner is saved and
    loaded twice; what happened in it.
    """
    kind, own = LEARNERS[name]
    policies = cb.PolicySet.from_lists(LISTS, PROBLEM)
    learner = kind(PROBLEM, policies, first_epoch=60, patience=patience, seed=seed, **own, **options)
    twin = TotalTwin(learner, name)
    rng = np.random.default_rng([seed, 43])
    pending: list[tuple[int, cb.Decisions, NDArray[np.float64]]] = []
    for batch in range(n_batches):
        if batch in (4, n_batches // 2):
            learner.save(folder / "learner.npz")
            learner = kind.load(folder / "learner.npz", policies)
        decisions = learner.ask(contexts(batch, rng))
        twin.ask(learner, decisions)
        totals = np.minimum(rewards_for(decisions.lists, batch >= n_batches // 3, rng).sum(axis=1), 2.0)
        delay = np.where(rng.random(BATCH) < 0.75, 0, rng.integers(1, 6, size=BATCH))
        never = (rng.random(BATCH) < 0.03) & (patience is not None)
        pending += [(batch + int(delay[i]), decisions[[i]], totals[[i]]) for i in range(BATCH) if not never[i]]
        last = batch == n_batches - 1
        due = [part for part in pending if last or part[0] <= batch]
        pending = [part for part in pending if not last and part[0] > batch]
        told = [due[i] for i in rng.permutation(len(due))]
        given, answer = reduce(add, [part[1] for part in told]), np.concatenate([part[2] for part in told])
        learner.tell(given, answer)
        twin.tell(learner, given.ids, answer[:, None])
        compare(learner, twin)
    happened = {
        "missing": twin.missing > 0,
        "late": twin.late > 0,
        "uncovered": twin.n_uncovered > 0,
        "dropped": len(twin.dropped) > 0,
        "certified": twin.certified is not None,
        "fewer candidates": len(twin.epochs[-1].candidates) < P,
    }
    return {what for what, did in happened.items() if did} | set(read_kinds(learner))


@pytest.mark.parametrize("name", LEARNERS)
def test_all_evidence_from_totals_is_that_of_the_twin(name: str, tmp_path: Path) -> None:
    occurred = follow(name, 0, patience=3 * BATCH, n_batches=24, epsilon=0.3, delta=0.5, folder=tmp_path)
    occurred |= follow(name, 1, patience=None, n_batches=40, epsilon=0.15, delta=0.7, folder=tmp_path)
    kinds = {"AdaptiveComband": "midzuno", "UniformLists": "midzuno", "UniformMixture": "whole lists"}
    kinds["UniformMixture, pseudo-inverse"] = "own lists"
    expected = {"missing", "late", kinds.get(name, "arms")}
    if name == "AdaptiveComband":
        expected |= {"uncovered", "dropped", "certified", "fewer candidates"}
    assert occurred >= expected, occurred
