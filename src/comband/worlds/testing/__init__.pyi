"""What a policy, oracle, environment, explorer or learner promises, as suites that an own one can be put through."""

from comband.worlds.testing.base import Suite as Suite
from comband.worlds.testing.base import check as check
from comband.worlds.testing.base import failures as failures
from comband.worlds.testing.environments import EnvironmentSuite as EnvironmentSuite
from comband.worlds.testing.explorers import ExplorerSuite as ExplorerSuite
from comband.worlds.testing.learners import LearnerSuite as LearnerSuite
from comband.worlds.testing.learners import SelectorSuite as SelectorSuite
from comband.worlds.testing.oracles import OracleSuite as OracleSuite
from comband.worlds.testing.policies import PolicySuite as PolicySuite

__all__: list[str]
