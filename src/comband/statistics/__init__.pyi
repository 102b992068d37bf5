"""Rounds → values: sums, betting e-processes, guards; and claims, verdicts and results, in which they are told."""

from comband.statistics import claims as claims
from comband.statistics import results as results
from comband.statistics import verdicts as verdicts
from comband.statistics.betting import Bets as Bets
from comband.statistics.betting import PairedEvidence as PairedEvidence
from comband.statistics.guards import DrawnPlaceGuard as DrawnPlaceGuard
from comband.statistics.guards import DriftGuard as DriftGuard
from comband.statistics.guards import ExposureGuard as ExposureGuard
from comband.statistics.importance import ValueSums as ValueSums
from comband.statistics.order_guard import OrderGuard as OrderGuard
from comband.statistics.pairs import PairSums as PairSums
from comband.statistics.place_guard import PlaceGuard as PlaceGuard
from comband.statistics.sequences import ValueBets as ValueBets
from comband.statistics.sequences import bernstein_sequence as bernstein_sequence
from comband.statistics.sequences import fixed_n_betting_bound as fixed_n_betting_bound
from comband.statistics.sequences import gamma_exponential_bernstein as gamma_exponential_bernstein
