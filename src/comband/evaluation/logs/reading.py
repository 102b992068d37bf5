"""A log as the events that matter for its candidates, read as a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.candidates import CandidateLists, need_contexts, read_candidates
from comband.evaluation.logs.checks import EMPTY, check_rounds, known_contexts, new_ids
from comband.evaluation.logs.columns import list_columns
from comband.evaluation.logs.faults import Faults, LogError, check_on_error
from comband.evaluation.logs.formats import PLACEMENTS, LogFormat, RawRounds
from comband.evaluation.logs.id_memory import IdMemory
from comband.evaluation.logs.listed import with_context
from comband.evaluation.logs.probabilities import Probabilities
from comband.evaluation.logs.registry import find_format, metric_table, rename_columns
from comband.evaluation.logs.sampling import id_marks, in_sample, mark_limit, sample_level
from comband.evaluation.logs.tables import TableFile, open_table
from comband.evaluation.logs.total_rounds import TotalGather
from comband.evaluation.logs.totals import format_for_law
from comband.page.catalogue import Catalogue, Keys
from comband.page.contexts import context_digests
from comband.page.metrics import Metric, check_metrics
from comband.page.problem import InputError, Problem, check_number, check_places
from comband.page.rounds import Decisions, Events, Rounds, all_covered, no_arms
from comband.page.segments import Segments
from comband.page.totals import TotalRounds
from comband.policies.mixture import Mixture
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.policies.shortened import ShortenedPolicies, empty_places


@dataclass(frozen=True, eq=False, slots=True)
class FurtherEvents:
    """What a log says of a further metric: its positive values, in units of the largest."""

    metric: Metric
    events: Events


@dataclass(frozen=True, eq=False, slots=True)
class LoggedSegments:
    """To which segment each context belongs (N,), by its position in the candidates' table, and how many rounds it has
    (N,).
    """

    segments: Segments
    codes: NDArray[np.int64]
    rounds: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class LogReading:
    """What a log says about its candidates.

    events:
        The positive rewards, or the events of `TotalRounds`; contexts are positions in the candidates' table.
    policies:
        The candidates, as policies of those positions.
    sample:
        Some rounds, rewarded or not, spread over the log (`comband.evaluation.logs.sampling`): they tell what could be
        shown. None of totals.
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
        At which level rounds were sampled by their ids (`comband.evaluation.logs.sampling`); None where they have none.
    metrics:
        What it says of further metrics, if they were asked for.
    segments:
        The segments of its contexts, if they were declared.
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
    metrics: tuple[FurtherEvents, ...] = ()
    segments: LoggedSegments | None = None


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
    metrics: Sequence[Metric] = (),
    segments: Segments | None = None,
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
        "one-slot" (one slot per row), "obd" (Open Bandit dataset), "obp" (its slates), "vw" (dsjson), "ubi" (OpenSearch
        User Behavior Insights) or any other that was registered, "auto" (by the columns; refused where they leave a
        doubt), or a `LogFormat`.
    sparsity:
        A bound on the sum of all items' rewards in one round, if one is known.
    context:
        The column or columns that hold the context id, if not the format's own; candidates without a column `context`
        are found by it too.
    columns:
        What the source calls the columns of the format, where it has other names: {"item": "sku", "reward": "clicked"}.
    places:
        As for `Problem`. With "pairs" the propensities must be those of the item in its place, which is its place in
        the list unless a column `positions` says otherwise; with factors those of the item anywhere in a list whose
        order was random given the set. A log with `placements` (`comband.evaluation.logs.native`) can be read in all
        ways, whatever its order. Logs with propensities per slot are read as pairs anyway.
    law:
        For a log of totals whose lists a mixture of the candidates drew: its file (`Mixture.save`).
    rounds:
        Whether to keep all rounds too, in `LogReading.rounds`, for what needs them: `evaluate_log` then adds SNIPS, and
        doubly robust estimates if it is given a reward model. Memory follows the number of rounds.
    metrics:
        Further values of shown items, whose columns have the metrics' names and the form of the rewards' (a list, or
        purchases_0, purchases_1, …; in a log with one row per item, one column). The log is read once more for each.
    segments:
        Kinds of visitors, by the contexts' keys.
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
    if isinstance(context, str) or not isinstance(context, Sequence) or not all(isinstance(c, str) for c in context):
        raise InputError(f"context must be the names of columns, such as ('user',), got {context!r}.")
    if not isinstance(candidates, CandidateLists):
        candidates = read_candidates(candidates, columns=with_context(candidates, None, context), on_error=how)
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of the rows read so far, got {type(progress).__name__}.")
    found, table = find_format(format, rename_columns(open_table(source), columns))
    reading = check_places(places, candidates.list_size)
    kind = format_for_places(found, reading, str(table.path), table.names)
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
        gather = Gather(
            candidates, kind, most, faults, places=reading, keep=rounds, count_contexts=segments is not None
        )
        known = None
    for batch in kind.batches(table, candidates.list_size, context, faults):
        gather.take(batch)
        if progress is not None and len(batch):
            progress(int(batch.rows[-1]))
    faults.settle(how)
    if gather.n_rounds == 0:
        skipped = f"; all {faults.total:,} faulty rows were skipped" if faults.total else ""
        raise LogError(f"{table.path} holds no usable round{skipped}.")
    further = check_metrics("metrics", metrics)
    if not isinstance(gather, Gather):
        if further or segments is not None:
            raise InputError(
                "metrics and segments are for rewards of shown items, and a log of totals has none: leave them out."
            )
        return _of_totals(gather, kind, faults, known)
    result = gather.result()
    if further and faults.total:
        raise LogError(
            f"{table.path} has faulty rows, and a metric is known of all rounds only: mend them, or leave metrics out."
        )
    if segments is not None:
        need_contexts(candidates, "segments")
        codes = segments.codes([candidates.contexts[i] for i in range(candidates.n_contexts)])
        result = replace(result, segments=LoggedSegments(segments, codes, gather.of_contexts))
    return replace(
        result, metrics=tuple(_read_metric(one, candidates, kind, most, table, context, reading) for one in further)
    )


