"""What was shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband._kernels.inputs import as_input
from comband._kernels.lists import valid_lists, valid_propensities
from comband.page.catalogue import Catalogue
from comband.page.contexts import Contexts, PackedContexts, concat_contexts, n_contexts, take_contexts
from comband.page.frames import make_frame
from comband.page.lists import check_lists, check_placements, refuse_propensities
from comband.page.problem import SMALLEST_PROPENSITY, TOLERANCE, InputError
from comband.page.rounds.columns import (
    ALL,
    EMPTY,
    SMALL,
    all_covered,
    fill,
    freeze,
    joined_placements,
    no_arms,
    read_only,
    rows_of,
    with_keys,
    without_checks,
)
from comband.page.storage import Array, Default, Maybe, Saved


@dataclass(frozen=True, eq=False, slots=True)
class Decisions(Saved):
    """Lists that were (or are about to be) shown, with the probability that each action was in its list.

    Parameters
    ----------
    ids:
        (n,) whole numbers, unique within a learner.
    lists:
        (n, m) the shown actions; −1 in places that stay empty, where fewer than m were proposed.
    propensities:
        (n, m) Q(x, y): the probability, given the context, that action y is anywhere in the list. A row of NaN says
        that they are not computed yet: learners of the EXP4 kind do that on request, and compute them if a reward
        comes. Such rounds can be told to their learner, but not evaluated or designed on.
    epochs:
        (n,) which of the learner's plans drew each list: the number of its epoch, phase or weights.
    contexts:
        the n contexts.
    covered:
        (n,) whether the smallest propensity that the plan promises holds in this round; True (left out) for all.
    arms:
        (n,) the candidate whose whole list was shown and which alone is credited (A/B/n tests); −1 (left out) for none.
    makers:
        (n,) which copy of which learner made each decision, whole numbers below 2⁵²; 0 (left out) for none. A learner
        takes rewards only for decisions of its own, so keep this column with the others.
    placements:
        (n, m, m) Q(x, y, k): of the item shown in place j of round i, the probability, given the context, that it
        stands in place k is `placements[i, j, k]`. Their sum over k is its propensity, or, where places are read as
        pairs, `placements[i, j, j]` is. None (left out) where lists were put into random order, each place as likely as
        another.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> import numpy as np
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.1, seed=3)
    >>> decisions = learner.ask(shop.sample(2, np.random.default_rng(4)).contexts)
    >>> decisions.lists.shape, decisions.propensities.shape
    ((2, 3), (2, 3))
    >>> bool((decisions.propensities > 0).all())
    True
    >>> decisions.ids.tolist(), sorted(decisions.columns())
    ([0, 1], ['epoch', 'item', 'position', 'propensity', 'round'])
    """

    ids: NDArray[np.int64]
    lists: NDArray[np.int32]
    propensities: NDArray[np.float64]
    epochs: NDArray[np.int64]
    contexts: Contexts
    covered: NDArray[np.bool_] = field(default_factory=lambda: ALL)
    arms: NDArray[np.int64] = field(default_factory=lambda: EMPTY)
    makers: NDArray[np.int64] = field(default_factory=lambda: EMPTY)
    placements: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        freeze(self)
        lists, propensities, n = self.lists, self.propensities, self.ids.size
        fill(self, n)
        if self.makers is EMPTY:
            sign(self, _no_makers(n))
        of_rounds = (self.ids, self.epochs, self.covered, self.arms, self.makers)
        rows = {(n,), lists.shape[:1], propensities.shape[:1], *(column.shape for column in of_rounds)}
        if len(rows) > 1 or n_contexts(self.contexts) != n:
            raise InputError(f"all columns of decisions must have {n} rows, one for each id.")
        if lists.ndim != 2 or propensities.shape != lists.shape:
            raise InputError(
                f"decisions need lists (n, m) and a propensity for each shown action, got lists {lists.shape} and "
                f"propensities {propensities.shape}."
            )
        if not valid_lists(as_input(lists), 2**31):
            check_lists(lists, gaps=True)
        if not valid_propensities(as_input(propensities), SMALLEST_PROPENSITY, 1 + TOLERANCE):
            refuse_propensities(propensities)
        if self.placements is not None:
            check_placements(self.placements, propensities)

    @classmethod
    def _of_checked(cls, *, placements: NDArray[np.float64] | None = None, **columns: Any) -> Decisions:
        """Rows of decisions that were checked when they were made, or row by row as a log was read."""
        return without_checks(cls, placements=placements, **columns)

    @classmethod
    def unsigned(
        cls,
        first_id: int,
        lists: NDArray[np.int32],
        propensities: NDArray[np.float64],
        *,
        epoch: int,
        contexts: Contexts,
        covered: NDArray[np.bool_] | None = None,
        arms: NDArray[np.int64] | None = None,
        placements: NDArray[np.float64] | None = None,
    ) -> Decisions:
        """What was just drawn under one plan, numbered from `first_id`, before a ledger signs it.

        Nothing is checked, and the arrays are closed: only for arrays that the caller alone holds.
        """
        n, put = len(lists), object.__setattr__
        record = object.__new__(cls)
        put(record, "ids", read_only(np.arange(first_id, first_id + n)))
        put(record, "lists", read_only(lists))
        put(record, "propensities", read_only(propensities))
        put(record, "epochs", _epochs(n, epoch) if n <= SMALL else read_only(np.full(n, epoch)))
        put(record, "contexts", contexts)
        put(record, "covered", all_covered(n) if covered is None else read_only(covered))
        put(record, "arms", no_arms(n) if arms is None else read_only(arms))
        put(record, "makers", _no_makers(n))
        put(record, "placements", None if placements is None else read_only(placements))
        return record

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Decisions:
        index = rows_of(index, len(self))
        return Decisions._of_checked(
            ids=self.ids[index],
            lists=self.lists[index],
            propensities=self.propensities[index],
            epochs=self.epochs[index],
            contexts=take_contexts(self.contexts, index),
            covered=self.covered[index],
            arms=self.arms[index],
            makers=self.makers[index],
            placements=None if self.placements is None else self.placements[index],
        )

    def __add__(self, other: Decisions) -> Decisions:
        sizes = (self.lists.shape[1], other.lists.shape[1])
        if sizes[0] != sizes[1]:
            raise InputError(f"decisions to join must have lists of one length, got {sizes[0]} and {sizes[1]}.")
        return Decisions._of_checked(
            ids=np.concatenate([self.ids, other.ids]),
            lists=np.concatenate([self.lists, other.lists]),
            propensities=np.concatenate([self.propensities, other.propensities]),
            epochs=np.concatenate([self.epochs, other.epochs]),
            contexts=concat_contexts([self.contexts, other.contexts]),
            covered=np.concatenate([self.covered, other.covered]),
            arms=np.concatenate([self.arms, other.arms]),
            makers=np.concatenate([self.makers, other.makers]),
            placements=joined_placements([self, other]),
        )

    def columns(self) -> dict[str, Any]:
        """One row per shown item: round, epoch, position (from 1), item (its number) and propensity; where they are
        stated, also the probabilities of the item in each place, placement_1 … placement_m.
        """
        n, m = self.lists.shape
        of_places = {} if self.placements is None else placement_columns(self.placements)
        return {
            "round": np.repeat(self.ids, m),
            "epoch": np.repeat(self.epochs, m),
            "position": np.tile(np.arange(1, m + 1), n),
            "item": self.lists.ravel(),
            "propensity": self.propensities.ravel(),
            **of_places,
        }

    def to_frame(self, backend: str | None = None, *, catalogue: Catalogue | None = None) -> Any:
        """One row per shown item as a data frame (see `columns`); with a `catalogue`, items are its keys."""
        return make_frame(with_keys(self.columns(), catalogue), backend)

    KIND: ClassVar = "decisions"
    SCHEMA: ClassVar = {
        "ids": Array("i8", ("n",)),
        "lists": Array("i4", ("n", "m"), -1),
        "propensities": Array("f8", ("n", "m"), SMALLEST_PROPENSITY, 1 + TOLERANCE, missing=True),
        "epochs": Array("i8", ("n",)),
        "contexts": PackedContexts(),
        "covered": Default(Array("?", ("n",)), lambda sizes: np.ones(sizes["n"], dtype=np.bool_)),
        "arms": Default(Array("i8", ("n",), -1), lambda sizes: np.full(sizes["n"], -1)),
        "makers": Default(Array("i8", ("n",), 0, 2**52), lambda sizes: np.zeros(sizes["n"], dtype=np.int64)),
        "placements": Default(Maybe(Array("f8", ("n", "m", "m"), 0, 1 + TOLERANCE))),
    }


def check_decisions(value: Any) -> Decisions:
    """Return `value` if these are decisions.

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
    >>> from comband.page.rounds import check_decisions
    >>> check_decisions(rounds.decisions) is rounds.decisions
    True
    """
    if not isinstance(value, Decisions):
        raise InputError(f"decisions must be those that ask gave (Decisions), got {type(value).__name__}.")
    return value


def sign(decisions: Decisions, makers: NDArray[np.int64]) -> None:
    """Put down who made them (n,): only for the code that has just made them, before it passes them on.

    Parameters
    ----------
    decisions:
        Just made.
    makers:
        One number each.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> from comband.page.rounds import sign
    >>> sign(decisions, np.full(2000, 7))
    >>> int(decisions.makers[0])
    7
    """
    object.__setattr__(decisions, "makers", makers)


def _no_makers(n: int) -> NDArray[np.int64]:
    """0 for each of n rounds."""
    return _NO_MAKERS[:n] if n <= SMALL else read_only(np.zeros(n, dtype=np.int64))


def placement_columns(placements: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Of each shown item (n·m,), the probability of each place, called as in frames."""
    m = placements.shape[-1]
    flat = placements.reshape(-1, m)
    return {f"placement_{k + 1}": flat[:, k] for k in range(m)}


@lru_cache(maxsize=16)
def _epochs(n: int, epoch: int) -> NDArray[np.int64]:
    """The same number for each of n rounds."""
    return read_only(np.full(n, epoch))


_NO_MAKERS: NDArray[np.int64] = read_only(np.zeros(SMALL, dtype=np.int64))
