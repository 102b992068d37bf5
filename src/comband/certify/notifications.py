"""What guards can see, and what a guard is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.blocks import Block
from comband.certify.epochs import Epoch, Epochs
from comband.page.problem import Problem
from comband.page.rounds import Decisions
from comband.page.storage import State, Stored

# ---- what there is to see --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Began:
    """An epoch, before its first context; it will have `planned_rounds`, unless many candidates are dropped. `names`
    (P,) are those of all who ever were candidates.
    """

    epoch: Epoch
    planned_rounds: int
    names: tuple[str, ...]


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
    before. `state` and `restore` are for guards whose memory should be saved with the learner. It is shown the kinds of
    moments that it `LOOKS_AT`.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.certify.notifications import Guard
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
    >>> result.warnings
    ('that is a lot',)
    """

    LOOKS_AT: ClassVar[tuple[type[Moment], ...]] = (Began, Asked, Told, Unanswered, Entered)

    @abstractmethod
    def observe(self, moment: Moment) -> None:
        """Something happened; see `Moment` for what there is to see."""

    @property
    @abstractmethod
    def warning(self) -> str:
        """What to look at; empty while there is nothing to warn of."""

    @property
    def note(self) -> str:
        """What a result should say though there is nothing to warn of."""
        return ""

    def parts(self) -> tuple[object, ...]:
        """The objects whose attributes it replaces."""
        return (self,)

    def state(self) -> State:
        """What it remembers, for a file; see `comband.page.storage`."""
        return {}

    def restore(self, state: State) -> None:  # noqa: B027 (a guard may have nothing to remember)
        """The inverse of `state`, checked."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a built-in guard is made for: the problem, the candidates' names (P,), and how many rounds enter the
    evidence together.
    """

    problem: Problem
    names: tuple[str, ...]
    period: int = 1


class BuiltInGuard(Stored, Guard):
    """A guard that every certifying learner has: made from a `Watched`, listed in `comband.certify.watch`,
    and saved as its `SCHEMA` says.
    """

    WATCHES: ClassVar[str]
    """What should be so, in words."""

    BEGINS_LATE: ClassVar[bool] = True
    """Whether it can begin at any round, as it does when a learner is loaded from a file that does not know it."""

    @abstractmethod
    def __init__(self, watched: Watched) -> None: ...

    def check(self, epochs: Epochs, n_rounds: int) -> None:
        """Refuse a memory, just restored, that is not one of these epochs, of whose last `n_rounds` have entered."""
