"""comband: the best of many list recommenders, found with few interactions and a proof."""

from comband import theory
from comband.design import Design, design_exploration
from comband.environments import Batch, Environment, SyntheticRecommender
from comband.estimates import PairSums, ValueSums, empirical_bernstein
from comband.learners import (
    Candidate,
    Learner,
    PacComband,
    PacSelection,
    Receipt,
    Selection,
    SingleLabelComband,
    Status,
    UniformExploration,
)
from comband.oracles import EnumerationOracle, Oracle
from comband.policies import Mixture, Policy, PolicySet, ScoredPolicy, TabulatedPolicy
from comband.problem import InputError, Problem, UnknownDecisionError
from comband.rounds import Decisions, Events, Rounds
from comband.running import Run, run
from comband.schedule import BudgetPlan, forecast_epsilon, plan_budget
from comband.solvers.stopping import Stopping

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "BudgetPlan",
    "Candidate",
    "Decisions",
    "Design",
    "EnumerationOracle",
    "Environment",
    "Events",
    "InputError",
    "Learner",
    "Mixture",
    "Oracle",
    "PacComband",
    "PacSelection",
    "PairSums",
    "Policy",
    "PolicySet",
    "Problem",
    "Receipt",
    "Rounds",
    "Run",
    "ScoredPolicy",
    "Selection",
    "SingleLabelComband",
    "Status",
    "Stopping",
    "SyntheticRecommender",
    "TabulatedPolicy",
    "UniformExploration",
    "UnknownDecisionError",
    "ValueSums",
    "design_exploration",
    "empirical_bernstein",
    "forecast_epsilon",
    "plan_budget",
    "run",
    "theory",
]
