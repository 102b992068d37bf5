"""A design from a log of many shards: columns are made and kept where the shards were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from comband.cluster import Work, as_work
from comband.cluster.work import Progress
from comband.evaluation.joining import Joined, log_name, read_totals
from comband.evaluation.logs.faults import Faults, LogError, check_on_error
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.shards import find_shards
from comband.evaluation.parts import Part, facts
from comband.explore.design import Design, design_exploration
from comband.explore.solvers.incidence import Incidence, build_incidence
from comband.explore.solvers.potential import Floats
from comband.explore.solvers.sharded import EventColumns, ShardedIncidence
from comband.page.problem import InputError, Problem

_MOST = 64  # parts of the incidence: shards beyond are joined, in their order, so that a pass stays a few messages
_ROWS = 4096  # events whose candidates are unpacked together


@dataclass(frozen=True, eq=False, slots=True)
class _Block:
    """Columns of some shards, and the weights of their events."""

    columns: Incidence
    weights: Floats


def design_log(
    log: Any,
    candidates: Any,
    *,
    floor: float = 0.5,
    client: Any = None,
    format: str | LogFormat = "auto",
    sparsity: float | None = None,
    context: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    features: Sequence[str] = (),
    n_actions: int | None = None,
    items: str | Path | None = None,
    on_error: str = "refuse",
    list_columns: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> tuple[Design, tuple[Faults, Faults]]:
    """`design_exploration` on a log in files, read as `evaluate_log` reads it; and what was left out of lists and log.

    Columns of the incidence are made by shard, merged within a shard and kept there; each oracle call is a pass over
    them and a sum in the order of the shards. So the design is the same for any workers, and that of
    `design_exploration` for a log of one shard; for more it is one of the same problem, to the same gap.

    Parameters
    ----------
    log:
        A file, a folder, a pattern or several of them.
    candidates:
        A file of lists, a folder of them, what `read_candidates` gave, or "module:factory".
    floor:
        γ, the share of uniform lists in the mixture.
    client:
        A `dask.distributed.Client`, or what `comband.cluster.connect` gave; None to work in this process.
    format:
        The name of the format, or "auto".
    sparsity:
        A bound on the sum of all items' rewards in one round.
    context:
        The columns that hold the context id.
    columns:
        What the log calls its columns.
    features:
        Columns that policies are given as numbers.
    n_actions:
        The number of items; or
    items:
        a file with all of them, one per line.
    on_error:
        "refuse" a log with faulty rows, or "skip" them.
    list_columns:
        What the file of lists calls its columns.
    progress:
        Called with what is being done, how many parts of it are done and of how many.

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
    >>> from comband.evaluation.designing import design_log
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> cb.write_rounds(rounds, folder / "log.csv")
    >>> cb.write_candidates(policies, visitors.contexts, folder / "lists.csv")
    >>> design, *_ = design_log(folder / "log.csv", folder / "lists.csv", sparsity=1, n_actions=12)
    >>> design.certified
    True
    """
    work = as_work(client, progress)
    shards = find_shards(log, format, columns)
    if shards[0].format.positional:
        refuse_slots(log_name(log))
    if shards[0].format.feedback == "total":
        if features:
            raise InputError("features are not for logs of totals: leave them out.")
        reading = read_totals(
            log,
            candidates,
            n_actions=n_actions,
            items=items,
            on_error=check_on_error(on_error),
            list_columns=list_columns,
            format=format,
            sparsity=sparsity,
            context=context,
            columns=columns,
        )
        design = design_exploration(reading.events, reading.policies, problem=reading.problem, floor=floor)
        return design, (Faults(str(candidates)), reading.faults)
    joined = Joined(
        work,
        shards,
        candidates,
        sparsity=sparsity,
        n_actions=n_actions,
        items=items,
        features=features,
        context=context,
        on_error=check_on_error(on_error),
        columns=list_columns,
    )
    if not joined.source.known.items.closed:
        raise InputError("a design draws uniform lists, so it must know all items: state n_actions or items.")
    policies = joined.source.policies
    if policies is None:
        raise InputError("a design needs candidates that can be asked again: one file of lists, or module:factory.")
    if policies.by_chance:
        raise InputError(
            "a design from files is made of candidates' lists, and these candidates are given by probabilities: make "
            "it in Python, comband.design_exploration(read_log(…).rounds, StochasticPolicies(…), problem=…)."
        )
    parts, faults, *_ = joined.parts(log_name(log))
    if any(work.gather("lengths", _shortened, parts)):
        raise LogError(f"{log_name(log)} has rounds of different lengths; a design is for lists of one length.")
    problem = Problem(joined.source.n_actions, joined.source.known.list_size, sparsity=sparsity)
    events = _event_columns(work, parts, joined.max_reward)
    del parts  # the columns stay, the shards need not
    return design_exploration(events, policies, problem=problem, floor=floor), (joined.source.faults, faults)


def refuse_slots(name: str) -> NoReturn:
    """A log whose propensities are those of items in their slots is read as pairs, or not at all."""
    raise LogError(
        f"{name} has propensities per slot; a design needs a log where an item counts anywhere in the list, or "
        "--places pairs, for lists that are shown in the candidates' own orders."
    )


def _event_columns(work: Work, parts: Sequence[Any], max_reward: float) -> EventColumns:
    known = work.total("counting", facts, parts, max_reward)
    rewarded = work.gather("counting", _n_events, parts)
    parts = [part for part, n in zip(parts, rewarded, strict=True) if n]
    size = -(-len(parts) // _MOST)
    groups = [list(parts[i : i + size]) for i in range(0, len(parts), max(size, 1))]
    blocks = work.each("columns", _block, groups, known.rounds)
    described = work.gather("columns", _described, blocks)
    oracle = ShardedIncidence(work, work.each("columns", _columns, blocks), [words for words, _ in described])
    weights = np.concatenate([np.zeros(0), *(weights for _, weights in described)])
    return EventColumns(oracle, weights, known.rewards)


def _shortened(part: Any) -> bool:
    return bool(part.shortened)


def _n_events(part: Part) -> int:
    return len(part.rewards)


def _block(parts: Sequence[Part], n_rounds: int) -> _Block:
    """w_e = r_e / (n q_e), and who covers e, over the events of some shards."""
    rows = (
        (block.packed()[some].cells(), part.rewards[events] / (n_rounds * part.propensities[events]))
        for part in parts
        for block in part.blocks
        for start in range(0, len(block.events), _ROWS)
        for some in [slice(start, start + _ROWS)]
        for events in [block.events[some]]
    )
    return _Block(*build_incidence(rows))


def _described(block: _Block) -> tuple[int, Floats]:
    return block.columns.n_words, block.weights


def _columns(block: _Block) -> Incidence:
    return block.columns
