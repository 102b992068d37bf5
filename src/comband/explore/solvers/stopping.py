"""What a solver knows after each oracle call, and when it may stop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NO_EVENTS = "No positive reward was seen, so every mixture is as good: a uniform one was taken."


class Outcome(StrEnum):
    """Why a solver stopped."""

    CERTIFICATE = "certificate"
    GAP = "gap"
    STEPS = "steps"
    CALLS = "calls"
    TIME = "time"
    STALLED = "stalled"
    NO_EVENTS = "no events"


@dataclass(frozen=True)
class State:
    """The solver's state after an oracle call, given to callbacks.

    With c_e = w_e / Q_e: `maximum` is max_π Σ_e c_e A[e, π], the variance proxy, over the columns
    the oracle can see; `average` is its mean under p; gap = (1−γ)(maximum − average) bounds
    F̂(p) − min F̂.
    """

    steps: int
    calls: int
    seconds: float
    value: float
    gap: float
    average: float
    maximum: float
    gradient_norm: float  # (1−γ)·maximum = ‖∇F̂(p)‖∞, the quantity the paper bounds by 2s
    support: int
    mass: float

    @property
    def relative_gap(self) -> float:
        """The gap as a share of Σ_e w_e, so that scaling the rewards changes nothing."""
        return self.gap / self.mass if self.mass > 0.0 else 0.0


@dataclass(frozen=True)
class Stopping:
    """Stop at the first rule that holds; a rule left at None never does.

    Parameters
    ----------
    gap, relative_gap : float
        Bounds on F̂(p) − min F̂, absolute or as a share of Σ w. The paper's μ is an absolute gap.
    certificate : float
        A bound on ‖∇F̂(p)‖∞ = (1−γ) max_π Σ_e w_e A[e, π] / Q_e; the paper asks for 2s.
    certificate_ratio : float
        A bound on maximum / average − 1. At the optimum the two are equal, so this bounds how far
        the largest variance is above what the optimum balances.
    max_steps, max_calls, max_seconds : limits on steps, oracle calls and time

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> stopping = cb.explore.solvers.Stopping(relative_gap=1e-3, max_seconds=10)
    >>> design = cb.design_exploration(rounds, cb.EnumerationOracle(policies), problem=problem, stopping=stopping)
    >>> design.relative_gap <= 1e-3
    True
    """

    gap: float | None = None
    relative_gap: float | None = None
    certificate: float | None = None
    certificate_ratio: float | None = None
    max_steps: int | None = None
    max_calls: int | None = None
    max_seconds: float | None = None

    @classmethod
    def paper(cls, *, sparsity: float, floor: float, uniform: float) -> Stopping:
        """Stop at the paper's accuracy μ = sγ²m²/(2K²), u = m/K: then ‖∇F‖∞ ≤ 2s (Lemma log-self-concordance)."""
        return cls(gap=sparsity * (floor * uniform) ** 2 / 2.0)

    def check(self, state: State) -> Outcome | None:
        """The rule that holds, or None."""
        if self.certificate is not None and state.gradient_norm <= self.certificate:
            return Outcome.CERTIFICATE
        if self.certificate_ratio is not None and state.maximum <= (1.0 + self.certificate_ratio) * state.average:
            return Outcome.CERTIFICATE
        if self.gap is not None and state.gap <= self.gap:
            return Outcome.GAP
        if self.relative_gap is not None and state.relative_gap <= self.relative_gap:
            return Outcome.GAP
        if self.max_steps is not None and state.steps >= self.max_steps:
            return Outcome.STEPS
        if self.max_calls is not None and state.calls >= self.max_calls:
            return Outcome.CALLS
        if self.max_seconds is not None and state.seconds >= self.max_seconds:
            return Outcome.TIME
        return None


def sentence(status: Outcome, state: State, *, exact: bool) -> str:
    """The status in words; with an inexact oracle nothing is called a certificate for the class."""
    reason = {
        Outcome.CERTIFICATE: (
            "the variance certificate holds" if exact else "the largest variance the oracle found is within the bound"
        ),
        Outcome.GAP: "the gap is within the tolerance",
        Outcome.STEPS: "the number of steps asked for was taken",
        Outcome.CALLS: "the limit on oracle calls was reached",
        Outcome.TIME: "the time limit was reached",
        Outcome.STALLED: (
            "no further step improves the mixture in floating point"
            if exact
            else "no column the oracle returned improves the mixture"
        ),
    }[status]
    scope = "" if exact else " The oracle is approximate: gap and maximum are with respect to it."
    return (
        f"Stopped because {reason}: gap {state.gap:.3g} (relative {state.relative_gap:.3g}), "
        f"largest variance proxy {state.maximum:.4g}, {state.calls} oracle calls, "
        f"support {state.support}.{scope}"
    )
