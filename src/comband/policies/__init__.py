"""Context → list."""

from comband.policies.base import Policy
from comband.policies.constant import ConstantPolicy
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.scored import ScoredPolicy
from comband.policies.tabulated import TabulatedPolicy

__all__ = ["ConstantPolicy", "Mixture", "Policy", "PolicySet", "ScoredPolicy", "TabulatedPolicy"]
