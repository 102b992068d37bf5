"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is."""

from comband.evaluation.answers import PAIRED, EvaluatedCandidate, Evaluation, Hint, LogEvaluation, PropensityCheck
from comband.evaluation.clipped import clipped_gaps
from comband.evaluation.designing import design_log
from comband.evaluation.evaluating import check_logged_propensities, evaluate, evaluate_log
from comband.evaluation.usual import UsualEstimates, UsualSums, usual_estimates

__all__ = [
    "PAIRED",
    "EvaluatedCandidate",
    "Evaluation",
    "Hint",
    "LogEvaluation",
    "PropensityCheck",
    "UsualEstimates",
    "UsualSums",
    "check_logged_propensities",
    "clipped_gaps",
    "design_log",
    "evaluate",
    "evaluate_log",
    "usual_estimates",
]
