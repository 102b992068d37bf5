"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is.

What a log can show of a candidate π are the rewards of shared items, X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(y), and
their losses, L_t(π) = Σ_{y∈π(x_t)∩a_t} (κ − r_t(y))/Q_t(y), where κ = min(1, ρ) is the most that one item can bring. An
item that could not be shown is in neither, so for every candidate and whatever was possible

    E X_t(π)  ≤  V(π)  ≤  κ·m − E L_t(π),

with equality on both sides if all of π's items could be shown. Both X and L are nonnegative, so lower confidence
bounds on their means need no bound on 1/Q: a value's interval, and V(π) − V(b) ≤ κ·m − E[L_t(π) + X_t(b)], rest on
nothing but right propensities of what was shown. They also hold where logged propensities are too large; too small
ones are what the check notices, since E Σ_{y∈π(x)∩a} 1/Q(y) can never exceed m.

The price is the variance of L, that of items rather than of clicks. If it is known that every candidate's items had at
least a propensity q (`min_propensity`) has E X_t(π) = V(π), and X_t(π) − X_t(b) ≤ ρ/q makes much narrower bounds. The
log may contradict that: where Σ 1/Q has a mean below m, a candidate's items were not all possible, it *cannot be
judged*, and the bounds that need no overlap take the place of the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from comband.cluster import InProcess, as_work
from comband.cluster.work import Progress
from comband.evaluation.answers import Evaluation, LogEvaluation, PropensityCheck
from comband.evaluation.beside import Production, find_production
from comband.evaluation.clipped import Logging
from comband.evaluation.coverage import ItemWeights, LeastPropensity
from comband.evaluation.extras import check_extras, check_kind, with_extras, with_usual
from comband.evaluation.joining import Joined, log_name, read_totals
from comband.evaluation.judging import ALARM, NEED_PROPENSITY, evaluate_parts
from comband.evaluation.logs.candidates import CandidateLists, read_candidates
from comband.evaluation.logs.faults import check_on_error
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.framed import read_frame
from comband.evaluation.logs.reading import LogReading, format_for_places, read_log
from comband.evaluation.logs.sampling import in_sample
from comband.evaluation.logs.shards import find_shards, of_metric
from comband.evaluation.logs.sql.table import SqlTable
from comband.evaluation.looking import evaluate_increments, for_one_look, further_parts, log_evaluation, of_parts
from comband.evaluation.parts import Part, first_look
from comband.evaluation.pushed import pushed_down
from comband.evaluation.segments import Split, events_of, segmented
from comband.evaluation.totals import evaluate_totals
from comband.page.frames import is_frame
from comband.page.metrics import Metric, check_metrics
from comband.page.places import examinations, examined_events, least_of_pairs, placed_rounds
from comband.page.problem import InputError, Problem, check_fraction, check_places, check_positive
from comband.page.rounds import Events, Rounds, check_rounds
from comband.page.segments import Segments
from comband.page.totals import TotalRounds
from comband.policies.mixture import Mixture
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet, check_policies
from comband.policies.stochastic import StochasticPolicies


