"""Epochs: who leads, how lists are drawn and what is staked, all fixed before the first context is drawn; and when the
next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from comband.certify.field import Field
from comband.explore.explorers.base import Explorer, explorer_from_state
from comband.page.problem import Problem
from comband.page.storage import Array, Default, Many, Part, Real, State, Whole, check, objects_of, require
from comband.policies.policy_set import PolicySet
from comband.statistics.betting import OFFSETS, STAKES, Bets
from comband.statistics.guardrails import Floors, Rail, RailBets

_SPEED_UP = 0.5  # a new epoch begins early when so large a share of the candidates is gone


@dataclass(frozen=True, eq=False, slots=True)
class Epoch:
    """One explorer with its bets.

    leader:
        Its number among all policies.
    explorer:
        Draws the lists.
    bets, value_bound:
        The stakes against rivals, with the bound c = ρ/smallest_disputed; ρ/smallest, the bound on X for values.
    aim:
        The ε that it works for: the one to be certified, or the one that the budget is expected to suffice for.
    growth:
        (S,) what a round is expected to add to the log-evidence at that ε.
    start, first_id:
        How many rounds were in the evidence when it began; its first decision.
    rails:
        What is staked on each further metric, and, where there is a candidate in production, before these on the lift
        over it; see `comband.certify.guardrails`.
    """

    leader: int
    explorer: Explorer
    bets: Bets
    value_bound: float
    aim: float
    growth: NDArray[np.float64]
    start: int
    first_id: int
    rails: tuple[RailBets, ...] = ()

    SCHEMA: ClassVar = {
        "leader": Whole(0, "P-1"),
        "explorer": Part(),
        "levels": Array("i8", ("S", len(OFFSETS)), 0, len(STAKES) - 1),
        "bound": Real(0),
        "value_bound": Real(0),
        "aim": Real(0),
        "growth": Array("f8", ("S",)),
        "start": Whole(0),
        "first_id": Whole(0),
        "rails": Default(Many(Array("i8", (3, "S", len(OFFSETS)), 0, len(STAKES) - 1)), lambda sizes: []),
    }

    @property
    def candidates(self) -> NDArray[np.int64]:
        """(S,) the candidates that it compares."""
        return self.explorer.candidates

    @property
    def fitting(self) -> bool:
        """Whether its rounds serve to fit factors of places, and nothing is bet."""
        return bool(getattr(self.explorer, "fitting", False))

    @property
    def factors(self) -> tuple[float, ...] | None:
        """θ/θ_0 of places, where they were fitted for it."""
        theta = getattr(self.explorer, "theta", None)
        return None if theta is None else tuple(theta.tolist())

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        staked = {"rails": [one.levels for one in self.rails]} if self.rails else {}
        return {
            "leader": self.leader,
            "explorer": self.explorer.state(),
            "levels": self.bets.levels,
            "bound": self.bets.bound,
            "value_bound": self.value_bound,
            "aim": self.aim,
            "growth": self.growth,
            "start": self.start,
            "first_id": self.first_id,
            **staked,
        }

    @classmethod
    def from_state(
        cls, state: State, policies: PolicySet, problem: Problem, *, unit: float, railing: Railing | None = None
    ) -> Epoch:
        """The inverse of `state`, checked; `unit` is that of the stakes."""
        sizes = check(state, cls.SCHEMA, P=len(policies))
        explorer = explorer_from_state(state["explorer"], policies, problem)
        place = int(np.searchsorted(explorer.candidates, state["leader"]))
        bounds = problem.max_reward / np.array([explorer.smallest_disputed, explorer.smallest])
        require(
            len(explorer.candidates) == sizes["S"] > place
            and int(explorer.candidates[place]) == state["leader"]
            and getattr(explorer, "leader", place) == place
            and np.allclose([state["bound"], state["value_bound"]], bounds, rtol=1e-9),
            "an epoch must have a leader among its candidates, and the bets of its explorer.",
        )
        own = objects_of(state, cls.SCHEMA)
        bets = Bets(place, own.pop("levels"), own.pop("bound"), unit)
        rails = () if railing is None else railing.bets(explorer, state["leader"], own["rails"])
        require(railing is not None or not own["rails"], "without metrics nothing is staked on them.")
        return cls(**{**own, "explorer": explorer, "bets": bets, "rails": rails})


@dataclass(frozen=True, slots=True)
class Railing:
    """Beside what all epochs have: the rails that each of them bets on, production's number, and whether its list is
    always shown as it is where it is shown.
    """

    rails: tuple[Rail, ...]
    production: int
    own_lists: bool

    def place(self, candidates: NDArray[np.int64]) -> int:
        """Production's position among the candidates."""
        return int(np.searchsorted(candidates, self.production))

    def floors(self, explorer: Explorer, leader: int) -> Floors:
        """Of an epoch with this leader."""
        place = self.place(explorer.candidates)
        return Floors.of(explorer, leads=leader == self.production, production=place, own_lists=self.own_lists)

    def bets(self, explorer: Explorer, leader: int, levels: Sequence[NDArray[np.int64]]) -> tuple[RailBets, ...]:
        """Of levels that a file holds: as many as there are rails, or none in files from before."""
        place, floors = self.place(explorer.candidates), self.floors(explorer, leader)
        require(
            explorer.candidates.take(place, mode="clip") == self.production and len(levels) in (0, len(self.rails)),
            "an epoch must have production among its candidates, and stakes for each metric.",
        )
        alone = np.ones(len(explorer.candidates), dtype=np.bool_)
        alone[np.searchsorted(explorer.candidates, leader)] = False
        for one in levels:
            require(
                bool((one[:, place] == len(STAKES) - 1).all() and (one[2, alone] == len(STAKES) - 1).all()),
                "nothing is staked on production, and out of accounts nothing on any but the leader.",
            )
        nothing = np.full((3, len(explorer.candidates), len(OFFSETS)), len(STAKES) - 1)
        return tuple(
            RailBets.of_levels(rail, floors, place, one)
            for rail, one in zip(self.rails, levels or [nothing] * len(self.rails), strict=True)
        )


