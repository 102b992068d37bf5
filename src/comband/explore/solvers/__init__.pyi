"""Optimisation over arrays: nothing here knows rounds, policies or environments."""

from comband.explore.solvers.ftrl import Ftrl as Ftrl
from comband.explore.solvers.stopping import Stopping as Stopping
