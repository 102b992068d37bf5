"""comband: the best of many list recommenders, found with few interactions and a proof."""

from comband import theory
from comband.classifier import BanditListClassifier
from comband.design import Design, design_exploration
from comband.environments import (
    ADVERSARIES,
    AdversarialSequence,
    Batch,
    Environment,
    MultilabelData,
    MultilabelWorld,
    Replay,
    SyntheticRecommender,
    drifting,
    entropy_trap,
    hits_at_m,
    popularity_burst,
    switching,
)
from comband.estimates import PairSums, ValueSums, empirical_bernstein
from comband.learners import (
    Candidate,
    EpsilonGreedy,
    Exp4,
    Exp4CombSparse,
    ExploreThenCommit,
    Learner,
    OnlineListClassifier,
    PacComband,
    PacSelection,
    Receipt,
    Selection,
    SingleLabelComband,
    SparseMSets,
    Status,
    UniformExploration,
)
from comband.oracles import (
    CachingOracle,
    EnumerationOracle,
    Oracle,
    RankingOracle,
    RegressionOracle,
    TreeOracle,
    TreePolicy,
)
from comband.persistence import load_model, save_model
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
    "BanditListClassifier",
    "Batch",
    "BudgetPlan",
    "CachingOracle",
    "Candidate",
    "ConstantPolicy",
    "Decisions",
    "Design",
    "EnumerationOracle",
    "Environment",
    "EpsilonGreedy",
    "Events",
    "Exp4",
    "Exp4CombSparse",
    "ExploreThenCommit",
    "Ftrl",
    "InputError",
    "Learner",
    "Mixture",
    "MultilabelData",
    "MultilabelWorld",
    "OnlineListClassifier",
    "Oracle",
    "PacComband",
    "PacSelection",
    "PairSums",
    "Policy",
    "PolicySet",
    "Problem",
    "RankingOracle",
    "Receipt",
    "RegressionOracle",
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
    "TreeOracle",
    "TreePolicy",
    "UniformExploration",
    "UnknownDecisionError",
    "ValueSums",
    "design_exploration",
    "drifting",
    "empirical_bernstein",
    "entropy_trap",
    "forecast_epsilon",
    "hits_at_m",
    "load_model",
    "plan_budget",
    "play",
    "plot_regret",
    "popularity_burst",
    "regret_curves",
    "run",
    "save_model",
    "switching",
    "theory",
]
