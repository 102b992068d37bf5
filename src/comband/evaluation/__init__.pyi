"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is."""

from comband.evaluation import logs as logs
from comband.evaluation.answers import PAIRED as PAIRED
from comband.evaluation.answers import EvaluatedCandidate as EvaluatedCandidate
from comband.evaluation.answers import Evaluation as Evaluation
from comband.evaluation.answers import Hint as Hint
from comband.evaluation.answers import LogEvaluation as LogEvaluation
from comband.evaluation.answers import PropensityCheck as PropensityCheck
from comband.evaluation.answers import Segment as Segment
from comband.evaluation.answers import Segmented as Segmented
from comband.evaluation.assumed import AssumedEvaluation as AssumedEvaluation
from comband.evaluation.assumed import evaluate_assuming as evaluate_assuming
from comband.evaluation.clipped import clipped_gaps as clipped_gaps
from comband.evaluation.designing import design_log as design_log
from comband.evaluation.evaluating import check_logged_propensities as check_logged_propensities
from comband.evaluation.evaluating import evaluate as evaluate
from comband.evaluation.evaluating import evaluate_log as evaluate_log
from comband.evaluation.ips import UsualEstimates as UsualEstimates
from comband.evaluation.ips import UsualSums as UsualSums
from comband.evaluation.ips import usual_estimates as usual_estimates
