"""How δ is spent when evidence begins anew.

With `recent=` evidence begins anew whenever so many rounds have passed without a certificate, and that may go on until
one is reached. Were each stretch k = 1, 2, … allowed an error of δ, some claim would be wrong in the end in far more
runs than δ of them. So the k-th has

    δ_k = δ·(1/k² − 1/(k + 1)²),

fixed beforehand and δ in all; and whatever begins anew, dropping, certifying, the levels of a field that changes and
the intervals of values, is judged at δ_k.

*Why that is right.* A stretch begins with a decision. Given all that happened before, its leaders, bets and candidates
are chosen as in a run of its own: every wealth begins at 1, and only rounds count whose decisions were made in it with
an epoch of its own. Answers to older decisions, however late they come, do not enter; those that are known may bear on
what is staked later, as anything in the past may. Nor does it matter why a stretch begins: that its number is k is
part of its past. So given its past a stretch ever makes a wrong claim with probability δ_k at most, and some stretch
does with probability Σ δ_k = δ at most. In a field that changes the proof of `comband.certify.field` is
applied to each stretch, with δ_k for δ: M(π) begins with the stretch, or with the arrival of π if that is later, and
who was withdrawn before it has C = 1 and is counted.

*What it costs.* log(δ/δ_k) in log-evidence: log 4/3 = .29 in the first stretch, which is a tenth of log 1/δ at δ = .05
(and so a tenth more rounds), then 1.97, 3.02, 3.79, …, about 3·log k. Shares 1/(k(k + 1)) would take .69, 1.79, 2.48,
3.00, …: less from the second on, and more for all whose first stretch is long enough, as it should be.
"""

from __future__ import annotations


def share_of_stretch(k: int) -> float:
    """δ_k/δ of the k-th stretch, counted from one.

    >>> [round(share_of_stretch(k), 4) for k in (1, 2, 3)]
    [0.75, 0.1389, 0.0486]
    """
    return (2 * k + 1) / (k * (k + 1)) ** 2
