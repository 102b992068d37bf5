"""Where the loop closes: ask, tell, done, result. What all learners share."""

from comband.learners.base import Learner as Learner
from comband.learners.custom import CustomLearner as CustomLearner
from comband.learners.selector import Selector as Selector
