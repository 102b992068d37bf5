"""Rounds → values: sums that add, betting e-processes, and intervals."""

from comband.estimates.betting import Bets, PairedEvidence
from comband.estimates.guards import DriftGuard, ExposureGuard
from comband.estimates.importance import ValueSums
from comband.estimates.intervals import empirical_bernstein
from comband.estimates.pairs import PairSums
from comband.estimates.sequences import (
    ValueBets,
    bernstein_sequence,
    fixed_n_betting_bound,
    gamma_exponential_bernstein,
)

__all__ = [
    "Bets",
    "DriftGuard",
    "ExposureGuard",
    "PairSums",
    "PairedEvidence",
    "ValueBets",
    "ValueSums",
    "bernstein_sequence",
    "empirical_bernstein",
    "fixed_n_betting_bound",
    "gamma_exponential_bernstein",
]
