"""Rounds → values: sums that add, and intervals."""

from comband.estimates.importance import ValueSums
from comband.estimates.intervals import empirical_bernstein
from comband.estimates.pairs import PairSums

__all__ = ["PairSums", "ValueSums", "empirical_bernstein"]
