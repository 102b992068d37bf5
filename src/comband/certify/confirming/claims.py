"""What a confirmation says, with what it rests on: random assignment, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from comband.statistics.claims import HOLDS, Claim, Kind, Premise


@dataclass(frozen=True, slots=True)
class Run:
    """What the claim is compared with.

    alarm: empty, or what speaks against the assignment. late: answers that came too late to count.
    """

    options: frozenset[str]
    units: int
    alarm: str


ASSIGNMENT: Premise[Run] = Premise(
    "assignment", "units were assigned by chance alone, and answers are told whatever was shown", lambda run: run.alarm
)
UNITS: Premise[Run] = Premise(
    "order",
    "units count in the order in which they were assigned",
    lambda run: HOLDS if run.units else "no unit is complete yet",
)
_KNOWN = frozenset(
    {"share", "at_least", "delta", "expected", "value", "max_rounds", "patience", "users", "visits", "window"}
    | {"factors", "pairs", "totals"}
)
CONFIRMATION: Kind[Run] = Kind("confirmation", (UNITS, ASSIGNMENT), knows=_KNOWN)
"""The lift over production lies in its interval, at all times."""


def confirmation(run: Run, sentence: str, *, delta: float) -> Claim:
    """The claim for one run."""
    return CONFIRMATION.claim(
        sentence,
        run,
        options=run.options,
        delta=delta,
        basis="from whole lists by random assignment, valid at any time",
    )
