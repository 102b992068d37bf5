"""What was told in each phase, and which decisions belong to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from comband.page.problem import Problem
from comband.page.rounds import EventParts, Events
from comband.page.storage import Held, Record, Whole, require
from comband.policies.reading import reading_of

EXPLORE, ESTIMATE = 0, 1  # epochs of decisions: the two phases


@dataclass(frozen=True, eq=False, slots=True)
class Phases(Record):
    """Events of uniform rounds, of uniform rounds held out of the design, and of rounds from the design.

    late:
        Uniform rounds that were answered after the design was made, and left aside.
    first_verify, first_estimate:
        The first decision that is held out of the design, and the first of phase 2.
    """

    explored: EventParts = field(default_factory=EventParts)
    verified: EventParts = field(default_factory=EventParts)
    estimated: EventParts = field(default_factory=EventParts)
    late: int = 0
    first_verify: int = 0
    first_estimate: int = 0

    def explore(self, events: Events) -> Phases:
        """With more uniform rounds for the design."""
        return replace(self, explored=self.explored + events)

    def verify(self, events: Events) -> Phases:
        """With more rounds that are held out."""
        return replace(self, verified=self.verified + events)

    def leave(self, late: int) -> Phases:
        """With more uniform rounds that came too late for the design."""
        return replace(self, late=self.late + late)

    def estimate(self, events: Events) -> Phases:
        """With more rounds from the design."""
        return replace(self, estimated=self.estimated + events)

    SCHEMA: ClassVar = {
        "late": Whole(0),
        "first_verify": Whole(0),
        "first_estimate": Whole(0),
        "explored": Held(EventParts),
        "verified": Held(EventParts),
        "estimated": Held(EventParts),
    }

    def check(self, problem: Problem, *, n_explore: int, n_verify: int, floor: float, rounds: int, issued: int) -> None:
        """Refuse what no learner with these settings can hold after that many rounds and decisions."""
        over, verifying = self.explored.n_rounds >= n_explore, self.verified.n_rounds < n_verify
        require(
            sum(part.n_rounds for part in (self.explored, self.verified, self.estimated)) + self.late == rounds
            and self.first_verify <= self.first_estimate <= issued
            and self.verified.n_rounds <= n_verify
            and (over or self.first_estimate == self.late == self.verified.n_rounds == 0)
            and (not verifying or self.first_estimate == self.first_verify)
            and (not verifying or self.estimated.n_rounds == 0),
            "its phases do not fit its rounds.",
        )
        uniform = problem.uniform_propensity
        reading = reading_of(problem)
        if reading.TOTAL:
            uniform *= (1 - problem.fill_share) / problem.list_size  # of equal parts: TotalRounds.events
        for parts, phase, first, last in (
            (self.explored, EXPLORE, 0, self.first_verify if over else issued),
            (self.verified, EXPLORE, self.first_verify, min(self.first_verify + n_verify, issued)),
            (self.estimated, ESTIMATE, self.first_estimate, issued),
        ):
            events = parts.joined()
            events.check(problem, ids=(first, last))
            reading.weights(events)  # refuses what no totals can be
            least = uniform if phase == EXPLORE else floor * uniform
            require(
                events.n_rewarded <= events.n_rounds <= last - first
                and bool((events.epochs == phase).all())
                and float(events.propensities.min(initial=1.0)) >= least * (1 - 1e-9),
                "events of a phase must be those of its lists.",
            )
        shown = np.concatenate([parts.joined().propensities for parts in (self.explored, self.verified)])
        require(float(shown.max(initial=0.0)) <= uniform * (1 + 1e-9), "lists of phase 1 must be uniform.")
