"""One candidate at a time, credited alone: a classical A/B/n test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.bits import Rows
from comband.exploration.base import Explorer, Standing, register
from comband.exploration.blocks import WholeLists
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, check_flag
from comband.rounds import Events
from comband.storage import Array, State, Text, check, require
from comband.totals import first_of_rounds


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
    >>> from comband.exploration import ArmExplorer
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
        self._total = problem.feedback == "total"
        self.random_order = False

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

    def state(self) -> State:
        """All but policies and problem, for a file or another process; see `comband.storage`."""
        return {"kind": self.KIND, "candidates": self.candidates, "shown": self.shown}

    SCHEMA: ClassVar = {
        "kind": Text((KIND,)),
        "candidates": Array("i8", ("S",), 0, "P-1", rising=True),
        "shown": Array("i8", ("A",), 0, "P-1", rising=True),
    }

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> ArmExplorer:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA, P=len(policies))
        candidates, shown = state["candidates"], state["shown"]
        require(len(candidates) > 0 and bool(np.isin(candidates, shown).all()), "all candidates must be shown.")
        return cls(policies, candidates, shown=shown, problem=problem)


@dataclass(frozen=True, slots=True)
class ArmsExploration:
    """One list at a time; with `eliminate`, of those candidates only that are left.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.exploration.ArmsExploration(eliminate=True)
    >>> learner = cb.learners.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
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
