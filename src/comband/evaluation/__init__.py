"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is."""

from comband.evaluation.answers import PAIRED, EvaluatedCandidate, Evaluation, LogEvaluation, PropensityCheck
from comband.evaluation.evaluating import check_logged_propensities, evaluate, evaluate_log

__all__ = [
    "PAIRED",
    "EvaluatedCandidate",
    "Evaluation",
    "LogEvaluation",
    "PropensityCheck",
    "check_logged_propensities",
    "evaluate",
    "evaluate_log",
]
