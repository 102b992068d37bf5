"""Decisions from a published plan and a random stream; any number of processes may do this at once.

A plan says how an epoch explores, fixed before the first of its contexts is drawn. A process that has not heard of the
next plan goes on with the one that it has: its decisions carry the epoch, and count as that epoch's do.

The random numbers of a decision are a keyed hash of the experiment's secret seed and the request's id: a request that
is sent again, to any process, draws the same list from the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.requests import lists_text
from comband.certify.epochs import Epoch
from comband.explore.explorers.base import Explorer, explorer_from_state
from comband.page.storage import Array, Maybe, Part, State, Whole, check, pack, require, unpack
from comband.policies.fallback import NOTHING
from comband.policies.policy_set import PolicySet
from comband.policies.reading import Reading, reading_of
from comband.policies.requested import RequestedLists
from comband.serve.chain import leaves_of
from comband.serve.digests import digests_of, index_of, uniform
from comband.serve.journal import Experiment, Journal, NewDecisions, Stored
from comband.serve.requests import Reader, Requests, pack_bodies

_PLAN = {
    "alive": Array("?", ("P",)),  # says how many there are
    "explorer": Maybe(Part()),
    "bets": Maybe(Part()),
    "winner": Maybe(Whole(0, "P-1")),
    "changes": Whole(0),
}


def pack_plan(epoch: Epoch | None, winner: int | None, alive: NDArray[np.bool_], changes: int) -> bytes:
    """A plan for the journal: an epoch's explorer and bets, or the winner alone; `alive` (P,) says who may still be the
    best, of those who were there after so many changes of the field.
    """
    bets = None if epoch is None else epoch.state()
    explorer = None if bets is None else bets.pop("explorer")
    return pack("plan", {"explorer": explorer, "bets": bets, "winner": winner, "alive": alive, "changes": changes})


def plan_state(data: bytes, epoch: int) -> State:
    """What `pack_plan` was given, checked; plans of earlier versions have no bets."""

    def read(state: State) -> State:
        state = {"bets": None, **state}
        check(state, _PLAN)
        return state

    return unpack(data, "plan", read, source=f"the plan of epoch {epoch}")


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """How an experiment decides.

    epoch:
        Its number.
    reading:
        How the page is read.
    explorer:
        Draws lists; None when all is known.
    winner:
        Whose lists are shown when all is known.
    needed:
        (P,) whose lists a request must bring.
    wanted:
        (P,) whose lists are looked at, if they are there.
    changes:
        How many changes of the field it knows of.
    idle:
        Whether there are candidates that are not needed.
    wants_all:
        Whether the lists of all are looked at.
    """

    epoch: int
    reading: Reading
    explorer: Explorer | None
    winner: int | None
    needed: NDArray[np.bool_]
    wanted: NDArray[np.bool_]
    changes: int
    idle: bool
    wants_all: bool

    @classmethod
    def unpacked(cls, epoch: int, data: bytes, reader: Reader) -> Plan:
        """The inverse of `pack_plan`, checked; the reader knows all candidates of the plan, and maybe more."""
        state = plan_state(data, epoch)
        P = len(state["alive"])
        require(len(reader.names) >= P, "there are more candidates than names.")
        reading = reading_of(reader.problem)
        explorer, winner, wanted = None, state["winner"], np.zeros(P, dtype=np.bool_)
        if winner is None:
            fallback = NOTHING if reader.fallback == NOTHING else None
            policies: PolicySet = RequestedLists(reader.names[:P], reader.problem, fallback=fallback)
            explorer = explorer_from_state(state["explorer"], reading.drawn(policies), reading.lists)
            wanted[explorer.candidates] = True
            needed = wanted.copy()  # all that the epoch compares, dropped since or not
        else:
            wanted[winner] = True
            needed = wanted.copy()
        if isinstance(reader.fallback, int):
            needed[reader.fallback] = wanted[reader.fallback] = True
        return cls(
            epoch, reading, explorer, winner, needed, wanted, state["changes"], not needed.all(), bool(wanted.all())
        )


_UNUSED = np.random.Philox(key=0)  # never drawn from; making one takes longer than a draw


class GivenNumbers(np.random.Generator):
    """Uniform numbers that were made beforehand, as a generator gives them out."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        super().__init__(_UNUSED)
        self._numbers, self._next = numbers, 0

    def random(self, size: Any = None, *args: Any, **more: Any) -> Any:
        """The next of them, two for each context, in the order of contexts."""
        n, width = size
        first, self._next = self._next, self._next + n
        return self._numbers[first : self._next, :width]


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """Requests that wait for decisions by a plan; `older_plan` is that of another epoch, for some of the requests."""

    experiment: Experiment
    plan: Plan
    fallback: int | str | None
    requests: Requests
    older_plan: Callable[[int, Requests], Plan]


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """What was drawn by a plan and stored for `n` requests: from position `first` on, together with others."""

    plan: Plan
    drawn: NewDecisions
    stored: Stored
    first: int
    n: int


