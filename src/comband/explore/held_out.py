"""A design's variance certified on rounds it has not seen: one oracle call bounds the largest proxy of a class.

For a fixed mixture p, V_π = E Σ_{y∈π(x)} r(y)/Q(x, y) is the mean of X_i(π) = Σ_{y∈a_i∩π(x_i)} r_i(y)/(q_i(y)Q(x_i, y))
over rounds logged with propensities q, and X_i lies in [0, b], b = ρ/(q_min·γ·m/K). Chernoff's lower tail at δ/P for
each of P policies (`comband.statistics.chernoff`) bounds every V_π at once by the root at its average; the root grows
with the average, so that the largest average, which is one ERM call, gives the bound for all of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.explore.oracles import EnumerationOracle, Oracle
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, check_count, check_fraction, check_positive
from comband.page.rounds import Events, Rounds
from comband.page.totals import TotalRounds, events_of
from comband.policies import Mixture
from comband.policies.placed import PlacedPolicies
from comband.policies.reading import reading_of
from comband.policies.stochastic import StochasticPolicies
from comband.statistics.chernoff import largest_mean


@dataclass(frozen=True, slots=True)
class HeldOutCertificate:
    """What fresh rounds say about a design, for every policy of its class at once.

    max_variance:
        A bound on max_π E Σ_{y∈π(x)} r(y)/Q(x, y) that holds in expectation, not on a sample, with probability 1 − δ.
    estimate:
        The largest average of a policy on the held-out rounds.
    proved:
        False with an approximate oracle: it finds no more than a lower bound of the largest average. `max_variance` is
        then what the floor alone implies, ρK/(γm), which always holds.
    """

    mixture: Mixture
    max_variance: float
    estimate: float
    proved: bool
    delta: float
    n_rounds: int
    n_policies: int

    @property
    def gradient_norm(self) -> float:
        """(1−γ)·max_variance, which bounds ‖∇F(p)‖∞."""
        return (1 - self.mixture.floor) * self.max_variance

    @property
    def meets_paper_bound(self) -> bool | None:
        """Whether ‖∇F(p)‖∞ ≤ 2s is certified; None when the problem states no sparsity."""
        s = reading_of(self.mixture.problem).theory.sparsity
        return None if s is None else self.gradient_norm <= 2 * s

    def __str__(self) -> str:
        if not self.proved:
            return (
                f"no policy that the oracle found has a variance proxy above {self.estimate:.4g} on {self.n_rounds:,} "
                f"held-out rounds; the oracle is approximate, and only the floor's {self.max_variance:.4g} is certain"
            )
        return (
            f"largest variance proxy of {self.n_policies:,} policies at most {self.max_variance:.4g} with probability "
            f"{1 - self.delta:g} ({self.estimate:.4g} on {self.n_rounds:,} held-out rounds)"
        )


def certify_mixture(
    mixture: Mixture,
    held_out: Rounds | TotalRounds | Events,
    oracle: Oracle,
    *,
    delta: float,
    n_policies: int | None = None,
    least_propensity: float | None = None,
) -> HeldOutCertificate:
    """Bound the variance proxies of a class under `mixture`, by rounds on which the mixture does not depend.

    Parameters
    ----------
    mixture:
        With a positive floor.
    held_out:
        Rounds that had no part in making the mixture, of a number fixed beforehand; `TotalRounds` if the mixture's
        problem has no other feedback.
    oracle, n_policies:
        The class and its size (an `EnumerationOracle` knows it). One call.
    delta:
        Failure probability.
    least_propensity:
        The smallest probability with which the logging rule shows any action (for totals: the smallest share of any
        list). Needed unless lists were uniform; what happened to be logged does not tell.
    """
    gamma = mixture.floor
    delta = check_fraction("delta", delta)
    if isinstance(oracle, EnumerationOracle):
        n_policies = len(oracle.policies)
    if n_policies is None:
        raise InputError("n_policies is needed for a class behind an oracle: say how many policies it has at most.")
    P = check_count("n_policies", n_policies)
    events, oracle, problem = in_setting(held_out, oracle, mixture.problem)
    reading, m = reading_of(mixture.problem), problem.list_size
    total = reading.TOTAL
    if isinstance(held_out, Rounds):
        logged = held_out.decisions.propensities
    elif isinstance(held_out, TotalRounds):
        logged = held_out.shares
    else:
        logged = held_out.propensities * (m / (1 - problem.fill_share) if total else 1.0)
    if events.n_rounds == 0:
        raise InputError("held_out must hold at least one round, got none.")
    least = _least_propensity(logged, least_propensity, problem.uniform_propensity)
    if gamma <= 0:
        raise InputError("the mixture needs a floor above 0: without one its variance has no bound.")
    trivial = problem.max_reward / (gamma * problem.uniform_propensity)
    estimate = 0.0
    if len(events):
        policies = reading.drawn(mixture.policies)
        places = events.rows, events.actions
        if isinstance(policies, StochasticPolicies):
            inside: NDArray[Any] = policies.inclusion(events.contexts, *places)[:, mixture.support]
        else:
            inside = policies.contains(events.contexts, *places, mixture.support)
        coverage = inside @ mixture.weights[mixture.support]
        if total:
            coverage = np.repeat(coverage.reshape(-1, m).mean(axis=1), m)
        weights = reading_of(problem).weights(events)
        gains = weights / ((1 - gamma) * coverage + gamma * problem.uniform_propensity)
        shape = (events.n_rewarded, problem.n_actions)
        rewards = sp.csr_array((gains, (events.rows, events.actions)), shape=shape)
        if isinstance(oracle, EnumerationOracle) and oracle.policies.by_chance:
            estimate = float(oracle.values(events.contexts, rewards).max()) / events.n_rounds
        else:
            best = oracle.fit(events.contexts, rewards)
            lists = check_lists(best.predict(events.contexts), mixture.problem, n=events.n_rewarded)
            found = (reading.as_drawn(lists)[events.rows] == events.actions[:, None]).any(axis=1)
            estimate = float(gains[found].sum()) / events.n_rounds
    bound = largest_mean(estimate, n=events.n_rounds, bound=trivial / least, log_odds=math.log(P / delta))
    return HeldOutCertificate(
        mixture=mixture,
        max_variance=min(bound, trivial) if oracle.exact else trivial,
        estimate=estimate,
        proved=oracle.exact,
        delta=delta,
        n_rounds=events.n_rounds,
        n_policies=P,
    )


def in_setting(
    rounds: Rounds | TotalRounds | Events, oracle: Oracle, problem: Problem
) -> tuple[Events, Oracle, Problem]:
    """Events, class and setting as a design sees them: of pairs, where each item has its place; of sets otherwise.

    By examination a design sees rewards of sets as they came in random order, or as they would have come in it where
    the probabilities of places are stated: see `Reading.stretch`.
    Events that are given for a problem with pairs must be of pairs, and then the class is of `PlacedPolicies`.
    """
    reading = reading_of(problem)
    setting = reading.design
    if not reading.PLACED:
        if isinstance(rounds, Rounds) and rounds.decisions.placements is not None and not reading.TOTAL:
            return reading.seen(rounds), oracle, setting
        return events_of(rounds, setting), oracle, setting
    if not isinstance(oracle, EnumerationOracle):
        raise InputError(
            "an oracle finds the best policy for rewards of items, and pairs of item and place have rewards of their "
            "own: give a PolicySet, or a problem without places or with factors."
        )
    m = problem.list_size
    placed = isinstance(oracle.policies, PlacedPolicies)
    if isinstance(rounds, Rounds):
        if rounds.decisions.lists.shape[1] != m:
            raise InputError(f"the rounds must show lists of {m} items, got {rounds.decisions.lists.shape[1]}.")
        events = reading.seen(rounds)
    elif isinstance(rounds, Events) and placed:
        events = rounds
    else:
        raise InputError(
            "where pairs of item and place matter a design needs Rounds, which tell in which place an item was shown, "
            f"got {type(rounds).__name__}; or events of placed_rounds(rounds, 'pairs') with PlacedPolicies."
        )
    return events, oracle if placed else EnumerationOracle(PlacedPolicies(oracle.policies, m)), setting


def _least_propensity(logged: NDArray[np.float64], least: float | None, uniform: float) -> float:
    """q_min as given, or that of uniform lists where the log has nothing else."""
    if least is None:
        if not np.allclose(logged, uniform, rtol=1e-9, atol=0.0):
            raise InputError(
                f"the held-out rounds were not logged with uniform lists (propensity {uniform:g}); give "
                "least_propensity, the smallest probability with which the logging rule shows any action."
            )
        return uniform
    least = check_positive("least_propensity", least)
    if least > 1 or (logged < least * (1 - 1e-9)).any():
        smallest = float(logged.min(initial=1.0))
        raise InputError(
            f"least_propensity must bound every propensity from below, got {least:g}; the log has {smallest:g}."
        )
    return least