def evaluate(
    rounds: Any,
    policies: Any,
    *,
    max_reward: float | None = None,
    min_propensity: float | None = None,
    places: ArrayLike | None = None,
    law: Mixture | None = None,
    logging: Logging | None = None,
    reward_model: Any = None,
    delta: float = 0.05,
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    format: str | LogFormat = "auto",
    production: str | None = None,
    metrics: Sequence[Metric] = (),
    values: Mapping[str, ArrayLike] | None = None,
    segments: Segments | None = None,
    segment_epsilon: float | None = None,
) -> Evaluation:
    """Estimate every candidate on the same rounds, by X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(x_t, y).

    Intervals and `epsilon` come from betting (`ValueHistograms`): 2P one-sided bounds for the values; for the best, one
    bound on V(π) − V(best) for each rival π, at delta/(P − 1). That union is enough for `epsilon` although the best is
    chosen on the same rounds: whichever candidate is truly best, it is compared with at most P − 1 others, and no
    candidate exceeds the chosen one by more than the truly best does. The cost follows the number of positive rewards;
    what could be shown is looked at on all of the first 10,000 rounds and a falling share of the others.

    Parameters
    ----------
    rounds:
        Rounds or their events; logs add (`events_a + events_b`). Of `TotalRounds` only totals are known: they are
        evaluated by `comband.evaluation.totals`, with the same promises. Or a log in a data frame (pandas, polars,
        pyarrow), with the columns of one of the formats of `read_log`.
    policies:
        The candidates. For a data frame also a data frame of their lists, or what `read_candidates` gave.
    max_reward:
        ρ, the most that the shown items of one round can bring: `problem.max_reward`. A data frame can do without: ρ is
        then the number of slots.
    min_propensity:
        A lower bound, known from how lists were drawn, on the propensity of every item that any candidate shows on any
        context (γm/K for a mixture with floor γ). Not stated, nothing is assumed about items that the log does not
        show, and `epsilon` is larger, often by much; `covered_epsilon` then takes the smallest propensity in `rounds`.
        Events do not tell what could be shown, and need it. For totals it bounds the shares of all lists, which all
        must be possible, and can be left out only where all lists of the log are as likely as uniform ones.
    places:
        As for `Problem`. Rounds with `placements` can be read in every way, whatever their order was. Without them
        propensities with "pairs" are those of the item in its place, which is its column in `lists`; with factors they
        are those of the item anywhere in a list whose order was random given the set. min_propensity is about pairs in
        the one case; in the other, where the order was not random, about Σ_k Q(x, y, k)·θ_k over the mean factor, which
        is the propensity where it was. What is told of propensities is then about pairs of item and place. Events do
        with factors; of pairs, they must be those of `placed_rounds`, with `PlacedPolicies`.
    law:
        For totals (`mixture_rounds`) the mixture that drew the lists as wholes: values are then by the pseudo-inverse,
        and min_propensity is known.
    logging:
        The rule that drew the lists, if it can be asked (`inclusion(X, items)`, as a `Mixture` has it), in place of
        min_propensity: differences, and so `epsilon`, are then by `clipped_gaps`, which do not pay for the rarest item
        and hold whatever could not be shown. Every candidate is asked on every round.
    reward_model:
        For the doubly robust estimates beside the others, in `Evaluation.usual`; as for `usual_estimates`, which says
        what it must be. Nothing promised rests on it.
    delta:
        The probability allowed for a wrong statement.
    features, columns, format:
        For a data frame. The columns that policies are given as contexts, as a frame of the same kind, one row per
        round; what the frame calls the columns of its format, {"item": "sku"}; and which format it has, as for
        `read_log`.
    production:
        The name of the candidate that visitors see today: all are compared with it (`comband.evaluation.beside`).
        Needs min_propensity.
    metrics, values:
        Further values of shown items, each with a margin: the best is then the best of those that are certified not to
        be worse than production by more. `values` has them by name, in the shape of the rewards; of a data frame they
        are columns of these names, as the rewards are.
    segments, segment_epsilon:
        Kinds of visitors: also a winner in each, and one for all of them (`comband.evaluation.segments`). With
        segment_epsilon the segments are named too whose winner is within it, but for a share of delta of them.

    >>> from comband import Problem
    >>> problem = Problem(n_actions=3, list_size=1, sparsity=1)
    >>> policies = PolicySet.from_lists([[[0]], [[1]]], problem, names=["zero", "one"])
    >>> log = Rounds.from_log(np.zeros(300, dtype=int), lists=np.arange(300)[:, None] % 3, problem=problem,
    ...     rewards=np.arange(300)[:, None] % 3 == 1, propensities=np.full((300, 1), 1 / 3))
    >>> answer = evaluate(log, policies, max_reward=problem.max_reward, min_propensity=1 / 3)
    >>> answer.best.name, round(answer.best.value, 3), answer.epsilon
    ('one', 1.0, 0.0)
    """
    check_kind(rounds)
    check_extras(rounds, places, min_propensity, logging, reward_model)
    metrics = check_beside(production, metrics, min_propensity)
    _check_segments(segments, segment_epsilon, metrics)
    if segments is not None and logging is not None:
        raise InputError("segments are evaluated with a stated min_propensity: give it in the place of logging.")
    if not isinstance(rounds, TotalRounds):
        _check_stated(min_propensity)
    if is_frame(rounds):
        if places is not None or law is not None:
            raise InputError("places and law are not for a data frame: make Rounds of it (Rounds.from_log).")
        if values is not None:
            raise InputError("the values of a data frame are its columns, by the metrics' names: leave values out.")
        reading = _read_frame(
            rounds,
            policies,
            features,
            sparsity=max_reward,
            columns=columns,
            format=format,
            metrics=metrics,
            segments=segments,
        )
        found = evaluate_log(
            reading,
            min_propensity=min_propensity,
            delta=delta,
            production=production,
            segment_epsilon=segment_epsilon,
        )
        return found.evaluation
    if features is not None or columns is not None or format != "auto":
        raise InputError("features, columns and format are for a log in a data frame; Rounds and Events have none.")
    if max_reward is None:
        raise InputError("max_reward must say how much a round can bring at most: problem.max_reward.")
    policies = check_policies(policies, by_chance=True)
    if isinstance(rounds, TotalRounds):
        if segments is not None:
            raise InputError("segments are for rewards of single items: evaluate the totals of each by themselves.")
        if production is not None:
            raise InputError(
                "lifts and metrics are of rewards of items, and totals of lists do not tell them: leave production out."
            )
        if places is not None:
            raise InputError("totals do not tell in which place a reward came: leave places out.")
        return evaluate_totals(
            rounds, policies, max_reward=max_reward, min_share=min_propensity, delta=delta, alarm=ALARM, law=law
        )
    if law is not None:
        raise InputError("law is for totals; rewards of single items are weighed by their propensities. Leave it out.")
    further = _further(rounds, metrics, values, max_reward)
    split = _split(rounds, segments, [own for _, own in further])
    if places is not None:
        return _evaluate_places(
            rounds,
            policies,
            places,
            max_reward=max_reward,
            min_propensity=min_propensity,
            delta=delta,
            production=production,
            further=further,
            split=split,
            segment_epsilon=segment_epsilon,
        )
    if isinstance(policies, StochasticPolicies):
        policies = policies.anywhere()
    sample: Rounds | None
    if isinstance(rounds, Rounds):
        sample, events = _sample_of(rounds), rounds.events()
    else:
        _need_propensity(min_propensity)
        sample, events = None, rounds
    answer = _evaluate(
        events,
        policies,
        sample,
        smallest=_smallest(rounds),
        max_reward=max_reward,
        min_propensity=min_propensity,
        delta=delta,
        production=production,
        further=[(metric, own.events()) for metric, own in further],
        split=split,
        segment_epsilon=segment_epsilon,
    )
    return with_extras(answer, rounds, policies, logging=logging, reward_model=reward_model)


