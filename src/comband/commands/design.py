"""`comband design`: the exploration mixture for the next period."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from comband.commands.cluster_options import ClusterOption, working_on
from comband.commands.common import can_write, console, print_json, print_table, say, working
from comband.commands.log_options import (
    ActionsOption,
    CandidatesOption,
    ColumnOption,
    ColumnsOption,
    ContextOption,
    FeaturesOption,
    FormatOption,
    ItemsOption,
    ListSizeOption,
    LogArgument,
    LogOptions,
    OnErrorOption,
    PlacesOption,
    SparsityOption,
    is_simple,
    print_faults,
)
from comband.evaluation import design_log
from comband.evaluation.designing import refuse_slots
from comband.evaluation.joining import is_factory
from comband.evaluation.logs import LogError
from comband.explore.design import Design, design_exploration
from comband.explore.oracles import EnumerationOracle
from comband.page.problem import InputError, Problem
from comband.page.text import visible
from comband.policies.placed import PlacedPolicies
from comband.policies.reading import reading_of


def design(
    log: LogArgument,
    candidates: CandidatesOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the mixture (.npz).", show_default=False)],
    floor: Annotated[float, typer.Option(help="Share of uniform lists.")] = 0.5,
    format: FormatOption = "auto",
    context: ContextOption = None,
    column: ColumnOption = None,
    columns: ColumnsOption = None,
    n_actions: ActionsOption = None,
    items: ItemsOption = None,
    list_size: ListSizeOption = None,
    sparsity: SparsityOption = None,
    places: PlacesOption = None,
    on_error: OnErrorOption = "refuse",
    features: FeaturesOption = None,
    cluster: ClusterOption = None,
    top: Annotated[int, typer.Option(help="How many candidates the table shows; 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON instead of the table.")] = False,
) -> None:
    """Design what to show next, so that every candidate can be estimated well, and write it to a file.

    Example: comband design log.parquet --candidates lists.parquet --n-actions 500 --sparsity 1 --out mixture.npz

    The files are those of `comband evaluate`. Either --n-actions or --items must say which items there are.

    Serve it from Python: comband.Mixture.load("mixture.npz", policies).draw(X, rng)

    There, policies are your rankers under the candidates' names; with --items they number items by their line, from 0.
    """
    if n_actions is None and items is None:
        raise InputError(
            "a design draws uniform lists, so it must know all items: give --n-actions N if they are the whole numbers "
            "0 … N−1, otherwise --items FILE with all of them, one per line."
        )
    can_write(out)
    how = LogOptions(
        format,
        context,
        column,
        columns,
        n_actions,
        items,
        sparsity,
        places,
        on_error=on_error,
        features=features,
        list_size=list_size,
    )
    if places is not None:
        if cluster is not None or not is_simple(log, candidates):
            raise LogError("where places matter a design is made from one file of rounds and one of lists, here.")
        reading, _ = how.load(log[0], candidates)
        policies, K = reading.policies, reading.problem.n_actions
        if reading.format.positional and reading.places is None:
            refuse_slots(str(log[0]))
        if isinstance(policies, PlacedPolicies):
            K = K // reading.problem.list_size
        problem = Problem(K, reading.problem.list_size, sparsity=sparsity, places=reading.places)
        with working() as step:
            step(f"designing with {len(reading.policies):,} candidates")
            result = design_exploration(reading.events, EnumerationOracle(policies), problem=problem, floor=floor)
    else:
        with working_on(cluster, threads=not is_factory(str(candidates))) as work:
            paths = [str(path) for path in log]
            result, faults = design_log(paths, how.candidates(candidates), floor=floor, client=work, **how.of_shards())
        for source in faults:
            print_faults(source)
    result.mixture.save(out)
    say(f"mixture written to {visible(out)}")
    if as_json:
        print_json(_as_dict(result))
    else:
        _print(result, top)


def _weights(result: Design) -> list[tuple[str, float]]:
    columns = result.columns()
    return list(zip(columns["candidate"], columns["weight"], strict=True))


def _as_dict(result: Design) -> dict[str, object]:
    return {
        "weights": dict(_weights(result)),
        "floor": result.mixture.floor,
        "value": result.value,
        "gap": result.gap,
        "relative_gap": result.relative_gap,
        "max_variance": result.max_variance,
        "gradient_norm": result.gradient_norm,
        "meets_paper_bound": result.meets_paper_bound,
        "certified": result.certified,
        "oracle_calls": result.oracle_calls,
        "events": result.n_events,
        "status": str(result.status),
        "message": result.message,
    }


def _print(result: Design, top: int) -> None:
    weights = _weights(result)
    out = console()
    print_table(out, ("candidate", "weight"), [(name, f"{weight:.4f}") for name, weight in weights[: top or None]])
    if top and len(weights) > top:
        out.print(f"… and {len(weights) - top:,} more (--top 0 shows all)")
    drawn = (
        "Show lists of which one item is from this mixture and the rest are uniform (MidzunoLists): from a uniform "
        f"list in {result.mixture.floor:.0%} of rounds, otherwise from that of a candidate drawn by weight"
        if reading_of(result.mixture.problem).TOTAL
        else f"Show a uniform list in {result.mixture.floor:.0%} of rounds, otherwise the list of a candidate drawn by "
        "weight"
    )
    out.print(
        f"\n{drawn}. Variance proxy of the hardest candidate: {result.max_variance:.4g}. {visible(result.message)}"
    )
