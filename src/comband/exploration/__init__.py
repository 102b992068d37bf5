"""How an epoch explores: explorers draw its lists with exact propensities, explorations plan the next one."""

from comband.exploration.adaptive import DisagreementExploration
from comband.exploration.arms import ArmExplorer, ArmsExploration
from comband.exploration.base import (
    Drawn,
    Exploration,
    Explorer,
    Standing,
    explorer_from_state,
    register,
)
from comband.exploration.disagreement import DisagreementExplorer
from comband.exploration.doubling import DoublingExploration
from comband.exploration.midzuno import MidzunoExploration, MidzunoExplorer, UniformTotalsExploration
from comband.exploration.mixture import (
    ExaminedMixture,
    MixtureExplorer,
    UniformListsExploration,
    UniformMixtureExploration,
)
from comband.exploration.own_lists import OwnListExploration, OwnListExplorer
from comband.exploration.placed import ExaminationExplorer, PairExplorer
from comband.exploration.recent import RecentContexts
from comband.exploration.whole_lists import WholeListExploration, WholeListExplorer

__all__ = [
    "ArmExplorer",
    "ArmsExploration",
    "DisagreementExploration",
    "DisagreementExplorer",
    "DoublingExploration",
    "Drawn",
    "ExaminationExplorer",
    "ExaminedMixture",
    "Exploration",
    "Explorer",
    "MidzunoExploration",
    "MidzunoExplorer",
    "MixtureExplorer",
    "OwnListExploration",
    "OwnListExplorer",
    "PairExplorer",
    "RecentContexts",
    "Standing",
    "UniformListsExploration",
    "UniformMixtureExploration",
    "UniformTotalsExploration",
    "WholeListExploration",
    "WholeListExplorer",
    "explorer_from_state",
    "register",
]
