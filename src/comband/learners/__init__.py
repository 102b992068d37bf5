"""Where the loop closes: ask, tell, done, result."""

from comband.learners.ab_test import ABTest
from comband.learners.adaptive import AdaptiveComband
from comband.learners.base import Learner
from comband.learners.certifying import CertifyingLearner
from comband.learners.doubling import TwoPhaseComband
from comband.learners.epsilon_greedy import EpsilonGreedy
from comband.learners.exp4 import Exp4
from comband.learners.exp4_comb_sparse import Exp4CombSparse
from comband.learners.explore_then_commit import ExploreThenCommit
from comband.learners.m_sets import SparseMSets
from comband.learners.online_lists import OnlineListClassifier
from comband.learners.pac_comband import PacComband
from comband.learners.single_label import SingleLabelComband
from comband.learners.two_phase import PacSelection
from comband.learners.uniform import UniformExploration
from comband.learners.uniform_lists import UniformLists
from comband.learners.uniform_mixture import UniformMixture

__all__ = [
    "ABTest",
    "AdaptiveComband",
    "CertifyingLearner",
    "EpsilonGreedy",
    "Exp4",
    "Exp4CombSparse",
    "ExploreThenCommit",
    "Learner",
    "OnlineListClassifier",
    "PacComband",
    "PacSelection",
    "SingleLabelComband",
    "SparseMSets",
    "TwoPhaseComband",
    "UniformExploration",
    "UniformLists",
    "UniformMixture",
]
