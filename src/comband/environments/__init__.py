"""Worlds that answer."""

from comband.environments.base import Batch, Environment
from comband.environments.synthetic import SyntheticRecommender

__all__ = ["Batch", "Environment", "SyntheticRecommender"]
