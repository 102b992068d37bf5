"""comband: the best of many list recommenders, found with few interactions and a proof."""

from comband import theory
from comband.design import Design, design_exploration
from comband.environments import Batch, Environment, SyntheticRecommender
from comband.estimates import PairSums, ValueSums, empirical_bernstein
from comband.evaluation import (
    EvaluatedCandidate,
    Evaluation,
    LogEvaluation,
    PropensityCheck,
    check_logged_propensities,
    evaluate,
    evaluate_log,
)
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
from comband.logs import (
    CandidateLists,
    LogError,
    LogReading,
    read_candidates,
    read_log,
    sequential_propensities,
    write_candidates,
    write_rounds,
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
    "CandidateLists",
    "Decisions",
    "Design",
    "EnumerationOracle",
    "Environment",
    "EvaluatedCandidate",
    "Evaluation",
    "Events",
    "InputError",
    "Learner",
    "LogError",
    "LogEvaluation",
    "LogReading",
    "Mixture",
    "Oracle",
    "PacComband",
    "PacSelection",
    "PairSums",
    "Policy",
    "PolicySet",
    "Problem",
    "PropensityCheck",
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
    "check_logged_propensities",
    "design_exploration",
    "empirical_bernstein",
    "evaluate",
    "evaluate_log",
    "forecast_epsilon",
    "plan_budget",
    "read_candidates",
    "read_log",
    "run",
    "sequential_propensities",
    "theory",
    "write_candidates",
    "write_rounds",
]
