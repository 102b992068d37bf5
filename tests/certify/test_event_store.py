"""What was seen, against sums over events."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from comband.certify.event_store import EventStore
from comband.page.rounds import Events


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


def equal_events(n: int, epoch: int) -> Events:
    return Events(
        n_rounds=0,
        ids=10_000 * epoch + np.arange(n),
        epochs=np.full(n, epoch),
        contexts=np.zeros((n, 1)),
        rows=np.arange(n),
        actions=np.zeros(n, dtype=np.int32),
        rewards=np.ones(n),
        propensities=np.full(n, 0.5),
    )


def test_scores_and_squares_are_sums_over_events() -> None:
    rng = np.random.default_rng(0)
    P, sizes, n_rounds = 70, (40, 25), np.array([400, 300])
    seen = EventStore(P)
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


def test_variances_of_scores_are_those_of_rounds_drawn_again() -> None:
    """Rewards are rare: the score of a candidate, less the mean of all, varies as the sum of independent parts."""
    rng = np.random.default_rng(5)
    P, n, repeats = 6, 400, 3000
    lists, found, variances = rng.random((10, P)) < 0.4, [], []
    for _ in range(repeats):
        hit = np.flatnonzero(rng.random(n) < 0.06)
        action = rng.integers(10, size=len(hit))
        events = Events(
            n_rounds=0,
            ids=hit,
            epochs=np.zeros(len(hit), dtype=np.int64),
            contexts=np.zeros((len(hit), 1)),
            rows=np.arange(len(hit)),
            actions=action.astype(np.int32),
            rewards=np.ones(len(hit)),
            propensities=np.asarray(0.1 + 0.08 * action, dtype=np.float64),
        )
        seen = EventStore(P)
        seen.add(events, lists[action], np.arange(P))
        scores = seen.scores(np.arange(P), np.array([n]))
        found.append(scores - scores.mean())
        variances.append(seen.score_variances(np.arange(P), np.array([n])))
    # Both sides are means over 3,000 runs: they agree to well within 20% in each of six candidates.
    np.testing.assert_allclose(np.mean(variances, axis=0), np.var(found, axis=0), rtol=0.2)


def test_variances_where_several_events_speak_of_one_reward() -> None:
    rng = np.random.default_rng(6)
    P, rewards, pairs = 5, 30, 3
    place = rng.integers(pairs + 1, size=(rewards, P))  # which of its events counts for whom; none for the last
    inside = (place[:, None, :] == np.arange(pairs)[:, None]).reshape(-1, P)
    sizes = rng.random(rewards * pairs) + 0.5
    events = Events(
        n_rounds=0,
        ids=np.arange(rewards),
        epochs=np.zeros(rewards, dtype=np.int64),
        contexts=np.zeros((rewards, 1)),
        rows=np.repeat(np.arange(rewards), pairs),
        actions=np.tile(np.arange(pairs, dtype=np.int32), rewards),
        rewards=np.ones(rewards * pairs),
        propensities=1 / sizes,
    )
    seen = EventStore(P)
    seen.add(events, inside, np.arange(P))
    earned = (inside * sizes[:, None]).reshape(rewards, pairs, P).sum(axis=1) / 500
    expected = ((earned - earned.mean(axis=1, keepdims=True)) ** 2).sum(axis=0)
    found = seen.score_variances(np.arange(P), np.array([500]), per_reward=pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    errors = [seen.value_error(p, np.array([500]), 500) for p in range(P)]
    np.testing.assert_allclose(errors, np.sqrt((earned**2).sum(axis=0)), rtol=1e-12)


def test_newcomers_are_as_uncertain_as_their_own_rounds_make_them() -> None:
    """Two old candidates, one of which comes back, and a newcomer: of these the epoch 1 alone is known."""
    n_rounds = np.array([900, 100])
    seen = EventStore(2)

    seen.add(equal_events(90, 0), np.ones((90, 1), dtype=bool), np.array([0]))
    seen.admit(np.array([0, 1, 2]), 1)
    assert seen.value_error(2, n_rounds, 0) == np.inf
    seen.add(equal_events(10, 1), np.ones((10, 3), dtype=bool), np.array([0, 1, 2]))
    per_round = 2 * np.sqrt(0.1)  # one round in ten brings 1/0.5
    assert seen.value_error(0, n_rounds, 1000) == pytest.approx(per_round / np.sqrt(1000))
    assert seen.value_error(2, n_rounds, 100) == pytest.approx(per_round / np.sqrt(100))
    assert seen.value_error(1, n_rounds, 400) == pytest.approx(per_round / np.sqrt(400))  # 300 are no more known


def test_rounds_before_anybody_was_known_do_not_make_newcomers_more_uncertain() -> None:
    """Variances go by rounds that somebody left has events of: those before `restart`, say, are of none."""
    found = []
    for before in (0, 5000):
        seen = EventStore(0)
        for epoch, (n, inside) in enumerate([(40, [True, False]), (8, [True, False, True])], start=1):
            seen.admit(np.arange(len(inside)), epoch)
            seen.add(equal_events(n, epoch), np.tile(inside, (n, 1)), np.arange(len(inside)))
        found.append(seen.score_variances(np.arange(3), np.array([before, 400, 80])))
    np.testing.assert_array_equal(found[0], found[1])
