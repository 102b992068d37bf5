"""Worlds that answer."""

from comband.environments.adversarial import (
    ADVERSARIES,
    AdversarialSequence,
    Replay,
    drifting,
    entropy_trap,
    popularity_burst,
    switching,
)
from comband.environments.base import Batch, Environment
from comband.environments.lower_bound import LowerBoundInstance
from comband.environments.multilabel import MultilabelData, MultilabelWorld, hits_at_m
from comband.environments.synthetic import SyntheticRecommender

__all__ = [
    "ADVERSARIES",
    "AdversarialSequence",
    "Batch",
    "Environment",
    "LowerBoundInstance",
    "MultilabelData",
    "MultilabelWorld",
    "Replay",
    "SyntheticRecommender",
    "drifting",
    "entropy_trap",
    "hits_at_m",
    "popularity_burst",
    "switching",
]
