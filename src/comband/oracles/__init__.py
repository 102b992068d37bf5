"""Reward estimates → the best policy of a class."""

from comband.oracles.base import Oracle
from comband.oracles.enumeration import EnumerationOracle

__all__ = ["EnumerationOracle", "Oracle"]