def decide_by_periods(asked: Asked, journal: Journal) -> list[Made]:
    """Decisions of an experiment with a period, made durable: all of a period are drawn by the plan that its first one
    was drawn by, whichever process draws them. Inside a transaction.
    """
    experiment, period, made, first = asked.experiment, asked.experiment.spec.period, [], 0
    while first < len(asked.requests):
        number, epoch = journal.upcoming(experiment.id)
        last = min(first + period - number % period, len(asked.requests))
        part, plan = asked.requests.some(first, last), asked.plan
        if epoch != plan.epoch and (number % period or epoch > plan.epoch):
            plan = asked.older_plan(epoch, part)
        drawn = draw([replace(asked, plan=plan, requests=part)])
        made.append(Made(plan, drawn, journal.decide([drawn])[0], 0, last - first))
        first = last
    return made


def draw(asked: Sequence[Asked]) -> NewDecisions:
    """A decision for each request of the same experiment and plan, ready for the journal.

    What is drawn for a request depends on it alone: who else is asked for at the same time changes no bit of it.
    """
    experiment, plan, fallback = asked[0].experiment, asked[0].plan, asked[0].fallback
    sent, P, m = Requests.joined([one.requests for one in asked]), len(plan.wanted), experiment.spec.list_size
    requests = sent if plan.wants_all and len(sent.given) == len(sent) * P else sent.kept(plan.wanted)
    tables, digests = requests.tables(P, fallback), digests_of(experiment.seed, requests.ids)
    if plan.explorer is None:
        lists, propensities = np.ascontiguousarray(tables[:, plan.winner]), np.ones((len(requests), m))
        covered, placements = [True] * len(requests), None
    else:
        drawn = plan.explorer.draw(tables, GivenNumbers(uniform(digests)), epoch=plan.epoch).decisions
        lists, propensities, covered = drawn.lists, drawn.propensities, drawn.covered.tolist()
        placements = drawn.placements
        lists = plan.reading.items(lists)
    if fallback == NOTHING:  # places that are empty come last
        order = np.argsort(lists < 0, axis=1, kind="stable")
        lists, propensities = np.take_along_axis(lists, order, 1), np.take_along_axis(propensities, order, 1)
        if placements is not None:  # they were last already, in every list that states them
            placements = np.take_along_axis(placements, order[:, :, None], 1)
    lists.setflags(write=False)  # as explorers give them: one loop is compiled for both
    leaves: list[bytes] = []
    if experiment.spec.is_recorded:
        looked_at = np.array([plan.winner]) if plan.explorer is None else plan.explorer.candidates
        leaves = leaves_of(lists, propensities, np.asarray(tables)[:, looked_at], requests.keys(), requests.ids)
    begins, text = lists_text(lists, requests.edges[:, 1], requests.spans, requests.text)
    return NewDecisions(
        experiment.id,
        plan.epoch,
        requests.ids,
        index_of(digests),
        (lists >= 0).sum(axis=1).astype(np.uint8).tobytes(),
        text.tobytes(),
        begins.tolist(),
        propensities,
        pack_bodies(sent, requests, lists, propensities, covered, placements, leaves),
        placements,
        b"".join(leaves),
        [i for i, is_covered in enumerate(covered) if not is_covered],
    )
