"""Where the loop closes: ask, tell, done, result."""

from comband.learners.base import Candidate, Learner, Selection, Status
from comband.learners.ledger import Receipt
from comband.learners.pac_comband import PacComband
from comband.learners.single_label import SingleLabelComband
from comband.learners.two_phase import PacSelection
from comband.learners.uniform import UniformExploration

__all__ = [
    "Candidate",
    "Learner",
    "PacComband",
    "PacSelection",
    "Receipt",
    "Selection",
    "SingleLabelComband",
    "Status",
    "UniformExploration",
]
