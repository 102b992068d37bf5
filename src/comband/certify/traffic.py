"""Who takes part in an experiment, and what it may cost beside the candidate in production."""

from __future__ import annotations

from dataclasses import dataclass

from comband.certify.evidence import Evidence
from comband.certify.spec import Spec
from comband.page.problem import InputError
from comband.page.text import visible
from comband.policies.policy_set import PolicySet

SURE = 1.645  # standard errors: a normal variable stays below in 95 of 100 cases


@dataclass(frozen=True, slots=True)
class Loss:
    """What an experiment has cost so far: the estimate, its standard error, and the limit that the truth stays below
    in about 95 of 100 experiments (`most`).

    >>> Loss(estimate=100, error=20).most
    132.9
    """

    estimate: float
    error: float

    @property
    def most(self) -> float:
        """The upper limit, by a normal approximation: no promise."""
        return self.estimate + SURE * self.error


@dataclass(frozen=True, slots=True)
class Traffic:
    """All visitors, or a share of them, the others seeing production's own list; and how much reward may be lost.

    Participation is drawn anew in each round, whatever the context: production's list is one more part of the
    distribution that lists are drawn from, with exact propensities, so the promise is about all visitors and has the
    same proof. Production stays a candidate to the end, however much evidence there is against its being the best.

    Parameters
    ----------
    production:
        Its position among the policies; None where no candidate is.
    exposure:
        The share of visitors who take part.
    max_loss:
        Exploration ends when the reward lost, beside showing production to all, may have reached so much.

    >>> Traffic(production=2, exposure=0.2).exposure
    0.2
    """

    production: int | None = None
    exposure: float = 1.0
    max_loss: float | None = None

    @classmethod
    def of(cls, spec: Spec, policies: PolicySet) -> Traffic:
        """As a spec declares it, among these candidates."""
        production = spec.production
        if production is None:
            return cls()
        if production not in policies.names:
            known = ", ".join(visible(name) for name in policies.names[:5])
            more = ", …" if len(policies) > 5 else ""
            raise InputError(f"production must be the name of a candidate ({known}{more}), got {production!r}.")
        return cls(policies.names.index(production), spec.exposure, spec.max_loss)

    def loss(self, evidence: Evidence) -> Loss | None:
        """What showing production in all rounds so far would have earned, by importance weighting, less what was."""
        if self.production is None or evidence.since:  # of earlier rounds nothing is kept
            return None
        rounds, mean = evidence.rounds, float(evidence.values.means[self.production])
        error = evidence.seen.loss_error(self.production, max(evidence.counted, 1)) if rounds else 0.0
        return Loss(mean * rounds - evidence.reward, error * rounds)

    def spent(self, evidence: Evidence) -> bool:
        """Whether the reward lost may have reached what it may be."""
        if self.max_loss is None:
            return False
        loss = self.loss(evidence)
        return loss is not None and loss.most >= self.max_loss

    def check_leaving(self, withdrawn: list[int]) -> None:
        """Production cannot be withdrawn."""
        if self.production in withdrawn:
            raise InputError(
                "the candidate in production cannot be withdrawn: the others are compared with it, and visitors who do "
                "not take part see it."
            )
