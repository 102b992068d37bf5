"""The paper's claims as runnable experiments, each with a verdict and a figure."""

from comband.paper.catalogue import all_claims as all_claims
from comband.paper.checks import Bound as Bound
from comband.paper.checks import Check as Check
from comband.paper.checks import Largest as Largest
from comband.paper.checks import LargestFrequency as LargestFrequency
from comband.paper.checks import Mean as Mean
from comband.paper.checks import Ratio as Ratio
from comband.paper.checks import Slope as Slope
from comband.paper.claim import Claim as Claim
from comband.paper.claim import Plan as Plan
from comband.paper.claim import Task as Task
from comband.paper.claim import grid as grid
from comband.paper.records import Record as Record
from comband.paper.records import group_by as group_by
from comband.paper.records import select as select
from comband.paper.reproducing import reproduce as reproduce
