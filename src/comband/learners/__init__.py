"""Where the loop closes: ask, tell, done, result."""

from comband.learners.base import Candidate, Learner, Selection, Status
from comband.learners.ledger import Receipt
from comband.learners.uniform import UniformExploration

__all__ = ["Candidate", "Learner", "Receipt", "Selection", "Status", "UniformExploration"]
