"""A log as the events that matter for its candidates, read as a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.catalogue import Catalogue, Keys
from comband.contexts import context_prints
from comband.logs.candidates import CandidateLists, read_candidates
from comband.logs.checks import check_rounds, known_contexts, new_ids
from comband.logs.faults import Faults, LogError, check_on_error
from comband.logs.formats import LogFormat, RawRounds
from comband.logs.id_memory import IdMemory
from comband.logs.registry import find_format, rename_columns
from comband.logs.sampling import id_marks, in_sample, mark_limit, sample_level
from comband.logs.tables import open_table
from comband.logs.total_rounds import TotalGather
from comband.logs.totals import format_for_law
from comband.policies.mixture import Mixture
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet
from comband.problem import InputError, Problem, check_number, check_places
from comband.rounds import Decisions, Events, Rounds, all_covered, no_arms
from comband.totals import TotalRounds


@dataclass(frozen=True, eq=False, slots=True)
class LogReading:
    """What a log says about its candidates.

    events:
        The positive rewards, or the events of `TotalRounds`; contexts are positions in the candidates' table.
    policies:
        The candidates, as policies of those positions.
    sample:
        Some rounds, rewarded or not, spread over the log (`comband.logs.sampling`): they tell what could be shown. None
        of totals.
    max_reward:
        The most one round's shown items can bring together: min(sparsity, slots).
    smallest_propensity:
        Among all shown items of the log; of totals the smallest share of a list.
    repeated:
        Rewarded rounds without an id that have the same context, items, rewards and propensities as an earlier one:
        logged twice, perhaps.
    catalogue:
        What the actions 0, 1, … are called; None where items are their own numbers, and where propensities are per slot
        (actions are then pairs of item and slot).
    places:
        How places bear on rewards, as for `Problem`. Where the format is positional (always with "pairs"), actions are
        pairs of item and place, numbered y·m + k, and the policies `PlacedPolicies`.
    rounds:
        All rounds, if they were asked for; their contexts are positions in the candidates' table.
    totals, law:
        All rounds of a log of totals, and the mixture that drew their lists, if it was named.
    level:
        At which level rounds were sampled by their ids (`comband.logs.sampling`); None where they have none.
    problem:
        The setting, as far as the files tell it.
    faults:
        What was wrong with the rows.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"], "item_1": "salt"})
    >>> shown = {"round": [1, 1], "context": 1, "item": ["tea", "salt"], "reward": [1, 0], "propensity": 0.5}
    >>> clicks = pd.DataFrame(shown)
    >>> reading = cb.read_log(clicks, cb.read_candidates(lists), sparsity=1)
    >>> reading.events.n_rounds, reading.max_reward, reading.smallest_propensity
    (1, 1.0, 0.5)
    >>> cb.evaluate_log(reading).evaluation.best.name
    'old'
    """

    events: Events
    policies: PolicySet
    problem: Problem
    sample: Rounds | None
    max_reward: float
    smallest_propensity: float
    format: LogFormat
    faults: Faults
    catalogue: Catalogue | None = None
    repeated: int = 0
    places: Any = None
    totals: TotalRounds | None = None
    law: Mixture | None = None
    rounds: Rounds | None = None
    level: int | None = None


def read_log(
    source: Any,
    candidates: Any = None,
    *,
    format: str | LogFormat = "auto",
    sparsity: float | None = None,
    context: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    places: Any = None,
    law: str | os.PathLike[str] | None = None,
    rounds: bool = False,
    on_error: str = "refuse",
    progress: Callable[[int], None] | None = None,
) -> LogReading:
    """Read a log once, in batches; memory follows the number of positive rewards, not of rounds.

    Parameters
    ----------
    source:
        A .parquet, .csv or .jsonl file, or a data frame (pandas, polars, pyarrow).
    candidates:
        Which candidates, contexts and items there are: what `read_candidates` gave, or the file or data frame that it
        would read.
    format:
        "comband", "impressions" or "impressions-by-position" (one row per shown item), "totals" (one number per list),
        "obd" (Open Bandit dataset), "obp" (its slates), "vw" (CCB dsjson) or any other that was registered, "auto" (by
        the columns; refused where they leave a doubt), or a `LogFormat`.
    sparsity:
        A bound on the sum of all items' rewards in one round, if one is known.
    context:
        The column or columns that hold the context id, if not the format's own.
    columns:
        What the source calls the columns of the format, where it has other names: {"item": "sku", "reward": "clicked"}.
    places:
        As for `Problem`. With "pairs" the propensities must be those of the item in its place, which is its place in
        the list unless a column `positions` says otherwise; with factors those of the item anywhere in a list whose
        order was random given the set. Logs with propensities per slot are read as pairs anyway.
    law:
        For a log of totals whose lists a mixture of the candidates drew: its file (`Mixture.save`).
    rounds:
        Whether to keep all rounds too, in `LogReading.rounds`, for what needs them: `evaluate_log` then adds SNIPS, and
        doubly robust estimates if it is given a reward model. Memory follows the number of rounds.
    on_error:
        "refuse" a log with faulty rows, after reading and counting all, or "skip" them.
    progress:
        Called with the number of rows read so far.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"], "item_1": "salt"})
    >>> clicks = pd.DataFrame(
    ...     {
    ...         "request": ["r1", "r1", "r2", "r2"],
    ...         "context": [1, 1, 1, 1],
    ...         "sku": ["tea", "rice", "salt", "tea"],
    ...         "clicked": [True, False, False, False],
    ...         "propensity": [0.8, 0.6, 0.6, 0.8],
    ...     }
    ... )
    >>> names = {"round": "request", "item": "sku", "reward": "clicked"}
    >>> reading = cb.read_log(clicks, lists, columns=names)
    >>> reading.format.name, reading.events.n_rounds, reading.smallest_propensity
    ('impressions', 2, 0.6)
    """
    how = check_on_error(on_error)
    if candidates is None:
        raise InputError(
            "candidates must be given too, since a log is read for what it says of them: a file or data frame of each "
            "candidate's list for each context, or what read_candidates gave. (Rounds.from_log takes a log alone.)"
        )
    if isinstance(candidates, PolicySet):
        raise InputError(
            "read_log takes lists of candidates; evaluate(frame, policies, features=[…]) asks policies, or "
            "write_candidates(policies, contexts, path) writes their lists."
        )
    if not isinstance(candidates, CandidateLists):
        candidates = read_candidates(candidates, on_error=how)
    if isinstance(context, str) or not isinstance(context, Sequence) or not all(isinstance(c, str) for c in context):
        raise InputError(f"context must be the names of columns, such as ('user',), got {context!r}.")
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of the rows read so far, got {type(progress).__name__}.")
    table = rename_columns(open_table(source), columns)
    reading = check_places(places, candidates.list_size)
    kind = format_for_places(find_format(format, table), reading, str(table.path))
    kind = format_for_law(kind, law is not None, table)
    faults = Faults(str(table.path))
    slots = kind.slots or candidates.list_size
    most = float(slots) if sparsity is None else min(check_number("sparsity", sparsity), float(slots))
    if not most > 0:
        raise InputError(f"sparsity must be above 0, got {sparsity!r}.")
    gather: Gather | TotalGather
    if kind.feedback == "total":
        if rounds:
            raise InputError("rounds=True is for rewards of single items; those of totals are kept anyway.")
        gather = TotalGather(candidates, sparsity, faults, path=str(table.path))
        known = None if law is None else load_law(law, gather.policies, gather.problem)
    else:
        gather, known = Gather(candidates, kind, most, faults, places=reading, keep=rounds), None
    for batch in kind.batches(table, candidates.list_size, context, faults):
        gather.take(batch)
        if progress is not None and len(batch):
            progress(int(batch.rows[-1]))
    faults.settle(how)
    if gather.n_rounds == 0:
        skipped = f"; all {faults.total:,} faulty rows were skipped" if faults.total else ""
        raise LogError(f"{table.path} holds no usable round{skipped}.")
    return gather.result() if isinstance(gather, Gather) else _of_totals(gather, kind, faults, known)


def _of_totals(gather: TotalGather, kind: LogFormat, faults: Faults, law: Mixture | None) -> LogReading:
    totals, policies = gather.rounds(law), gather.policies
    return LogReading(
        events=totals.events(),
        policies=policies,
        problem=gather.problem,
        sample=None,
        max_reward=gather.problem.max_reward,
        smallest_propensity=float(totals.shares.min()),
        format=kind,
        faults=faults,
        repeated=gather.repeated,
        catalogue=policies.catalogue,
        totals=totals,
        law=law,
    )


def load_law(law: str | os.PathLike[str], policies: PolicySet, problem: Problem) -> Mixture:
    """The mixture that drew the lists of a log, of these policies."""
    mixture = Mixture.load(law, policies)
    if mixture.problem.places == "pairs":
        raise InputError(f"{law} is a mixture of lists whose places matter, and totals do not tell places.")
    return Mixture(policies, mixture.weights, problem=problem, floor=mixture.floor)


def format_for_places(kind: LogFormat, places: Any, path: str) -> LogFormat:
    """The format as it is read under these places."""
    if places is None or (places == "pairs" and kind.positional):
        return kind
    if kind.placed is None:
        raise LogError(
            f"{path} is a log of the kind {kind.name!r}, where {kind.meaning}: that does not tell the probability of "
            + (
                'an item in its place. Leave places out, or log it and use the columns of "comband".'
                if places == "pairs"
                else "an item in lists of random order, which factors of places need. Leave places out."
            )
        )
    if places == "pairs":
        return kind.placed
    return replace(kind, meaning=f"{kind.meaning}, which was shown in random order; places count by the stated factors")


class Gather:
    """Collects what is kept of each batch; `first` rounds came before, in other files, with the `ids` seen there.

    Rounds with ids are sampled at this `level`, or at that of their number if it is None (`comband.logs.sampling`).
    With `keep`, whole rounds are kept too, all of them.
    """

    def __init__(
        self,
        candidates: CandidateLists,
        kind: LogFormat,
        max_reward: float,
        faults: Faults,
        *,
        first: int = 0,
        level: int | None = None,
        ids: IdMemory | None = None,
        places: Any = None,
        keep: bool = False,
    ) -> None:
        self._candidates = candidates
        self._places = places
        self._kind = kind
        self._max_reward = max_reward
        self._faults = faults
        self.ids = IdMemory() if ids is None else ids
        self._first = first
        self._level = level
        self._marks: list[NDArray[np.int64]] | None = None
        # With propensities per slot, item y in slot k is the action y·m + k; K is settled by the candidates, and all
        # items that none of them can show are one more, K.
        self._stride = self._n_actions = max(candidates.items.size, candidates.list_size)
        self.n_rounds = 0
        self.smallest = np.inf
        self._events: list[tuple[NDArray[np.int64], ...]] = []
        self._rewards: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        self._rewarded = 0
        self._sample: list[tuple[NDArray[Any], ...]] = [_no_rounds(kind.slots or candidates.list_size)]
        self._all: list[tuple[NDArray[Any], ...]] | None = [] if keep else None
        self._prints = IdMemory()
        self.repeated = 0

    def take(self, batch: RawRounds) -> None:
        """Check a batch and keep its events."""
        if len(batch) == 0:
            return
        shape = batch.items.shape
        codes = self._candidates.items.codes(batch.items.ravel()).reshape(shape)
        fine = check_rounds(
            batch.rows,
            codes,
            batch.items,
            batch.rewards,
            batch.propensities,
            self._faults,
            max_reward=self._max_reward,
            largest=self._kind.largest,
            repeats=self._kind.positional,
        )
        places = self._candidates.contexts.find(batch.contexts)
        fine &= known_contexts(batch.rows, batch.contexts, places, fine, self._faults)
        if batch.ids is not None:
            fine &= new_ids(self.ids, batch.rows, batch.ids, fine, self._faults)
        rows, ids, rewards, propensities = batch.rows, batch.ids, batch.rewards, batch.propensities
        positions = batch.positions
        if not fine.all():
            rows, rewards, propensities = rows[fine], rewards[fine], propensities[fine]
            ids = None if ids is None else ids[fine]
            codes, places = codes[fine], places[fine]
            positions = None if positions is None else positions[fine]
        if len(rows) == 0:
            return
        if positions is not None:
            m = self._candidates.list_size
            codes = np.minimum(codes, self._stride) * m + positions
        self._n_actions = max(self._n_actions, int(codes.max()) + 1)
        self.smallest = min(self.smallest, float(propensities.min()))
        self._keep_events(rows, places, codes, rewards, propensities)
        if batch.ids is None:
            rewarded = rewards.any(axis=1)
            whole = np.concatenate([places[:, None], codes, rewards, propensities], axis=1)[rewarded]
            self.repeated += int(self._prints.repeated((context_prints(whole) >> np.uint64(2)).view(np.int64)).sum())
        if self._all is not None:
            self._all.append((rows, places, codes, propensities, rewards))
        kept = self._chosen(ids, len(rows))
        self._sample.append((rows[kept], places[kept], codes[kept], propensities[kept], rewards[kept]))
        self.n_rounds += len(rows)

    def add_quiet(self, n: int, smallest: float) -> None:
        """Count n good rounds that nobody needs to see, without reward and not of the sample."""
        self.n_rounds += n
        self.smallest = min(self.smallest, smallest)

    def _chosen(self, ids: Keys | None, n: int) -> NDArray[np.bool_]:
        """Which of the next n rounds belong to the sample, as far as is known before the last round."""
        if ids is None:
            return in_sample(self._first + self.n_rounds + np.arange(n))
        level = sample_level(self.n_rounds + n) if self._level is None else self._level
        marks = id_marks(ids)
        kept = marks < mark_limit(level)
        self._marks = self._marks or [np.empty(0, dtype=np.int64)]
        self._marks.append(marks[kept])
        return np.asarray(kept)

    @property
    def level(self) -> int | None:
        """At which level rounds are sampled by their ids; None if they have none."""
        if self._marks is None:
            return None
        return sample_level(self.n_rounds) if self._level is None else self._level

    def result(self) -> LogReading:
        """Everything put together."""
        policies, problem = self._policies()
        return LogReading(
            events=self.events(),
            policies=policies,
            problem=problem,
            sample=self.sample(),
            max_reward=self._max_reward,
            smallest_propensity=self.smallest,
            format=self._kind,
            faults=self._faults,
            repeated=self.repeated,
            catalogue=None if self._kind.positional else self._candidates.items.catalogue,
            places=self._places,
            rounds=None if self._all is None else _as_rounds(self._all),
            level=self.level,
        )

    def events(self) -> Events:
        """The positive rewards."""
        if not self._events:
            return Events.none(self.n_rounds)
        rounds, places, rows, actions = (np.concatenate(parts) for parts in zip(*self._events, strict=True))
        rewards, propensities = (np.concatenate(parts) for parts in zip(*self._rewards, strict=True))
        return Events(
            n_rounds=self.n_rounds,
            ids=rounds,
            epochs=np.zeros(len(rounds), dtype=np.int64),
            contexts=places,
            rows=rows,
            actions=actions.astype(np.int32),
            rewards=rewards,
            propensities=propensities,
        )

    def sample(self) -> Rounds:
        """Some rounds, rewarded or not."""
        whole = _as_rounds(self._sample)
        if self._marks is None or self.level is None or self._level is not None:
            return whole
        return whole[np.flatnonzero(np.concatenate(self._marks) < mark_limit(self.level))]

    def _policies(self) -> tuple[PolicySet, Problem]:
        m, lists, names = self._candidates.list_size, self._candidates.lists, self._candidates.names
        catalogue = self._candidates.items.catalogue
        if not self._kind.positional:
            problem = Problem(max(self._n_actions, self._candidates.items.size), m)
            return PolicySet.from_lists(lists, problem, names=names, catalogue=catalogue), problem
        if (self._stride + 1) * m >= 2**31:
            raise LogError(f"{self._stride:,} items in {m} slots are too many for a log with propensities per slot.")
        K = self._stride + (self._n_actions > self._stride * m)
        named = catalogue if catalogue is not None and len(catalogue) == K else None
        items = PolicySet.from_lists(lists, Problem(K, m), names=names, catalogue=named)
        return PlacedPolicies(items, m), Problem(K * m, m)

    def _keep_events(
        self,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        codes: NDArray[np.int64],
        rewards: NDArray[np.float64],
        propensities: NDArray[np.float64],
    ) -> None:
        where, slot = np.nonzero(rewards)
        rewarded, inverse = np.unique(where, return_inverse=True)
        self._events.append(
            (rows[rewarded], places[rewarded], inverse + self._rewarded, codes[where, slot]),
        )
        self._rewards.append((rewards[where, slot], propensities[where, slot]))
        self._rewarded += len(rewarded)


def _no_rounds(m: int) -> tuple[NDArray[Any], ...]:
    none, lists = np.empty(0, dtype=np.int64), np.empty((0, m))
    return none, none, lists.astype(np.int64), lists, lists


def _as_rounds(parts: list[tuple[NDArray[Any], ...]]) -> Rounds:
    numbers, where, shown, propensities, answers = (np.concatenate(column) for column in zip(*parts, strict=True))
    decisions = Decisions._of_checked(  # row by row, as they were read; divisors of slots may exceed 1
        ids=numbers,
        lists=shown.astype(np.int32),
        propensities=propensities,
        epochs=np.zeros(len(numbers), dtype=np.int64),
        contexts=where,
        covered=all_covered(len(numbers)),
        arms=no_arms(len(numbers)),
        makers=np.zeros(len(numbers), dtype=np.int64),
    )
    return Rounds(decisions, answers)