class Epochs(Sequence[Epoch]):
    """All epochs so far, and when the next one is due.

    Parameters
    ----------
    first_epoch, epoch_growth:
        The first one's length in rounds; each further one lasts (epoch_growth − 1) times all rounds so far.
    """

    def __init__(self, *, first_epoch: int, epoch_growth: float) -> None:
        self.first_epoch, self.epoch_growth = first_epoch, epoch_growth
        self._all: list[Epoch] = []
        self.origin = 0  # rounds that had entered when evidence began, or began anew

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, k: int) -> Epoch: ...

    @overload
    def __getitem__(self, k: slice) -> list[Epoch]: ...

    def __getitem__(self, k: int | slice) -> Epoch | list[Epoch]:
        return self._all[k]

    @property
    def current(self) -> Epoch:
        """The last one."""
        return self._all[-1]

    def append(self, epoch: Epoch) -> None:
        """The next one."""
        self._all.append(epoch)

    def replace(self, number: int, epoch: Epoch) -> None:
        """Another one in place of the one of this number, of which nothing was drawn or entered yet."""
        self._all[number] = epoch

    def due(self, rounds: int, n_candidates: int) -> bool:
        """Whether the next one should begin, now that so many rounds are in and so many candidates are left."""
        current = self._all[-1]
        since = rounds - current.start
        if current.fitting:
            return since >= self.first_epoch
        if n_candidates <= _SPEED_UP * len(current.candidates) and 2 * since >= self.first_epoch:
            return True
        return since >= max(self.first_epoch, (self.epoch_growth - 1) * (rounds - self.origin))

    def planned_rounds(self) -> int:
        """How many rounds of its own the current epoch has for sure when it ends, unless many candidates are dropped.

        It ends when the rounds since its start, some of which were decided before it, are (growth − 1) times all.
        """
        epoch, growth = self._all[-1], self.epoch_growth - 1
        start = 0 if epoch.fitting else epoch.start - self.origin
        least = self.first_epoch if growth >= 1 else max(self.first_epoch, growth / (1 - growth) * start)
        return int(least) - (epoch.first_id - epoch.start)

    def state(self) -> list[State]:
        """All of them, for a file."""
        return [epoch.state() for epoch in self._all]

    def restore(
        self,
        states: list[State],
        policies: PolicySet,
        problem: Problem,
        *,
        unit: float,
        issued: int,
        field: Field,
        since: int,
        railing: Railing | None = None,
    ) -> None:
        """The inverse of `state`, checked: they must follow each other, and be of candidates that were there. Evidence
        began with epoch `since`.
        """
        self._all = [Epoch.from_state(part, policies, problem, unit=unit, railing=railing) for part in states]
        require(since < len(self) and len(self[0].candidates) == field.n_first, "its first epoch must be of all.")
        self.origin = self[since].start
        for k, epoch in enumerate(self._all):
            gone = field.gone[epoch.candidates]
            require(
                bool((field.arrived[epoch.candidates] <= k).all()) and bool(((gone < 0) | (gone > k)).all()),
                "the candidates of its epochs must have been there.",
            )
        require(int(max(field.arrived.max(), field.gone.max())) < len(self), "no candidate comes or goes later.")
        for before, after in pairwise(self._all):
            require(
                before.start <= after.start and before.first_id <= after.first_id, "its epochs must follow each other."
            )
        require(
            self[0].start == self[0].first_id == 0 and self.current.first_id <= issued,
            "its epochs must be those of its decisions.",
        )
