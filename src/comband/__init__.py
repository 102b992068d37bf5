"""comband: the best of many list recommenders, found with few interactions and a proof."""

from comband.design import Design, design_exploration
from comband.environments import Batch, Environment, SyntheticRecommender
from comband.estimates import (
    DriftGuard,
    ExposureGuard,
    ValueSums,
    bernstein_sequence,
    empirical_bernstein,
    fixed_n_betting_bound,
    gamma_exponential_bernstein,
)
from comband.learners import (
    ABTest,
    AdaptiveComband,
    Candidate,
    CertificationStatus,
    CertifyingLearner,
    Dropped,
    Learner,
    Receipt,
    Selection,
    Status,
    TwoPhaseComband,
    UniformExploration,
    UniformLists,
    UniformMixture,
)
from comband.oracles import EnumerationOracle, Oracle
from comband.policies import Mixture, Policy, PolicySet, ScoredPolicy, TabulatedPolicy
from comband.problem import InputError, Problem, UnknownDecisionError
from comband.rounds import Decisions, Events, Rounds
from comband.running import Run, run
from comband.solvers.stopping import Stopping

__version__ = "0.1.0"

__all__ = [
    "ABTest",
    "AdaptiveComband",
    "Batch",
    "Candidate",
    "CertificationStatus",
    "CertifyingLearner",
    "Decisions",
    "Design",
    "DriftGuard",
    "Dropped",
    "EnumerationOracle",
    "Environment",
    "Events",
    "ExposureGuard",
    "InputError",
    "Learner",
    "Mixture",
    "Oracle",
    "Policy",
    "PolicySet",
    "Problem",
    "Receipt",
    "Rounds",
    "Run",
    "ScoredPolicy",
    "Selection",
    "Status",
    "Stopping",
    "SyntheticRecommender",
    "TabulatedPolicy",
    "TwoPhaseComband",
    "UniformExploration",
    "UniformLists",
    "UniformMixture",
    "UnknownDecisionError",
    "ValueSums",
    "bernstein_sequence",
    "design_exploration",
    "empirical_bernstein",
    "fixed_n_betting_bound",
    "gamma_exponential_bernstein",
    "run",
]
