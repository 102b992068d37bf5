"""Logs of totals: read from files as rounds are read in memory, and refused where they cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation import evaluate_log
from comband.evaluation.logs import LogError, read_candidates, read_log, write_candidates, write_rounds
from comband.page.problem import InputError
from comband.page.totals import TotalRounds
from comband.policies.midzuno import MidzunoLists
from comband.statistics.pseudo_inverse import mixture_rounds, mixture_shares, pseudo_inverse_bound
from tests.strategies import all_lists, random_policies, random_weights

K, M, S, N, FLOOR = 8, 3, 2, 6, 0.4
PROBLEM = cb.Problem(K, M, S, "total")
LEAST = FLOOR * M / K
Row = dict[str, Any]


def mixture() -> cb.Mixture:
    rng = np.random.default_rng(3)
    return cb.Mixture(random_policies(4, N, PROBLEM, rng), random_weights(4, rng), problem=PROBLEM, floor=FLOOR)


def answered(decisions: cb.Decisions, rng: np.random.Generator) -> Any:
    liked = rng.random((N, K)) < 0.3
    return np.minimum(liked[decisions.contexts[:, None], decisions.lists].sum(axis=1), S) * rng.random(len(decisions))


def logged(n: int = 400) -> TotalRounds:
    rng = np.random.default_rng(5)
    decisions = MidzunoLists(mixture()).draw(rng.integers(N, size=n), rng)
    return TotalRounds.of(decisions, answered(decisions, rng), PROBLEM)


def drawn(n: int = 400) -> TotalRounds:
    """Of whole lists of the mixture."""
    rng = np.random.default_rng(6)
    decisions = mixture().draw(rng.integers(N, size=n), rng)
    return mixture_rounds(decisions, answered(decisions, rng), mixture())


def written(folder: Path, rounds: TotalRounds, kind: str = "jsonl") -> tuple[Path, Path]:
    log, lists = folder / f"log.{kind}", folder / f"lists.{kind}"
    write_rounds(rounds, log)
    write_candidates(mixture().policies, np.arange(N), lists)
    return log, lists


def rewritten(log: Path, change: Callable[[int, Row], Row]) -> None:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("\n".join(json.dumps(change(i, row)) for i, row in enumerate(rows)))


def known(lists: Path) -> Any:
    return read_candidates(lists, n_actions=K)


def same(found: Any, expected: Any) -> None:
    for one, other in zip(found.candidates, expected.candidates, strict=True):
        assert one.name == other.name
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.interval == pytest.approx(other.interval, abs=1e-9)
    assert found.epsilon == pytest.approx(expected.epsilon, abs=1e-9)
    assert (found.rounds, found.rewards) == (expected.rounds, expected.rewards)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_files_say_what_rounds_say(kind: str, tmp_path: Path) -> None:
    rounds = logged()
    log, lists = written(tmp_path, rounds, kind)
    expected = cb.evaluate(rounds, mixture().policies, max_reward=S, min_propensity=LEAST)
    reading = read_log(log, known(lists), sparsity=S)
    assert (reading.format.name, reading.problem) == ("totals", PROBLEM)
    assert reading.totals is not None
    np.testing.assert_allclose(reading.totals.shares, rounds.shares, rtol=1e-12)
    same(evaluate_log(reading, min_propensity=LEAST).evaluation, expected)
    # And without reading it first.
    same(evaluate_log(log, lists, n_actions=K, sparsity=S, min_propensity=LEAST).evaluation, expected)


def test_the_first_item_may_be_told_instead(tmp_path: Path) -> None:
    rounds = logged()
    log, lists = written(tmp_path, rounds)
    first = MidzunoLists(mixture()).first_propensities(rounds.decisions.contexts, rounds.decisions.lists)

    def change(i: int, row: Row) -> Row:
        del row["list_propensity"]
        return row | {"first_propensities": first[i].tolist()}

    rewritten(log, change)
    reading = read_log(log, known(lists), sparsity=S)
    assert reading.totals is not None
    np.testing.assert_allclose(reading.totals.shares, rounds.shares, rtol=1e-12)
    assert "drawn first" in reading.format.meaning
    rewritten(log, lambda i, row: row | {"first_propensities": [0.5, 0.5, 0.5]} if i == 7 else row)
    with pytest.raises(LogError, match=r"row 8: only one item is drawn first, but .* sum to 1\.5"):
        read_log(log, known(lists), sparsity=S)


def test_data_frames(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rounds = logged()
    log, lists = written(tmp_path, rounds, "parquet")
    expected = cb.evaluate(rounds, mixture().policies, max_reward=S, min_propensity=LEAST)
    found = cb.evaluate(pd.read_parquet(log), known(lists), max_reward=S, min_propensity=LEAST)
    same(found, expected)


def test_lists_of_a_known_mixture(tmp_path: Path) -> None:
    """By the pseudo-inverse, from files as from rounds; the log has no propensities."""
    rounds = drawn()
    log, lists = written(tmp_path, rounds)
    law = tmp_path / "mixture.npz"
    mixture().save(law)

    def change(i: int, row: Row) -> Row:
        del row["list_propensity"]
        return row

    rewritten(log, change)
    expected = cb.evaluate(rounds, mixture().policies, max_reward=S, law=mixture())
    same(evaluate_log(read_log(log, known(lists), sparsity=S, law=law)).evaluation, expected)
    same(evaluate_log(log, lists, n_actions=K, sparsity=S, law=law).evaluation, expected)
    assert expected.trusted
    values = {c.name: c.value for c in expected.candidates}
    # By definition, with K × K matrices.
    shown = mixture().policies.predict(np.arange(N))
    bits = np.zeros((N, 4, K))
    np.put_along_axis(bits, shown, 1.0, axis=2)
    alpha, beta = M * (K - M) / (K * (K - 1)), M * (M - 1) / (K * (K - 1))
    X = np.zeros((len(rounds), 4))
    for i, (x, a, T) in enumerate(zip(rounds.decisions.contexts, rounds.decisions.lists, rounds.totals, strict=True)):
        C = FLOOR * (alpha * np.eye(K) + beta) + (1 - FLOOR) * np.einsum(
            "k,ki,kj->ij", mixture().weights, bits[x], bits[x]
        )
        X[i] = T * bits[x] @ np.linalg.solve(C, np.isin(np.arange(K), a))
    for name, mean in zip(mixture().policies.names, X.mean(axis=0), strict=True):
        assert values[name] == pytest.approx(np.clip(mean, 0, S), abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_law_and_the_bound_of_a_mixtures_lists(seed: int) -> None:
    """All lists: probabilities sum to 1, values have the right mean and stay within the bound."""
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(4, 9))
    problem = cb.Problem(n_actions, int(rng.integers(1, n_actions)), None, "total")
    m = problem.list_size
    policies = random_policies(3, 1, problem, rng)
    law = cb.Mixture(policies, random_weights(3, rng), problem=problem, floor=float(rng.uniform(0.05, 1)))
    lists = np.array(all_lists(problem), dtype=np.int32)
    probability = mixture_shares(law, np.zeros(len(lists), dtype=np.int64), lists) / comb(n_actions - 1, m - 1)
    assert probability.sum() == pytest.approx(1, abs=1e-12)
    bits = np.zeros((len(lists), n_actions))
    np.put_along_axis(bits, lists.astype(np.int64), 1.0, axis=1)
    inverse = np.linalg.inv(np.einsum("l,li,lj->ij", probability, bits, bits))
    worth = bits @ inverse @ bits.T
    np.testing.assert_allclose(worth @ (probability[:, None] * bits), bits, atol=1e-8)
    largest = max(np.abs(worth).max(), np.abs(worth[:, None] - worth[None]).max())
    assert largest * problem.max_reward <= pseudo_inverse_bound(problem, law.floor) * (1 + 1e-9)
    uniform = np.linalg.inv(bits.T @ bits / len(bits))  # where K/γ is attained
    np.testing.assert_allclose(np.einsum("li,ij,lj->l", bits, uniform, bits), n_actions, rtol=1e-9)


def test_promises_of_the_pseudo_inverse_hold() -> None:
    """60 logs at δ = .2: a right program is wrong in more than 33 of them with a probability below 1e-6."""
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.9, n_users=40, seed=1)
    policies = world.candidates(5, seed=2)
    law = cb.Mixture(policies, np.full(5, 0.2), problem=PROBLEM, floor=0.3)
    truth, wrong, widths = world.values(policies), 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        batch = world.sample(1500, rng)
        decisions = law.draw(batch.contexts, rng)
        rounds = mixture_rounds(decisions, batch.answer(decisions.lists), law)
        answer = cb.evaluate(rounds, policies, max_reward=S, law=law, delta=0.2)
        inside = all(c.interval[0] <= truth[c.index] <= c.interval[1] for c in answer.candidates)
        wrong += not inside or truth.max() - truth[answer.best.index] > answer.epsilon
        widths.append(answer.epsilon)
        assert answer.trusted
    assert wrong <= 33
    assert np.median(widths) < 0.9 * S


WRONG: dict[str, tuple[Callable[[Row], Row], str]] = {
    "above s": (lambda row: row | {"total": S + 0.5}, r"wrong total \(1\): row 4: total 2\.5 is outside \[0, 2\]"),
    "negative": (lambda row: row | {"total": -1}, r"row 4: total -1 is outside \[0, 2\]"),
    "several": (
        lambda row: row | {"total": [0.5, 0.5]},
        r"row 4: a total is one number per round; .*\[0\.5, 0\.5\]",
    ),
    "text": (lambda row: row | {"total": "lots"}, r"row 4: total must be a number, got 'lots'"),
    "none": (lambda row: row | {"total": None}, r"missing total \(1\): row 4"),
    "infinite": (lambda row: row | {"total": float("inf")}, r"row 4: total inf is outside"),
    "no propensity": (lambda row: row | {"list_propensity": None}, r"missing propensity \(1\): row 4"),
    "zero": (lambda row: row | {"list_propensity": 0}, r"row 4: propensities must lie in \(0, 1\], got 0"),
    "above 1": (lambda row: row | {"list_propensity": 1.5}, r"must lie in \(0, 1\], got 1\.5"),
    "a word": (lambda row: row | {"list_propensity": "x"}, r"row 4: list_propensity must be a number, got 'x'"),
    "too rare": (lambda row: row | {"list_propensity": 1e-30}, r"row 4: a list of probability 1e-30 is too rare"),
    "twice": (lambda row: row | {"items": [1, 1, 2]}, r"row 4: the list \[1, 1, 2\] repeats an item"),
    "unknown": (lambda row: row | {"items": [1, K, 2]}, r"row 4: item 8 is not in the catalogue"),
    "short": (lambda row: row | {"items": [1, 2]}, r"row 4: 2 items, 3 expected"),
    "elsewhere": (lambda row: row | {"context": 99}, r"row 4: no candidate has a list for context 99"),
    "again": (lambda row: row | {"id": 0}, r"row 4: id 0 came before"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_faulty_rows_are_named(fault: str, tmp_path: Path) -> None:
    """In the library and at the command; skipped if that is asked for."""
    change, message = WRONG[fault]
    log, lists = written(tmp_path, logged())
    rewritten(log, lambda i, row: change(row) if i == 3 else row)
    with pytest.raises(LogError, match=message):
        read_log(log, known(lists), sparsity=S)
    reading = read_log(log, known(lists), sparsity=S, on_error="skip")
    assert reading.totals is not None
    assert len(reading.totals) == 399
    assert reading.faults.total == 1
    options = ["evaluate", str(log), "-c", str(lists), "--n-actions", str(K), "--sparsity", str(S)]
    answer = CliRunner().invoke(app, [*options, "--min-propensity", str(LEAST)])
    assert answer.exit_code == 1
    assert "row 4" in answer.output
    answer = CliRunner().invoke(app, [*options, "--min-propensity", str(LEAST), "--on-error", "skip", "--json"])
    assert answer.exit_code in (0, 3), answer.output


def test_a_log_without_the_law_of_lists_is_refused(tmp_path: Path) -> None:
    log, lists = written(tmp_path, logged())

    def without(i: int, row: Row) -> Row:
        del row["list_propensity"]
        return row | {"propensities": [0.3] * M}

    rewritten(log, without)
    for format in ("auto", "totals"):
        with pytest.raises(LogError, match=r"list_propensity is missing .*law of whole lists.*not enough"):
            read_log(log, known(lists), sparsity=S, format=format)
    answer = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--n-actions", str(K)])
    assert answer.exit_code == 1
    assert "law of whole lists" in " ".join(answer.output.split())


def test_what_else_is_refused(tmp_path: Path) -> None:
    rounds = logged()
    log, lists = written(tmp_path, rounds)
    with pytest.raises(LogError, match="how many items there are"):
        read_log(log, read_candidates(lists), sparsity=S)
    reading = read_log(log, known(lists), sparsity=S)
    with pytest.raises(InputError, match="need min_propensity, the smallest share"):
        evaluate_log(reading)
    with pytest.raises(LogError, match="in its place"):
        read_log(log, known(lists), sparsity=S, places="pairs")
    written(tmp_path, rounds, "csv")
    with pytest.raises(LogError, match="one file"):
        evaluate_log([log, tmp_path / "log.csv"], lists, n_actions=K)
    with pytest.raises(LogError, match="each candidate's lists"):
        evaluate_log(log, "tests.nowhere:policies", n_actions=K)
    with pytest.raises(InputError, match="features"):
        evaluate_log(log, lists, n_actions=K, features=["age"])
    # Several columns, or a list column, where one number is asked for.
    whole = log.read_text()
    rewritten(log, lambda i, row: {("total_0" if name == "total" else name): v for name, v in row.items()})
    with pytest.raises(LogError, match="has columns total_0, … where one column"):
        read_log(log, known(lists), sparsity=S)
    log.write_text(whole)
    both = tmp_path / "both.jsonl"
    both.write_text(whole)
    rewritten(both, lambda i, row: row | {"rewards": [0.0] * M, "propensities": [0.5] * M})
    with pytest.raises(LogError, match="comband or totals"):
        read_log(both, known(lists), sparsity=S)
    assert read_log(both, known(lists), sparsity=S, format="totals").totals is not None
    # A law where there is none to be used, or another one.
    other = cb.Problem(K + 1, M, S)
    law = tmp_path / "mixture.npz"
    cb.Mixture(random_policies(4, N, other, np.random.default_rng(0)), [1, 0, 0, 0], problem=other, floor=1).save(law)
    with pytest.raises(InputError, match="the problem asks for 3 of 9"):
        read_log(log, known(lists), sparsity=S, law=law)
    cb.Mixture(mixture().policies, [1, 0, 0, 0], problem=cb.Problem(K, M, S, places="pairs"), floor=1).save(law)
    with pytest.raises(InputError, match="totals do not tell places"):
        read_log(log, known(lists), sparsity=S, law=law)
    with pytest.raises(LogError, match="a law is used only where"):
        read_log(both, known(lists), format="comband", law=law)
    with pytest.raises(InputError, match="must be the Mixture that drew"):
        cb.evaluate(rounds, mixture().policies, max_reward=S, law="mixture.npz")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="leave it out"):
        cb.evaluate(rounds, mixture().policies, max_reward=S, law=mixture(), min_propensity=0.1)
    many = cb.Problem(3000, 200, None, "total")
    shown = np.arange(200)[None]
    rare = TotalRounds.from_log(
        [0], lists=shown, totals=[0.5], first_propensities=np.full((1, 200), 1 / 3000), problem=many
    )
    with pytest.raises(InputError, match="first_propensities"):
        write_rounds(rare, tmp_path / "rare.csv")


def test_commands(tmp_path: Path) -> None:
    """A log of totals is evaluated, with its report, and designed from; and its lists' law used in its place."""
    log, lists = written(tmp_path, logged(4000), "csv")
    out, page = tmp_path / "mixture.npz", tmp_path / "report.html"
    known = ["-c", str(lists), "--n-actions", str(K), "--sparsity", str(S)]
    call = CliRunner()
    answer = call.invoke(
        app, ["evaluate", str(log), *known, "--min-propensity", str(LEAST), "--json", "--html", str(page)]
    )
    assert answer.exit_code in (0, 3), answer.output
    found = json.loads(answer.stdout)
    assert (found["rounds"], len(found["candidates"])) == (4000, 4)
    assert page.exists()
    answer = call.invoke(app, ["evaluate", str(log), *known, "--min-propensity", str(LEAST), "--explain"])
    assert "those of whole lists" in " ".join(answer.output.split())
    answer = call.invoke(app, ["design", str(log), *known, "--out", str(out)])
    assert answer.exit_code in (0, 3), answer.output
    assert "MidzunoLists" in answer.output
    design = cb.Mixture.load(out, mixture().policies)
    assert design.problem == PROBLEM
    expected = cb.design_exploration(logged(4000), mixture().policies, problem=PROBLEM)
    np.testing.assert_allclose(design.weights, expected.mixture.weights, atol=1e-6)
    mixture().save(out)
    log, lists = written(tmp_path, drawn(4000), "csv")
    answer = call.invoke(app, ["evaluate", str(log), *known, "--law", str(out), "--json"])
    assert answer.exit_code in (0, 3), answer.output
    assert json.loads(answer.stdout)["rounds"] == 4000
