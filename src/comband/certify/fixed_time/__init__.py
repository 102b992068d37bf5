"""Learners whose rounds are planned beforehand, and whose promise is for their end.

Algorithms 1 and 3 explore with uniform lists, design a mixture, and estimate with it (`learner.py`, made particular by
`pac_comband.py` and `single_label.py`); `uniform.py` estimates at once; `online_comband.py` learns its exploration
online. `schedule.py` says which epsilon a budget of rounds buys.
"""

from comband.certify.fixed_time.learner import TwoPhase
from comband.certify.fixed_time.selection import PacSelection

__all__ = ["PacSelection", "TwoPhase"]