def _read_metric(
    metric: Metric,
    candidates: CandidateLists,
    kind: LogFormat,
    max_reward: float,
    table: TableFile,
    context: Sequence[str],
    places: Any,
) -> FurtherEvents:
    """The same rounds with a metric's values for rewards."""
    faults = Faults(f"{table.path}, read for {metric.name}")
    kind = kind.in_units(metric.largest)
    gather = Gather(candidates, kind, metric.most(max_reward), faults, places=places)
    for batch in kind.batches(metric_table(table, metric), candidates.list_size, context, faults):
        gather.take(batch)
    faults.settle("refuse")
    return FurtherEvents(metric, gather.events())


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
    if reading_of(mixture.problem).PLACED:
        raise InputError(f"{law} is a mixture of lists whose places matter, and totals do not tell places.")
    return Mixture(policies, mixture.weights, problem=problem, floor=mixture.floor)


def format_for_places(kind: LogFormat, places: Any, path: str, names: Sequence[str] = ()) -> LogFormat:
    """The format as it is read under these places, of a file with columns of these names."""
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
    if kind.examined is not None and list_columns(names, *PLACEMENTS) is not None:
        return kind.examined
    return replace(kind, meaning=f"{kind.meaning}, which was shown in random order; places count by the stated factors")


class Gather:
    """Collects what is kept of each batch; `first` rounds came before, in other files, with the `ids` seen there.

    Rounds with ids are sampled at this `level`, or at that of their number if it is None
    (`comband.evaluation.logs.sampling`). With `keep`, whole rounds are kept too, all of them; with
    `count_contexts` it is counted how many each context has.
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
        count_contexts: bool = False,
    ) -> None:
        if candidates.sizes is not None and kind.positional:
            raise LogError(
                f"{faults.source} is read with propensities per place, so candidates' lists must all have one length."
            )
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
        self.of_contexts = np.zeros(candidates.n_contexts if count_contexts else 0, dtype=np.int64)
        self.smallest = np.inf
        self._events: list[tuple[NDArray[np.int64], ...]] = []
        self._rewards: list[tuple[NDArray[np.float64], ...]] = []
        # With known placements an item's e(x, y) over the mean factor is what its propensity is in random order.
        self._theta = None if places is None or places == "pairs" else np.array(places) / np.mean(places)
        self._rewarded = 0
        self._sample: list[tuple[NDArray[Any], ...]] = []
        self._all: list[tuple[NDArray[Any], ...]] | None = [] if keep else None
        self._digests = IdMemory()
        self.repeated = 0
        self.shortened = candidates.sizes is not None  # or as soon as a round has fewer places than the lists

    def take(self, batch: RawRounds) -> None:
        """Check a batch and keep its events."""
        if len(batch) == 0:
            return
        codes, rewards, propensities, lengths = self._codes(batch)
        rewards = rewards if self._kind.unit == 1 else rewards / self._kind.unit
        fine = check_rounds(
            batch.rows,
            codes,
            batch.items,
            rewards,
            propensities,
            self._faults,
            max_reward=self._max_reward,
            largest=self._kind.largest,
            repeats=self._kind.positional,
        )
        places = self._candidates.contexts.find(batch.contexts)
        fine &= known_contexts(batch.rows, batch.contexts, places, fine, self._faults, self._candidates.contexts)
        places, short_lists = self._shortened(batch, places, lengths, fine)
        fine &= ~short_lists
        if batch.ids is not None:
            fine &= new_ids(self.ids, batch.rows, batch.ids, fine, self._faults)
        rows, ids, positions = batch.rows, batch.ids, batch.positions
        known = np.empty((*rewards.shape, 0)) if batch.placements is None else batch.placements
        if not fine.all():
            rows, rewards, propensities, known = rows[fine], rewards[fine], propensities[fine], known[fine]
            ids = None if ids is None else ids[fine]
            codes, places = codes[fine], places[fine]
            positions = None if positions is None else positions[fine]
        if len(rows) == 0:
            return
        if positions is not None:
            m = self._candidates.list_size
            codes = np.minimum(codes, self._stride) * m + positions
        if lengths is not None:
            codes = np.where(codes >= EMPTY, EMPTY - 1 - codes, codes)
        self._n_actions = max(self._n_actions, int(codes.max()) + 1)
        effective = propensities if self._theta is None or not known.shape[2] else known @ self._theta
        self.smallest = min(self.smallest, float(effective.min()))
        self._keep_events(rows, places, codes, rewards, propensities, known)
        if batch.ids is None:
            rewarded = rewards.any(axis=1)
            whole = np.concatenate([places[:, None], codes, rewards, propensities], axis=1)[rewarded]
            self.repeated += int(self._digests.repeated((context_digests(whole) >> np.uint64(2)).view(np.int64)).sum())
        if self._all is not None:
            self._all.append((rows, places, codes, propensities, rewards, known))
        kept = self._chosen(ids, len(rows))
        self._sample.append((rows[kept], places[kept], codes[kept], propensities[kept], rewards[kept], known[kept]))
        self.n_rounds += len(rows)
        if len(self.of_contexts):
            np.add.at(self.of_contexts, places % len(self.of_contexts), 1)

    def _codes(self, batch: RawRounds) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.int64] | None]:
        """Items, rewards and propensities, and the lengths of lists where these differ: in a place j that a round does
        not have stands `EMPTY` + j, which has probability 1 and brings nothing.
        """
        lengths = batch.lengths
        if lengths is None and self._candidates.sizes is not None:
            lengths = np.full(len(batch), batch.items.shape[1])
        if lengths is None:
            codes = self._candidates.items.codes(batch.items.ravel()).reshape(batch.items.shape)
            return codes, batch.rewards, batch.propensities, None
        there = np.arange(batch.items.shape[1]) < lengths[:, None]
        codes = np.broadcast_to(EMPTY + np.arange(there.shape[1]), there.shape).copy()
        codes[there] = self._candidates.items.codes(batch.items[there])
        return codes, np.where(there, batch.rewards, 0.0), np.where(there, batch.propensities, 1.0), lengths

    def _shortened(
        self,
        batch: RawRounds,
        places: NDArray[np.int64],
        lengths: NDArray[np.int64] | None,
        fine: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Numbers of contexts with so many places fewer (`ShortenedPolicies`); and the rounds that show more than
        candidates have lists for, which are noted.
        """
        m, sizes = self._candidates.list_size, self._candidates.sizes
        if lengths is None:
            return places, np.zeros(len(places), dtype=bool)
        own = np.full(len(places), m) if sizes is None else sizes[places]
        longer = lengths > own
        noted = np.flatnonzero(longer & fine)
        text = "{} items, but candidates have {} for context {}"
        described = [(int(batch.rows[i]), text.format(lengths[i], own[i], batch.contexts[i])) for i in noted[:3]]
        self._faults.add("list length", described, count=len(noted))
        self.shortened = self.shortened or bool((lengths < m).any())
        return places + (m - lengths) * self._candidates.n_contexts, longer

    def add_quiet(self, n: int, smallest: float) -> None:
        """Count n good rounds that are not read, without reward and not of the sample."""
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
        if self.shortened and self._places is not None:
            raise LogError(
                f"{self._faults.source} has rounds of different lengths, for which places are not known to bear on "
                "rewards alike: leave places out, or give rounds of one length."
            )
        return LogReading(
            events=self.events(),
            policies=policies,
            problem=problem,
            sample=self._numbered(self.sample()),
            max_reward=self._max_reward,
            smallest_propensity=self.smallest,
            format=self._kind,
            faults=self._faults,
            repeated=self.repeated,
            catalogue=None if self._kind.positional else self._candidates.items.catalogue,
            places=self._places,
            rounds=None if self._all is None else self._numbered(_as_rounds(self._all)),
            level=self.level,
        )

    @property
    def _all_actions(self) -> int:
        return max(self._n_actions, self._candidates.items.size)

    def _numbered(self, rounds: Rounds) -> Rounds:
        """Rounds in which places that are not there hold items of their own."""
        if not self.shortened:
            return rounds
        return with_empty_places(rounds, self._all_actions)

    def events(self) -> Events:
        """The positive rewards."""
        if not self._events:
            return Events.none(self.n_rounds)
        rounds, places, rows, actions = (np.concatenate(parts) for parts in zip(*self._events, strict=True))
        rewards, propensities, known = (np.concatenate(parts) for parts in zip(*self._rewards, strict=True))
        return Events(
            n_rounds=self.n_rounds,
            ids=rounds,
            epochs=np.zeros(len(rounds), dtype=np.int64),
            contexts=places,
            rows=rows,
            actions=actions.astype(np.int32),
            rewards=rewards,
            propensities=propensities,
            placements=known if known.shape[1] else None,
        )

    def sample(self) -> Rounds:
        """Some rounds, rewarded or not."""
        whole = _as_rounds(self._sample or [_no_rounds(self._kind.slots or self._candidates.list_size)])
        if self._marks is None or self.level is None or self._level is not None:
            return whole
        return whole[np.flatnonzero(np.concatenate(self._marks) < mark_limit(self.level))]

    def _policies(self) -> tuple[PolicySet, Problem]:
        m, lists, names = self._candidates.list_size, self._candidates.lists, self._candidates.names
        if self._candidates.probabilities is not None:
            return self._by_chance(self._candidates.probabilities)
        catalogue = self._candidates.items.catalogue
        if not self._kind.positional:
            problem = Problem(self._all_actions, m)
            if not self.shortened:
                return PolicySet.from_lists(lists, problem, names=names, catalogue=catalogue), problem
            return shortened_policies(self._candidates, self._all_actions), Problem(self._all_actions + m, m)
        if (self._stride + 1) * m >= 2**31:
            raise LogError(f"{self._stride:,} items in {m} slots are too many for a log with propensities per slot.")
        K = self._stride + (self._n_actions > self._stride * m)
        named = catalogue if catalogue is not None and len(catalogue) == K else None
        items = PolicySet.from_lists(lists, Problem(K, m), names=names, catalogue=named)
        return PlacedPolicies(items, m), Problem(K * m, m)

    def _by_chance(self, probabilities: Probabilities) -> tuple[PolicySet, Problem]:
        if self.shortened:
            raise LogError(
                f"{self._faults.source} has rounds of different lengths, and what a candidate that draws its lists "
                "would show in fewer places its probabilities do not tell."
            )
        m, positional = self._candidates.list_size, self._kind.positional
        K = self._stride + (self._n_actions > self._stride * m) if positional else self._all_actions
        K = max(K, probabilities.n_items, m)
        problem = Problem(K * m if positional else K, m)
        return probabilities.policies(self._candidates.names, K, positional=positional), problem

    def _keep_events(
        self,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        codes: NDArray[np.int64],
        rewards: NDArray[np.float64],
        propensities: NDArray[np.float64],
        known: NDArray[np.float64],
    ) -> None:
        where, slot = np.nonzero(rewards)
        rewarded, inverse = np.unique(where, return_inverse=True)
        self._events.append(
            (rows[rewarded], places[rewarded], inverse + self._rewarded, codes[where, slot]),
        )
        self._rewards.append((rewards[where, slot], propensities[where, slot], known[where, slot]))
        self._rewarded += len(rewarded)


