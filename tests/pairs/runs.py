"""One run of a learner under some options: it works, or refuses with a sentence; and whatever it says is checked."""

from __future__ import annotations

import re
import zlib
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.certify import CertifyingLearner
from comband.certify.verify import verify
from comband.policies.reading import reading_of
from tests.certify.claiming import claims_wrongly
from tests.pairs.following import GuardedPairsTwin, PairsTwin, differences
from tests.pairs.options import KINDS, OBJECTS, PATIENCE, Option, Plan, plan_of
from tests.pairs.sentences import level, not_allowed
from tests.pairs.worlds import SLOW_ITEMS, Floats, M, World, world_of

EPSILON, DELTA = 0.3, 0.2
NEVER = 10**9
_NUMBERS = re.compile(r"(?<=epoch )\d+|(?<=with )\d+(?= to go)|\d[\d,]*(?= decisions)")  # that depend on the data
_SLOW = 0.7  # of the clicks on slow items are late, or never told


@dataclass(frozen=True)
class Case:
    """A learner, a reading and some options."""

    kind: str
    reading: str
    options: tuple[Option, ...]

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.reading}: {' + '.join(option.name for option in self.options) or 'nothing'}"

    @property
    def seed(self) -> int:
        """A number of its own, the same in all runs of the suite."""
        return zlib.crc32(self.name.encode())


@dataclass(frozen=True, eq=False)
class Answers:
    """Of a batch, the rows of which are told when so many decisions are made, `due`; `again` are the decisions as the
    loaded learner made them.
    """

    due: NDArray[np.int64]
    decisions: cb.Decisions
    again: cb.Decisions
    rewards: Floats

    def __getitem__(self, rows: NDArray[np.int64]) -> Answers:
        again = self.decisions[rows]
        other = again if self.again is self.decisions else self.again[rows]
        return Answers(self.due[rows], again, other, self.rewards[rows])


