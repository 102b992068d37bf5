"""The last step before a launch: the winner against production in whole lists, by random assignment alone."""

from comband.certify.confirming.learner import Confirmation as Confirmation
from comband.certify.confirming.learner import Lift as Lift

__all__ = ["Confirmation", "Lift"]
