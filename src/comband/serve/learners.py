"""The thread that learns for all experiments of which this process has the lease."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import dataclass
from functools import partial

from comband.serve.database import StoreError
from comband.serve.experiments import Experiments, Running
from comband.serve.journal import Experiment, GoneError, Journal
from comband.serve.learning import Learning
from comband.serve.leases import give_back, take_lease
from comband.serve.progress import FencedError, Progress
from comband.serve.views import point_of, view_of
from comband.serve.wire import as_json
from comband.serve.writer import Writer

_log = logging.getLogger("comband.serve")
_THINNED_EVERY = 32  # points
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Timing:
    """How often things are looked at, in seconds.

    lease: how long another process waits before it learns in place of one that is gone. poll: how often other processes
    are asked for news. idle: how often a learner that has nothing to do looks again. view: how often what people are
    told is renewed, at most. snapshot: the same for snapshots. house: how often a process looks for what is to be
    removed.
    """

    lease: float = 3.0
    poll: float = 0.5
    idle: float = 0.05
    view: float = 0.5
    snapshot: float = 20.0
    house: float = 60.0


@dataclass(eq=False, slots=True)
class _Told:
    """When, and after how many decisions, people were told last; how long that took, and whether it was the end; how
    many points were made.
    """

    viewed: float = -1e9
    took: float = 0.0
    position: int = -1
    pointed: float = -1e9
    saved: float = -1e9
    done: bool = False
    points: int = 0


class Learners:
    """Learns until it is closed.

    Parameters
    ----------
    experiments, journal, writer:
        Whose decisions, where they are, and which process writes.
    timing:
        How often things are looked at.
    """

    def __init__(self, experiments: Experiments, journal: Journal, writer: Writer, timing: Timing) -> None:
        self._experiments, self._journal, self._writer, self._timing = experiments, journal, writer, timing
        self._progress = Progress(journal)
        self.holder = uuid.uuid4().hex
        self.failed: dict[int, str] = {}
        self.snapshots_unreadable = 0
        self.plans_followed, self.largest_difference = 0, 0.0  # published elsewhere, where they differ from those here
        self._learning: dict[int, Learning] = {}
        self._told: dict[int, _Told] = {}
        self._renew: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        self._put_off_until: dict[int, float] = {}
        self._stop, self._news = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="comband-learner", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        self._news.set()

    def close(self, within: float = 60.0) -> None:
        """Save, and give the leases back."""
        self._stop.set()
        self._news.set()
        self._thread.join(timeout=within)

    def learning(self, experiment: int) -> Learning | None:
        """The learner of an experiment, if it is here."""
        return self._learning.get(experiment)

    def _run(self) -> None:
        while not self._stop.is_set():
            busy = False
            for running in self._experiments.unfinished():
                name, number = running.experiment.name, running.experiment.id
                try:
                    busy |= self._learn_some(running)
                except GoneError:
                    self._drop(number)
                    self._experiments.forget(running)
                except FencedError:
                    self._drop(number)
                    _log.info("another process learns now", extra={"facts": {"experiment": name}})
                except StoreError as error:
                    self._drop(number)
                    self._put_off(number)
                    _log.error(
                        "learning waits for the store", extra={"facts": {"experiment": name, "error": str(error)}}
                    )
                except Exception as error:  # whatever it is: others go on, and people are told
                    self._drop(number)
                    _log.exception("learning failed", extra={"facts": {"experiment": name}})
                    self._fail(number, f"learning stopped: {str(error) or type(error).__name__}")
                if self._stop.is_set():
                    break
            if not busy:
                self._news.wait(self._timing.idle)
                self._news.clear()
        self._leave()

    def _drop(self, experiment: int) -> None:
        self._learning.pop(experiment, None)
        self._renew.pop(experiment, None)

    def _put_off(self, experiment: int) -> None:
        """Look at one that the store does not let in again after a while, each time a longer one; others go on."""
        pause = self._pauses[experiment] = min(2 * self._pauses.get(experiment, _SHORTEST_PAUSE / 2), _LONGEST_PAUSE)
        self._put_off_until[experiment] = time.monotonic() + pause

    def _fail(self, experiment: int, reason: str) -> None:
        """Try no more here; another process may, and all of them say so until one has caught up."""
        self.failed[experiment] = reason
        self._experiments.failures = {**self._experiments.failures, experiment: reason}
        try:
            self._writer.call(lambda _: self._progress.fail(experiment, self.holder, reason))
            self._writer.call(partial(give_back, experiment=experiment, holder=self.holder))
        except StoreError as error:
            del self.failed[experiment]  # no other process knows: try again
            _log.error("could not say that learning failed", extra={"facts": {"error": str(error)}})

    def _learn_some(self, running: Running) -> bool:
        experiment = running.experiment
        if experiment.id in self.failed or time.monotonic() < self._put_off_until.get(experiment.id, 0.0):
            return False
        if experiment.state == "ended" and self._is_finished(running):
            return False
        if not self._has_lease(experiment):
            return False
        learning, told = self._learning[experiment.id], self._told.setdefault(experiment.id, _Told())
        busy = learning.step(ended=experiment.state == "ended")
        differences, learning.differences = learning.differences, []
        self.plans_followed += len(differences)
        self.largest_difference = max(self.largest_difference, *differences, 0.0)
        if (-1 if running.plan is None else running.plan.epoch) < learning.published - 1:
            self._experiments.take_plan(running)
        if experiment.state == "ended" and not busy:
            learning.end_chain()
        self._show(learning, told, busy)
        self._pauses.pop(experiment.id, None)
        now = time.monotonic()
        if told.saved < 0:
            told.saved = now
        if now - told.saved > self._timing.snapshot:
            learning.save()
            told.saved = time.monotonic()
        if not busy and experiment.id in self._experiments.failures:  # all that is settled is learnt
            self._writer.call(lambda _: self._progress.recover(experiment.id))
            self._experiments.failures = {k: v for k, v in self._experiments.failures.items() if k != experiment.id}
            _log.info("learning goes on", extra={"facts": {"experiment": experiment.name}})
        return busy

    def _is_finished(self, running: Running) -> bool:
        """Whether nothing is left to do for an experiment that has ended; then it is looked at no more."""
        number = running.experiment.id
        if number not in self._progress.finished(number):
            return False
        if number in self._learning:
            self._leave_one(number, self._learning[number])
            self._drop(number)
        self._experiments.finish(running)
        return True

    def _has_lease(self, experiment: Experiment) -> bool:
        """Whether this process learns for the experiment: takes the lease, or renews it when a third of it is over."""
        now, length = time.monotonic(), self._timing.lease
        if now < self._renew.get(experiment.id, 0.0):
            return experiment.id in self._learning
        fence = self._writer.call(lambda journal: take_lease(journal, experiment.id, self.holder, int(1000 * length)))
        self._renew[experiment.id] = now + length / 3
        if fence is None:
            self._learning.pop(experiment.id, None)
            return False
        if experiment.id not in self._learning or self._learning[experiment.id].fence != fence:
            made = self._learning[experiment.id] = Learning(experiment, self._journal, self._writer.call, fence)
            self.snapshots_unreadable += len(made.unreadable)
            _log.info("learning here", extra={"facts": {"experiment": experiment.name, "fence": fence}})
        return True

    def _show(self, learning: Learning, told: _Told, busy: bool) -> None:
        """Renew what people are told, if it is time."""
        now, position, key = time.monotonic(), learning.position, learning.experiment.id
        pause = max(self._timing.view if busy else 0.1, 10 * told.took)
        if learning.learner.done == told.done and (position == told.position or now - told.viewed < pause):
            return
        view = view_of(learning, clock=self._journal.wall())
        point = None
        if now - told.pointed > 1.0 or view["done"] != told.done:
            told.pointed, point = now, as_json(point_of(view))
            told.points += 1
        data, thin = as_json(view), told.points % _THINNED_EVERY == 1
        self._writer.call(lambda _: self._progress.view(key, position, data, point, learning.fence, thin=thin))
        told.viewed, told.took, told.position, told.done = now, time.monotonic() - now, position, view["done"]

    def _leave(self) -> None:
        for experiment, learning in list(self._learning.items()):
            try:
                self._leave_one(experiment, learning)
            except (FencedError, StoreError) as error:
                _log.warning("could not save at the end", extra={"facts": {"error": str(error)}})

    def _leave_one(self, experiment: int, learning: Learning) -> None:
        learning.save()
        self._writer.call(partial(give_back, experiment=experiment, holder=self.holder))
