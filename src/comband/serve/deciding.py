"""Decisions from a published plan and a random stream; any number of processes may do this at once.

A plan says how an epoch explores, fixed before the first of its contexts is drawn. A process that has not heard of the
next plan goes on with the one that it has: its decisions carry the epoch, and count as that epoch's do.

The random numbers of a decision are a keyed hash of the experiment's secret seed and the request's id: a request that
is sent again, to any process, draws the same list from the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.exploration.base import Explorer, explorer_from_state
from comband.policies.fallback import NOTHING
from comband.policies.requested import RequestedLists
from comband.serve.journal import NewDecision
from comband.serve.requests import Reader, Request, filled, pack_body
from comband.serve.wire import Spec
from comband.storage import Array, Maybe, Part, State, Whole, check, pack, require, unpack

_PLAN = {
    "alive": Array("?", ("P",)),  # says how many there are
    "explorer": Maybe(Part()),
    "winner": Maybe(Whole(0, "P-1")),
    "changes": Whole(0),
}


def pack_plan(explorer: Explorer | None, winner: int | None, alive: NDArray[np.bool_], changes: int) -> bytes:
    """A plan for the journal: an explorer, or the winner alone; `alive` (P,) says who may still be the best, of those
    who were there after so many changes of the field.
    """
    state = None if explorer is None else explorer.state()
    return pack("plan", {"explorer": state, "winner": winner, "alive": alive, "changes": changes})


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """How an experiment decides.

    epoch:
        Its number.
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

        def build(state: State) -> Plan:
            P = check(state, _PLAN)["P"]
            require(len(reader.names) >= P, "there are more candidates than names.")
            explorer, winner, wanted = None, state["winner"], np.zeros(P, dtype=np.bool_)
            if winner is None:
                fallback = NOTHING if reader.fallback == NOTHING else None
                policies = RequestedLists(reader.names[:P], reader.problem, fallback=fallback)
                explorer = explorer_from_state(state["explorer"], policies, reader.problem)
                needed = state["alive"].copy()
                wanted[explorer.candidates] = True
            else:
                wanted[winner] = True
                needed = wanted.copy()
            if isinstance(reader.fallback, int):
                needed[reader.fallback] = wanted[reader.fallback] = True
            return cls(epoch, explorer, winner, needed, wanted, state["changes"], not needed.all(), bool(wanted.all()))

        return unpack(data, "plan", build, source=f"the plan of epoch {epoch}")


_UNUSED = np.random.Philox(key=0)  # which nobody asks; making one takes longer than a draw


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


def uniform_numbers(seed: str, requests: Sequence[str]) -> NDArray[np.float64]:
    """Two numbers in [0, 1) for each request, (n, 2)."""
    key = bytes.fromhex(seed)
    raw = b"".join(blake2b(request.encode(), key=key, digest_size=16).digest() for request in requests)
    whole = np.frombuffer(raw, dtype="<u8").reshape(-1, 2)
    return np.asarray((whole >> np.uint64(11)) * 2.0**-53)


def draw(
    experiment: int, spec: Spec, seed: str, plan: Plan, requests: Sequence[Request], fallback: int | str | None
) -> list[NewDecision]:
    """A decision for each request, ready for the journal."""
    P, m = len(plan.wanted), spec.list_size
    kept = [one if plan.wants_all and len(one.given) == P else one.keep(plan.wanted) for one in requests]
    tables = np.stack([filled(request.given, request.rows, P, fallback) for request in kept])
    if plan.explorer is None:
        lists, propensities = tables[:, plan.winner], np.ones((len(kept), m))
        covered = [True] * len(kept)
    else:
        stream = GivenNumbers(uniform_numbers(seed, [request.id for request in kept]))
        drawn = plan.explorer.draw(tables, stream, epoch=plan.epoch).decisions
        lists, propensities, covered = drawn.lists, drawn.propensities, drawn.covered.tolist()
    sizes = [m] * len(kept)
    if fallback == NOTHING:  # places that are empty come last
        order = np.argsort(lists < 0, axis=1, kind="stable")
        lists, propensities = np.take_along_axis(lists, order, 1), np.take_along_axis(propensities, order, 1)
        sizes = (lists >= 0).sum(axis=1).tolist()
    shown, numbers, places = np.ascontiguousarray(lists, dtype=np.int32), propensities.tolist(), lists.tolist()
    return [
        NewDecision(
            experiment,
            request.id,
            request.print,
            plan.epoch,
            [request.keys[k] for k in places[i][:size]],
            numbers[i][:size],
            pack_body(request, shown[i].tobytes(), propensities[i].tobytes(), covered[i]),
        )
        for i, (request, size) in enumerate(zip(kept, sizes, strict=True))
    ]
