"""Reward estimates → the best policy of a class."""

from comband.explore.oracles.base import Oracle as Oracle
from comband.explore.oracles.caching import CachingOracle as CachingOracle
from comband.explore.oracles.enumeration import EnumerationOracle as EnumerationOracle
from comband.explore.oracles.ranking import RankingOracle as RankingOracle
from comband.explore.oracles.regression import RegressionOracle as RegressionOracle
from comband.explore.oracles.trees import TreeOracle as TreeOracle
from comband.explore.oracles.trees import TreePolicy as TreePolicy
