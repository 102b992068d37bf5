"""Learning while earning: EXP4-COMB-SPARSE and its peers, and curves of their regret."""

from comband.regret.curves import RegretCurves as RegretCurves
from comband.regret.curves import play as play
from comband.regret.curves import regret_curves as regret_curves
from comband.regret.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from comband.regret.exp4 import Exp4 as Exp4
from comband.regret.exp4_comb_sparse import Exp4CombSparse as Exp4CombSparse
from comband.regret.explore_then_commit import ExploreThenCommit as ExploreThenCommit
from comband.regret.m_sets import SparseMSets as SparseMSets
