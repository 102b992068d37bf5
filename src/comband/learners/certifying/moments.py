"""What guards can see, and what a guard is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.learners.certifying.epochs import Epoch, Epochs
from comband.learners.certifying.evidence import Block
from comband.rounds import Decisions
from comband.storage import State

# ---- what there is to see --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Began:
    """An epoch, before its first context; it will have `planned_rounds`, unless many candidates are dropped."""

    epoch: Epoch
    planned_rounds: int


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """Decisions of an epoch that were just drawn: which of them are answered, and when, cannot matter yet."""

    decisions: Decisions
    epoch: Epoch


@dataclass(frozen=True, eq=False, slots=True)
class Told:
    """Decisions as they were told with their answers; `rewards` (n, m) by place."""

    decisions: Decisions
    epochs: Epochs
    rewards: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Unanswered:
    """Batches of decisions, and which rows of them were never answered in time."""

    parts: list[tuple[Decisions, NDArray[np.int64]]]
    epochs: Epochs


@dataclass(frozen=True, eq=False, slots=True)
class Entered:
    """Rounds of one epoch that enter the evidence, in the order of decisions; `n_rounds` are all of its so far.
    `decisions` are theirs, and `uncovered` those of them in which the bounds of the epoch do not hold.
    """

    block: Block
    epoch: Epoch
    current: bool
    n_rounds: int
    decisions: NDArray[np.int64]
    uncovered: NDArray[np.int64]


Moment = Began | Asked | Told | Unanswered | Entered


# ---- guards ----------------------------------------------------------------------------------------------------------


class Guard(ABC):
    """Looks at what happens, and warns.

    What it finds out it keeps in attributes that are *replaced*, not altered: a call that fails puts back those from
    before. `state` and `restore` are for guards whose memory should be saved with the learner.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.learners.certifying import Guard
    >>> class Busy(Guard):
    ...     seen = 0
    ...     def observe(self, moment):
    ...         self.seen = self.seen + 1
    ...     @property
    ...     def warning(self):
    ...         return "that is a lot" if self.seen > 3 else ""
    ...
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, guards=[Busy()], seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> "that is a lot" in str(result)
    True
    """

    @abstractmethod
    def observe(self, moment: Moment) -> None:
        """Something happened; see `Moment` for what there is to see."""

    @property
    @abstractmethod
    def warning(self) -> str:
        """What to look at; empty while there is nothing to warn of."""

    def parts(self) -> tuple[object, ...]:
        """The objects whose attributes it replaces."""
        return (self,)

    def state(self) -> State:
        """What it remembers, for a file; see `comband.storage`."""
        return {}

    def restore(self, state: State) -> None:  # noqa: B027 (a guard may have nothing to remember)
        """The inverse of `state`, checked."""
