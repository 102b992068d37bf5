"""Rounds → values: sums that add, and intervals."""

from comband.estimates.importance import ValueSums
from comband.estimates.intervals import empirical_bernstein

__all__ = ["ValueSums", "empirical_bernstein"]
