"""The ledger forgets what is settled and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comband.learners.ledger import Ledger
from comband.problem import UnknownDecisionError
from comband.rounds import Decisions


def decisions(first: int, n: int) -> Decisions:
    ids = np.arange(first, first + n)
    lists = np.stack([ids % 7, 7 + ids % 5], axis=1)
    return Decisions(ids, lists.astype(np.int32), np.full((n, 2), 0.5), np.zeros(n, dtype=np.int64), ids)


def test_memory_follows_open_decisions() -> None:
    ledger = Ledger()
    for step in range(100):
        batch = decisions(100 * step, 100)
        ledger.issue(batch)
        rows, _ = ledger.admit(batch, np.zeros((100, 2)))
        assert len(rows) == 100
    assert ledger.held == 0
    assert len(ledger._prints) == len(ledger._done) <= 256
    assert not ledger._rewarded
    straggler = decisions(10_000, 3)
    ledger.issue(straggler)
    ledger.admit(straggler[1:], np.array([[0, 1.0], [0, 0]]))
    assert ledger.held == 3  # the first is still open
    ledger.admit(straggler[:1], np.zeros((1, 2)))
    assert ledger.held == 0
    _, receipt = ledger.admit(straggler, np.array([[0, 0], [0, 1.0], [0, 0]]))
    assert (receipt.accepted, receipt.duplicates, receipt.conflicts) == (0, 3, ())
    _, receipt = ledger.admit(straggler, np.array([[0, 0], [1.0, 0], [0, 0]]))
    assert receipt.conflicts == (10_001,)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_equals_a_book_of_every_decision(seed: int) -> None:
    """Batches told late, in parts, twice and with altered rows, against a dictionary that forgets nothing."""
    rng = np.random.default_rng(seed)
    ledger, answers = Ledger(), dict[int, list[float]]()
    for _ in range(25):
        ledger.issue(decisions(ledger.issued, int(rng.integers(0, 200))))
        if ledger.issued == 0:
            continue
        ids = rng.integers(max(0, ledger.issued - 300), ledger.issued, size=int(rng.integers(0, 150)))
        batch = decisions(0, ledger.issued)[ids]
        rewards = rng.random((len(ids), 2)).round(0)
        if rng.random() < 0.2 and len(ids):
            lists = batch.lists.copy()
            lists[-1, 0] += 50
            spoilt = Decisions(batch.ids, lists, batch.propensities, batch.versions, batch.contexts)
            if ids[-1] >= ledger._low:
                with pytest.raises(UnknownDecisionError, match=f"decision {ids[-1]} "):
                    ledger.admit(spoilt, rewards)
        accepted, receipt = ledger.admit(batch, rewards)
        conflicts, new = [], []
        for row, (one, reward) in enumerate(zip(ids.tolist(), rewards.tolist(), strict=True)):
            if one not in answers:
                answers[one] = reward
                new.append(row)
            elif answers[one] != reward:
                conflicts.append(one)
        assert accepted.tolist() == new
        assert receipt.conflicts == tuple(conflicts)
        assert receipt.accepted + receipt.duplicates + len(conflicts) == len(ids)
        assert ledger.answered == len(answers)
        still_open = [i for i in range(ledger.issued) if i not in answers]
        assert ledger.held == ledger.issued - min(still_open, default=ledger.issued)
        ledger = Ledger.unpack(ledger.pack()) if rng.random() < 0.3 else ledger
    with pytest.raises(UnknownDecisionError, match="none was taken in"):
        ledger.admit(decisions(ledger.issued, 1), np.zeros((1, 2)))


def test_minus_zero_is_zero() -> None:
    ledger = Ledger()
    ledger.issue(decisions(0, 1))
    ledger.admit(decisions(0, 1), np.array([[0.5, 0.0]]))
    _, receipt = ledger.admit(decisions(0, 1), np.array([[0.5, -0.0]]))
    assert receipt.duplicates == 1
