"""Rounds → values: sums, betting e-processes and guards.

Every statistic has one grammar: `zero` has seen nothing, `add` puts in a block of rounds, `a + b` has seen what both
have, and `bounds` says what follows.
"""

from comband.estimates.betting import Bets, PairedEvidence
from comband.estimates.guards import DriftGuard, ExposureGuard
from comband.estimates.importance import ValueSums
from comband.estimates.order_guard import OrderGuard
from comband.estimates.pairs import PairSums
from comband.estimates.place_guard import PlaceGuard
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
    "OrderGuard",
    "PairSums",
    "PairedEvidence",
    "PlaceGuard",
    "ValueBets",
    "ValueSums",
    "bernstein_sequence",
    "fixed_n_betting_bound",
    "gamma_exponential_bernstein",
]