def _read_frame(
    frame: Any,
    candidates: Any,
    features: Sequence[str] | None,
    *,
    sparsity: float | None,
    columns: Mapping[str, str] | None,
    format: str | LogFormat,
    metrics: Sequence[Metric],
    segments: Segments | None,
) -> LogReading:
    if isinstance(candidates, PolicySet):
        if features is None:
            raise InputError("features must name the columns that the policies are given as contexts, such as ['age'].")
        if metrics or segments is not None:
            raise InputError(
                "metrics and segments of a data frame need candidates' lists; policies are asked about Rounds "
                "(Rounds.from_log), with the metrics as values={…}."
            )
        return read_frame(frame, candidates, features, format=format, sparsity=sparsity, columns=columns)
    if isinstance(candidates, (list, tuple, Mapping)) or hasattr(candidates, "predict"):
        raise InputError(
            f"policies must be a PolicySet, got {type(candidates).__name__}: make one, PolicySet([first, second, …], "
            "names=[…]), with catalogue=Catalogue(keys) if they answer in keys."
        )
    if features is not None:
        raise InputError("features are what policies are given; lists of candidates are found by their context.")
    lists = candidates if isinstance(candidates, CandidateLists) else read_candidates(candidates)
    return read_log(frame, lists, format=format, sparsity=sparsity, columns=columns, metrics=metrics, segments=segments)


