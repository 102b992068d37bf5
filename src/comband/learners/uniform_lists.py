"""Baseline: uniform lists until certified."""

from __future__ import annotations

import numpy as np

from comband.learners.certifying import CertifyingLearner, Standing
from comband.learners.exploration import Plan


class UniformLists(CertifyingLearner):
    """Show uniform lists, with the evidence and the stopping rule of `AdaptiveComband`.

    Importance weights are K/m, whoever the candidates are and however few of them are left.
    """

    def _plan(self, standing: Standing) -> Plan:
        S = len(standing.candidates)
        return Plan("mixture", np.full(S, 1 / S), 1.0)