class Run:
    """A learner at work until so many `rounds` were asked for, with a twin beside it if `followed`, and from a random
    moment on beside what was saved and loaded: in a file if there is a `folder`.

    refused: what was refused, in the words of the refusal. faults: what is wrong. wrong: whether any claim was.
    """

    def __init__(
        self, case: Case, seed: int, *, rounds: int = 75, folder: Path | None = None, followed: bool = True
    ) -> None:
        self.case: Case = case
        self.seed, self.rounds, self.folder, self.followed = seed, rounds, folder, followed
        self.refused: list[str] = []
        self.faults: list[str] = []
        self.wrong = False
        self.plan: Plan = plan_of(case.options)
        self.rng = np.random.default_rng([seed, case.seed])
        plan = self.plan
        self.world: World = world_of(seed % 8, case.reading, plan.lists, plan.contexts, plan.sparsity)
        self.learner: CertifyingLearner
        self.loaded: CertifyingLearner | None = None
        self.twin: PairsTwin | None = None
        self.pending: list[Answers] = []
        self.changed = 0  # how many steps of `_CHANGES` are done
        self.fields = 1  # of the plan
        self.came: int = 0  # newcomers
        self.withdrawn: list[int] = []
        self.stretches: int = 0  # in which evidence began
        self.levels: list[float] = []  # what each of them has spent of δ
        self._since, self._fitting = -1, False
        self._adopted, self._epoch = False, 0  # whether others draw, and with the plan of which epoch
        self._drawn: cb.Decisions
        self.values: Floats

    def go(self) -> Run:
        """All of it."""
        try:
            self.learner = self.make()
        except cb.InputError as error:
            self.note_refusal("the learner", error)
            return self
        if self.followed:
            follower = GuardedPairsTwin if self.learner.spec.metrics else PairsTwin
            self.twin = follower(self.learner, self.world, production=self.production())
        self.look()
        kept = np.where(SLOW_ITEMS & self.loses, 1 - _SLOW, 1.0)
        self.values = self.world.values(kept)
        issued, batch = 0, self.plan.batch
        n_batches = -(-self.rounds // batch)
        saved_at = set(self.rng.integers(1, n_batches, size=1).tolist()) if self.followed and n_batches > 1 else set()
        steps = 0
        while issued < self.rounds and not self.over(issued):
            if steps in saved_at:
                self.reload()
            self.change(issued)
            size = (
                min(batch, self.learner.spec.period - issued % self.learner.spec.period)
                if self.learner.spec.period > 1
                else batch
            )
            size = min(size, self.rounds - issued) if size > 1 else size
            if not self.ask(size, issued):
                if batch < PATIENCE:
                    self.faults.append("no batch is taken any more")
                    break
                batch = PATIENCE // 2
                continue
            issued += size
            steps += 1
            self.tell(issued)
            self.check(whole=False)
            if not self.followed and self._settled:
                break
        if self.twin is not None:
            self.tell(NEVER - 1)
            self.twin.looks_back = True
            self.twin.look(self.learner)
            self.check(whole=True)
            if self.loaded is not None and (found := self.differing()):
                self.faults.append(f"after going on, the loaded learner is another one: {found}")
            self.faults += not_allowed(self)
        if self.learner.spec.audited is not None:
            self.certificate()
        return self

    def certificate(self) -> None:
        """What others can check must be verified, by what shares no code."""
        if self.learner.rounds == 0:
            return
        with TemporaryDirectory() as folder:
            path, head = Path(folder) / "certificate.zip", self.learner.head
            self.learner.certificate(path)
            report = verify(str(path), [head])
        if not report.verified:
            self.faults.append(f"its certificate is refused: {report.reason}")

    def over(self, issued: int) -> bool:
        """Whether nobody asks any more; a budget is one of decisions, and at most a batch is too many."""
        most = self.learner.spec.max_rounds
        if most is not None and issued >= most and not self.learner.done:
            self.faults.append(f"a budget of {most} decisions is spent after {issued}, and the learner is not done")
            return True
        return self.learner.done and most is not None and issued >= most

    @property
    def _settled(self) -> bool:
        """Whether no further round can change what is counted: a wrong claim was seen, or the last one is made."""
        last = self.learner.verdict.certified is not None and self.learner.spec.recent is None
        return self.plan.changes is None and (self.wrong or last)

    @property
    def loses(self) -> bool:
        """Whether some clicks do not count, for good."""
        return self.plan.answers in ("late", "never") and self.learner.spec.patience is not None

    def look(self) -> None:
        """See whether a stretch has begun."""
        if self.learner.evidence.since != self._since:
            self._since = self.learner.evidence.since
            self.stretches += 1
            if self._fitting:  # nothing was bet
                self.levels.pop()
            self.levels.append(level(self.learner))
        self._fitting = self.learner.epochs.current.fitting

    # ---- making ------------------------------------------------------------------------------------------------------

    def arguments(self) -> dict[str, Any]:
        """What the constructor is given."""
        given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "first_epoch": 20}
        for option in self.case.options:
            given |= option.arguments(self.world)
        return given

    def make(self) -> CertifyingLearner:
        kind = KINDS[self.case.kind]
        return kind.learner(self.world.problem, self.world.policies, seed=self.seed, **self.arguments())

    def production(self) -> int | None:
        """Who is in production, if anybody is."""
        given = self.arguments()
        return self.world.policies.names.index(given["production"]) if "production" in given else None

    def reload(self) -> None:
        """Save and load: from now on there are two, which must do the same."""
        learner = self.learner
        objects = {name: value for name, value in self.arguments().items() if name in OBJECTS}
        try:
            if self.folder is not None:
                path = self.folder / "learner.npz"
                learner.save(path)
                self.loaded = type(learner).load(path, learner.policies, **objects)
            else:
                self.loaded = type(learner).from_state(deepcopy(learner.state()), learner.policies, **objects)
        except cb.InputError as error:
            self.faults.append(f"it cannot be saved and loaded: {error}")
            return
        if found := self.differing():
            self.faults.append(f"what was loaded is not what was saved: {found}")

    def differing(self) -> str:
        """In what the loaded learner differs; that another one has made its decisions is meant to be known."""
        assert self.loaded is not None
        return ", ".join(differing(self.learner.state(), self.loaded.state()))[:300]

    def note_refusal(self, of: str, error: cb.InputError) -> None:
        """Keep the sentence, if it is one."""
        said = str(error)
        sentence = f"{of}: {_NUMBERS.sub('…', said)}"
        if sentence not in self.refused:
            self.refused.append(sentence)
        if not is_a_sentence(said):
            self.faults.append(f"{of} is refused without a readable sentence: {said!r}")

    # ---- a batch -----------------------------------------------------------------------------------------------------

    def ask(self, n: int, issued: int) -> bool:
        """Visitors come, and their answers are laid up."""
        numbers = self.rng.integers(len(self.world.chances), size=n)
        X = self.world.visitors(numbers)
        if issued % self.learner.spec.period == 0:  # all of a period is drawn here or there, with one plan
            self._adopted = self.plan.adopted and bool(self.rng.random() < 0.5)
            self._epoch = max(len(self.learner.epochs) - 1 - int(self.rng.integers(2)), 0)
        adopted = self._adopted
        try:
            decisions = self.adopt(X) if adopted else self.learner.ask(X)
        except cb.InputError as error:
            self.note_refusal("decisions drawn elsewhere" if adopted else "the batch", error)
            if not adopted:
                return False
            adopted, decisions = False, self.learner.ask(X)
        again = decisions
        if self.loaded is not None:
            again = self.loaded.adopt(self._drawn) if adopted else self.loaded.ask(X)
            if differing(_columns(again), _columns(decisions)):
                self.faults.append("the loaded learner decides otherwise")
        if self.twin is not None:
            self.twin.asked_for(self.learner, decisions, numbers, adopted=adopted)
        self.look()
        clicks = self.world.clicks(numbers, decisions.lists, self.rng)
        answers = Answers(issued + self.due(decisions, clicks), decisions, again, clicks)
        self.pending.append(answers)
        if self.plan.answers == "twice":  # and then otherwise
            other = np.eye(M)[np.zeros(n, dtype=int)] * (1 - clicks.max(axis=1, keepdims=True))
            repeated = np.flatnonzero(self.rng.random(n) < 0.2)
            self.pending.append(Answers(np.full(n, issued + n + 10), decisions, again, other)[repeated])
        return True

    def adopt(self, X: Any) -> cb.Decisions:
        """Decisions of the epoch before, or of this one, drawn by another process."""
        learner, k = self.learner, self._epoch
        drawn = learner.epochs[k].explorer.draw(X, self.rng, epoch=k).decisions
        self._drawn = reading_of(learner.problem).shown(drawn)
        return learner.adopt(self._drawn)

    def due(self, decisions: cb.Decisions, clicks: Floats) -> NDArray[np.int64]:
        """(n,) when each is told: after so many decisions from the batch's first on."""
        n, answers = len(decisions), self.plan.answers
        clicked = clicks.any(axis=1)
        at_once = np.full(n, n)
        if answers in ("late", "never"):
            item = np.where(clicked, decisions.lists[np.arange(n), clicks.argmax(axis=1)], -1)
            slow = clicked & np.append(SLOW_ITEMS, False)[item] & (self.rng.random(n) < _SLOW)
            later = NEVER if answers == "never" else np.arange(n) + PATIENCE + 1 + self.rng.integers(10, size=n)
            return np.where(slow, later, at_once)
        return np.where(clicked, at_once, NEVER) if answers == "clicks" else at_once

    def tell(self, issued: int) -> None:
        """What is due by now."""
        due, self.pending = self.pending, []
        told = []
        for part in due:
            now = part.due <= issued
            told += [part if now.all() else part[np.flatnonzero(now)]] if now.any() else []
            self.pending += [] if now.all() else [part[np.flatnonzero(~now)]]
        if self.plan.answers in ("singly", "late"):
            told = [part[np.array([i])] for part in told for i in range(len(part.due))]
            told = [told[i] for i in self.rng.permutation(len(told))]
        groups = [[one] for one in told] if self.plan.answers == "singly" else [told] if told else []
        for group in groups:
            decisions = reduce(add, [part.decisions for part in group])
            rewards = np.concatenate([part.rewards for part in group])
            as_told = rewards.sum(axis=1) if self.world.problem.feedback == "total" else rewards
            further = self.further(decisions, rewards)
            self.learner.tell(decisions, as_told, **further)
            is_done = self.learner.done  # after each answer somebody looks
            if self.loaded is not None:
                self.loaded.tell(reduce(add, [part.again for part in group]), as_told, **further)
                if self.loaded.done != is_done:
                    self.faults.append("the loaded learner is done at another time")
            if self.twin is not None:
                values = [further[one.name] / one.largest for one in self.learner.spec.metrics]
                whole = np.stack([rewards, *values], axis=1) if values else rewards
                self.twin.tell(self.learner, decisions.ids, whole)
            self.look()

    def further(self, decisions: cb.Decisions, rewards: Floats) -> dict[str, Floats]:
        """What is told of metrics: of clicks on even items, or odd ones, half of the largest value or all of it."""
        declared = self.learner.spec.metrics
        lists = decisions.lists
        return {
            one.name: rewards * one.largest * np.where(lists % 2 == j % 2, 1.0, 0.5) for j, one in enumerate(declared)
        }

    # ---- the field ---------------------------------------------------------------------------------------------------

    def change(self, issued: int) -> None:
        """Candidates come and go, when a period is over."""
        if self.plan.changes is None or issued % self.learner.spec.period:
            return
        while self.changed < len(_CHANGES) and issued >= _CHANGES[self.changed][0]:
            _, verb = _CHANGES[self.changed]
            self.changed += 1
            present = np.flatnonzero(self.learner.verdict.field.present).tolist()
            leader = self.learner.epochs.current.leader
            leaving = {"add": [], "replace": [2], "withdraw": [1], "withdraw the leader": [leader]}[verb]
            arrivals = [len(self.learner.policies)] if verb in ("add", "replace") else []
            if not set(leaving) <= set(present) or (verb == "withdraw the leader" and leader == 1):
                continue
            try:
                for one in (self.learner, self.loaded):
                    if one is not None:
                        self._change(one, verb, leaving)
            except cb.InputError as error:
                self.note_refusal("a change", error)
                continue
            if self.plan.changes == "planned":  # what is promised is promised of each field of the plan
                self.wrong = False
                self.fields += 1
            self.came += len(arrivals)
            self.withdrawn += leaving
            if self.twin is not None:
                self.twin.change(self.learner, arrivals, leaving, planned=self.plan.changes == "planned")

    def _change(self, learner: CertifyingLearner, verb: str, leaving: list[int]) -> None:
        names, planned = learner.policies.names, self.plan.changes == "planned"
        policy, name = self.world.newcomer(self.came), f"newcomer {self.came}"
        if verb == "add":
            learner.add(policy, name=name, planned=planned)
        elif verb == "replace":
            learner.replace(names[leaving[0]], policy, by=name, planned=planned)
        else:
            learner.withdraw(names[leaving[0]], planned=planned)

    # ---- looking -----------------------------------------------------------------------------------------------------

    def check(self, *, whole: bool) -> None:
        """Whether the twin agrees, and whether what is claimed is true."""
        if self.twin is not None:
            if not self.faults:
                self.faults += differences(self.learner, self.twin, whole=whole)
            if not whole:
                return
        if self.learner.spec.metrics:
            return  # which values are safe is for `tests.certify.test_validity_metrics`
        present = self.learner.verdict.field.present
        self.wrong |= claims_wrongly(self.learner.verdict, np.where(present, self.values[: len(present)], -np.inf))


_CHANGES = ((10, "add"), (25, "replace"), (35, "withdraw"), (50, "withdraw the leader"))


def is_a_sentence(said: str) -> bool:
    """One readable sentence, or two: no line breaks, no object's address, an end."""
    return said.endswith(".") and "\n" not in said and " at 0x" not in said and 20 <= len(said) <= 400


def differing(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two states differ, bit by bit; who made a decision, this learner or the one before it, is left out."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        names = [name for name in one if name != "makers"]
        return [found for name in names for found in differing(one[name], other[name], f"{path}.{name}")]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, (a, b) in pairs for found in differing(a, b, f"{path}[{i}]")]
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same = one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    else:
        same = bool(one == other) or (one != one and other != other)
    return [] if same else [path]


def _columns(decisions: cb.Decisions) -> list[Any]:
    """All but who made them."""
    return [getattr(decisions, name) for name in ("ids", "lists", "propensities", "epochs", "covered", "arms")]
