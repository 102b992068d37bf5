"""Where the loop closes: ask, tell, done, result."""

from comband.learners.ab_test import ABTest as ABTest
from comband.learners.adaptive import AdaptiveComband as AdaptiveComband
from comband.learners.base import Learner as Learner
from comband.learners.certifying import CertifyingLearner as CertifyingLearner
from comband.learners.custom import CustomLearner as CustomLearner
from comband.learners.doubling import TwoPhaseComband as TwoPhaseComband
from comband.learners.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from comband.learners.exp4 import Exp4 as Exp4
from comband.learners.exp4_comb_sparse import Exp4CombSparse as Exp4CombSparse
from comband.learners.explore_then_commit import ExploreThenCommit as ExploreThenCommit
from comband.learners.m_sets import SparseMSets as SparseMSets
from comband.learners.online_comband import OnlineComband as OnlineComband
from comband.learners.online_lists import OnlineListClassifier as OnlineListClassifier
from comband.learners.pac_comband import PacComband as PacComband
from comband.learners.selector import Selector as Selector
from comband.learners.single_label import SingleLabelComband as SingleLabelComband
from comband.learners.two_phase import PacSelection as PacSelection
from comband.learners.uniform import UniformExploration as UniformExploration
from comband.learners.uniform_lists import UniformLists as UniformLists
from comband.learners.uniform_mixture import UniformMixture as UniformMixture
