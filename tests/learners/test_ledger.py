"""The ledger forgets what is settled and nothing else."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from comband.learners.ledger import Ledger
from comband.page.contexts import context_digests
from comband.page.problem import UnknownDecisionError
from comband.page.rounds import Decisions
from comband.statistics.results import Receipt


def decisions(first: int, n: int) -> Decisions:
    ids = np.arange(first, first + n)
    lists = np.stack([ids % 7, 7 + ids % 5], axis=1)
    return Decisions(ids, lists.astype(np.int32), np.full((n, 2), 0.5), ids // 150, ids)


def issue(ledger: Ledger, n: int, *, sealed: bool = False) -> Decisions:
    """Decisions whose contexts are printed at once, or, if nobody can alter them, when that is needed."""
    made = decisions(ledger.issued, n)
    ledger.issue(made, None if sealed else context_digests(made.contexts))
    return made


def take(ledger: Ledger, told: Decisions, rewards: NDArray[np.float64]) -> tuple[list[int], Receipt]:
    admission = ledger.admit(told, rewards)
    ledger.settle(admission)
    return admission.rows.tolist(), admission.receipt


def test_memory_follows_open_decisions() -> None:
    ledger = Ledger()
    for _ in range(100):
        rows, _ = take(ledger, issue(ledger, 100), np.zeros((100, 2)))
        assert len(rows) == 100
    assert ledger.held == 0
    assert len(ledger._known) == len(ledger._done) <= 256
    assert not ledger._rewarded
    straggler = issue(ledger, 3)
    take(ledger, straggler[1:], np.array([[0, 1.0], [0, 0]]))
    assert ledger.held == 3  # the first is still open
    take(ledger, straggler[:1], np.zeros((1, 2)))
    assert ledger.held == 0
    _, receipt = take(ledger, straggler, np.array([[0, 0], [0, 1.0], [0, 0]]))
    assert (receipt.accepted, receipt.duplicates, receipt.conflicts) == (0, 3, ())
    _, receipt = take(ledger, straggler, np.array([[0, 0], [1.0, 0], [0, 0]]))
    assert receipt.conflicts == (10_001,)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_equals_a_book_of_every_decision(seed: int) -> None:
    """Batches told late, in parts, twice and with altered rows, against a dictionary that forgets nothing."""
    rng = np.random.default_rng(seed)
    ledger, answers, book = Ledger(), dict[int, list[float]](), decisions(0, 0)
    for _ in range(25):
        last = issue(ledger, int(rng.integers(0, 200)), sealed=rng.random() < 0.7)
        book = book + last
        first = int(rng.integers(ledger.issued + 1))
        assert ledger.answered_from(first).tolist() == [i in answers for i in range(first, ledger.issued)]
        if ledger.issued == 0:
            continue
        ids = rng.integers(max(0, ledger.issued - 300), ledger.issued, size=int(rng.integers(0, 150)))
        batch = book[ids]
        if rng.random() < 0.4:  # exactly what was issued last, and perhaps all that is open with it
            if rng.random() < 0.7:
                rest = np.arange(ledger._low, int(last.ids.min(initial=ledger.issued)))
                answers |= {i: answers.get(i, [0.0, 0.0]) for i in rest.tolist()}
                take(ledger, book[rest], np.array([answers[i] for i in rest.tolist()]).reshape(-1, 2))
            ids, batch = last.ids, last
        rewards = rng.random((len(ids), 2)).round(0)
        if rng.random() < 0.2 and len(ids):
            column = COLUMNS[int(rng.integers(len(COLUMNS)))]
            if ids[-1] >= ledger._low or column == "makers":
                with pytest.raises(UnknownDecisionError, match=f"decision {ids[-1]} "):
                    ledger.admit(spoilt(batch, column), rewards)
        accepted, receipt = take(ledger, batch, rewards)
        conflicts, new = [], []
        for row, (one, reward) in enumerate(zip(ids.tolist(), rewards.tolist(), strict=True)):
            if one not in answers:
                answers[one] = reward
                new.append(row)
            elif answers[one] != reward:
                conflicts.append(one)
        assert accepted == new
        assert receipt.conflicts == tuple(conflicts)
        assert receipt.accepted + receipt.duplicates + len(conflicts) == len(ids)
        assert ledger.answered == len(answers)
        still_open = [i for i in range(ledger.issued) if i not in answers]
        assert ledger.held == ledger.issued - min(still_open, default=ledger.issued)
        ledger = Ledger.from_state(ledger.state()) if rng.random() < 0.3 else ledger
    with pytest.raises(UnknownDecisionError, match="none was taken in"):
        ledger.admit(decisions(ledger.issued, 1), np.zeros((1, 2)))


COLUMNS = ("lists", "propensities", "epochs", "covered", "arms", "contexts", "makers")


def spoilt(batch: Decisions, column: str) -> Decisions:
    """The last row with another value in one column."""
    values = np.array(getattr(batch, column))
    if column == "covered":
        values[-1] = not values[-1]
    else:
        values[-1] += np.asarray(-0.25 if column == "propensities" else 1, dtype=values.dtype)
    return replace(batch, **{column: values})


@pytest.mark.parametrize("column", COLUMNS)
def test_says_which_column_differs(column: str) -> None:
    ledger = Ledger()
    batch = issue(ledger, 200)[[3, 160]]
    says = {
        "lists": "its list or propensities differ",
        "propensities": "its list or propensities differ",
        **dict.fromkeys(("epochs", "covered", "arms"), "its epoch, covered or arm differs"),
        "contexts": "its context differs",
        "makers": "was made by another copy",
    }
    with pytest.raises(UnknownDecisionError, match=f"decision 160 .*{says[column]}.* 1 of 2 are unknown"):
        ledger.admit(spoilt(batch, column), np.zeros((2, 2)))
    lost = replace(batch, epochs=np.zeros(2, dtype=np.int64), makers=np.zeros(2, dtype=np.int64))
    with pytest.raises(UnknownDecisionError, match="decision 3 is not as this learner made it: its maker is missing;"):
        ledger.admit(lost, np.zeros((2, 2)))
    with pytest.raises(
        UnknownDecisionError, match=r"decision 160 .*: its epoch, covered or arm differs, its maker is missing;"
    ):
        ledger.admit(lost[1:], np.zeros((1, 2)))
    assert ledger.answered == 0
    assert take(ledger, batch, np.zeros((2, 2)))[1].accepted == 2


def test_probabilities_of_places_are_part_of_the_record() -> None:
    ledger = Ledger()
    made = replace(decisions(0, 20), placements=np.full((20, 2, 2), 0.25))
    ledger.issue(made, context_digests(made.contexts))
    other = np.full((20, 2, 2), 0.25)
    other[7, 1] = 0.3, 0.2
    for told in (replace(made, placements=other), replace(made, placements=None)):
        with pytest.raises(UnknownDecisionError, match="its list or propensities differ"):
            ledger.admit(told, np.zeros((20, 2)))
    assert take(ledger, made[:], np.zeros((20, 2)))[1].accepted == 20


def test_admitting_changes_nothing_until_it_is_settled() -> None:
    ledger = Ledger()
    batch = issue(ledger, 3)
    twice = batch[[0, 0, 2]]
    for _ in range(2):
        admission = ledger.admit(twice, np.array([[1.0, 0], [0, 0], [0, 0]]))
        assert (admission.rows.tolist(), admission.receipt) == ([0, 2], Receipt(2, 0, (0,)))
        assert ledger.answered == 0
    ledger.settle(admission)
    assert ledger.answered == 2
    assert ledger.held == 2  # decision 1 is open


def test_what_comes_straight_back_is_known_without_a_print(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    batch = issue(ledger, 3, sealed=True)
    with monkeypatch.context() as patch:
        patch.setattr("comband.learners.ledger.issue_rows", None)
        patch.setattr("comband.learners.ledger.compare_rows", None)
        assert take(ledger, batch, np.array([[0, 0], [1.0, 0], [0, 0]])) == ([0, 1, 2], Receipt(3, 0, ()))
    assert ledger.held == 0
    assert take(ledger, batch, np.array([[0, 0], [0, 1.0], [0, 0]]))[1] == Receipt(0, 2, (1,))
    again = issue(ledger, 3, sealed=True)
    with pytest.raises(UnknownDecisionError, match="its context differs"):
        ledger.admit(replace(again, contexts=again.contexts + 1), np.zeros((3, 2)))
    assert take(ledger, again, np.zeros((3, 2)))[1].accepted == 3


def test_decisions_that_nobody_was_given_are_withdrawn() -> None:
    ledger = Ledger()
    kept = issue(ledger, 2, sealed=True)
    for sealed in (True, False):
        lost = issue(ledger, 5, sealed=sealed)
        ledger.withdraw(2)
        with pytest.raises(UnknownDecisionError, match="decision 2 "):
            ledger.admit(lost, np.zeros((5, 2)))
    assert take(ledger, kept, np.zeros((2, 2)))[1].accepted == 2
    assert ledger.held == 0


def copied(ledger: Ledger, how: str) -> Ledger:
    return {"saved": lambda: Ledger.from_state(ledger.state()), "copied": lambda: deepcopy(ledger)}[how]()


@pytest.mark.parametrize("how", ["saved", "copied"])
def test_copies_refuse_each_others_decisions_and_know_those_before(how: str) -> None:
    ledger, nothing = Ledger(), np.zeros((10, 2))
    early, answered = issue(ledger, 10), issue(ledger, 10)
    take(ledger, answered, nothing)
    other = copied(copied(ledger, how), how)
    mine, theirs = issue(ledger, 10), issue(other, 10)
    for own, foreign, keeper in ((mine, theirs, ledger), (theirs, mine, other)):
        with pytest.raises(UnknownDecisionError, match="decision 20 was made by another copy of this learner"):
            keeper.admit(foreign, nothing)
        assert take(keeper, early, nothing)[1].accepted == 10
        assert take(keeper, answered, nothing)[1].duplicates == 10
        assert take(keeper, own, nothing)[1].accepted == 10
        with pytest.raises(UnknownDecisionError, match="another copy"):
            keeper.admit(foreign, nothing)  # also once the number is settled
    third = copied(other, how)
    assert take(third, theirs, nothing)[1].duplicates == 10
    beyond = issue(ledger, 30)[20:]
    with pytest.raises(UnknownDecisionError, match="another copy"):
        other.admit(beyond, nothing)


def test_a_forked_process_is_another_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    before = issue(ledger, 2)
    monkeypatch.setattr("os.getpid", lambda: -1)
    after = issue(ledger, 2)
    assert before.makers[0] != after.makers[0]
    assert take(ledger, before + after, np.zeros((4, 2)))[1].accepted == 4


def test_minus_zero_is_zero() -> None:
    ledger = Ledger()
    one = issue(ledger, 1)
    take(ledger, one, np.array([[0.5, 0.0]]))
    _, receipt = take(ledger, one, np.array([[0.5, -0.0]]))
    assert receipt.duplicates == 1
