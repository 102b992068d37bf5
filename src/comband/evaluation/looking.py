"""From the parts of a log to what is said of it: one look at it, or the next one at a log that grows."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from comband.cluster import Work
from comband.cluster.work import Progress
from comband.evaluation.answers import Evaluation, LogEvaluation
from comband.evaluation.beside import Production
from comband.evaluation.increments import Remembering, read_increments, settings_of
from comband.evaluation.joining import Joined
from comband.evaluation.judging import evaluate_parts
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.shards import Shard
from comband.evaluation.logs.sql.table import SqlTable
from comband.evaluation.pushed import pushed_down
from comband.evaluation.sharded import ReadParts
from comband.evaluation.state import open_state
from comband.page.metrics import Metric
from comband.page.problem import InputError


def evaluate_increments(
    log: SqlTable,
    candidates: Any,
    options: dict[str, Any],
    where: str | os.PathLike[str] | SqlTable,
    since: Any,
    min_propensity: float | None,
    delta: float,
    progress: Progress | None,
) -> LogEvaluation:
    """`evaluate_log` with what is known from earlier looks."""
    if options["partition"] is None:
        raise InputError("state keeps what is known of each partition: name the column that tells it (partition).")
    if isinstance(where, SqlTable) and where.where is log.where and hasattr(log.where, "info"):
        raise InputError("state must have a connection of its own: that of the log only reads.")
    with open_state(where) as state:
        state.check_settings(settings_of(log, candidates, **options))
        work = Remembering(state, progress)
        with pushed_down(log, candidates, work, **options, increments=True) as (joined, read):
            if read.lists is not None:
                state.check_settings({"choice of candidates": repr(read.lists.names)})
            how = options["on_error"]
            found = read_increments(state, joined, read, since=since, on_error=how, source=str(log))
        answer = of_parts(work, joined, found, min_propensity, delta, partitioned=True)
        state.answers(work.told)
    return answer


def of_parts(
    work: Work,
    joined: Joined,
    found: ReadParts,
    min_propensity: float | None,
    delta: float,
    *,
    partitioned: bool,
    production: Production | None = None,
) -> LogEvaluation:
    """What the parts of a log say, once they are read."""
    evaluation = evaluate_parts(
        work,
        found.parts,
        joined.names,
        slots=joined.slots,
        max_reward=joined.max_reward,
        min_propensity=min_propensity,
        delta=delta,
        production=production,
    )
    if not partitioned and min_propensity is None:
        evaluation = for_one_look(evaluation, found.level)
    kind = joined.shards[0].format
    if found.renumbered:
        kind = replace(kind, meaning=f"{kind.meaning}; ids begin anew in each file, so they count as numbers of rows")
    return log_evaluation(evaluation, kind, found.faults)


def further_parts(joined: Joined, metric: Metric, source: str, shards: list[Shard], read: ReadParts) -> list[Any]:
    """The parts of the log in which a metric's values are the rewards, of the same rounds."""
    if read.faults.total:
        raise LogError(
            f"{source} has faulty rows, and a metric is known of all rounds only: mend them, or leave metrics out."
        )
    return joined.of_metric(metric, shards).parts(source).parts


def for_one_look(evaluation: Evaluation, level: int | None) -> Evaluation:
    """A sample by ids becomes another one as the log doubles, unless partitions tell what came before."""
    if not level:
        return evaluation
    return replace(evaluation, guarantee=f"{evaluation.guarantee}; by a sample for one look (with a partition for all)")


def log_evaluation(evaluation: Evaluation, format: LogFormat, faults: Faults) -> LogEvaluation:
    """An evaluation with what was found about the log itself."""
    return LogEvaluation(
        evaluation=evaluation,
        format=format.name,
        meaning=format.meaning,
        skipped=dict(sorted(faults.counts.items())),
        skipped_examples=tuple(faults.describe()),
    )
