"""Context → list."""

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
    "TabulatedPolicy",
    "cover_blends",
]
