"""Worlds that answer, the loop of learner and world, and suites that an own part can be put through."""

from comband.worlds import running as running
from comband.worlds import testing as testing
from comband.worlds.adversarial import ADVERSARIES as ADVERSARIES
from comband.worlds.adversarial import AdversarialSequence as AdversarialSequence
from comband.worlds.adversarial import Replay as Replay
from comband.worlds.adversarial import drifting as drifting
from comband.worlds.adversarial import entropy_trap as entropy_trap
from comband.worlds.adversarial import popularity_burst as popularity_burst
from comband.worlds.adversarial import switching as switching
from comband.worlds.base import Batch as Batch
from comband.worlds.base import Environment as Environment
from comband.worlds.item_metrics import ItemMetrics as ItemMetrics
from comband.worlds.lower_bound import LowerBoundInstance as LowerBoundInstance
from comband.worlds.multilabel import MultilabelData as MultilabelData
from comband.worlds.multilabel import MultilabelWorld as MultilabelWorld
from comband.worlds.multilabel import hits_at_m as hits_at_m
from comband.worlds.synthetic import SyntheticRecommender as SyntheticRecommender
