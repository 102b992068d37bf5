"""Baseline: the two phases of PAC-COMBAND on a doubling budget, until certified."""

from __future__ import annotations

import numpy as np

from comband.design import design_exploration
from comband.learners.certifying import CertifyingLearner, Standing
from comband.learners.exploration import Plan
from comband.oracles import EnumerationOracle
from comband.rounds import Events
from comband.solvers.stopping import Stopping

_FLOOR = 0.5  # γ of the paper's Algorithm 1


class TwoPhaseComband(CertifyingLearner):
    """Uniform lists, then the log-barrier mixture designed on them, in stages that double, with `AdaptiveComband`'s
    evidence.

    In the first half of each stage (rounds N to 1.5 N) lists are uniform; in the second (1.5 N to 2 N) they come from
    the mixture that `design_exploration` finds on all events so far, over all candidates, with γ = ½ (paper, Algorithm
    1). The paper fixes the budget beforehand; here it doubles until the evidence suffices. No candidate is excluded
    from the design.
    """

    def _plan(self, standing: Standing) -> Plan:
        P = len(self.policies)
        anyone = np.full(P, 1 / P)
        stage = np.log2(max(self._front, self.first_epoch) / self.first_epoch)
        designed = self._front >= 1.5 * self.first_epoch * 2 ** np.floor(stage)
        if not designed or len(self._seen) == 0:
            return Plan("mixture", anyone, 1.0)
        design = design_exploration(
            self._all_events(),
            EnumerationOracle(self.policies),
            problem=self.problem,
            floor=_FLOOR,
            stopping=Stopping(relative_gap=1e-3),
        )
        return Plan("mixture", design.mixture.weights, _FLOOR)

    def _all_events(self) -> Events:
        return self._seen.events + Events.none(self._front)