def _evaluate_places(
    rounds: Rounds | Events,
    policies: PolicySet,
    places: ArrayLike,
    *,
    max_reward: float,
    min_propensity: float | None,
    delta: float,
    production: str | None,
    further: Sequence[tuple[Metric, Rounds]],
    split: Split | None,
    segment_epsilon: float | None,
) -> Evaluation:
    """`evaluate` with pairs of item and place for items."""
    if isinstance(rounds, Rounds):
        m = rounds.decisions.lists.shape[1]
        reading = check_places(places, m)
        events, sample = rounds.events(), _sample_of(rounds)
    elif isinstance(places, str):
        check_places(places, 1)
        raise InputError(
            "events do not tell in which place an item was shown: give rounds; or the events of placed_rounds(rounds, "
            "'pairs') with PlacedPolicies(policies, m), without places."
        )
    else:
        m = max(np.size(places), 1)
        reading, events, sample = check_places(places, m), rounds, None
        _need_propensity(min_propensity)
    _check_rewards(events, check_positive("max_reward", max_reward))
    return _evaluate_pairs(
        placed_rounds(rounds, reading).events() if isinstance(rounds, Rounds) else examined_events(events, reading),
        policies,
        None if sample is None else placed_rounds(sample, reading),
        reading,
        m,
        smallest=_smallest(rounds, reading),
        max_reward=max_reward,
        min_propensity=min_propensity,
        delta=delta,
        n_rewards=len(events),
        known=events.placements is not None,
        production=production,
        further=[(metric, placed_rounds(own, reading).events()) for metric, own in further],
        split=split,
        segment_epsilon=segment_epsilon,
    )


def _evaluate_pairs(
    pairs: Events,
    policies: PolicySet,
    sample: Rounds | None,
    reading: Any,
    m: int,
    *,
    smallest: float,
    max_reward: float,
    min_propensity: float | None,
    delta: float,
    n_rewards: int,
    known: bool,
    production: str | None = None,
    further: Sequence[tuple[Metric, Events]] = (),
    split: Split | None = None,
    segment_epsilon: float | None = None,
) -> Evaluation:
    """Events of pairs and a sample of such rounds, by `known` placements or in random order; propensities that are
    stated are those of items.
    """
    if min_propensity is not None:
        min_propensity = least_of_pairs(check_positive("min_propensity", min_propensity), reading)
    result = _evaluate(
        pairs,
        policies.in_places() if isinstance(policies, StochasticPolicies) else PlacedPolicies(policies, m),
        sample,
        smallest=least_of_pairs(smallest, reading),
        max_reward=max_reward,
        min_propensity=min_propensity,
        delta=delta,
        slots=m,
        per_item=1 / least_of_pairs(1.0, reading),
        factors=reading if known and reading != "pairs" else None,
        production=production,
        further=further,
        split=split,
        segment_epsilon=segment_epsilon,
    )
    return replace(result, rewards=n_rewards)


def _sample_of(rounds: Rounds) -> Rounds:
    return rounds if len(rounds) == 0 else rounds[np.flatnonzero(in_sample(np.arange(len(rounds))))]


def _check_stated(min_propensity: float | None) -> None:
    if min_propensity is not None and check_positive("min_propensity", min_propensity) > 1:
        raise InputError(f"min_propensity is a probability, at most 1, got {min_propensity:g}.")


def _need_propensity(min_propensity: float | None) -> None:
    if min_propensity is None:
        raise InputError(
            "events hold only what was rewarded, so they do not tell the smallest propensity of the log: state "
            "min_propensity, what your logging ensures for every candidate's items."
        )


