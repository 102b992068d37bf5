"""A log in a database, by command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from comband.commands.cli import app
from comband.evaluation.logs.sql import DIALECTS
from tests.evaluation.test_pushed import listed
from tests.evaluation.worlds import write_log

duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")


def run(*arguments: object) -> str:
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert outcome.exit_code in (0, 3), outcome.output
    return outcome.stdout


def test_a_table_says_what_a_file_says(tmp_path: Path) -> None:
    whole, folder, lists = write_log(tmp_path)
    base = tmp_path / "shop.db"
    with duckdb.connect(str(base)) as connection:
        connection.execute(f"CREATE TABLE clicks AS SELECT * FROM read_parquet('{folder}/*/*.parquet')")
        connection.register("lists", listed(lists))
        connection.execute("CREATE TABLE lists AS SELECT * FROM lists")
    expected = run("evaluate", whole, "-c", lists, "--json")
    options = ("--json", "--sql", f"duckdb://{base}", "--table", "clicks")
    assert run("evaluate", "-c", lists, *options) == expected
    files = ("--json", "--sql", "duckdb:", "--table", f"read_parquet('{whole}')")
    assert run("evaluate", "-c", lists, *files) == expected
    values = {one["name"]: one["value"] for one in json.loads(expected)["candidates"]}
    joined = json.loads(run("evaluate", "--candidates-table", "lists", *options))
    assert {one["name"]: one["value"] for one in joined["candidates"]} == values
    state = tmp_path / "known.db"
    by_day = run("evaluate", folder, "-c", lists, "--json", "--partition", "day")
    for more in ([], ["--since", "1"]):
        kept = ("--partition", "day", "--state", state, *more)
        assert run("evaluate", "-c", lists, *options, *kept) == by_day
    assert "WARNING" not in run("evaluate", "-c", lists, *options[1:], "--html", tmp_path / "report.html")
    assert "clicks" in (tmp_path / "report.html").read_text()


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    whole, _, lists = write_log(tmp_path)
    for arguments, message in (
        (["--sql", "duckdb:", "-c", lists], "--sql and --table, both"),
        ([whole, "--sql", "duckdb:", "--table", "t", "-c", lists], "and no files"),
        ([whole, "--candidates-table", "t"], "--candidates-table is for a log in the same database"),
        (["--sql", "duckdb:", "--table", "t", "-c", lists, "--usual"], "are not for a log in a database"),
        ([whole, "-c", lists, "--state", tmp_path / "s"], "--state and --since are for a log in a database"),
        ([whole, "-c", lists, "--partition", "day"], "is in no folder day=…"),
    ):
        outcome = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
        assert outcome.exit_code == 1
        assert message in " ".join(outcome.stderr.split())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("more", [[], ["--slots"], ["--text", "id", "--text", "item"], ["--format", "impressions"]])
def test_statements_are_printed_for_every_dialect(dialect: str, more: list[str]) -> None:
    options = ("--dialect", dialect, "--table", "shop.clicks", "--list-size", "3", "--partition", "day", "--level", "4")
    renamed = ("--column", "propensity=chance") if "impressions" in more else ()
    told = json.loads(run("sql", "evaluate", *options, *more, *renamed, "--json"))
    assert told["tested"] == (dialect in ("duckdb", "postgres", "spark"))
    assert len(told["statements"]) == 5
    for statement in told["statements"].values():
        assert sqlglot.parse_one(statement, read=dialect).find(sqlglot.exp.Table) is not None
        assert "comband_log" not in statement
    assert all("chance" in told["statements"][name] for name in ("the rounds that matter",) if renamed)
    text = CliRunner().invoke(app, ["sql", "evaluate", *options, *more])
    assert ("never executed there" in text.stderr) == (not told["tested"])
    assert text.stdout.count(";") == 5


def test_printed_statements_can_be_executed(tmp_path: Path) -> None:
    whole, _, _ = write_log(tmp_path)
    pq.write_table(pq.read_table(whole).append_column("day", pa.array(["a partition"] * 3000)), whole)
    options = ("--list-size", "3", "--partition", "day", "--table", f"read_parquet('{whole}')", "--json")
    told = json.loads(run("sql", "evaluate", *options))
    with duckdb.connect() as connection:
        found = {name: connection.sql(statement).fetchall() for name, statement in told["statements"].items()}
    assert found["how many rows there are"] == [("a partition", 3000)]
    assert found["whether an id comes twice"] == [(0,)]
    assert len(found["the rounds that matter"]) == 3000
