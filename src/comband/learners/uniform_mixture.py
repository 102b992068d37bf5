"""Baseline: the uniform mixture of all candidates until certified."""

from __future__ import annotations

import numpy as np

from comband.learners.certifying import CertifyingLearner, Standing
from comband.learners.exploration import Plan

_FLOOR = 1e-9  # a mixture has a floor; this one is too small to matter


class UniformMixture(CertifyingLearner):
    """Show the list of a candidate drawn uniformly from all P, with the evidence and the stopping rule of
    `AdaptiveComband`.

    Every list counts for all candidates that share actions with it; importance weights are at most P. Dropped
    candidates go on being shown: this baseline does not adapt.
    """

    def _plan(self, standing: Standing) -> Plan:
        return Plan("mixture", np.full(len(self.policies), 1 / len(self.policies)), _FLOOR)
