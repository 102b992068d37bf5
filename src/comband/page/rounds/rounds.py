"""What was shown, and what came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.inputs import as_input
from comband._kernels.lists import valid_rewards
from comband._kernels.records import any_open, event_rows
from comband.page.catalogue import Catalogue, check_catalogue
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.frames import make_frame
from comband.page.lists import check_lists, check_propensities, check_rewards, refuse_rewards
from comband.page.problem import SMALLEST_REWARD, InputError, Problem, as_column, as_floats, check_problem
from comband.page.rounds.columns import freeze, rows_of, with_keys, without_checks
from comband.page.rounds.decisions import Decisions, check_decisions
from comband.page.rounds.events import Events
from comband.page.storage import Array, Held, Saved, require


@dataclass(frozen=True, eq=False, slots=True)
class Rounds(Saved):
    """Decisions with the rewards of the shown actions, (n, m).

    Parameters
    ----------
    decisions:
        What was shown, with its propensities.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> len(rounds), float(rounds.rewards.sum())
    (4, 3.0)
    >>> rounds.events().n_rewarded
    3
    >>> rounds.to_frame("pandas").columns.tolist()
    ['round', 'epoch', 'position', 'item', 'propensity', 'reward']
    """

    decisions: Decisions
    rewards: NDArray[np.float64]

    def __post_init__(self) -> None:
        freeze(self)
        check_decisions(self.decisions)
        if self.rewards.shape != self.decisions.lists.shape:
            raise InputError(
                f"rewards must have the shape of the lists, {self.decisions.lists.shape}, got {self.rewards.shape}."
            )
        if not valid_rewards(as_input(self.rewards), SMALLEST_REWARD, np.inf):
            refuse_rewards(self.rewards)
        _refuse_empty(self.decisions.lists[self.rewards > 0])

    @classmethod
    def from_log(
        cls,
        contexts: Contexts,
        *,
        lists: ArrayLike,
        rewards: ArrayLike,
        propensities: ArrayLike,
        problem: Problem,
        ids: ArrayLike | None = None,
        catalogue: Catalogue | None = None,
        placements: ArrayLike | None = None,
    ) -> Rounds:
        """Rounds from another system's log, checked: any logging distribution with known propensities will do.

        Everything may be an array, a list or a data frame of n rows. With a `catalogue`, `lists` hold its keys.
        `placements` (n, m, m) are the probabilities of each shown item in each place, if the order was not random; see
        `Decisions`.
        """
        n = n_contexts(contexts)
        named = check_catalogue(catalogue)
        if named is not None:
            lists = named.numbers(lists)
        shown = check_lists(lists, check_problem(problem, places=True), n=n)
        decisions = Decisions(
            ids=np.arange(n) if ids is None else as_column("ids", ids, np.dtype(np.int64)),
            lists=shown,
            propensities=check_propensities(propensities, shape=shown.shape),
            epochs=np.zeros(n, dtype=np.int64),
            contexts=contexts,
            placements=None if placements is None else as_floats("placements", placements),
        )
        return cls(decisions, check_rewards(rewards, problem, n=n))

    @classmethod
    def _of_checked(cls, decisions: Decisions, rewards: NDArray[np.float64]) -> Rounds:
        """Rewards that were checked against the problem, or that come out of checked rounds."""
        return without_checks(cls, decisions=decisions, rewards=rewards)

    def __len__(self) -> int:
        return len(self.decisions)

    def __getitem__(self, index: Any) -> Rounds:
        index = rows_of(index, len(self))
        return Rounds._of_checked(self.decisions[index], self.rewards[index])

    def __add__(self, other: Rounds) -> Rounds:
        return Rounds(self.decisions + other.decisions, np.concatenate([self.rewards, other.rewards]))

    def events(self) -> Events:
        """Only the positive rewards: all that design and estimation ever need."""
        if any_open(self.decisions.propensities):
            raise InputError(
                "some propensities are not computed (NaN), so these rounds cannot be weighed; make the learner with "
                'propensities="always", or leave those rounds out.'
            )
        where, place, rewarded, rows = event_rows(np.ascontiguousarray(self.rewards))
        decisions, n = self.decisions, len(self)
        actions = decisions.lists[where, place]
        _refuse_empty(actions)
        taken: Any = rewarded if 0 < len(rewarded) < n else slice(len(rewarded))  # all, none or some
        return without_checks(
            Events,
            n_rounds=n,
            ids=decisions.ids[taken],
            epochs=decisions.epochs[taken],
            contexts=take_contexts(decisions.contexts, rewarded),
            rows=rows,
            actions=actions,
            rewards=self.rewards[where, place],
            propensities=decisions.propensities[where, place],
            covered=decisions.covered[taken],
            arms=decisions.arms[taken],
            placements=None if decisions.placements is None else decisions.placements[where, place],
        )

    def columns(self) -> dict[str, Any]:
        """One row per shown item: round, epoch, position (from 1), item (its number), propensity and reward."""
        return {**self.decisions.columns(), "reward": self.rewards.ravel()}

    def to_frame(self, backend: str | None = None, *, catalogue: Catalogue | None = None) -> Any:
        """One row per shown item as a data frame (see `columns`); with a `catalogue`, items are its keys."""
        return make_frame(with_keys(self.columns(), catalogue), backend)

    KIND: ClassVar = "rounds"
    SCHEMA: ClassVar = {"decisions": Held(Decisions), "rewards": Array("f8", ("n", "m"), 0, 1)}

    def _agree(self) -> None:
        require(
            not np.isnan(self.decisions.propensities[self.rewards > 0]).any(),
            "propensities must be known where a reward was seen.",
        )


def _refuse_empty(rewarded: NDArray[np.int32]) -> None:
    """Raise if some rewarded action is none."""
    if (rewarded < 0).any():
        raise InputError("places without an action (−1) earn nothing: tell 0 for them.")


def check_rounds(value: Any) -> Rounds:
    """Return `value` if these are rounds.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> from comband.page.rounds import check_rounds
    >>> check_rounds(rounds) is rounds
    True
    """
    if not isinstance(value, Rounds):
        raise InputError(f"rounds must be Rounds (see Rounds.from_log), got {type(value).__name__}.")
    return value
