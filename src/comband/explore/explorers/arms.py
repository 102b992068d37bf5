"""One candidate at a time, credited alone: a classical A/B/n test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.explore.explorers.base import Explorer, Standing, register
from comband.explore.explorers.blocks import StoredExplorer, WholeLists
from comband.page.bits import Rows
from comband.page.problem import Problem, check_flag
from comband.page.rounds import Events
from comband.page.storage import Array, State, require
from comband.page.totals import first_of_rounds
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of


@register
class ArmExplorer(WholeLists):
    """The whole list of one policy, drawn uniformly from those that are `shown`; only that policy is credited.

    Lists are shown in the policy's own order: values are those of its lists as they are, whatever places do.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are compared.
    shown:
        (A,) positions of those that are drawn from; the candidates are among them.
    problem:
        The setting.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import ArmExplorer
    >>> explorer = ArmExplorer(policies, np.arange(4), shown=np.arange(4), problem=problem)
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.lists.shape, bool((drawn.decisions.arms >= 0).all())
    ((5, 3), True)
    """

    KIND: ClassVar[str] = "arms"
    FROM_TOTALS: ClassVar[bool] = True
    FROM_FACTORS: ClassVar[bool] = True
    ONE_CREDITED = True

    def __init__(
        self, policies: PolicySet, candidates: NDArray[np.int64], *, shown: NDArray[np.int64], problem: Problem
    ) -> None:
        super().__init__(policies, shown, problem)
        self.candidates = candidates
        self._total = reading_of(problem).TOTAL
        self.random_order, self.natural_order = False, True

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """An event counts for the candidate whose list was shown."""
        mine = np.asarray(events.arms[events.rows[chosen], None] == self.candidates)
        # A total comes in m equal parts: the first one stands for all, so that a round is one event.
        return mine & first_of_rounds(events.rows[chosen])[:, None] if self._total else mine

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """1/A, not the propensity of the action: only the candidate's own rounds count for it."""
        parts = self._problem.list_size if self._total else 1
        return np.full(len(chosen), self.smallest / parts)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """1/A, as for `divisors`."""
        return self.divisors(events, chosen)

    SCHEMA: ClassVar = {**StoredExplorer.SCHEMA, "shown": Array("i8", ("A",), 0, "P-1", rising=True)}

    @classmethod
    def _agree(cls, state: State) -> None:
        require(bool(np.isin(state["candidates"], state["shown"]).all()), "all candidates must be shown.")


@dataclass(frozen=True, slots=True)
class ArmsExploration:
    """One list at a time; with `eliminate`, of those candidates only that are left.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.ArmsExploration(eliminate=True)
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    eliminate: bool = False

    def __post_init__(self) -> None:
        check_flag("eliminate", self.eliminate)

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        policies, candidates = standing.policies, standing.candidates
        shown = candidates if self.eliminate else standing.field
        return ArmExplorer(policies, candidates, shown=shown, problem=standing.problem)