def evaluate_log(
    log: Any,
    candidates: Any = None,
    *,
    min_propensity: float | None = None,
    delta: float = 0.05,
    client: Any = None,
    format: str | LogFormat = "auto",
    sparsity: float | None = None,
    context: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    places: Any = None,
    law: str | os.PathLike[str] | None = None,
    features: Sequence[str] = (),
    n_actions: int | None = None,
    items: str | Path | None = None,
    on_error: str = "refuse",
    list_columns: Mapping[str, str] | None = None,
    partition: str | None = None,
    state: str | os.PathLike[str] | SqlTable | None = None,
    since: Any = None,
    reward_model: Any = None,
    progress: Progress | None = None,
    production: str | None = None,
    metrics: Sequence[Metric] = (),
    segments: Segments | None = None,
    segment_epsilon: float | None = None,
) -> LogEvaluation:
    """`evaluate` on a log in files: on what `read_log` read, or on files that are read in shards, here or on a cluster.

    The answer is the same to the last digit, wherever, in which order and how often shards are read. What is kept of a
    log follows its rewards, one bit per reward and candidate.

    Parameters
    ----------
    log:
        What `read_log` gave, and nothing else but min_propensity and delta is needed. Or a file, a folder, a pattern or
        several of them (`comband.evaluation.logs.shards`). Or a table of a database
        (`comband.evaluation.logs.sql.SqlTable`), of which only the rounds that matter are moved, with the same answer
        as from files.
    candidates:
        A file of lists, which each process reads whole; a folder of them, or a large Parquet file, of which each shard
        reads the lists of its own contexts (`comband.evaluation.filtered`); what `read_candidates` gave; or
        "module:factory", a function that makes a PolicySet, called once by each process. Such policies are asked on
        rewarded rounds and on the sample that tells what could be shown (`comband.evaluation.logs.sampling`).
    client:
        A `dask.distributed.Client`, or what `comband.cluster.connect` gave; None to work in this process.
    format, sparsity, context, columns, on_error:
        As for `read_log`.
    places:
        None or "pairs", as for `read_log`; with factors read the log with it.
    law:
        As for `read_log`. A log of totals is one file, and its candidates lists: it is read whole, here.
    min_propensity, delta:
        As for `evaluate`.
    features:
        Columns that policies are given as numbers, instead of the contexts' keys.
    list_columns:
        What the file of lists calls its columns, as `columns` of `read_candidates`.
    reward_model:
        As for `evaluate`, for what `read_log(…, rounds=True)` gave: contexts are positions in the candidates' table
        (`comband.evaluation.logs.read_predictions` reads one from a file).
    n_actions, items:
        The number of items, or a file with all of them, one per line, as for the commands.
    partition:
        What says to which partition (day) a round belongs: folders of files (day=2026-01-01), or a column of a table.
        Partitions that are added later leave the sample of those before as it is (`comband.evaluation.logs.sampling`).
    state:
        For a table with a partition: a file that keeps what is known of each partition, so that the next look reads
        what is new or changed only (`comband.evaluation.increments`). Or a `SqlTable` of DuckDB or PostgreSQL: three
        tables whose names begin with its own.
    since:
        With a state: partitions before this one are not looked at again, unless they have more or fewer rows.
    progress:
        Called with what is being done, how many parts of it are done and of how many.
    production, metrics:
        As for `evaluate`: the values are columns of the metrics' names, as the rewards are. What `read_log` gave has
        been read with its metrics.
    segments, segment_epsilon:
        As for `evaluate`, of the contexts' keys, for one log that is read here. What `read_log` gave has been read with
        its segments.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> cb.write_rounds(rounds, folder / "log.csv")
    >>> cb.write_candidates(policies, visitors.contexts, folder / "lists.csv")
    >>> answer = cb.evaluate_log(folder / "log.csv", folder / "lists.csv", sparsity=1, min_propensity=0.125)
    >>> answer.evaluation.rounds, answer.format
    (2000, 'comband')
    >>> answer.evaluation == cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125)
    True
    """
    if isinstance(log, LogReading):
        if candidates is not None or client is not None or places is not None or law is not None:
            raise InputError(
                "candidates, places, law and client are for logs in files; what read_log gave has been read."
            )
        if len(metrics):
            raise InputError("what read_log gave has its metrics already: read_log(…, metrics=[…]).")
        if segments is not None:
            raise InputError("what read_log gave has its segments already: read_log(…, segments=…).")
        own = check_beside(production, [one.metric for one in log.metrics], min_propensity)
        _check_segments(None if log.segments is None else log.segments.segments, segment_epsilon, own)
        evaluation = _evaluate_reading(log, min_propensity, delta, production, segment_epsilon)
        if min_propensity is None:
            evaluation = for_one_look(evaluation, log.level)
        evaluation = with_usual(evaluation, log, reward_model)
        return replace(log_evaluation(evaluation, log.format, log.faults), repeated=log.repeated)
    if reward_model is not None:
        raise InputError("reward_model needs all rounds of a log: give what read_log(…, rounds=True) gave.")
    if candidates is None:
        raise InputError("candidates must say whose lists are evaluated; only what read_log gave knows them already.")
    how, work = check_on_error(on_error), as_work(client, progress)
    check_fraction("delta", delta)
    metrics = check_beside(production, metrics, min_propensity)
    if segments is not None or segment_epsilon is not None:
        raise InputError(
            "segments are for one log that is read here: read_log(log, candidates, segments=…), then "
            "evaluate_log(reading). In shards and databases choose the rounds of each by themselves, at delta over "
            "their number."
        )
    if isinstance(log, SqlTable):
        _check_stated(min_propensity)
        if law is not None or client is not None:
            raise InputError("law and client are not for a log in a database, which counts and chooses itself.")
        options = {
            "partition": partition,
            "format": format,
            "columns": columns,
            "places": places,
            "sparsity": sparsity,
            "n_actions": n_actions,
            "items": items,
            "features": tuple(features),
            "context": tuple(context),
            "on_error": how,
            "list_columns": list_columns,
        }
        if production is not None:
            raise InputError(
                "production and metrics are not for a log in a database: export it to files, or leave them out."
            )
        if state is not None:
            return evaluate_increments(log, candidates, options, state, since, min_propensity, delta, progress)
        with pushed_down(log, candidates, work, **options, smallest=min_propensity is None) as (joined, read):
            found = joined.parts(str(log), read)
        return of_parts(work, joined, found, min_propensity, delta, partitioned=partition is not None)
    if state is not None or since is not None:
        raise InputError("state and since are for a log in a database; DuckDB reads files: read_parquet('log/*/*').")
    shards = find_shards(log, format, columns, partition)
    if law is not None or shards[0].format.feedback == "total":
        if places is not None or features:
            raise InputError("places and features are not for logs of totals: leave them out.")
        reading = read_totals(
            log,
            candidates,
            n_actions=n_actions,
            items=items,
            on_error=how,
            list_columns=list_columns,
            format=format,
            sparsity=sparsity,
            context=context,
            columns=columns,
            law=law,
        )
        return evaluate_log(reading, min_propensity=min_propensity, delta=delta, production=production)
    _check_stated(min_propensity)
    if places is not None:
        if not isinstance(places, str):
            raise InputError("logs in shards are read as sets or as pairs; with factors give read_log(…, places=…).")
        check_places(places, 1)
        shards = [replace(one, format=format_for_places(one.format, places, one.name)) for one in shards]
    joined = Joined(
        work,
        shards,
        candidates,
        sparsity=sparsity,
        n_actions=n_actions,
        items=items,
        features=features,
        context=context,
        on_error=how,
        columns=list_columns,
    )
    found = joined.parts(log_name(log))
    beside = None
    if production is not None:
        further = [(one, further_parts(joined, one, log_name(log), of_metric(shards, one), found)) for one in metrics]
        beside = Production(find_production(production, joined.names), tuple(further))
    return of_parts(work, joined, found, min_propensity, delta, partitioned=partition is not None, production=beside)