def shortened_policies(candidates: CandidateLists, n_actions: int) -> PolicySet:
    """Lists of different lengths as policies of `ShortenedPolicies`' numbers of contexts, K items being known."""
    m = candidates.list_size
    lists = empty_places(candidates.lists, n_actions)
    whole = PolicySet.from_lists(lists, Problem(n_actions + m, m), names=candidates.names)
    return ShortenedPolicies(whole, n_contexts=candidates.n_contexts, n_actions=n_actions)


def with_empty_places(rounds: Rounds, n_actions: int) -> Rounds:
    """Rounds in which places that are not there hold the items of `ShortenedPolicies`."""
    made = rounds.decisions
    names = ("ids", "propensities", "epochs", "contexts", "covered", "arms", "makers")
    lists = empty_places(made.lists, n_actions).astype(np.int32)
    columns = {name: getattr(made, name) for name in names} | {"lists": lists}
    return Rounds(Decisions._of_checked(**columns), rounds.rewards)


def _no_rounds(m: int) -> tuple[NDArray[Any], ...]:
    none, lists = np.empty(0, dtype=np.int64), np.empty((0, m))
    return none, none, lists.astype(np.int64), lists, lists, lists[:, :, None][:, :, :0]


def _as_rounds(parts: list[tuple[NDArray[Any], ...]]) -> Rounds:
    numbers, where, shown, propensities, answers, known = (np.concatenate(part) for part in zip(*parts, strict=True))
    decisions = Decisions._of_checked(  # row by row, as they were read; divisors of slots may exceed 1
        ids=numbers,
        lists=shown.astype(np.int32),
        propensities=propensities,
        epochs=np.zeros(len(numbers), dtype=np.int64),
        contexts=where,
        covered=all_covered(len(numbers)),
        arms=no_arms(len(numbers)),
        makers=np.zeros(len(numbers), dtype=np.int64),
        placements=known if known.shape[2] else None,
    )
    return Rounds(decisions, answers)
