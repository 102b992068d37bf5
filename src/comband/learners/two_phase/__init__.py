"""Learners that explore with uniform lists, design a mixture, and estimate with it: Algorithms 1 and 3."""

from comband.learners.two_phase.learner import TwoPhase
from comband.learners.two_phase.selection import PacSelection

__all__ = ["PacSelection", "TwoPhase"]
