"""Every option of the certifying learners and of how they are used: one entry each. Adding one is adding an entry.

An entry says how it changes the constructor's arguments, and how it changes the run: which candidates there are, how
batches and answers come, what happens meanwhile. What a run is then compared with follows from these alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

import comband as cb
from comband.certify import CertifyingLearner
from comband.certify.notifications import Guard, Moment
from comband.explore.explorers import Explorer, MixtureExplorer, Standing
from comband.page.storage import State
from tests.pairs.worlds import K, World

PATIENCE = 25
METRICS = (
    {"name": "purchases", "margin": 0.3},
    {"name": "reports", "margin": 0.5, "relative": True, "direction": "cost", "largest": 2.0},
)
Arguments = Callable[[World], Mapping[str, Any]]
_ANY = World(0, "items")


@dataclass(frozen=True)
class Plan:
    """How a run goes.

    lists, contexts, sparsity: as for `World`. batch: how many visitors at once. answers: "at once", "late" (clicks on
    some items after more than the patience), "never" (such clicks are not told at all), "clicks" (rounds without a
    click are not told), "twice" (and then otherwise) or "singly" (one by one, in any order). changes: None, "planned"
    or "chosen". adopted: whether half of the batches are drawn elsewhere.
    """

    lists: str = "full"
    contexts: str = "numbers"
    sparsity: float | None = 1.0
    batch: int = 15
    answers: str = "at once"
    changes: str | None = None
    adopted: bool = False


@dataclass(frozen=True, eq=False)
class Option:
    """One entry: what it is called, the arguments that it gives, and what it changes in the plan of a run."""

    name: str
    arguments: Arguments = field(default=lambda world: {})
    run: Mapping[str, Any] = field(default_factory=dict)

    def goes_beside(self, other: Option) -> bool:
        """Whether both can be said at once: one value for one argument."""
        mine, theirs = ({**one.arguments(_ANY), **one.run} for one in (self, other))
        return all(_same(mine[name], theirs[name]) for name in mine.keys() & theirs.keys())


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, (str, int, float)) and bool(one == other)


class Counting(Guard):
    """A guard of one's own, whose memory is saved, and which says something when it has seen enough."""

    def __init__(self) -> None:
        self.seen = 0

    def observe(self, moment: Moment) -> None:
        self.seen = self.seen + 1

    @property
    def warning(self) -> str:
        return f"a guard of one's own has seen {self.seen} moments" if self.seen > 10 else ""

    def state(self) -> State:
        return {"seen": self.seen}

    def restore(self, state: State) -> None:
        self.seen = state["seen"]


class LeaderFirst:
    """An exploration of one's own: half of the lists are the leader's, a fifth uniform, the rest the others'."""

    def plan(self, standing: Standing) -> Explorer:
        weights = np.zeros(len(standing.policies))
        weights[standing.candidates] = 0.5 / len(standing.candidates)
        weights[standing.candidates[standing.leader]] += 0.5
        return MixtureExplorer(
            standing.policies, standing.candidates, weights=weights, floor=0.2, problem=standing.problem
        )


def _scores(sign: float) -> Arguments:
    return lambda world: {"prior_scores": (sign * world.values(np.ones(K)))[: len(world.policies)].tolist()}


def given(**arguments: Any) -> Arguments:
    """Arguments that are the same in all worlds."""
    return lambda world: arguments


def _production(**more: Any) -> Arguments:
    return lambda world: {"production": world.policies.names[1], **more}


