"""What the first decisions and rewards would have to wait for, before the first request."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import numpy as np

from comband.certify import AdaptiveComband
from comband.serve.deciding import Asked, Plan, draw, pack_plan
from comband.serve.journal import Experiment, StoredDecision
from comband.serve.learning import JournalLists, learn_block
from comband.serve.requests import Reader, Requests, check_elements, problem_of, unpack_body
from comband.serve.wire import DecisionRequest, Spec, as_json

_log = logging.getLogger("comband.serve")
_SPEC = Spec(name="warming", candidates=["a", "b", "c"], list_size=3, epsilon=0.1, sparsity=1, first_epoch=60)
_BATCHES = [1] * 4 + [20] * 60  # the winner is known long before


class Warming:
    """Has ready, in a thread, what the first decision and the first reward need.

    What is being compiled when all stops is given up: stopping a service waits for none of it.

    Parameters
    ----------
    stop:
        Set when it is of no use any more.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.under_way = self.is_cold = False
        self._stop = stop

    def start(self) -> threading.Thread:
        """Begin; `is_cold` until requests can be answered, `under_way` until nothing is left to compile."""
        self.under_way = self.is_cold = True
        thread = threading.Thread(target=self._go_on, name="comband-warming", daemon=True)
        thread.start()
        return thread

    def _go_on(self) -> None:
        began = time.perf_counter()
        try:
            for can_decide in warm_up():
                self.is_cold = self.is_cold and not can_decide
                if self._stop.is_set():
                    return
        except Exception:
            _log.exception("could not compile beforehand")
        finally:
            self.under_way = self.is_cold = False
        _log.info("warm", extra={"facts": {"seconds": round(time.perf_counter() - began, 1)}})


def warm_up() -> Iterator[bool]:
    """Have loops compiled, or loaded from where they are kept, step by step: first those of a decision, then those that
    read requests from their text, then those that learn; each step says whether requests can be answered by now. An
    experiment of no user is decided and learnt from, and nothing is stored.
    """
    reader, present = Reader(_SPEC, _SPEC.candidates), np.ones(len(_SPEC.candidates), dtype=np.bool_)
    experiment = Experiment(0, _SPEC.name, _SPEC, "0" * 64, "running", 0, 0)
    learner = AdaptiveComband(
        problem_of(_SPEC),
        JournalLists(experiment, None, _SPEC.candidates),
        epsilon=_SPEC.epsilon,
        first_epoch=_SPEC.first_epoch,
        seed=0,
    )
    rng, number = np.random.default_rng(0), 0
    for n in _BATCHES:
        if learner.done:
            break
        epoch = len(learner.epochs) - 1
        plan = Plan.unpacked(epoch, pack_plan(learner.epochs[epoch], None, present, 0), reader)
        asked = [_request(rng) for _ in range(n)]
        requests = reader.scan(as_json(asked), present) if number else reader.read(asked, present)
        assert requests is not None
        check_elements(as_json(asked).ljust(100_000), len(asked), len(_SPEC.candidates))
        drawn = draw([Asked(experiment, plan, reader.fallback, requests, _no_other)])
        rows = [StoredDecision(number + i, "", 0, epoch, body) for i, body in enumerate(drawn.bodies)]
        liked = np.array([np.frombuffer(unpack_body(body).shown, np.int32) < 3 for body in drawn.bodies])  # those of a
        rewards = (liked & (liked.cumsum(axis=1) == 1)).astype(np.float64)
        yield number > 0  # and before anything is compiled that learns
        if number:
            learn_block(learner, rows, rewards)
        number += n
    learner.state()


def _no_other(epoch: int, requests: Requests) -> Plan:
    raise NotImplementedError("there is one plan")


def _request(rng: np.random.Generator) -> DecisionRequest:
    keys = [f"item {k}" for k in rng.permutation(9)]
    return DecisionRequest(lists={name: list(keys[3 * p : 3 * p + 3]) for p, name in enumerate(_SPEC.candidates)})
