"""The paper's claims as runnable experiments, each with a verdict and a figure."""

from comband.experiments.catalogue import all_claims
from comband.experiments.checks import Bound, Check, Largest, LargestFrequency, Mean, Ratio, Slope
from comband.experiments.claim import Claim, Plan, Task, grid
from comband.experiments.records import Record, group_by, select
from comband.experiments.reproduce import reproduce

__all__ = [
    "Bound",
    "Check",
    "Claim",
    "Largest",
    "LargestFrequency",
    "Mean",
    "Plan",
    "Ratio",
    "Record",
    "Slope",
    "Task",
    "all_claims",
    "grid",
    "group_by",
    "reproduce",
    "select",
]
