"""What a policy, oracle, environment, explorer or learner promises, as suites that an own one can be put through."""

from comband.testing.base import Suite as Suite
from comband.testing.base import check as check
from comband.testing.base import failures as failures
from comband.testing.environments import EnvironmentSuite as EnvironmentSuite
from comband.testing.explorers import ExplorerSuite as ExplorerSuite
from comband.testing.learners import LearnerSuite as LearnerSuite
from comband.testing.learners import SelectorSuite as SelectorSuite
from comband.testing.oracles import OracleSuite as OracleSuite
from comband.testing.policies import PolicySuite as PolicySuite

__all__: list[str]
