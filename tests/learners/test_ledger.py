"""The ledger forgets what is settled and nothing else."""

from __future__ import annotations

import numpy as np

from comband.learners.ledger import Ledger
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
    assert len(ledger._prints) == len(ledger._done) == 0
    assert not ledger._rewarded
    straggler = decisions(10_000, 3)
    ledger.issue(straggler)
    ledger.admit(straggler[1:], np.array([[0, 1.0], [0, 0]]))
    assert len(ledger._prints) == 3  # the first is still open
    ledger.admit(straggler[:1], np.zeros((1, 2)))
    assert len(ledger._prints) == 0
    _, receipt = ledger.admit(straggler, np.array([[0, 0], [0, 1.0], [0, 0]]))
    assert (receipt.accepted, receipt.duplicates, receipt.conflicts) == (0, 3, ())
    _, receipt = ledger.admit(straggler, np.array([[0, 0], [1.0, 0], [0, 0]]))
    assert receipt.conflicts == (10_001,)


def test_minus_zero_is_zero() -> None:
    ledger = Ledger()
    ledger.issue(decisions(0, 1))
    ledger.admit(decisions(0, 1), np.array([[0.5, 0.0]]))
    _, receipt = ledger.admit(decisions(0, 1), np.array([[0.5, -0.0]]))
    assert receipt.duplicates == 1
