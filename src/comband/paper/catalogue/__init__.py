"""The claims, one file each."""

from __future__ import annotations

from pathlib import Path

from comband.paper.catalogue import (
    blends,
    certification,
    frank_wolfe,
    gradient_bound,
    leading_term,
    list_classification,
    lower_bound,
    minimax_design,
    optimal_rate,
    phase_one_rounds,
    regret,
    single_label,
    total_certification,
    total_variance,
    uniform_convergence,
)
from comband.paper.claim import Claim


def all_claims(data: Path | None = None) -> list[Claim]:
    """Every claim, in the order of the paper, then comband's own.

    `data` is a folder of multi-label data for list classification.

    >>> from comband.paper import all_claims
    >>> claims = all_claims()
    >>> len(claims) > 10, all(claim.checks for claim in claims)
    (True, True)
    """
    return [
        leading_term.CLAIM,
        gradient_bound.CLAIM,
        uniform_convergence.CLAIM,
        frank_wolfe.CLAIM,
        single_label.CLAIM,
        lower_bound.CLAIM,
        regret.CLAIM,
        list_classification.claim(data),
        certification.CLAIM,
        phase_one_rounds.CLAIM,
        minimax_design.CLAIM,
        optimal_rate.CLAIM,
        blends.CLAIM,
        total_variance.CLAIM,
        total_certification.CLAIM,
    ]
