"""Sentences of learners whose bounds hold at a number of rounds that was fixed beforehand, with what they rest on."""

from __future__ import annotations

from dataclasses import dataclass

from comband.page.problem import Problem
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.statistics.claims import HOLDS, Claim, Kind, Premise, reading_options, within
from comband.statistics.results import OUT_OF_ORDER, TOO_EARLY


@dataclass(frozen=True, slots=True)
class FixedTime:
    """What their claims are compared with: the setting, whether the rounds that count were answered in the order of
    decisions, and whether those are in at whose number the bound holds. `policies` is None where they are behind an
    oracle.
    """

    problem: Problem
    policies: PolicySet | None
    in_order: bool
    planned: bool

    def certificate(self, epsilon: float, *, delta: float, basis: str) -> Claim:
        """That of the selected candidate."""
        return CERTIFICATE.claim(within(epsilon), self, options=self._options(), delta=delta, basis=basis)

    def cover(self, epsilon: float, *, delta: float) -> tuple[Claim, ...]:
        """The same of the family that the candidates stand for, if they do."""
        if self.policies is None or self.policies.cover is None:
            return ()
        cover, options = self.policies.cover, self._options()
        sentence, both = cover.sentence(epsilon, self.problem.max_reward), delta + cover.delta
        family = f"every {cover.family}"
        return (COVER.claim(sentence, self, options=options, delta=both, basis=cover.basis, subject=family),)

    def _options(self) -> frozenset[str]:
        return reading_options(self.problem, self.policies)


ORDER: Premise[FixedTime] = Premise(
    "order", "older decisions are answered too", lambda run: HOLDS if run.in_order else OUT_OF_ORDER, pending=True
)
PLAN: Premise[FixedTime] = Premise(
    "plan", "the planned rounds are in", lambda run: HOLDS if run.planned else TOO_EARLY, pending=True
)
PLACES: Premise[FixedTime] = Premise(
    "places",
    "rewards depend on the set of items alone",
    lambda run: HOLDS if reading_of(run.problem).SETS else "places matter, and a cover is about sets",
)
_READINGS = frozenset({"factors", "pairs", "totals", "cover"})

CERTIFICATE: Kind[FixedTime] = Kind("certificate", (ORDER, PLAN), knows=_READINGS)
COVER: Kind[FixedTime] = Kind("cover", (ORDER, PLAN, PLACES), knows=_READINGS)
