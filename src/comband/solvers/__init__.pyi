"""Optimisation over arrays: nothing here knows rounds, policies or environments."""

from comband.solvers.ftrl import Ftrl as Ftrl
from comband.solvers.stopping import Stopping as Stopping
