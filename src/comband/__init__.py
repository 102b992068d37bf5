"""comband: the best of many list recommenders, found with few interactions and a proof."""

from comband import theory
from comband.design import Design, design_exploration
from comband.environments import (
    ADVERSARIES,
    AdversarialSequence,
    Batch,
    Environment,
    Replay,
    SyntheticRecommender,
    drifting,
    entropy_trap,
    popularity_burst,
    switching,
)
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
    EpsilonGreedy,
    Exp4,
    Exp4CombSparse,
    ExploreThenCommit,
    Learner,
    PacComband,
    PacSelection,
    Receipt,
    Selection,
    SingleLabelComband,
    SparseMSets,
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
from comband.policies import ConstantPolicy, Mixture, Policy, PolicySet, ScoredPolicy, TabulatedPolicy
from comband.problem import InputError, Problem, UnknownDecisionError
from comband.regret import RegretCurves, play, plot_regret, regret_curves
from comband.rounds import Decisions, Events, Rounds
from comband.running import Run, run
from comband.schedule import BudgetPlan, forecast_epsilon, plan_budget
from comband.solvers.ftrl import Ftrl
from comband.solvers.stopping import Stopping

__version__ = "0.1.0"

__all__ = [
    "ADVERSARIES",
    "AdversarialSequence",
    "Batch",
    "BudgetPlan",
    "Candidate",
    "CandidateLists",
    "ConstantPolicy",
    "Decisions",
    "Design",
    "EnumerationOracle",
    "Environment",
    "EpsilonGreedy",
    "EvaluatedCandidate",
    "Evaluation",
    "Events",
    "Exp4",
    "Exp4CombSparse",
    "ExploreThenCommit",
    "Ftrl",
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
    "RegretCurves",
    "Replay",
    "Rounds",
    "Run",
    "ScoredPolicy",
    "Selection",
    "SingleLabelComband",
    "SparseMSets",
    "Status",
    "Stopping",
    "SyntheticRecommender",
    "TabulatedPolicy",
    "UniformExploration",
    "UnknownDecisionError",
    "ValueSums",
    "check_logged_propensities",
    "design_exploration",
    "drifting",
    "empirical_bernstein",
    "entropy_trap",
    "evaluate",
    "evaluate_log",
    "forecast_epsilon",
    "plan_budget",
    "play",
    "plot_regret",
    "popularity_burst",
    "read_candidates",
    "read_log",
    "regret_curves",
    "run",
    "sequential_propensities",
    "switching",
    "theory",
    "write_candidates",
    "write_rounds",
]
