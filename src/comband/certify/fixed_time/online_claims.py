"""Sentences of `OnlineComband`, with what they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from comband.page.problem import Problem
from comband.page.storage import Flag, Real, Record, Whole
from comband.policies.policy_set import PolicySet
from comband.statistics.claims import HOLDS, Claim, Kind, Premise, reading_options, within
from comband.theory.online import OnlineSchedule


@dataclass(frozen=True, slots=True)
class Promise(Record):
    """No candidate is better than candidate `leader` by more than `epsilon`, as `rounds` rounds tell: by the theorem,
    or by evidence.
    """

    epsilon: float
    leader: int
    rounds: int
    by_theorem: bool

    SCHEMA: ClassVar = {"epsilon": Real(0), "leader": Whole(0, "P-1"), "rounds": Whole(1), "by_theorem": Flag()}

    @property
    def basis(self) -> str:
        """Where it comes from."""
        basis = "the theorem" if self.by_theorem else "evidence that holds for all numbers of rounds at once"
        return f"{basis}, after {self.rounds:,} rounds"


@dataclass(frozen=True, slots=True)
class OnlineRun:
    """What its claims are compared with: the setting, the smallest ε so far, if there is any, and how many decisions
    were made in larger batches than declared, or while answers were due.
    """

    problem: Problem
    policies: PolicySet
    schedule: OnlineSchedule
    promise: Promise | None
    out_of_step: int

    def claims(self) -> tuple[Claim, ...]:
        """About the selected candidate; about the number of rounds that was planned; and about a family that the
        candidates stand for, if they do.
        """
        schedule, options = self.schedule, reading_options(self.problem, self.policies)
        epsilon = self.problem.max_reward if self.promise is None else self.promise.epsilon
        basis = "" if self.promise is None else self.promise.basis
        certificate = CERTIFICATE.claim(within(epsilon), self, options=options, delta=schedule.delta, basis=basis)
        plan = PLAN.claim(
            f"{schedule.n_rounds:,} rounds are enough for {schedule.epsilon:g}",
            self,
            options=options,
            delta=schedule.delta_of_rounds,
            basis="the theorem",
            subject=f"{schedule.n_rounds:,} rounds",
        )
        cover = self.policies.cover
        if cover is None:
            return certificate, plan
        family = COVER.claim(
            cover.sentence(epsilon, self.problem.max_reward),
            self,
            options=options,
            delta=schedule.delta + cover.delta,
            basis=cover.basis,
            subject=f"every {cover.family}",
        )
        return certificate, plan, family


def _step(run: OnlineRun) -> str:
    if run.schedule.uniform or not run.out_of_step:
        return HOLDS
    return (
        f"{run.out_of_step:,} decisions were made in batches of more than {run.schedule.batch_size:,}, or before all "
        "older ones were answered, and only the evidence allows that"
    )


ORDER: Premise[OnlineRun] = Premise("order", "rounds count in the order of decisions", lambda run: HOLDS)
TELLING: Premise[OnlineRun] = Premise(
    "telling",
    "less than the range of the rewards is known",
    lambda run: HOLDS if run.promise is not None else "nothing is known yet beyond the range of the rewards",
    pending=True,
)
STEP: Premise[OnlineRun] = Premise(
    "step", "batches are as small as declared, and made when all older decisions are answered", _step
)
_READINGS = frozenset({"cover"})

CERTIFICATE: Kind[OnlineRun] = Kind("certificate", (ORDER, TELLING), knows=_READINGS)
PLAN: Kind[OnlineRun] = Kind("plan", (ORDER, STEP), knows=_READINGS)
COVER: Kind[OnlineRun] = Kind("cover", (ORDER, TELLING), knows=_READINGS)
