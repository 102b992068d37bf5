"""What a learner of two phases answers with."""

from __future__ import annotations

from dataclasses import dataclass

from comband.explore.design import Design
from comband.explore.held_out import HeldOutCertificate
from comband.statistics.results import Candidate, Selection


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PacSelection(Selection):
    """A selection with everything the two phases found out; its repr is meant to be read.

    candidates:
        Every candidate with value and interval, best first. Behind an oracle there is no such list: then the selected
        policy and those that the design plays.
    design, certificate:
        The exploration mixture with its gap and certificate on the rewards of phase 1, and what held-out rounds say
        about it, if there were any; None while there is none.
    measured_variance:
        The largest sample variance of R(π) among the candidates in phase 2 (in phase 1, before phase 2 has begun).
    variance_bound:
        2sm/(1−γ), which is the paper's 4sm at γ = ½; from totals `theory.total_variance`.
    proxy_bound:
        2s/(1−γ), what the theorem asks of the design's largest variance proxy.
    oracle_calls:
        Those for the design, one for its certificate on held-out rounds, and one for the answer.
    epsilon, delta:
        What is promised, with probability 1 − delta.
    runners_up:
        The next best candidates by estimate.
    claims, notes, warnings:
        What is promised, with what that rests on; whatever else a reader should know; signs that something does not
        hold.
    guess:
        None: the selected one is the one that looks best.
    n_explore, n_estimate:
        Rounds of the two phases.
    explained, declared:
        What only a reader wants who asks how; and what was declared before the first round.
    error, target, forecast, rounds_per_day, max_reward:
        For the verdict: see `Selection`.
    lift, guarded:
        Of certifying learners alone: nothing here.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.PacComband(problem, policies, n_explore=1000, n_estimate=2000, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> type(result).__name__, result.rounds
    ('PacSelection', 3000)
    """

    candidates: tuple[Candidate, ...]
    design: Design | None
    measured_variance: float
    variance_bound: float
    proxy_bound: float
    oracle_calls: int
    n_explore: int
    n_estimate: int
    certificate: HeldOutCertificate | None = None

    @property
    def certified(self) -> bool:
        """Whether the design's largest variance proxy over the class is at most 2s/(1−γ).

        In the world, if rounds were held out to certify it; otherwise on the rewards of phase 1. False also when that
        cannot be known: without any reward, or with an approximate oracle.
        """
        design, certificate = self.design, self.certificate
        if certificate is not None:
            return certificate.proved and certificate.max_variance <= self.proxy_bound
        if design is None or not design.certified:
            return False
        return design.max_variance <= self.proxy_bound

    def __str__(self) -> str:
        held_out = "" if self.certificate is None else f"{self.certificate.n_rounds:,} held out + "
        lines = [
            Selection.__str__(self),  # by name: slots give the class an identity that a bare super() misses
            f"  rounds: {self.n_explore:,} uniform + {held_out}{self.n_estimate:,} from the design; "
            f"{self.oracle_calls:,} oracle calls",
        ]
        if self.certificate is not None:
            verdict = "holds" if self.certified else "does not hold"
            lines.append(f"  design: {self.certificate}; the bound of the theorem {verdict}")
        elif self.design is not None:
            verdict = "holds" if self.certified else "does not hold" if self.design.certified else "cannot be known"
            lines.append(
                f"  design: gap {self.design.gap:.3g}, largest variance proxy {self.design.max_variance:.4g} "
                f"(the certificate {verdict} on the rewards of phase 1)"
            )
        lines.append(
            f"  variance of the estimates: at most {self.measured_variance:.4g} measured, "
            f"{self.variance_bound:.4g} in the theorem"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)