def _evaluate_reading(
    reading: LogReading,
    min_propensity: float | None,
    delta: float,
    production: str | None,
    segment_epsilon: float | None,
) -> Evaluation:
    if reading.totals is not None:
        if production is not None:
            raise InputError(
                "lifts and metrics are of rewards of items, and totals of lists do not tell them: leave production out."
            )
        return evaluate(
            reading.totals,
            reading.policies,
            max_reward=reading.max_reward,
            min_propensity=min_propensity,
            delta=delta,
            law=reading.law,
        )
    known: dict[str, Any] = {
        "smallest": reading.smallest_propensity,
        "max_reward": reading.max_reward,
        "min_propensity": min_propensity,
        "delta": delta,
        "production": production,
        "further": [(one.metric, one.events) for one in reading.metrics],
        "segment_epsilon": segment_epsilon,
    }
    if reading.segments is not None:
        told, events = reading.segments, [reading.events, *(one.events for one in reading.metrics)]
        known["split"] = Split.of_contexts(told.segments.names, told.codes, told.rounds, events, reading.sample)
    if reading.places is None or reading.places == "pairs":  # of pairs are its events themselves
        return _evaluate(reading.events, reading.policies, reading.sample, **known)
    return _evaluate_pairs(
        examined_events(reading.events, reading.places),
        reading.policies,
        None if reading.sample is None else placed_rounds(reading.sample, reading.places),
        reading.places,
        reading.problem.list_size,
        n_rewards=len(reading.events),
        known=reading.sample is not None and reading.sample.decisions.placements is not None,
        **known | {"further": [(one.metric, examined_events(one.events, reading.places)) for one in reading.metrics]},
    )


