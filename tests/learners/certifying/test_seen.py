"""What was seen, against sums over events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband.learners.certifying.seen import Seen
from comband.rounds import Events


def block(rng: np.random.Generator, n: int, epoch: int, n_policies: int) -> tuple[Events, NDArray[np.bool_]]:
    events = Events(
        n_rounds=0,
        ids=np.arange(n),
        epochs=np.full(n, epoch),
        contexts=np.zeros((n, 1)),
        rows=np.arange(n),
        actions=np.zeros(n, dtype=np.int32),
        rewards=rng.random(n) * 0.9 + 0.1,
        propensities=rng.random(n) * 0.8 + 0.1,
    )
    return events, rng.random((n, n_policies)) < 0.3


def test_scores_and_squares_are_sums_over_events() -> None:
    rng = np.random.default_rng(0)
    P, sizes, n_rounds = 70, (40, 25), np.array([400, 300])
    seen = Seen(P)
    blocks = [block(rng, n, k, P) for k, n in enumerate(sizes)]
    for events, inside in blocks:
        seen.add(events, inside, np.arange(P))
    alive = rng.random(P) < 0.6
    left = np.flatnonzero(alive)
    seen.forget(alive)
    precisions, totals = [], []
    for (events, inside), n in zip(blocks, n_rounds, strict=True):
        share, w = inside[:, left].mean(axis=1), events.rewards / events.propensities
        precisions.append(n / (w**2 * 2 * share * (1 - share)).sum())
        totals.append(w @ inside[:, left])
    expected = np.array(precisions) @ np.array(totals) / (np.array(precisions) @ n_rounds)
    np.testing.assert_allclose(seen.scores(left, n_rounds), expected, rtol=1e-12)

    q = rng.random(sum(sizes))
    first, leader = 10, 3
    A = np.concatenate([inside[:, left] for _, inside in blocks])[first:]
    rewards, own = seen.events.rewards[first:], seen.events.propensities[first:]
    expected = (rewards**2 / (own * q[first:])) @ (A[:, [leader]] != A)
    squares = seen.squares(leader, first, lambda _events, chosen, _rows: q[chosen])
    np.testing.assert_allclose(squares, expected, atol=1e-9)
    assert squares[leader] <= 1e-9
