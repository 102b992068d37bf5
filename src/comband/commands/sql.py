"""`comband sql`: the statements by which a log in a database is evaluated."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from comband.commands.common import console, print_json, remarks
from comband.commands.log_options import (
    ActionsOption,
    ColumnOption,
    ColumnsOption,
    ContextOption,
    ItemsOption,
    PartitionOption,
    SparsityOption,
    column_names,
)
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.keys import ItemIndex, read_catalogue
from comband.evaluation.logs.registry import FORMATS
from comband.evaluation.logs.sql.statements import DIALECTS, TESTED
from comband.evaluation.logs.sql.table import OpenTable, SqlTable, synthetic_rows
from comband.page.problem import InputError, check_choice, check_count


def sql(
    what: Annotated[str, typer.Argument(help="evaluate: what `comband evaluate --sql` asks.")],
    table: Annotated[str, typer.Option(help="The table, or a query in parentheses, in the dialect.")] = "log",
    dialect: Annotated[str, typer.Option(help=f"One of {', '.join(DIALECTS)}.")] = "duckdb",
    list_size: Annotated[int, typer.Option(help="How many items a list has.")] = 5,
    level: Annotated[int, typer.Option(help="One of 2^level rounds is sampled: the rounds over 10,000.")] = 0,
    format: Annotated[
        str, typer.Option("--format", help="comband, impressions or impressions-by-position.")
    ] = "comband",
    slots: Annotated[bool, typer.Option("--slots", help="One column for each slot (item_0, …), no lists.")] = False,
    text: Annotated[
        list[str] | None,
        typer.Option(help="What is text: id, round, context, item; whole numbers otherwise.", show_default=False),
    ] = None,
    context: ContextOption = None,
    column: ColumnOption = None,
    columns: ColumnsOption = None,
    n_actions: ActionsOption = None,
    items: ItemsOption = None,
    sparsity: SparsityOption = None,
    partition: PartitionOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The statements as JSON, by what they find.")] = False,
) -> None:
    """Print the statements by which a log in a database is evaluated, for a table that is not looked at.

    Example: comband sql evaluate --dialect snowflake --table shop.clicks --list-size 5 --partition day

    They are executed and tested in DuckDB, PostgreSQL and Spark SQL; for Snowflake and BigQuery only translated.
    """
    check_choice("what", what, ("evaluate",))
    check_choice("dialect", dialect, DIALECTS)
    check_choice("format", format, ("comband", "impressions", "impressions-by-position"))
    names = column_names(column or (), columns)["log"]
    kind: LogFormat = FORMATS[format]
    rows = synthetic_rows(
        format, list_size=check_count("list_size", list_size), text=text or (), slots=slots, partition=partition
    )
    engine: Any = type("Printed", (), {"dialect": dialect})()
    given = OpenTable.of_rows(engine, SqlTable("", table), rows, format=kind, columns=None, partition=partition)
    given.rename(names)
    if level < 0:
        raise InputError(f"level must be at least 0, got {level}.")
    statements = given.prepare(
        kind,
        list_size=list_size,
        context=context or (),
        items=ItemIndex(n_actions=n_actions, catalogue=None if items is None else read_catalogue(items)),
        by_context=True,
        features=(),
    )
    one = "a partition" if partition is not None else None
    told = {
        "how many rows there are": statements.sizes(),
        "whether an id comes twice": statements.repeats(),
        "how many rounds each context has, and the limits of their propensities": statements.facts(one),
        "the rounds that matter": statements.fetch(level, one),
    }
    if partition is not None:
        told["what changed since the last look (--state)"] = statements.digests()
    if as_json:
        print_json({"dialect": dialect, "tested": dialect in TESTED, "statements": told})
        return
    out = console()
    for title, statement in told.items():
        out.print(f"-- {title}", markup=False, highlight=False, soft_wrap=True)
        out.print(f"{statement};\n", markup=False, highlight=False, soft_wrap=True)
    if dialect not in TESTED:
        remarks().print(f"translated for {dialect}, and never executed there")
