"""`comband evaluate`: what a log says about candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from comband.commands.cluster_options import ClusterOption, working_on
from comband.commands.common import UNDECIDED, can_write, console, print_json, print_table, remarks, say, working
from comband.commands.log_options import (
    ActionsOption,
    CandidatesTableOption,
    ColumnOption,
    ColumnsOption,
    ContextOption,
    FeaturesOption,
    FormatOption,
    ItemsOption,
    LawOption,
    ListSizeOption,
    LogOptions,
    OnErrorOption,
    OptionalCandidatesOption,
    OptionalLogArgument,
    PartitionOption,
    PlacesOption,
    SparsityOption,
    SqlOption,
    TableOption,
    as_places,
    is_simple,
)
from comband.commands.metric_options import as_metric
from comband.evaluation import PAIRED, LogEvaluation, UsualEstimates, evaluate_log
from comband.evaluation.ips import APPROXIMATE
from comband.evaluation.joining import is_factory
from comband.evaluation.logs import read_segments
from comband.evaluation.logs.sql.engines import is_address
from comband.evaluation.logs.sql.table import SqlTable
from comband.page.problem import InputError
from comband.page.storage import write_text
from comband.page.text import visible
from comband.show import evaluation_page
from comband.statistics.results import beside_table


def evaluate(
    log: OptionalLogArgument = None,
    candidates: OptionalCandidatesOption = None,
    format: FormatOption = "auto",
    context: ContextOption = None,
    column: ColumnOption = None,
    columns: ColumnsOption = None,
    n_actions: ActionsOption = None,
    items: ItemsOption = None,
    list_size: ListSizeOption = None,
    sparsity: SparsityOption = None,
    places: PlacesOption = None,
    law: LawOption = None,
    min_propensity: Annotated[
        float | None,
        typer.Option(
            help="A lower bound on propensities that your logging ensures for all items that candidates show, on every "
            "context; nothing is assumed otherwise. Of totals: on the probability of any list, times C(K-1, m-1).",
            show_default=False,
        ),
    ] = None,
    usual: Annotated[
        bool,
        typer.Option(
            "--usual",
            help="Also what other tools estimate: IPS, SNIPS, effective sample sizes; approximate, no promise.",
        ),
    ] = False,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="A reward model's predictions, for the direct and the doubly robust estimate beside those of --usual: "
            "a file with columns context, item, prediction.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability allowed for a wrong statement.")] = 0.05,
    on_error: OnErrorOption = "refuse",
    features: FeaturesOption = None,
    cluster: ClusterOption = None,
    sql: SqlOption = None,
    table: TableOption = None,
    candidates_table: CandidatesTableOption = None,
    partition: PartitionOption = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="With --sql and --partition: a file that keeps what is known of each partition, so that the next look "
            "reads what is new or changed only; or a database, by its address (duckdb:///…, postgresql://…).",
            show_default=False,
        ),
    ] = None,
    state_table: Annotated[
        str, typer.Option(help="With a database as --state: what the names of its three tables begin with.")
    ] = "comband_state",
    since: Annotated[
        str | None,
        typer.Option(
            help="With --state: partitions before this one are not looked at again while they have as many rows.",
            show_default=False,
        ),
    ] = None,
    production: Annotated[
        str | None,
        typer.Option(
            help="The candidate that visitors see today: lifts over it are told. Needs --min-propensity.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A further value of shown items, in columns of its name, and how much worse than production is "
            "allowed: purchases=5% or reports=0.002,cost,largest=3. Again for each; the best is then one of the safe.",
            show_default=False,
        ),
    ] = None,
    segments: Annotated[
        Path | None,
        typer.Option(
            help="A file with columns context and segment: also a winner in each segment, and one for all of them.",
            show_default=False,
        ),
    ] = None,
    segment_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Also the segments whose winner is within this, of which a share of delta may be wrong.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="How much worse than the best is still fine, in rewards per round: the verdict is decided when no "
            "candidate can be better by more. A quarter of the leader's value if unset.",
            show_default=False,
        ),
    ] = None,
    rounds_a_day: Annotated[
        float | None,
        typer.Option(help="Rounds that you log in a day, to say in days what is missing.", show_default=False),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also say how the numbers were found and what they rest on.")
    ] = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="End with 0 instead of 3 where nothing is decided yet.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many candidates the table shows; 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON instead of the table.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a report to this file.", show_default=False)
    ] = None,
) -> None:
    """Say what a log tells about candidates: a verdict, and every candidate's value with its interval.

    Example: comband evaluate log.parquet --candidates lists.parquet --sparsity 1 --html report.html

    Columns of the log: context, items, rewards, propensities; in CSV item_0, item_1, …, reward_0, …, propensity_0, …

    One number per list: context, items, total, and list_propensity (of the whole list) or first_propensities; or --law.

    With --places pairs propensities are those of the item in its place: as it stands in items, or as positions say.

    Columns of the candidates' file: context, candidate, items; in CSV item_0, item_1, …

    A log may be many files, read in shards: comband evaluate 'log/*.parquet' -c my_rankers:candidates --cluster local:4

    Or a table: comband evaluate --sql duckdb:///shop.db --table clicks -c lists.csv --partition day --state known.db

    The exit code is 0 when a candidate is decided on; 3 when one leads or nothing can be told yet (0 with --exit-zero);
    1 when a file is refused or its propensities cannot be right.
    """
    can_write(html)
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
    _check_given(log, sql, table, candidates, candidates_table)
    metrics = [as_metric(text) for text in metric or ()]
    if sql is not None and table is not None:
        if usual or predictions is not None or law is not None or cluster is not None or segments is not None:
            raise InputError("--usual, --predictions, --segments, --law and --cluster are not for a log in a database.")
        lists = str(candidates) if candidates_table is None else SqlTable(sql, candidates_table)
        source, name = SqlTable(sql, table), table
        with working() as step:
            answer = evaluate_log(
                source,
                lists,
                min_propensity=min_propensity,
                delta=delta,
                places=as_places(places),
                partition=partition,
                state=SqlTable(state, state_table) if state is not None and is_address(state) else state,
                since=since,
                production=production,
                metrics=metrics,
                progress=lambda what, done, total: step(f"{what}: {done:,} of {total:,} parts"),
                **how.of_shards(),
            )
        _tell_skipped(answer, name)
    else:
        assert log is not None
        assert candidates is not None
        name = log[0].name
        if state is not None or since is not None:
            raise InputError("--state and --since are for a log in a database; DuckDB reads files too: --sql duckdb:.")
        if cluster is None and not features and partition is None and is_simple(log, candidates):
            whole = usual or predictions is not None
            told = None if segments is None else read_segments(segments)
            reading, model = how.load(
                log[0], candidates, law=law, rounds=whole, said=predictions, metrics=metrics, segments=told
            )
            with working() as step:
                step(f"evaluating {len(reading.policies):,} candidates")
                answer = evaluate_log(
                    reading,
                    min_propensity=min_propensity,
                    delta=delta,
                    reward_model=model,
                    production=production,
                    segment_epsilon=segment_epsilon,
                )
        elif usual or predictions is not None or segments is not None:
            raise InputError(
                "--usual, --predictions and --segments are for one log file with one file of lists, read here."
            )
        else:
            with working_on(cluster, threads=not is_factory(str(candidates))) as work:
                answer = evaluate_log(
                    [str(path) for path in log],
                    how.candidates(candidates),
                    min_propensity=min_propensity,
                    delta=delta,
                    client=work,
                    places=as_places(places),
                    law=law,
                    partition=partition,
                    production=production,
                    metrics=metrics,
                    **how.of_shards(),
                )
            _tell_skipped(answer, str(log[0]))
    answer = answer.asked(epsilon=epsilon, rounds_per_day=rounds_a_day)
    if html is not None:
        write_text(html, evaluation_page(answer, source=name))
        say(f"report written to {visible(html)}")
    if as_json:
        print_json(answer.as_dict())
    else:
        _print_answer(answer, top, explain=explain)
    code = answer.verdict.exit_code
    if code and not (exit_zero and code == UNDECIDED):
        raise typer.Exit(code)


def _check_given(
    log: list[Path] | None, sql: str | None, table: str | None, candidates: Path | None, candidates_table: str | None
) -> None:
    """Refuse what leaves out the log or the candidates, or names them twice."""
    if not log and sql is None:
        raise typer.BadParameter("Missing argument 'LOG...': name files, or a database with --sql and --table.")
    if candidates is None and candidates_table is None:
        raise typer.BadParameter("Missing option '--candidates' / '-c'.")
    if (sql is None) != (table is None) or (log and sql is not None):
        raise InputError("a log in a database is named by --sql and --table, both, and no files.")
    if candidates_table is not None and (sql is None or candidates is not None):
        raise InputError("--candidates-table is for a log in the same database (--sql), in the place of --candidates.")


def _tell_skipped(answer: LogEvaluation, name: str) -> None:
    for line in answer.skipped_examples:
        remarks().print(f"skipped in {visible(name)}: {line}", soft_wrap=True)


def _print_answer(answer: LogEvaluation, top: int, *, explain: bool) -> None:
    """The verdict, the table, what a reader should know, and with `explain` how it was found."""
    result, out = answer.evaluation, console()
    out.print(visible(answer.verdict, keep="\n"), style="bold" if answer.verdict.decided else None)
    out.print()
    shown = result.candidates[: top or None]
    cells = {
        "candidate": [one.name for one in shown],
        "value": [f"{one.value:.5g}" for one in shown],
        "at least": [f"{one.interval[0]:.5g}" for one in shown],
        "at most": [f"{one.interval[1]:.5g}" for one in shown],
        "±": [f"{one.standard_error:.2g}" for one in shown],
        "better than the first by at most": ["", *(f"{one.gap_bound:.5g}" for one in shown[1:])],
        "effective rewards": ["cannot be judged" if one.unjudged else f"{one.effective_rewards:,.0f}" for one in shown],
    }
    if not (answer.trusted and result.has_best):  # there is nothing to be better than
        del cells["better than the first by at most"]
    print_table(out, tuple(cells), list(zip(*cells.values(), strict=True)))
    if len(shown) < len(result.candidates):
        out.print(f"… and {len(result.candidates) - len(shown):,} more (--top 0 shows all)")
    out.print()
    if result.production is not None:
        columns, rows = beside_table([one.name for one in shown], result.lifts, result.guarded)
        print_table(out, columns, rows, texts=2 if result.metrics else 1)
        out.print(f"More per round than with {visible(result.production)}, with intervals.\n")
    if result.segmented is not None:
        print_table(out, *result.segmented.table(result))
        out.print()
        for claim in result.segmented.claims(result):
            out.print(f"{visible(claim.text[:1].upper() + claim.text[1:])}.")
        out.print()
    if result.usual is not None:
        print_table(out, *_usual_rows(result.usual, [one.index for one in shown]))
        out.print(f"The usual estimates (± standard error) are {APPROXIMATE}.\n")
    out.print(f"{result.rounds:,} rounds, {result.rewarded_rounds:,} with a reward.")
    for note in answer.notes:
        out.print(f"Note: {visible(note)}.")
    if not explain:
        return
    out.print()
    if answer.trusted and result.has_best:
        out.print(f"{visible(result.promise)} {PAIRED}")
        out.print(
            f"Plain normal intervals (± standard error) would say {result.approximate_epsilon:.5g}: approximate, "
            "for one look at a number of rounds fixed beforehand; not valid under peeking."
        )
    out.print(f"{result.guarantee.capitalize()}. Propensities are at least {result.min_propensity:.4g}.")
    for text in answer.explained:
        out.print(f"{visible(text[:1].upper() + text[1:])}.")


def _usual_rows(usual: UsualEstimates, order: list[int]) -> tuple[list[str], list[list[str]]]:
    """The columns, and a row for each of these candidates."""
    methods = [(method, usual.estimates[method], usual.standard_errors[method]) for method in usual.estimates]
    rows = [
        [
            usual.names[i],
            *(f"{estimates[i]:.5g} ± {errors[i]:.2g}" for _, estimates, errors in methods),
            f"{usual.effective_sample_size[i]:,.0f}",
        ]
        for i in order
    ]
    return ["candidate", *(method for method, *_ in methods), "effective sample size"], rows
