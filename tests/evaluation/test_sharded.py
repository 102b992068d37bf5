"""A log read in shards: the same bytes however they are put together, and the same faults as on one machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import comband as cb
from comband.evaluation import LogEvaluation, evaluate_log
from comband.evaluation.logs import LogError, sampling, shards
from comband.evaluation.sharded import levels_of
from tests.evaluation.worlds import Scrambled, counts, make_linear, split, write_log

POLICIES = "tests.evaluation.worlds:make_policies"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 200)


def as_bytes(answer: LogEvaluation) -> str:
    return json.dumps(answer.as_dict())


@pytest.mark.parametrize("stated", [None, 0.06])
def test_the_same_bytes_for_any_parts_order_and_repetition(tmp_path: Path, stated: float | None) -> None:
    whole, folder, lists = write_log(tmp_path)
    in_memory = evaluate_log(cb.read_log(whole, cb.read_candidates(lists)), min_propensity=stated)
    expected = as_bytes(in_memory)
    assert len(shards.find_shards(folder)) == 15
    for log in (whole, folder, str(folder / "day=*"), [folder / "day=0", folder / "day=1"]):
        assert as_bytes(evaluate_log(log, lists, min_propensity=stated)) == expected
    assert as_bytes(evaluate_log(folder, cb.read_candidates(lists), min_propensity=stated)) == expected
    for seed in range(3):
        work = Scrambled(seed)
        assert as_bytes(evaluate_log(folder, str(lists), min_propensity=stated, client=work)) == expected
        ((_, tally),) = work.tallies.items()
        assert (tally.parts, tally.rows) == (15, 3000)


def test_policies_are_asked_instead_of_lists(tmp_path: Path) -> None:
    whole, folder, lists = write_log(tmp_path)
    expected = as_bytes(evaluate_log(whole, lists, n_actions=20))
    assert as_bytes(evaluate_log(folder, POLICIES)) == expected
    assert as_bytes(evaluate_log(folder, POLICIES, client=Scrambled(4))) == expected
    with pytest.raises(cb.InputError, match="names nothing that can be imported"):
        evaluate_log(folder, "tests.evaluation.worlds:nobody")
    with pytest.raises(cb.InputError, match="must make a PolicySet"):
        evaluate_log(folder, "tests.evaluation.worlds:N_CONTEXTS")


def test_policies_are_made_once_and_asked_on_rewarded_and_sampled_rounds_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, folder, _ = write_log(tmp_path)
    monkeypatch.setattr(sampling, "FIRST", 50)
    counts()
    evaluate_log(folder, "tests.evaluation.worlds:make_counted")
    table = pq.read_table(whole)
    rewarded = (np.array(table["rewards"].to_pylist()) > 0).any(axis=1)
    sampled = sampling.id_marks(table["id"].to_numpy()) < sampling.mark_limit(sampling.sample_level(3000))
    assert rewarded.sum() + sampled.sum() < 1600  # of 3000 rounds
    contexts, shard = table["context"].to_numpy(), np.arange(3000) // 200
    distinct = [len(set(zip(shard[chosen], contexts[chosen], strict=True))) for chosen in (rewarded, sampled)]
    assert counts() == {"made": 1, "asked": 5 * sum(distinct)}


def test_policies_are_given_contexts_as_the_log_calls_them(tmp_path: Path) -> None:
    whole, folder, lists = write_log(tmp_path)
    expected = as_bytes(evaluate_log(folder, lists, n_actions=20))
    table = pq.read_table(whole)
    users = pa.array([f"u{i}" for i in table["context"].to_numpy()])
    named = table.drop_columns("context").append_column("user", users)
    split(named, tmp_path / "named", 3, 100)
    for client in (None, Scrambled(2)):
        found = evaluate_log(tmp_path / "named", "tests.evaluation.worlds:make_named", context=("user",), client=client)
        assert as_bytes(found) == expected
    split(table.rename_columns({"context": "user"}), tmp_path / "numbered", 3, 100)
    assert as_bytes(evaluate_log(tmp_path / "numbered", POLICIES, context=("user",))) == expected


def test_policies_are_given_columns_of_the_log(tmp_path: Path) -> None:
    whole = write_log(tmp_path, files=1)[0]
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3000, 2))
    table = pq.read_table(whole)
    table = table.append_column("x", pa.array(X[:, 0])).append_column("y", pa.array(X[:, 1]))
    table = table.append_column("both", pa.array(X.tolist()))
    split(table, tmp_path / "wide", 3, 100)
    factory = "tests.evaluation.worlds:make_linear"
    policies = make_linear()
    cb.write_candidates(policies, X, tmp_path / "by_round.parquet", context_ids=np.arange(3000))
    split(
        table.drop_columns("context").append_column("context", pa.array(np.arange(3000))), tmp_path / "numbered", 1, 100
    )
    expected = evaluate_log(tmp_path / "numbered", tmp_path / "by_round.parquet", n_actions=20)
    for features in (("x", "y"), ("both",)):
        assert as_bytes(evaluate_log(tmp_path / "wide", factory, features=features)) == as_bytes(expected)
    with pytest.raises(cb.InputError, match=r"must have shape \(n, 2\)"):
        evaluate_log(tmp_path / "wide", factory, features=("items",))
    with pytest.raises(LogError, match="column z is missing"):
        evaluate_log(tmp_path / "wide", factory, features=("z",))


def _spoilt(table: pa.Table) -> pa.Table:
    """Faults of several kinds, spread over files: a propensity above 1, an unknown context, ids that come again."""
    ids, contexts = table["id"].to_numpy().copy(), table["context"].to_numpy().copy()
    chances = [list(row) for row in table["propensities"].to_pylist()]
    for row in (3, 700, 2100):
        chances[row][1] = 1.5
    contexts[[10, 1500]] = 77
    ids[[50, 1200, 2900]] = ids[[20, 30, 1900]]  # in one shard, of another file, of another shard
    ids[2950] = ids[3]  # came before, but in a faulty row, which does not use it up
    return pa.table(
        {"id": ids, "context": contexts, "items": table["items"], "rewards": table["rewards"], "propensities": chances}
    )


@pytest.mark.parametrize("first", [100, 1500])
def test_faulty_rows_are_skipped_as_on_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    # Which rounds are sampled depends on how many there are: of 3,000 rows half, and of 2,992 good ones all.
    monkeypatch.setattr(sampling, "FIRST", first)
    whole, _, lists = write_log(tmp_path)
    spoilt = _spoilt(pq.read_table(whole))
    pq.write_table(spoilt, whole)
    split(spoilt, tmp_path / "spoilt", 3, 100)
    known = cb.read_candidates(lists)
    expected = evaluate_log(cb.read_log(whole, known, on_error="skip"))
    assert expected.skipped == {"wrong propensity": 3, "unknown context": 2, "duplicate id": 3}
    assert as_bytes(evaluate_log(whole, lists, on_error="skip")) == as_bytes(expected)
    for client in (None, Scrambled(1)):
        answer = evaluate_log(tmp_path / "spoilt", lists, on_error="skip", client=client)
        assert answer.evaluation == expected.evaluation
        assert answer.skipped == expected.skipped
        told = " | ".join(answer.skipped_examples)
        for name in (
            "part-0.parquet, row 4:",
            "part-1.parquet, row 201: id 30 came",
            "part-2.parquet, row 901: id 1900",
        ):
            assert name in told
    with pytest.raises(LogError, match=r"spoilt has 8 faults: .*part-0\.parquet, row 4: .*part-2\.parquet, row 101: "):
        evaluate_log(tmp_path / "spoilt", lists)


def test_ids_that_come_in_any_order_are_compared_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from comband.evaluation import sharded

    monkeypatch.setattr(sharded, "_IDS_AT_ONCE", 100)
    whole, _, lists = write_log(tmp_path)
    table, rng = pq.read_table(whole), np.random.default_rng(3)
    for ids in (rng.permutation(3000) * 7, np.array([f"round {i}" for i in range(3000)], dtype=object)):
        ids[2500] = ids[4]
        pq.write_table(table.set_column(0, "id", pa.array(ids)), whole)
        split(pq.read_table(whole), tmp_path / "mixed", 3, 100)
        expected = evaluate_log(cb.read_log(whole, cb.read_candidates(lists), on_error="skip"))
        answer = evaluate_log(tmp_path / "mixed", lists, on_error="skip", client=Scrambled(0))
        assert answer.evaluation == expected.evaluation
        assert answer.skipped == {"duplicate id": 1}
        assert "part-2.parquet, row 501" in answer.skipped_examples[0]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    _, folder, lists = write_log(tmp_path)
    path = folder / "day=0" / "part-1.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 255
    path.write_bytes(data)
    for how in ("refuse", "skip"):
        with pytest.raises(LogError, match=r"part-1\.parquet breaks off after row"):
            evaluate_log(folder, lists, on_error=how)
    path.write_bytes(data[:-20])
    with pytest.raises(LogError, match=r"part-1\.parquet is not a complete Parquet file"):
        evaluate_log(folder, lists)


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    whole, folder, lists = write_log(tmp_path)
    reading = cb.read_log(whole, cb.read_candidates(lists))
    with pytest.raises(cb.InputError, match="has been read"):
        evaluate_log(reading, lists)
    with pytest.raises(cb.InputError, match="candidates must say whose lists"):
        evaluate_log(folder)
    with pytest.raises(cb.InputError, match="client must be a dask"):
        evaluate_log(folder, lists, client="local")
    with pytest.raises(cb.InputError, match="features are what policies are given"):
        evaluate_log(folder, lists, features=("x",))
    with pytest.raises(cb.InputError, match="sparsity must be above 0"):
        evaluate_log(folder, lists, sparsity=0)
    with pytest.raises(cb.InputError, match="context must be the names"):
        evaluate_log(folder, lists, context="user")


def test_files_are_read_as_they_are(tmp_path: Path) -> None:
    _, folder, lists = write_log(tmp_path)
    before = evaluate_log(folder, lists)
    table = pq.read_table(lists)
    pq.write_table(table.rename_columns([*table.column_names[:1], *reversed(table.column_names[1:])]), lists)
    after = evaluate_log(folder, lists)
    values = [{one.name: one.value for one in answer.evaluation.candidates} for answer in (before, after)]
    names = table.column_names[1:]
    assert [values[0][name] for name in names] == [values[1][name] for name in reversed(names)]


def test_a_later_partition_leaves_the_samples_before_it_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FIRST", 100)
    rng, sizes, before = np.random.default_rng(), dict[str, int](), dict[str, int]()
    for day in range(30):
        sizes[f"{day:02}"] = int(rng.integers(1, 1000))
        levels = levels_of(sizes)
        assert {key: levels[key] for key in before} == before
        before = levels
    assert 0 < levels["29"] == sampling.sample_level(sum(sizes.values()))
    late = levels_of({**sizes, "-1": 10_000})
    assert all(late[key] >= level for key, level in before.items())  # what they had holds what they have
