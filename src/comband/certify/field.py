"""Who is, was and may come to be a candidate, and what the promise costs when that depends on the data.

The proof in `comband.statistics.betting` is about one policy π*, the best of the field. Let candidates come and go, and
let the world be at rest: V(π) is the value of π under the one distribution of contexts and rewards, whether or not π
was there in a round. A newcomer's evidence begins at its arrival. "No candidate in the field exceeds ℓ by more than μ"
is wrong only of the best policy b that is in the field then; and b may be chosen in view of the data.

Two things go wrong if nothing is done. *Selection*: some policy's misleading evidence reaches 1/δ with probability δ
for each, and withdrawing all better ones makes it the best. *Leaders that were better*: in epochs led by ℓ' with
V(ℓ') > V(b) bets at μ = 0 against b grow, rightly, since b is not the best; when ℓ' is withdrawn b may be, and that
evidence counts no longer.

*What a fixed policy can be charged with.* For π let M(π) be the product of the bets against it, at the true gaps, over
the epochs led by a policy that is no better than π: a nonnegative martingale from 1 (from its arrival), whatever is
added or withdrawn and when. The computed wealth C(π) takes, for each stake, the product of all bets over epochs led by
policies that are in the field, and over epochs led by a withdrawn one the product or 1, *whichever is smaller*. When
π = b, leaders in the field are no better, so that their bets are at most those of M; a withdrawn leader either was
better, and M does not bet there (C takes at most 1), or was not, and C takes at most the product. So C(b) ≤ M(b).

*What it concerns.* Changes that are planned, in ways that do not depend on the data, make fixed fields G, one for each
stretch between planned changes. Let π_(r) be the r-th best policy of G. Of all other changes let d_1, d_2, … be the
levels of the arrivals, in order, and b_0 ≥ b_1 ≥ … levels for withdrawals. By Ville's inequality, with probability 1 −
Σ_r b_{r−1} − Σ_i d_i, no M(π_(r)) ever reaches 1/b_{r−1} and no M of the i-th arrival (given its past, a fixed policy)
reaches 1/d_i. The thresholds are 1/d_i for the i-th arrival and 1/b_w for all planned candidates, where

    w = the smallest number such that at most w withdrawn members of the plan have C < 1/b_w.

Then no claim of the stretch is wrong. If b is an arrival this is plain. If b = π_(r), all r − 1 better members of the
plan are withdrawn; suppose w < r − 1. A better one, π_(q), that is not among the counted has 1/b_w ≤ C(π_(q)) ≤
M(π_(q)) < 1/b_{q−1} (leaders in the field are no better than b, hence than π_(q)), so q > w + 1: those with q ≤ w + 1
are all counted, which makes w + 1. So w ≥ r − 1, and C(b) ≤ M(b) < 1/b_{r−1} ≤ 1/b_w. ∎

To withdraw a candidate that evidence has excluded is thus free; one that may have been the best costs a step. A closed
field takes planned changes only: b_0 = δ. An open one takes any: b_0 = δ/2, b_w = δ/(4w(w+1)), d_i = δ/(4i(i+1)), which
sum to δ. After i changes that is about 2·log i above log 1/δ, where a union over all candidates would be log P.

What is claimed in one stretch of the plan is right with probability 1 − δ, for each stretch; where nothing is planned
there is one stretch, for all times. Of j stretches all is right with probability 1 − jδ (`Field.planned_fields`).
Where evidence begins anew every so many rounds, each beginning has its share of δ for all of this:
`comband.certify.stretches`.

A change is planned if all of it is settled without looking at what this experiment has brought: when it comes, who
goes, and *what the newcomer is*. A calendar that says "retrain the model every Monday" settles the first two. If the
model is then fitted to this experiment's own rounds, it depends on the data, on whatever day it comes. Such a newcomer
is an arrival like any other in an open field, where it has the level d_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.page.storage import Array, Flag, Stored, require

NEVER = -1


class Field(Stored):
    """For each policy ever: when it came and went, by epochs, and which change that was.

    Nothing in it is altered: a change makes another one.

    Parameters
    ----------
    n_policies:
        How many there are at the start.
    delta:
        The probability allowed for a wrong claim.
    is_open:
        Whether changes may depend on the data.
    """

    def __init__(self, n_policies: int, *, delta: float, is_open: bool) -> None:
        self.delta, self.open = delta, is_open
        self.arrived = np.zeros(n_policies, dtype=np.int64)  # the first epoch of each
        self.gone = np.full(n_policies, NEVER)  # the first epoch without it
        self.number = np.zeros(n_policies, dtype=np.int64)  # i of an arrival that is not planned, 0 for all others
        self.chosen = np.zeros(n_policies, dtype=np.bool_)  # withdrawn, and that was not planned

    def __len__(self) -> int:
        return len(self.arrived)

    @property
    def present(self) -> NDArray[np.bool_]:
        """(P,) who is in it."""
        return np.asarray(self.gone == NEVER)

    @property
    def n_first(self) -> int:
        """How many there were at the start."""
        return int((self.arrived == 0).sum())

    @property
    def planned_fields(self) -> int:
        """How many fields the plan has made so far: one, and one more with each planned change. All that was ever
        claimed is right with probability 1 − δ for each of them.
        """
        came, went = self.arrived[(self.arrived > 0) & (self.number == 0)], self.gone[~self.present & ~self.chosen]
        return 1 + len(np.union1d(came, went))

    def changed(self, *, epoch: int, arrivals: int, withdrawn: Sequence[int], planned: bool) -> Field:
        """The field from this epoch on, with so many newcomers at the end and without some."""
        field = Field(0, delta=self.delta, is_open=self.open)
        before = int(self.number.max(initial=0))
        fresh = np.arange(before + 1, before + 1 + arrivals) * (not planned)
        field.arrived = np.concatenate([self.arrived, np.full(arrivals, epoch)])
        field.gone = np.concatenate([self.gone, np.full(arrivals, NEVER)])
        field.number = np.concatenate([self.number, fresh])
        field.chosen = np.concatenate([self.chosen, np.zeros(arrivals, dtype=np.bool_)])
        field.gone[list(withdrawn)] = epoch
        field.chosen[list(withdrawn)] = not planned
        return field

    def thresholds(self, log_evidence: NDArray[np.float64], *, share: float = 1.0) -> float | NDArray[np.float64]:
        """log 1/level for each policy (P,), or one for all; `log_evidence` (P,) is that against being the best, and
        `share` is how much of δ may be spent on it.
        """
        if not self.open:
            return float(np.log(1 / (self.delta * share)))
        counted = log_evidence[self.chosen & (self.number == 0)]
        w = 0
        while (counted < np.log(1 / self.level(w, share))).sum() > w:
            w += 1
        result = np.full(len(self), np.log(1 / self.level(w, share)))
        late = self.number > 0
        result[late] = np.log(4 * self.number[late] * (self.number[late] + 1) / (self.delta * share))
        return result

    def level(self, w: int, share: float = 1.0) -> float:
        """b_w, of a share of δ."""
        delta = self.delta * share
        return delta / 2 if w == 0 else delta / (4 * w * (w + 1))

    def spent(self) -> float:
        """The sum of the levels that changes so far have brought into use."""
        if not self.open:
            return self.delta
        arrivals = np.arange(1, int(self.number.max(initial=0)) + 1)
        withdrawals = range(int(self.chosen.sum()) + 1)
        return sum(map(self.level, withdrawals)) + float((self.delta / (4 * arrivals * (arrivals + 1))).sum())

    SCHEMA: ClassVar = {
        "open": Flag(),
        "arrived": Array("i8", ("P",), 0),
        "gone": Array("i8", ("P",), NEVER),
        "number": Array("i8", ("P",), 0),
        "chosen": Array("?", ("P",)),
    }

    def _agree(self) -> None:
        numbers = self.number[self.number > 0]
        require(
            self.n_first > 0
            and not (np.diff(self.arrived) < 0).any()
            and np.array_equal(numbers, np.arange(1, len(numbers) + 1))
            and bool((self.arrived[self.number > 0] > 0).all())
            and bool((self.gone[~self.present] > self.arrived[~self.present]).all())
            and not (self.chosen & self.present).any()
            and (self.open or not (self.chosen.any() or len(numbers)))
            and bool(self.present.any()),
            "candidates must come before they go, and changes that depend on the data need an open field.",
        )
