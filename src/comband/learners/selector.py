"""Learners that choose among candidates: what they share beyond asking and telling."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from comband._kernels.records import int_digests
from comband.explore.oracles.base import Oracle
from comband.learners.atomic import synchronized
from comband.learners.base import Learner, Seed
from comband.page.contexts import Contexts, n_contexts, pack_contexts, take_contexts, unpack_contexts
from comband.page.problem import InputError, Problem
from comband.page.rounds import Decisions
from comband.page.storage import Array, Many, Part, State, Text, check
from comband.policies.policy_set import PolicySet, check_policies
from comband.policies.reading import reading_of
from comband.policies.scored import BLOCK
from comband.policies.stochastic import StochasticPolicies
from comband.statistics.claims import nothing
from comband.statistics.results import Candidate, Selection

_RUNNERS_UP = 3

_PROBES = 16  # contexts on which policies are compared
_PROBE_SCHEMA = {"contexts": Many(Part()), "lists": Array("u8", ("P",))}


class Selector(Learner):
    """A learner that looks for the best of some candidates.

    Files do not hold the candidates. `load` is given the same ones in the same order, and knows them by their names and
    by what they show to the first few contexts.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates; for learners that say so, an oracle of a class that can only be reached through it.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.UniformExploration(problem, policies, n_rounds=1000, seed=3)
    >>> isinstance(learner, cb.Selector), learner.policies.names == policies.names
    (True, True)
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "learner.npz"
    >>> learner.save(path)
    >>> cb.UniformExploration.load(path, policies).rounds  # the candidates are no part of the file
    0
    """

    KNOWS_GAPS: ClassVar[bool] = False
    """Whether candidates may leave places of their lists empty, where places do not matter."""

    KNOWS_PROBABILITIES: ClassVar[bool] = False
    """Whether candidates may be given by the probabilities of items instead of lists."""

    def __init__(self, problem: Problem, policies: PolicySet | Oracle, *, seed: Seed = 0) -> None:
        super().__init__(problem, seed=seed)
        self._class = policies
        if isinstance(policies, PolicySet):
            gaps = self.KNOWS_GAPS and reading_of(problem).GAPS
            check_policies(policies, gaps=gaps, by_chance=self.KNOWS_PROBABILITIES).check(problem)
        elif not callable(getattr(policies, "fit", None)):
            raise InputError(f"policies must be a PolicySet or an oracle with fit, got {type(policies).__name__}.")
        # The first few contexts: what policies say to them tells them apart.
        self._probe_contexts: tuple[Contexts, ...] = ()
        self._n_probes = 0
        self._probe_digests: tuple[int, NDArray[np.uint64]] | None = (
            None  # of how many of them, and digests of what was shown
        )

    @property
    def policies(self) -> PolicySet:
        """The candidates."""
        if not isinstance(self._class, PolicySet):
            raise InputError("these policies are reached only through an oracle: they cannot be listed.")
        return self._class

    @synchronized
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state, but for the policies, to one npz file.

        The policies are asked for their lists on a few contexts, by which `load` knows them again.
        """
        if not isinstance(self._class, PolicySet):
            raise InputError("a learner whose policies come from an oracle cannot be saved: they are not in any list.")
        super().save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], policies: PolicySet, **objects: Any) -> Self:
        """Go on where `save` stopped, with the same policies in the same order.

        `objects` are arguments of the constructor that are no plain values (guards, an exploration of your own): no
        file holds them, so give the same ones again.

        Policies that say otherwise than those of the save, on the contexts kept for that, are refused. (Contexts that
        cannot be saved, objects of your own, are not kept: then only names are compared.)
        """
        return super().load(path, policies, **objects)

    @synchronized
    def state(self) -> State:
        """All but the policies, for a file; see `comband.page.storage`."""
        named = {"policies": list(self.policies.names), "probes": self._pack_probes()}
        return {**super().state(), **named}

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, **objects: Any) -> Self:
        """The inverse of `state`, checked, with the same policies in the same order; `objects` as for `load`."""
        check(state, cls._FILE)
        if state["class"] == cls.__name__ and state["policies"] != list(
            check_policies(policies, gaps=True, by_chance=True).names
        ):
            raise InputError("it was saved with other policies (names or order differ).")
        return super().from_state(state, policies, **objects)

    _FILE: ClassVar = {**Learner._FILE, "policies": Many(Text()), "probes": Part()}

    @classmethod
    def _sizes(cls, *given: Any) -> dict[str, int]:
        return {"P": len(given[0])}

    def _issue(self, decisions: Decisions) -> None:
        if self._n_probes < _PROBES and len(decisions):
            some = np.arange(min(_PROBES - self._n_probes, len(decisions)))
            self._probe_contexts = (*self._probe_contexts, take_contexts(decisions.contexts, some))
            self._n_probes += len(some)

    def _ranked(self, totals: NDArray[np.float64]) -> NDArray[np.int64]:
        """The policies by falling total. Equal ones are ordered at random by a generator of their own, so that looking
        changes nothing.
        """
        return np.lexsort((np.random.default_rng(self.rounds).random(len(totals)), -totals))

    def _by_totals(self, totals: NDArray[np.float64], n_rounds: int, *, why: str) -> Selection:
        """The policy of highest total over so many rounds, of which nothing is promised, and why."""
        rho = self.problem.max_reward
        best, *others = (
            Candidate(int(i), self.policies.names[i], float(totals[i] / n_rounds), (0.0, rho))
            for i in self._ranked(totals)[: 1 + _RUNNERS_UP]
        )
        return Selection(
            policy=self.policies[best.index],
            best=best,
            epsilon=rho,
            delta=0.0,
            rounds=self.rounds,
            runners_up=tuple(others),
            claims=(nothing(why),),
            max_reward=rho,
        )

    @property
    def _can_be_saved(self) -> bool:
        """Whether a file can hold the contexts, as far as the first few tell."""
        try:
            for part in self._probe_contexts:
                pack_contexts(part)
        except InputError:
            return False
        return True

    def _pack_probes(self) -> State:
        try:
            contexts = [pack_contexts(part) for part in self._probe_contexts]
        except InputError:
            contexts, probes = [], ()
        else:
            probes = self._probe_contexts
        if self._probe_digests is None or self._probe_digests[0] != len(probes):
            self._probe_digests = len(probes), self._digests(probes, self._all_indices())
        return {"contexts": contexts, "lists": self._probe_digests[1]}

    def _all_indices(self) -> NDArray[np.int64]:
        """The policies that are compared when the learner is loaded: those that may still be asked."""
        return np.arange(len(self.policies))

    def _indices_in(self, state: State) -> NDArray[np.int64]:
        """The same, for a learner that was saved so."""
        return np.arange(len(self.policies))

    def _digests(self, batches: Sequence[Contexts], which: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Digests (P,) of the lists that these policies show to some contexts, 0 for the others."""
        digests = np.zeros(len(self.policies), dtype=np.uint64)
        digests[which] = _list_digests(self.policies, which, batches, self.problem)
        return digests

    def _recognise(self, state: State) -> None:
        probes = state["probes"]
        check(probes, _PROBE_SCHEMA, place="probes", P=len(self.policies))
        self._probe_contexts = tuple(unpack_contexts(part) for part in probes["contexts"])
        self._n_probes = sum(n_contexts(part) for part in self._probe_contexts)
        shown = self._digests(self._probe_contexts, self._indices_in(state))
        other = np.flatnonzero(shown != probes["lists"])
        if len(other):
            raise InputError(
                f"it was saved with other policies: {len(other):,} of {len(shown):,} now show other lists to the "
                f"contexts kept for comparison, the first of them {self.policies.names[other[0]]!r}; give the same "
                "policies in the same order, each of which must always answer a context with the same list."
            )
        self._probe_digests = len(self._probe_contexts), shown


def _list_digests(
    policies: PolicySet, which: NDArray[np.int64], batches: Sequence[Contexts], problem: Problem
) -> NDArray[np.uint64]:
    """A digest of the lists that each of some policies shows to some contexts."""
    digests = np.zeros(len(which), dtype=np.uint64)
    step = max(1, BLOCK // (len(which) * problem.list_size))
    for X in batches:
        if isinstance(policies, StochasticPolicies):
            for i, j in enumerate(which.tolist()):
                digests[i] = policies.digest(X, j, digests[i])
            continue
        for start in range(0, n_contexts(X), step):
            lists = policies.predict(take_contexts(X, slice(start, start + step)), which, problem=problem)
            rows = lists.transpose(1, 0, 2).reshape(len(which), -1)
            digests = int_digests(np.column_stack([digests.view(np.int64), rows]))
    return digests
