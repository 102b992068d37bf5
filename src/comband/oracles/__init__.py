"""Reward estimates → the best policy of a class."""

from comband.oracles.base import Oracle
from comband.oracles.caching import CachingOracle
from comband.oracles.enumeration import EnumerationOracle
from comband.oracles.ranking import RankingOracle
from comband.oracles.regression import RegressionOracle
from comband.oracles.trees import TreeOracle, TreePolicy

__all__ = [
    "CachingOracle",
    "EnumerationOracle",
    "Oracle",
    "RankingOracle",
    "RegressionOracle",
    "TreeOracle",
    "TreePolicy",
]
