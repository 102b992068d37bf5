"""The leader beside the other candidates: values, differences, and what is certified of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband.certify.certifier import Certified, Certifier
from comband.statistics.claims import Claim
from comband.statistics.results import Candidate, ComparedCandidate, Comparison


def compared(
    verdict: Certifier,
    names: tuple[str, ...],
    claim: Certified,
    most: int | None = None,
    *,
    promise: Claim | None = None,
) -> Comparison:
    """The claim's leader beside all others, or the `most` of largest estimated value.

    A candidate that was dropped is no more estimated than when it was, from its own rounds; one that is left is by its
    difference to the leader.
    """
    evidence = verdict.evidence
    scores, means = evidence.scores(verdict.alive), evidence.values.means
    left = verdict.candidates
    left = left[np.argsort(-scores[left], kind="stable")]
    rivals = left[left != claim.leader][:most]
    gone = [one for one in verdict.dropped if not verdict.alive[one.index]]
    gone.sort(key=lambda one: -means[one.index])
    gone = gone if most is None else gone[: most - len(rivals)]
    bounds = np.minimum(evidence.claims(claim.leader, rivals, verdict.enough(rivals)), claim.epsilon)
    here = estimated(verdict, names, [claim.leader, *map(int, rivals)], scores, claim.epsilon)
    winner = here[0]
    rows = [
        ComparedCandidate(one.index, one.name, one.value, one.interval, min(one.value - winner.value, bound), bound)
        for one, bound in zip(here, (0.0, *bounds.tolist()), strict=True)
    ]
    if gone:
        which = [one.index for one in gone]
        low, high = evidence.values.bounds(delta=verdict.delta, max_reward=evidence.problem.max_reward, indices=which)
        for i, when, bottom, top in zip(which, (one.round for one in gone), low, high, strict=True):
            value = float(np.clip(means[i], bottom, top))
            behind = min(value - winner.value, 0.0)
            rows.append(ComparedCandidate(i, names[i], value, (float(bottom), float(top)), behind, 0.0, dropped=when))
    return Comparison.of(
        rows, epsilon=claim.epsilon, delta=verdict.claimed_delta, target=verdict.epsilon or None, claim=promise
    )


def estimated(
    verdict: Certifier, names: tuple[str, ...], indices: list[int], scores: NDArray[np.float64], epsilon: float
) -> list[Candidate]:
    """Values and intervals of the leader (first) and some others, in agreement with what is certified.

    The leader's value is estimated from all its rounds, the others' by their differences to it, which are far more
    exact. Intervals are cut to the certificate: no candidate that is left reaches above the leader's upper end by more
    than epsilon.
    """
    evidence = verdict.evidence
    if evidence.guardrails is not None:  # the certificate is about those that are safe, which these may not be
        epsilon = evidence.problem.max_reward
    low, high = evidence.values.bounds(delta=verdict.delta, max_reward=evidence.problem.max_reward, indices=indices)
    value = float(np.clip(evidence.values.means[indices[0]], low[0], high[0]))
    low[0] = max(low[0], min(low.max() - epsilon, value))
    result = []
    for i, bottom, top in zip(indices, low, np.minimum(high, high[0] + epsilon), strict=True):
        bottom = min(bottom, top)
        shown = float(np.clip(value + scores[i] - scores[indices[0]], bottom, top))
        result.append(Candidate(i, names[i], shown, (float(bottom), float(top))))
    return result
