"""Reward estimates → the best policy of a class."""

from comband.oracles.base import Oracle as Oracle
from comband.oracles.caching import CachingOracle as CachingOracle
from comband.oracles.enumeration import EnumerationOracle as EnumerationOracle
from comband.oracles.ranking import RankingOracle as RankingOracle
from comband.oracles.regression import RegressionOracle as RegressionOracle
from comband.oracles.trees import TreeOracle as TreeOracle
from comband.oracles.trees import TreePolicy as TreePolicy