def _evaluate(
    events: Events,
    policies: PolicySet,
    shown: Rounds | None,
    *,
    smallest: float,
    max_reward: float,
    min_propensity: float | None,
    delta: float,
    slots: int | None = None,
    per_item: float = 1.0,
    factors: tuple[float, ...] | None = None,
    production: str | None = None,
    further: Sequence[tuple[Metric, Events]] = (),
    split: Split | None = None,
    segment_epsilon: float | None = None,
) -> Evaluation:
    """Values and bounds; `slots` m, if the rounds stand for others, which were checked: `per_item`, LeastPropensity;
    `factors`, `Sample`.
    """
    delta, max_reward = check_fraction("delta", delta), check_positive("max_reward", max_reward)
    if slots is None:
        _check_rewards(events, max_reward)

    def judge(part: Part, beside: Production | None, delta: float, leader: int | None = None) -> Evaluation:
        return evaluate_parts(
            InProcess(),
            [part],
            policies.names,
            slots=0 if part.sample is None else part.sample.slots,
            max_reward=max_reward,
            min_propensity=min_propensity,
            delta=delta,
            per_item=per_item,
            losing=None if factors is None else sum(factors) / min(factors),
            production=beside,
            leader=leader,
        )

    def part_of(events: Events, shown: Rounds | None) -> Part:
        return Part(events, policies, shown, smallest=smallest, slots=slots, factors=factors)

    whole = judge(part_of(events, shown), _production(production, policies, further, smallest), delta)
    if split is None:
        return whole
    split.check()
    parts, besides = [], []
    for s, n in enumerate(split.rounds.tolist()):
        sample = None if shown is None else shown[np.flatnonzero(split.sample == s)]
        own = [(metric, events_of(of, codes, s, n)) for (metric, of), codes in zip(further, split.further, strict=True)]
        parts.append(part_of(events_of(events, split.events, s, n), sample))
        besides.append(_production(production, policies, own, smallest))
    found = segmented(
        split,
        whole,
        lambda s, delta, leader: judge(parts[s], besides[s], delta, leader),
        delta=delta,
        target=segment_epsilon,
    )
    return replace(whole, segmented=found)


def _production(
    name: str | None, policies: PolicySet, further: Sequence[tuple[Metric, Events]], smallest: float
) -> Production | None:
    if name is None:
        return None
    parts = tuple((metric, [Part(events, policies, None, smallest=smallest)]) for metric, events in further)
    return Production(find_production(name, policies.names), parts)


def _further(
    rounds: Rounds | Events, metrics: Sequence[Metric], values: Mapping[str, ArrayLike] | None, max_reward: float
) -> list[tuple[Metric, Rounds]]:
    """The same rounds with each metric's values, in units of the largest, for rewards."""
    told, names = dict(values or {}), [metric.name for metric in metrics]
    if sorted(told) != sorted(names):
        raise InputError(f"values must be given for the metrics, {names}, got {sorted(told)}.")
    if not metrics:
        return []
    if isinstance(rounds, Events):
        raise InputError("metrics need whole rounds: events hold only the rounds with a reward.")
    decisions, m = rounds.decisions, rounds.decisions.lists.shape[1]
    unit = Problem(n_actions=max(m, 2), list_size=m, sparsity=min(check_positive("max_reward", max_reward), m))
    return [(metric, Rounds(decisions, metric.values(told[metric.name], unit, n=len(rounds)))) for metric in metrics]


def _split(rounds: Rounds | Events, segments: Segments | None, further: Sequence[Rounds]) -> Split | None:
    if segments is None:
        return None
    if isinstance(rounds, Events):
        raise InputError("segments need whole rounds: events hold only the rounds with a reward.")
    codes, sample = segments.codes(rounds.decisions.contexts), np.flatnonzero(in_sample(np.arange(len(rounds))))
    return Split.of_rounds(segments.names, codes, sample, [rounds, *further])


