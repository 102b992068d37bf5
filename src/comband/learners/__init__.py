"""Where the loop closes: ask, tell, done, result."""

from comband.learners.ab_test import ABTest
from comband.learners.adaptive import AdaptiveComband
from comband.learners.base import Candidate, Learner, Selection, Status
from comband.learners.certifying import CertificationStatus, CertifyingLearner, Dropped
from comband.learners.ledger import Receipt
from comband.learners.two_phase import TwoPhaseComband
from comband.learners.uniform import UniformExploration
from comband.learners.uniform_lists import UniformLists
from comband.learners.uniform_mixture import UniformMixture

__all__ = [
    "ABTest",
    "AdaptiveComband",
    "Candidate",
    "CertificationStatus",
    "CertifyingLearner",
    "Dropped",
    "Learner",
    "Receipt",
    "Selection",
    "Status",
    "TwoPhaseComband",
    "UniformExploration",
    "UniformLists",
    "UniformMixture",
]
