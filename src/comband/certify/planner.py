"""The next epoch: leader, explorer and stakes, chosen from the past for contexts that are yet to come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband.certify.beliefs import Beliefs
from comband.certify.certifier import Certifier
from comband.certify.epochs import Epoch, Epochs
from comband.certify.evidence import Evidence
from comband.certify.spec import Spec
from comband.certify.traffic import Traffic
from comband.explore.explorers.base import Exploration, Explorer, Standing
from comband.explore.explorers.recent import RecentContexts
from comband.page.problem import Problem
from comband.policies.policy_set import PolicySet
from comband.policies.reading import Reading
from comband.statistics.betting import SAFETY, Bets, best_stakes
from comband.statistics.shrinkage import Shrunk

_DOUBT = 0.5  # standard errors by which a gap is taken to be smaller than it looks when bets are chosen
_SMALLEST_TARGET = 0.2  # of epsilon: the gap on which is bet at least
_SMALLEST_AIM = 1e-4  # of the largest reward of a round: less is not worth the rounds


def first_aim(problem: Problem, delta: float, max_rounds: int) -> float:
    """The ε that a budget may suffice for, before anything is known: √(2 ρ² (K/m) log(1/δ)/N), or ρ."""
    rho = problem.max_reward
    needed = 2 * rho**2 / problem.uniform_propensity * np.log(1 / delta)
    return float(min(np.sqrt(needed / max_rounds), rho))


def scale(spec: Spec, problem: Problem) -> float:
    """How far apart values are that matter: ε, or what the budget may suffice for."""
    if spec.epsilon is not None:
        return spec.epsilon
    assert spec.max_rounds is not None  # a spec has one of them
    return first_aim(problem, spec.delta, spec.max_rounds)


class Planner:
    """Chooses who leads, how lists are drawn, and what is staked.

    Parameters
    ----------
    policies, reading:
        All of them, as lists are drawn of them, and how the page is read.
    exploration:
        How an epoch explores.
    beliefs:
        What is thought of the candidates.
    max_rounds, objective, traffic:
        The budget, if there is one, what is to be small, and who takes part.
    tie_seed:
        Decides ties.
    """

    def __init__(
        self,
        policies: PolicySet,
        exploration: Exploration,
        *,
        reading: Reading,
        beliefs: Beliefs,
        max_rounds: int | None,
        objective: str,
        traffic: Traffic,
        tie_seed: int,
    ) -> None:
        self.traffic = traffic
        self.policies, self.exploration, self.reading = policies, exploration, reading
        self.problem = reading.lists  # the setting in which lists are drawn
        self.beliefs, self.max_rounds, self.objective, self.tie_seed = beliefs, max_rounds, objective, tie_seed

    def next(
        self, epochs: Epochs, evidence: Evidence, verdict: Certifier, recent: RecentContexts, *, first_id: int
    ) -> Epoch:
        """The epoch that follows; its first decision will be `first_id`."""
        candidates, problem = verdict.candidates, self.problem
        thought = self.beliefs.of(evidence, candidates)
        scores = thought.guesses
        aim = self._aim(epochs, evidence, verdict, scores)
        leader = self._pick_leader(epochs, evidence, verdict, scores, aim)
        gaps = np.maximum(scores[leader] - scores, 0.0)
        against = evidence.against(int(candidates[leader]), aim, candidates)
        missing = np.maximum(verdict.enough(candidates) - against, 0.0)

        def forecast(explorer: Explorer) -> float:
            bound = problem.max_reward / explorer.smallest_disputed
            moments = evidence.second_moments(leader, bound, explorer.propensities)
            targets = self._target_gaps(evidence, verdict, gaps, moments, aim)
            stakes = np.minimum(best_stakes(targets, moments), SAFETY / bound)
            rounds = missing / np.maximum(stakes * targets - stakes**2 * moments / 2, 1e-300)
            return float(np.delete(rounds, leader).max(initial=0.0))

        explorer = self.exploration.plan(
            Standing(
                policies=self.policies,
                reading=self.reading,
                problem=problem,
                epsilon=aim,
                candidates=candidates,
                field=np.flatnonzero(verdict.field.present),
                leader=leader,
                gaps=gaps,
                need=np.clip(1 - against / verdict.enough(candidates), 0.1, None),
                rounds=evidence.counted,
                first_epoch=epochs.first_epoch,
                events=evidence.seen.events,
                recent=recent,
                hopes=self._hopes(thought, epochs, evidence),
                production=self._production(candidates),
                exposure=self.traffic.exposure,
                forecast=forecast if len(evidence.seen) else None,
            )
        )
        self.reading.check_explorer(explorer)
        rho = problem.max_reward
        bound = rho / explorer.smallest_disputed
        if len(evidence.seen):
            moments = evidence.second_moments(leader, bound, explorer.propensities)
            wanted = best_stakes(self._target_gaps(evidence, verdict, gaps, moments, aim), moments)
        else:
            moments = np.full(len(candidates), bound * rho)
            wanted = np.full(len(candidates), 0.2 / bound)
        wanted[leader] = 0.0
        bets = Bets.choose(leader, wanted, bound, unit=evidence.unit)
        stake = bets.stakes[:, 1]
        return Epoch(
            leader=int(candidates[leader]),
            explorer=explorer,
            bets=bets,
            value_bound=rho / explorer.smallest,
            aim=aim,
            growth=stake * (aim + gaps) - stake**2 * moments / 2,
            start=evidence.rounds,
            first_id=first_id,
        )

    def _production(self, candidates: NDArray[np.int64]) -> int | None:
        production = self.traffic.production
        return None if production is None else int(np.searchsorted(candidates, production))

    def _hopes(self, thought: Shrunk, epochs: Epochs, evidence: Evidence) -> NDArray[np.float64] | None:
        if self.objective == "rounds":
            return None
        # With numbers of their own, like those that decide ties: looking changes nothing.
        return thought.hopes(np.random.default_rng([self.tie_seed, evidence.rounds, len(epochs), 1]))

    def _aim(self, epochs: Epochs, evidence: Evidence, verdict: Certifier, scores: NDArray[np.float64]) -> float:
        """The ε to work for: the one asked for, or, if none was, the one that the budget may suffice for.

        A rival's evidence grows by about (ε + gap)²/(2 E D²) in each round.
        """
        if verdict.epsilon > 0 or self.max_rounds is None:
            return verdict.epsilon
        rho = self.problem.max_reward
        if len(epochs) == 0 or len(evidence.seen) == 0:
            return first_aim(self.problem, verdict.delta, self.max_rounds)
        leader = int(scores.argmax())
        moments = self._moments_so_far(leader, epochs.current.explorer.smallest_disputed, evidence)
        possible = np.sqrt(2 * verdict.enough(verdict.candidates) * moments / self.max_rounds) - (
            scores[leader] - scores
        )
        return float(np.clip(np.delete(possible, leader).max(initial=0.0), _SMALLEST_AIM * rho, rho))

    def _moments_so_far(self, leader: int, smallest: float, evidence: Evidence) -> NDArray[np.float64]:
        """E D² of all against the one at `leader`, under propensities as they were."""
        bound = evidence.problem.max_reward / smallest
        return evidence.second_moments(leader, bound, lambda events, chosen, _rows: events.propensities[chosen])

    def _pick_leader(
        self, epochs: Epochs, evidence: Evidence, verdict: Certifier, scores: NDArray[np.float64], aim: float
    ) -> int:
        """Who is expected to be certified first: the candidate that is thought best, or the leader so far.

        A new leader begins without the evidence that was gathered for the old one, which may well be good enough.
        """
        # Ties are decided by a generator of their own: the candidate listed first has no advantage, and looking
        # changes nothing.
        ties = np.flatnonzero(scores == scores.max())
        best = int(np.random.default_rng([self.tie_seed, evidence.rounds, len(epochs)]).choice(ties))
        if len(epochs) == 0 or not verdict.alive[epochs.current.leader] or len(evidence.seen) == 0:
            return best
        before = int(np.searchsorted(verdict.candidates, epochs.current.leader))
        smallest = epochs.current.explorer.smallest_disputed
        to_go = [self.rounds_to_go(one, smallest, evidence, verdict, scores, aim) for one in (before, best)]
        return before if to_go[0] < to_go[1] else best

    def rounds_to_go(
        self,
        leader: int,
        smallest: float,
        evidence: Evidence,
        verdict: Certifier,
        scores: NDArray[np.float64],
        aim: float,
    ) -> float:
        """How long the slowest rival would take if this one led from now on, under propensities as they were."""
        candidates = verdict.candidates
        moments = self._moments_so_far(leader, smallest, evidence)
        against = evidence.against(int(candidates[leader]), aim, candidates)
        missing = np.maximum(verdict.enough(candidates) - against, 0.0)
        targets = self._target_gaps(evidence, verdict, scores[leader] - scores, moments, aim)
        return float(np.delete(missing * 2 * moments / targets**2, leader).max(initial=0.0))

    def _target_gaps(
        self,
        evidence: Evidence,
        verdict: Certifier,
        gaps: NDArray[np.float64],
        moments: NDArray[np.float64],
        aim: float,
    ) -> NDArray[np.float64]:
        """The −E(D − μ) on which to bet: gaps, taken smaller than they look, plus the epsilon to be certified.

        When the budget is too small for ε, the epsilon that it may suffice for takes its place.
        """
        epsilon = np.full(len(gaps), aim)
        if self.max_rounds is not None and verdict.epsilon > 0:
            enough = verdict.enough(verdict.candidates)
            epsilon = np.maximum(epsilon, np.sqrt(2 * enough * moments / self.max_rounds))
        doubt = _DOUBT * np.sqrt(moments / max(evidence.counted, 1))
        return np.maximum(epsilon + gaps - doubt, _SMALLEST_TARGET * epsilon)
