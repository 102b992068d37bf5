"""When an e-process gives alarm."""

from __future__ import annotations

import math

from comband.page.storage import Stored

LEVEL = 0.001


class Alarm(Stored):
    """Evidence that something is wrong, which under "all is well" ever reaches 1/level with probability ≤ `level`.

    However often it is looked at: what counts is the largest evidence so far.
    """

    level: float
    _peak: float

    @property
    def log_evidence(self) -> float:
        """The largest log-evidence so far that something is wrong."""
        return self._peak

    @property
    def alarm(self) -> bool:
        """Whether something is wrong, at the guard's level."""
        return self._peak >= math.log(1 / self.level)
