"""How an epoch explores: explorers draw its lists with exact propensities, explorations plan the next one."""

from comband.explore.explorers.adaptive import DisagreementExploration
from comband.explore.explorers.arms import ArmExplorer, ArmsExploration
from comband.explore.explorers.base import (
    Drawn,
    Exploration,
    Explorer,
    Standing,
    explorer_from_state,
    register,
)
from comband.explore.explorers.disagreement import DisagreementExplorer
from comband.explore.explorers.doubling import DoublingExploration
from comband.explore.explorers.midzuno import MidzunoExploration, MidzunoExplorer, UniformTotalsExploration
from comband.explore.explorers.mixture import (
    ExaminedMixture,
    MixtureExplorer,
    UniformListsExploration,
    UniformMixtureExploration,
)
from comband.explore.explorers.natural import NaturalExamination, NaturalExplorer
from comband.explore.explorers.own_lists import OwnListExploration, OwnListExplorer
from comband.explore.explorers.placed import ExaminationExplorer, PairExplorer
from comband.explore.explorers.recent import RecentContexts
from comband.explore.explorers.whole_lists import WholeListExploration, WholeListExplorer

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
    "NaturalExamination",
    "NaturalExplorer",
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
