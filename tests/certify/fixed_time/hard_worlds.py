"""Worlds that are made hard for OnlineComband by search: the highest estimate stays wrong for as long as possible."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband import theory
from comband.paper.catalogue.rate_worlds import KINDS, RateWorld, rate_world

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]
N_CONTEXTS = 60
_SHARES = np.array([0.4, 0.8, 1.5, 2.5, 4, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50, 60]) / 100  # of T


class Hardness:
    """In which share of T the highest estimate is not within ε, nearly: weights p_t follow the means of W, and ΣD of
    all rivals is as if normal, with the exact covariances of every round. The same normal numbers for all worlds.

    A world is `listed` (P, contexts, s), which relevant actions a candidate lists, and `pay_rates` (contexts,).
    """

    def __init__(self, problem: cb.Problem, n_policies: int, epsilon: float) -> None:
        K, m, s = problem.n_actions, problem.list_size, int(problem.sparsity or 1)
        self.schedule = theory.online_comband(
            problem, n_policies=n_policies, epsilon=epsilon, delta=0.05, early_stop=True, exploration="learnt"
        )
        self.uniform = problem.uniform_propensity
        self.shown = np.array(list(itertools.product((False, True), repeat=s)))  # which relevant actions a list holds
        sizes = self.shown.sum(axis=1)
        self.by_chance = np.array([math.comb(K - s, m - j) if j <= m else 0 for j in sizes]) / math.comb(K, m)
        self.normal = np.random.default_rng(0).standard_normal((n_policies, 1000))

    def __call__(self, listed: Bits, pay_rates: Floats) -> float:
        """−1 if all candidates are within ε."""
        (P, N, s), plan = listed.shape, self.schedule
        values = listed.sum(axis=2) @ pay_rates / N
        best = int(np.argmax(values))
        rivals = np.flatnonzero(values[best] - values > plan.epsilon)
        gaps = (values[best] - values)[rivals]
        if not len(rivals):
            return -1.0
        own = np.zeros((P, N, len(self.shown)))
        np.put_along_axis(own, (listed @ (1 << np.arange(s)[::-1]))[:, :, None], 1.0, axis=2)
        spreads, noise, before, wrong = np.zeros(P), np.zeros((len(rivals), len(rivals))), 0.0, 0.0
        for now in _SHARES * plan.n_rounds:
            p = np.exp(plan.rate * (spreads - spreads.max()))
            p /= p.sum()
            Q = (1 - plan.floor) * np.einsum("p,pxs->xs", p, listed) + plan.floor * self.uniform
            law = (1 - plan.floor) * np.einsum("p,pxn->xn", p, own) + plan.floor * self.by_chance
            chances = (law * (pay_rates / N)[:, None]).ravel()
            R = np.einsum("pxs,ns,xs->pxn", listed, self.shown, 1 / Q).reshape(P, -1)
            z, D = plan.scale * R, R[rivals] - R[best]
            spreads = spreads + (now - before) * ((z - np.log1p(z)) @ chances)
            noise += (now - before) * ((D * chances) @ D.T - np.outer(gaps, gaps))
            sizes, axes = np.linalg.eigh(noise)
            drawn = (axes * np.sqrt(np.maximum(sizes, 0))) @ self.normal[: len(rivals)]
            wrong += (now - before) * float((drawn > now * gaps[:, None]).any(axis=0).mean())
            before = now
        return wrong / plan.n_rounds


def listed_by(world: RateWorld) -> Bits:
    """Which relevant actions (P, contexts, s) its candidates list."""
    return np.asarray((world.lists[:, :, None, :] == world.relevant[None, :, :, None]).any(axis=3))


def world_of(problem: cb.Problem, listed: Bits, pay_rates: Floats, rng: np.random.Generator) -> RateWorld:
    """Candidates that list these relevant actions, and others by chance."""
    relevant = np.argsort(rng.random((listed.shape[1], problem.n_actions)), axis=1)[:, : listed.shape[2]]
    keys = rng.random((*listed.shape[:2], problem.n_actions))
    np.put_along_axis(keys, np.broadcast_to(relevant, listed.shape), np.where(listed, -1.0, 2.0), axis=2)
    return RateWorld(problem, relevant, np.argsort(keys, axis=2)[:, :, : problem.list_size], pay_rates)


def found_by_search(
    problem: cb.Problem, epsilon: float, n_policies: int, steps: int, seed: int
) -> tuple[RateWorld, float, list[float]]:
    """The hardest world of a search, how hard it is, and how hard the three kinds are, of which it begins with the
    hardest. In each step a few contexts change what a candidate lists there or how often they pay; what makes the world
    harder stays, and at first sometimes also what makes it a little easier.
    """
    rng, hardness = np.random.default_rng(seed), Hardness(problem, n_policies, epsilon)
    starts = [rate_world(kind, problem, n_policies, epsilon, rng, N_CONTEXTS) for kind in KINDS]
    known = [hardness(listed_by(world), world.pay_rates) for world in starts]
    first = starts[int(np.argmax(known))]
    listed, pay_rates, now = listed_by(first), first.pay_rates, max(known)
    best, most = (listed, pay_rates), now
    for step in range(steps):
        new, paid = listed.copy(), pay_rates.copy()
        where = rng.choice(N_CONTEXTS, 1 + int(10 * rng.random() ** 2), replace=False)
        one, other = rng.choice(n_policies, 2, replace=False)
        change = rng.integers(6)
        if change == 0:
            new[one, where] = rng.random((len(where), new.shape[2])) < 0.5
        elif change == 1:
            new[one, where] = rng.random() < 0.5
        elif change == 2:
            new[one, where] = new[other, where]
        elif change == 3:
            new[:, where] = new[one, where]
            new[other, where] = rng.random() < 0.5
        elif change == 4:
            paid[where] = rng.random() ** rng.choice([0.2, 1, 4])
        else:
            paid[where] = np.minimum(paid[where] * np.exp(rng.normal(0, 0.3)), 1)
        new[new.sum(axis=2) > problem.list_size] = False
        found = hardness(new, paid)
        if found >= now - 1e-3 * most * rng.random() * (1 - step / steps):
            listed, pay_rates, now = new, paid, found
        if now > most:
            best, most = (listed, pay_rates), now
    return world_of(problem, *best, rng), most, known
