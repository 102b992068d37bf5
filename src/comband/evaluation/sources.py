"""Candidates for a log of many shards: described in a few words, made where they are needed, once per process."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.candidates import CandidateLists, read_candidates
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import need_columns
from comband.evaluation.logs.keys import ItemIndex, read_catalogue
from comband.evaluation.logs.reading import shortened_policies
from comband.evaluation.logs.shards import Shard
from comband.page.catalogue import spelt_numbers
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem
from comband.page.rounds import Events, Rounds
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet
from comband.policies.shortened import ShortenedPolicies, empty_places


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """Candidates that are there.

    known:
        Which contexts and items there are, as the reader of a log asks for them; without the lists.
    policies:
        The candidates, and of how many actions: no candidate shows those beyond. None where lists are read by shard.
    contexts:
        What the policies are given for contexts that `known` calls by number: (shard, what was found, rows, numbers).
    some:
        The candidates for some contexts, by their numbers, where they are read by shard.
    """

    known: CandidateLists
    policies: PolicySet | None
    n_actions: int
    contexts: Callable[[Shard, Any, NDArray[np.int64], NDArray[np.int64]], Contexts]
    faults: Faults
    some: Callable[[NDArray[np.int64], ItemIndex], Source] | None = None

    @property
    def asked(self) -> bool:
        """Whether there is an answer for every context."""
        return isinstance(self.known.contexts, _Asked)

    def narrowed(self, known: CandidateLists, events: Events, rounds: Rounds) -> Source:
        """The candidates on the contexts of one shard."""
        if self.some is None:
            return self
        return self.some(np.union1d(events.contexts, rounds.decisions.contexts), known.items)

    def shortened(self, shard: Shard) -> PolicySet:
        """The candidates for rounds that may have fewer places than their lists."""
        if self.asked or self.some is not None or self.policies is None:
            raise LogError(
                f"{shard.name} has rounds of different lengths, for which candidates' lists must be in one file that "
                "is read whole."
            )
        if isinstance(self.policies, ShortenedPolicies):
            return self.policies
        return ShortenedPolicies(self.policies, n_contexts=self.known.n_contexts, n_actions=self.n_actions)

    def fresh(self) -> CandidateLists:
        """`known` for one shard: what it learns of other items stays its own."""
        items = copy.copy(self.known.items)
        if items._texts is not None:
            items._texts = dict(items._texts)
        contexts: Any = self.known.contexts
        if isinstance(contexts, _Asked):
            contexts = _Asked(contexts.numbers)
        return replace(self.known, items=items, contexts=contexts)

    def events(self, shard: Shard, known: CandidateLists, events: Events) -> Events:
        """Events in the contexts and actions of the policies."""
        X = self.contexts(shard, known.contexts, events.ids, events.contexts)
        return replace(events, contexts=X, actions=np.minimum(events.actions, self.n_actions - 1))

    def sample(self, shard: Shard, known: CandidateLists, rounds: Rounds) -> Rounds:
        """Rounds in the contexts and actions of the policies."""
        made = rounds.decisions
        X = self.contexts(shard, known.contexts, made.ids, made.contexts)
        lists = empty_places(np.minimum(made.lists, self.n_actions - 1), self.n_actions).astype(np.int32)
        return Rounds(type(made)._of_checked(**_columns(made) | {"contexts": X, "lists": lists}), rounds.rewards)


def _columns(decisions: Any) -> dict[str, Any]:
    names = ("ids", "lists", "propensities", "epochs", "contexts", "covered", "arms", "makers")
    return {name: getattr(decisions, name) for name in names}


@dataclass(frozen=True, slots=True)
class ListsFile:
    """Lists in a file (or folder) that every process reads whole."""

    path: str
    n_actions: int | None = None
    items: str | None = None
    on_error: str = "refuse"
    positional: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    token: str = field(default_factory=lambda: uuid4().hex)

    def load(self) -> Source:
        """Read them."""
        catalogue = None if self.items is None else read_catalogue(self.items)
        return of_lists(
            read_candidates(
                self.path,
                n_actions=self.n_actions,
                catalogue=catalogue,
                columns=dict(self.columns),
                on_error=self.on_error,
            ),
            positional=self.positional,
        )


def of_lists(lists: CandidateLists, *, positional: bool) -> Source:
    """What `read_candidates` gave; item y in slot k is the action y·m + k where propensities are per slot."""
    stride, m = max(lists.items.size, lists.list_size), lists.list_size
    # Where all items are known there is no other; where not, one action stands for all that no candidate shows.
    closed = lists.items.closed and not positional
    n_actions = stride if closed else stride + 1
    if positional and n_actions * m >= 2**31:
        raise LogError(f"{stride:,} items in {m} slots are too many for a log with propensities per slot.")
    catalogue = lists.items.catalogue if closed else None
    if lists.probabilities is not None:
        probabilities = lists.probabilities
        n_actions = max(n_actions, probabilities.n_items)
        by_chance = probabilities.policies(lists.names, n_actions, positional=positional)
        wide = n_actions * m if positional else n_actions
        return Source(lists, by_chance, wide, lambda shard, found, rows, numbers: numbers, lists.faults)
    if lists.sizes is not None:
        if positional:
            raise LogError(f"{lists.faults.source}: lists must all have one length where propensities are per slot.")
        policies = shortened_policies(lists, n_actions)
        known = replace(lists, lists=np.empty((0, 0, m), dtype=np.int32))
        return Source(known, policies, n_actions, lambda shard, found, rows, numbers: numbers, lists.faults)
    policies = PolicySet.from_lists(lists.lists, Problem(n_actions, m), names=lists.names, catalogue=catalogue)
    if positional:
        policies, n_actions = PlacedPolicies(policies, m), n_actions * m
    # The reader asks which contexts and items there are, and how long lists are; the lists are the policies' now.
    known = replace(lists, lists=np.empty((0, 0, m), dtype=np.int32))
    return Source(known, policies, n_actions, lambda shard, found, rows, numbers: numbers, lists.faults)


@dataclass(frozen=True, slots=True)
class Made:
    """Policies that a function of the user's makes: "module:factory", called without arguments, gives a PolicySet.

    They are given the contexts' keys, numbers if those of the `first` shard are, or the columns `features` of the log
    as numbers (n, d).
    """

    factory: str
    first: Shard = field(compare=False)
    items: str | None = None
    features: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: uuid4().hex)

    def load(self) -> Source:
        """Make them."""
        policies = made_by(self.factory)
        sizes = {own.list_size for own in _problems(policies)}
        kinds = {own.n_actions for own in _problems(policies)}
        if len(sizes) != 1 or len(kinds) != 1:
            raise InputError(
                f"{self.factory} must make policies that say their problem (`policy.problem`), all the same: "
                "ScoredPolicy, or a class of yours with that attribute."
            )
        (m,), (K,) = sizes, kinds
        items = ItemIndex(n_actions=K) if self.items is None else ItemIndex(catalogue=read_catalogue(self.items))
        if items.size != K:
            raise InputError(f"{self.factory} makes policies of {K} items, but {self.items} names {items.size}.")
        contexts: Any = _Asked(self._numbers(m))
        known = CandidateLists(policies.names, contexts, np.empty((0, 0, m), dtype=np.int32), items, Faults(""))
        return Source(known, policies, K, self._contexts, Faults(self.factory))

    def _numbers(self, list_size: int) -> bool:
        """Whether the contexts of the log are whole numbers, by the first rounds that there are."""
        shard = self.first
        for batch in shard.format.batches(shard.table, list_size, self.context, Faults(shard.name)):
            if len(batch):
                return batch.contexts.dtype != np.dtype(object)
        return True

    def _contexts(self, shard: Shard, found: Any, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> Contexts:
        return found.keys(numbers) if not self.features else _features(shard, self.features, rows)


def _problems(policies: PolicySet) -> list[Problem]:
    found = [getattr(policy, "problem", None) for policy in policies]
    return [problem for problem in found if isinstance(problem, Problem)]


def made_by(factory: str) -> PolicySet:
    """What `module:factory` makes: a PolicySet, or a mapping of names to policies."""
    module, _, name = factory.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{factory} names nothing that can be imported ({error}).") from None
    made = function() if callable(function) else function
    if isinstance(made, dict):
        made = PolicySet(list(made.values()), list(made))
    if not isinstance(made, PolicySet):
        raise InputError(f"{factory} must make a PolicySet, or {{name: policy}}, got {type(made).__name__}.")
    return made


class _Asked:
    """Every context is known; its number is its place among those of the shard."""

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        self._parts: list[NDArray[Any]] = []
        self._n = 0

    def find(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Take keys in; −1 where a number was expected."""
        good = np.ones(len(keys), dtype=bool)
        if self.numbers and keys.dtype == object:
            keys, good = spelt_numbers(keys)
        elif not self.numbers and keys.dtype != object:
            keys = keys.astype(str).astype(object)
        self._parts.append(keys)
        places = np.where(good, self._n + np.arange(len(keys)), -1)
        self._n += len(keys)
        return places

    def keys(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The keys at some places."""
        return np.asarray(np.concatenate(self._parts)[numbers])


def _features(shard: Shard, names: tuple[str, ...], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Columns of a shard at some of its rows, as numbers (n, d); a column of lists gives as many as they have."""
    need_columns(shard.table, names, "a log with features for policies")
    blocks: list[NDArray[np.float64]] = []
    for piece in shard.table.pieces(names, Faults(shard.name)):
        here = np.flatnonzero(np.isin(piece.rows, rows))
        if len(here) == 0:
            continue
        parts = []
        for name in names:
            column = piece.columns[name]
            column = column.take(here) if hasattr(column, "take") else [column[i] for i in here]
            values = column.to_pylist() if hasattr(column, "to_pylist") else column
            try:
                parts.append(np.array(values, dtype=np.float64).reshape(len(here), -1))
            except (TypeError, ValueError):
                raise LogError(
                    f"{shard.name}: column {name} must hold numbers, or lists of equal length, to be a feature."
                ) from None
        blocks.append(np.concatenate(parts, axis=1))
    return np.concatenate(blocks) if blocks else np.empty((0, len(names)))


class Description(Protocol):
    """Candidates in a few words, which another process understands."""

    def load(self) -> Source:
        """Make them."""
        ...


_loaded: dict[Description, Source] = {}
_lock = threading.Lock()


def load(description: Description | Source) -> Source:
    """The candidates of a description, made once in this process; the last are kept.

    Descriptions have tokens: one that is made later stands for files as they are later.
    """
    if isinstance(description, Source):
        return description
    with _lock:
        if description not in _loaded:
            _loaded.clear()
            _loaded[description] = description.load()
        return _loaded[description]
