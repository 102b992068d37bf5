"""Worlds that answer."""

from comband.environments.adversarial import ADVERSARIES as ADVERSARIES
from comband.environments.adversarial import AdversarialSequence as AdversarialSequence
from comband.environments.adversarial import Replay as Replay
from comband.environments.adversarial import drifting as drifting
from comband.environments.adversarial import entropy_trap as entropy_trap
from comband.environments.adversarial import popularity_burst as popularity_burst
from comband.environments.adversarial import switching as switching
from comband.environments.base import Batch as Batch
from comband.environments.base import Environment as Environment
from comband.environments.lower_bound import LowerBoundInstance as LowerBoundInstance
from comband.environments.multilabel import MultilabelData as MultilabelData
from comband.environments.multilabel import MultilabelWorld as MultilabelWorld
from comband.environments.multilabel import hits_at_m as hits_at_m
from comband.environments.synthetic import SyntheticRecommender as SyntheticRecommender