def _check_segments(segments: Segments | None, target: float | None, metrics: Sequence[Metric]) -> None:
    if segments is not None and not isinstance(segments, Segments):
        raise InputError(f"segments must be Segments(names, of), got {type(segments).__name__}.")
    if target is None:
        return
    check_positive("segment_epsilon", target)
    if segments is None or metrics:
        raise InputError("segment_epsilon is for segments, and without metrics: leave it out, or the metrics.")


def check_beside(production: str | None, metrics: Sequence[Metric], min_propensity: float | None) -> tuple[Metric, ...]:
    """Refuse metrics without a production, and either without known propensities."""
    found = check_metrics("metrics", metrics)
    if found and production is None:
        raise InputError(
            "metrics have margins against the candidate that visitors see today: say which one that is, "
            "production=<its name>."
        )
    if production is not None and min_propensity is None:
        raise InputError(NEED_PROPENSITY)
    return found


def _check_rewards(events: Events, max_reward: float) -> None:
    if len(events) == 0:
        return
    most, item = float(np.bincount(events.rows, events.rewards).max()), float(events.rewards.max())
    if most > max_reward * (1 + 1e-9):
        raise InputError(f"a round brought {most:.4g} where at most {max_reward:.4g} can be: raise max_reward.")
    if item > 1 + 1e-9:
        raise InputError(f"rewards must lie in [0, 1], got {item:.4g}: divide all by the largest there can be.")


def _smallest(rounds: Rounds | Events, places: Any = None) -> float:
    """The smallest propensity of items: with placements that of the item in its place for pairs, and for factors what
    it would be in random order, e(x, y) over the mean factor.
    """
    shown = rounds.decisions if isinstance(rounds, Rounds) else rounds
    if places is None or shown.placements is None:
        return float(shown.propensities.min(initial=1.0))
    if places == "pairs":
        return float(np.diagonal(shown.placements, axis1=1, axis2=2).min(initial=1.0))
    theta = np.array(places)
    return float(examinations(shown, theta / theta.mean()).min(initial=1.0))


def check_logged_propensities(rounds: Rounds, policies: PolicySet, *, min_propensity: float) -> PropensityCheck:
    """Compare the propensities with how often candidates' items were really shown, on all of `rounds`.

    An item y of π(x) is in the logged list with probability Q(x, y), so it is worth Q·(1/Q) = 1 on average, and each
    candidate's Σ_{y∈π(x)∩a} 1/Q has mean m. Propensities of another kind (of the item in its slot, of the whole list,
    of a softmax before sampling) miss that, as do candidates' items that could not be shown at all. The bounds hold at
    all numbers of rounds at once.

    Parameters
    ----------
    rounds:
        The log.
    policies:
        The candidates.
    min_propensity:
        A bound from below on the propensities of candidates' items, known from how lists were drawn.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> check = cb.check_logged_propensities(rounds, policies, min_propensity=0.125)
    >>> check.fits, check.expected
    (True, 3.0)
    >>> low, high = check.interval
    >>> low < 3 < high  # each candidate's three items must weigh three on average
    True
    """
    check_policies(policies, by_chance=True)
    if len(check_rounds(rounds)) < 2:
        raise InputError(f"at least 2 rounds are needed to check propensities, got {len(rounds)}.")
    min_propensity = check_positive("min_propensity", min_propensity)
    return item_weights(rounds, policies, min_propensity=min_propensity).summary(policies.names)


def item_weights(rounds: Rounds, policies: PolicySet, *, min_propensity: float) -> ItemWeights:
    """What the items of every candidate weigh on all of `rounds`; `check_logged_propensities` says what it means."""
    part, m = Part(Events.none(len(rounds)), policies, rounds, smallest=min_propensity), rounds.decisions.lists.shape[1]
    look, least = first_look([part], 1.0, m / min_propensity), LeastPropensity(min_propensity, stated=True)
    return ItemWeights.of(look.weights, look.weight_sums, slots=m, least=least, alarm=ALARM)
