"""Context → list, or → the probability of each item.

Here live the candidates: anything with `predict(X)` is one (`base.py`). Ways to make them (tables, scores, constants,
requests), sets of them that are asked at once (`policy_set.py`), mixtures with exact propensities (`mixture.py`), and
what they become under places, totals and items that are not available.

May be imported: what is listed here, and the public names of its modules.
Read first: `policy_set.py`, then `mixture.py`.
"""

from comband.policies.available import AvailableItems
from comband.policies.base import Policy
from comband.policies.blended import BlendedPolicy
from comband.policies.constant import ConstantPolicy
from comband.policies.covers import cover_blends
from comband.policies.families import Cover
from comband.policies.midzuno import MidzunoLists
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.requested import RequestedLists
from comband.policies.scored import ScoredPolicy
from comband.policies.stochastic import StochasticPolicies
from comband.policies.tabulated import TabulatedPolicy

__all__ = [
    "AvailableItems",
    "BlendedPolicy",
    "ConstantPolicy",
    "Cover",
    "MidzunoLists",
    "Mixture",
    "Policy",
    "PolicySet",
    "RequestedLists",
    "ScoredPolicy",
    "StochasticPolicies",
    "TabulatedPolicy",
    "cover_blends",
]