OPTIONS = (
    Option("budget", given(epsilon=None, max_rounds=50)),
    Option("epsilon and budget", given(max_rounds=50)),
    Option("large delta", given(delta=0.5)),
    Option("good scores", _scores(1.0)),
    Option("reversed scores", _scores(-1.0)),
    Option("scores' error", given(prior_error=0.01)),
    Option("patience", given(patience=PATIENCE)),
    Option("short first epoch", given(first_epoch=1)),
    Option("long first epoch", given(first_epoch=1000)),
    Option("slow growth", given(epoch_growth=1.001)),
    Option("fast growth", given(epoch_growth=50.0)),
    Option("period", given(period=7)),
    Option("recent", given(recent=40)),
    Option("open field", given(open_field=True)),
    Option("reward", given(objective="reward")),
    Option("shuffled", given(shuffled=0.5)),
    Option("few evaluated", given(max_evaluated=2)),
    Option("production", _production()),
    Option("exposure", _production(exposure=0.6)),
    Option("max_loss", _production(max_loss=2.0)),
    Option("max_harm", _production(max_harm=0.3)),
    Option("false_stop", _production(max_harm=0.3, false_stop=0.2)),
    Option("audited", given(audited=0.2)),
    Option("metrics", _production(metrics=METRICS)),
    Option("own guard", lambda world: {"guards": [Counting()]}),
    Option("changes by plan", run={"changes": "planned"}),
    Option("changes by data", run={"changes": "chosen"}),
    Option("late answers", run={"answers": "late"}),
    Option("answers that never come", run={"answers": "never"}),
    Option("only clicks told", run={"answers": "clicks"}),
    Option("answers twice", run={"answers": "twice"}),
    Option("answers singly", run={"answers": "singly"}),
    Option("drawn elsewhere", run={"adopted": True}),
    Option("one visitor at a time", run={"batch": 1}),
    Option("large batches", run={"batch": PATIENCE + 5}),
    Option("gaps", run={"lists": "nothing"}),
    Option("filled gaps", run={"lists": "another"}),
    Option("lists with the request", run={"contexts": "requested"}),
    Option("lists in keys", run={"contexts": "keys"}),
    Option("dense contexts", run={"contexts": "dense"}),
    Option("sparse contexts", run={"contexts": "sparse"}),
    Option("cover", run={"contexts": "cover", "lists": "full"}),
    Option("probabilities", run={"contexts": "probabilities", "lists": "full"}),
    Option("unknown sparsity", run={"sparsity": None}),
)
BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, eq=False)
class Kind:
    """A learner; `options` are those that it alone has."""

    learner: type[CertifyingLearner]
    options: tuple[Option, ...] = ()


KINDS = {
    "AdaptiveComband": Kind(cb.AdaptiveComband),
    "CertifyingLearner": Kind(
        CertifyingLearner,
        options=(Option("own exploration", lambda world: {"exploration": LeaderFirst()}),),
    ),
    "UniformLists": Kind(cb.UniformLists),
    "UniformMixture": Kind(cb.UniformMixture, options=(Option("pseudo-inverse", given(weighting="pseudo-inverse")),)),
    "ABTest": Kind(cb.ABTest, options=(Option("eliminating", given(eliminate=True)),)),
    "TwoPhaseComband": Kind(cb.TwoPhaseComband),
}
OBJECTS = ("guards", "exploration")  # that no file holds


def takes(kind: Kind, option: Option) -> bool:
    """Whether the learner has the arguments of this option."""
    return option.arguments(_ANY).keys() <= parameters(kind.learner)


def parameters(learner: type[CertifyingLearner]) -> set[str]:
    """The names of a learner's arguments, but for what every run gives."""
    return set(inspect.signature(learner).parameters) - {"problem", "policies", "seed"}


def options_of(kind: Kind) -> list[Option]:
    """All that it takes."""
    return [*(option for option in OPTIONS if takes(kind, option)), *kind.options]


@cache
def pairs_of(kind: Kind) -> list[tuple[Option, Option]]:
    """All pairs that can be said at once."""
    return [(one, other) for one, other in combinations(options_of(kind), 2) if one.goes_beside(other)]


def plan_of(options: tuple[Option, ...]) -> Plan:
    """The run's plan."""
    plan = Plan()
    for option in options:
        plan = replace(plan, **option.run)
    return plan


def covered() -> set[str]:
    """All names that some option says: of arguments, and of parts of the plan."""
    entries = [*OPTIONS, *(option for kind in KINDS.values() for option in kind.options)]
    return {name for option in entries for name in (*option.arguments(_ANY), *option.run)}


PARTS_OF_PLAN = {part.name for part in fields(Plan)}
