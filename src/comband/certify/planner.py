"""The next epoch: leader, explorer and stakes, chosen from the past for contexts that are yet to come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comband.certify.beliefs import Beliefs
from comband.certify.certifier import Certifier
from comband.certify.epochs import Epoch, Epochs, Railing
from comband.certify.evidence import Evidence
from comband.certify.spec import Spec
from comband.certify.traffic import Traffic
from comband.explore.explorers.base import Exploration, Explorer, Standing
from comband.explore.explorers.recent import RecentContexts
from comband.page.bits import Rows
from comband.page.problem import Problem
from comband.page.rounds import Events
from comband.policies.policy_set import PolicySet
from comband.policies.reading import Reading
from comband.statistics.betting import SAFETY, Bets, best_stakes
from comband.statistics.guardrails import Floors, Rail, RailBets
from comband.statistics.shrinkage import Shrunk

_DOUBT = 0.5  # standard errors by which a gap is taken to be smaller than it looks when bets are chosen
_SMALLEST_TARGET = 0.2  # of epsilon: the gap on which is bet at least
_SMALLEST_SLACK = 0.3  # of a margin: what is looked at as the distance to being unsafe at least
_LIFT_EVIDENCE = 5.0  # log-evidence that refutes a lift, or nearly
_STICKY = 0.7  # another leader, whose safety is not known, must take less than this share of the rounds
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


def _as_they_were(events: Events, chosen: NDArray[np.int64], _rows: Rows) -> NDArray[np.float64]:
    """Propensities as rounds were drawn."""
    return events.propensities[chosen]


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
    max_rounds, objective, traffic, shuffled:
        The budget, if there is one, what is to be small, who takes part, and the stated share in random order.
    tie_seed:
        Decides ties.
    railing:
        What is bet on beside the reward; None where nothing is.
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
        railing: Railing | None = None,
        shuffled: float | None = None,
    ) -> None:
        self.shuffled = shuffled
        self.traffic, self.railing = traffic, railing
        self.policies, self.exploration, self.reading = policies, exploration, reading
        self.problem = reading.lists  # the setting in which lists are drawn
        self.beliefs, self.max_rounds, self.objective, self.tie_seed = beliefs, max_rounds, objective, tie_seed

    def next(
        self,
        epochs: Epochs,
        evidence: Evidence,
        verdict: Certifier,
        recent: RecentContexts,
        *,
        first_id: int,
        factors: Sequence[float] | None = None,
    ) -> Epoch:
        """The epoch that follows; its first decision will be `first_id`. Where factors of places are fitted these are
        the `factors` of the epoch; without any nothing is bet.
        """
        candidates, problem = verdict.candidates, self.reading.stated(factors)
        fitting = self.reading.FITTED and factors is None
        thought = self.beliefs.of(evidence, candidates)
        scores = thought.guesses
        aim = self._aim(epochs, evidence, verdict, scores)
        leader = self._pick_leader(epochs, evidence, verdict, scores, aim)
        if evidence.guardrails is not None:
            chosen = int(candidates[leader])
            verdict.lead(chosen)
            candidates = verdict.candidates
            thought = self.beliefs.of(evidence, candidates)
            scores, leader = thought.guesses, int(np.searchsorted(candidates, chosen))
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
                need=self._need(evidence, verdict, candidates, leader, gaps, against, aim),
                rounds=evidence.counted,
                first_epoch=epochs.first_epoch,
                events=evidence.seen.events,
                recent=recent,
                hopes=self._hopes(thought, epochs, evidence),
                production=self._production(candidates),
                exposure=self.traffic.exposure,
                shuffled=self.shuffled,
                fitting=fitting,
                forecast=forecast if len(evidence.seen) and not fitting else None,
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
        if fitting:
            wanted[:] = 0.0
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
            rails=self._rail_bets(epochs, evidence, candidates, leader, explorer),
        )

    # ---- beside the reward -------------------------------------------------------------------------------------------

    def _need(
        self,
        evidence: Evidence,
        verdict: Certifier,
        candidates: NDArray[np.int64],
        leader: int,
        gaps: NDArray[np.float64],
        against: NDArray[np.float64],
        aim: float,
    ) -> NDArray[np.float64]:
        """The share of the evidence that is missing for each; of production, what the leader's safety asks for too.

        Attention is need/(ε + gap)². A metric's gap is the slack, and its values are as large as E r_j²/E r².
        """
        need = np.clip(1 - against / verdict.enough(candidates), 0.1, None)
        guardrails, one = evidence.guardrails, int(candidates[leader])
        if guardrails is None or len(evidence.seen) == 0 or verdict.is_safe(one):
            return need
        slacks = guardrails.slacks(candidates, evidence.n_rounds)[:, leader]
        have = guardrails.safety(np.array([one]), evidence.n_rounds, as_leaders=True)[:, 0]
        place = int(np.searchsorted(candidates, guardrails.production))
        main = max(float((evidence.seen.events.rewards**2).sum()), 1e-300)
        for j, rail in enumerate(guardrails.rails):
            events = guardrails.seen[j].events
            least = max(rail.margin, (1 - min(rail.share, 1)) * rail.most * 0.05, 1e-3 * rail.most)
            gap = max(float(slacks[j]), _SMALLEST_SLACK * least)
            size = max(float((events.rewards**2).sum()) / main, 0.05)
            lack = float(np.clip(1 - have[j] / verdict.safe_at, 0.1, 1.0))
            need[place] = max(need[place], lack * size * ((aim + gaps[place]) / gap) ** 2)
        return need

    def _rail_bets(
        self,
        epochs: Epochs,
        evidence: Evidence,
        candidates: NDArray[np.int64],
        leader: int,
        explorer: Explorer,
    ) -> tuple[RailBets, ...]:
        """What is staked on the lift of those who have led, and on harm and safety by each metric."""
        if self.railing is None:
            return ()
        one, place = int(candidates[leader]), self.railing.place(candidates)
        floors = self.railing.floors(explorer, one)
        none = np.zeros(len(candidates))
        lift, *metrics = self.railing.rails
        if len(evidence.seen) == 0 or evidence.counted == 0:
            return tuple(RailBets.choose(rail, floors, place, leader, none, none, 0.0) for rail in self.railing.rails)
        n = evidence.counted
        bets = [self._lift_bets(lift, floors, place, leader, epochs, evidence, candidates, explorer)]
        guardrails = evidence.guardrails
        if guardrails is not None:
            moments = guardrails.second_moments(candidates, floors.disputed, explorer.propensities, n)
            slacks = guardrails.slacks(candidates, evidence.n_rounds)
            doubt = _DOUBT * np.sqrt(moments / n)
            for j, rail in enumerate(metrics):
                # No bet on what looks like the contrary; of what looks true a part at least.
                safe, harm = (
                    np.where(gap > 0, np.maximum(gap - doubt[j], _SMALLEST_TARGET * gap), 0.0)
                    for gap in (slacks[j], -slacks[j])
                )
                on_harm, on_safety = (best_stakes(gap, moments[j]) for gap in (harm, safe))
                own = float(on_safety[leader])
                bets.append(RailBets.choose(rail, floors, place, leader, on_harm, on_safety, own))
        return tuple(bets)

    def _lift_bets(
        self,
        rail: Rail,
        floors: Floors,
        place: int,
        leader: int,
        epochs: Epochs,
        evidence: Evidence,
        candidates: NDArray[np.int64],
        explorer: Explorer,
    ) -> RailBets:
        """Such that an interval for the lift would be narrow when this epoch is over."""
        led = {*(epoch.leader for epoch in epochs), int(candidates[leader])}
        moments = evidence.second_moments(place, rail.most / floors.disputed, explorer.propensities)
        rounds = max(epochs.epoch_growth * evidence.counted, epochs.first_epoch)
        wanted = np.sqrt(2 * _LIFT_EVIDENCE / (moments * rounds))
        wanted = np.where(np.isin(candidates, list(led)), wanted, 0.0)
        return RailBets.choose(rail, floors, place, leader, wanted, wanted, 0.0)

    def safe_to_lead(self, evidence: Evidence, verdict: Certifier, epochs: Epochs) -> NDArray[np.bool_]:
        """Which candidates may lead: of which something is known, and that neither look nor are proven harmful."""
        candidates, guardrails = verdict.candidates, evidence.guardrails
        if guardrails is None:
            return np.ones(len(candidates), dtype=np.bool_)
        production = candidates == guardrails.production
        if len(evidence.seen) == 0:
            return np.asarray(production)
        known = evidence.seen.since[np.searchsorted(evidence.seen.columns, candidates)] < len(epochs)
        looks = known & ~verdict.harms(candidates)
        smallest = epochs.current.explorer.smallest_disputed
        moments = guardrails.second_moments(candidates, smallest, _as_they_were, max(evidence.counted, 1))
        doubt = _DOUBT * np.sqrt(moments / max(evidence.counted, 1))
        looks &= (guardrails.slacks(candidates, evidence.n_rounds) > -doubt).all(axis=0)
        return np.asarray(looks | production)

    def safe_in(self, epoch: Epoch, evidence: Evidence, verdict: Certifier) -> float:
        """How many rounds it would take to declare an epoch's leader safe; infinity before anything is known."""
        if evidence.guardrails is None or verdict.is_safe(epoch.leader):
            return 0.0
        if len(evidence.seen) == 0:
            return float("inf")
        place = int(np.searchsorted(verdict.candidates, epoch.leader))
        return self._safe_in(place, epoch.explorer.smallest_disputed, evidence, verdict)

    def _safe_in(self, leader: int, smallest: float, evidence: Evidence, verdict: Certifier) -> float:
        """How many rounds it would take to declare safe the one at `leader`, if it led from now on."""
        guardrails, one = evidence.guardrails, int(verdict.candidates[leader])
        if guardrails is None or verdict.is_safe(one):
            return 0.0
        rounds = max(evidence.counted, 1)
        moments = guardrails.second_moments(verdict.candidates, smallest, _as_they_were, rounds)[:, leader]
        slacks = guardrails.slacks(verdict.candidates, evidence.n_rounds)[:, leader]
        least = np.array([max(rail.margin, 1e-3 * rail.most) for rail in guardrails.rails])
        gaps = np.maximum(slacks, 0.1 * least)
        have = guardrails.safety(np.array([one]), evidence.n_rounds, as_leaders=True)[:, 0]
        return float((np.maximum(verdict.safe_at - have, 0.0) * 2 * moments / gaps**2).max())

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
        return evidence.second_moments(leader, bound, _as_they_were)

    def _pick_leader(
        self, epochs: Epochs, evidence: Evidence, verdict: Certifier, scores: NDArray[np.float64], aim: float
    ) -> int:
        """Who is expected to be certified first: the candidate that is thought best, or the leader so far.

        A new leader begins without the evidence that was gathered for the old one, which may well be good enough.
        """
        # Ties are decided by a generator of their own: the candidate listed first has no advantage, and looking
        # changes nothing.
        able = self.safe_to_lead(evidence, verdict, epochs)
        scores = np.where(able, scores, -np.inf)
        ties = np.flatnonzero(scores == scores.max())
        best = int(np.random.default_rng([self.tie_seed, evidence.rounds, len(epochs)]).choice(ties))
        if len(epochs) == 0 or not verdict.alive[epochs.current.leader] or len(evidence.seen) == 0:
            return best
        before = int(np.searchsorted(verdict.candidates, epochs.current.leader))
        if not able[before] or (evidence.guardrails is not None and scores[best] - scores[before] > aim):
            return best  # one that looks worse by more than ε will hardly be certified
        smallest = epochs.current.explorer.smallest_disputed
        to_go = [self.rounds_to_go(one, smallest, evidence, verdict, scores, aim) for one in (before, best)]
        if evidence.guardrails is None:
            return before if to_go[0] < to_go[1] else best
        to_go = [
            max(rounds, self._safe_in(one, smallest, evidence, verdict))
            for rounds, one in zip(to_go, (before, best), strict=True)
        ]
        return before if _STICKY * to_go[0] < to_go[1] else best

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
