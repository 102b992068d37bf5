"""Explorers for totals: their law by enumeration, unbiased differences within their bound, and the same lists wherever
their state is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

import comband as cb
from comband.explore.explorers import (
    ArmExplorer,
    Explorer,
    MidzunoExplorer,
    OwnListExplorer,
    WholeListExplorer,
    explorer_from_state,
)
from comband.page.bits import rows_of
from comband.page.rounds import Events
from tests.strategies import random_policies

P, N = 7, 5
PROBLEM = cb.Problem(n_actions=9, list_size=3, sparsity=2, feedback="total")
F = 2 / 8
POLICIES = random_policies(P, N, PROBLEM, np.random.default_rng(4))
SOME = np.array([0, 2, 3, 6])
LISTS = np.array(list(combinations(range(9), 3)), dtype=np.int32)


def midzuno(smallest_first: float = 0.05, uniform: float = 0.05) -> MidzunoExplorer:
    return MidzunoExplorer(
        POLICIES,
        SOME,
        leader=1,
        attention=[0.1, 0.5, 0.3, 0.2],
        smallest_first=smallest_first,
        problem=PROBLEM,
        uniform=uniform,
    )


MAKERS: dict[str, Callable[[], Explorer]] = {
    "midzuno": midzuno,
    "midzuno, uncovered": lambda: midzuno(0.4),
    "midzuno, uniform": lambda: midzuno(1 / 9, 1.0),
    "whole lists": lambda: WholeListExplorer(POLICIES, SOME, problem=PROBLEM),
    "own lists": lambda: OwnListExplorer(POLICIES, SOME, problem=PROBLEM),
    "arms": lambda: ArmExplorer(POLICIES, SOME, shown=np.array([0, 1, 2, 3, 6]), problem=PROBLEM),
}
every_explorer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
filled = pytest.mark.parametrize("name", ["midzuno", "midzuno, uncovered", "midzuno, uniform"])


def first_law(explorer: MidzunoExplorer, x: int) -> NDArray[np.float64]:
    """q (K,) as the class says, in plain Python."""
    lists = [set(POLICIES.predict(np.array([x]), SOME)[0, s].tolist()) for s in range(len(SOME))]
    attention = np.array([0.1, 0.0, 0.3, 0.2])
    attention /= attention.sum()
    q, weight = np.zeros(9), np.zeros(9)
    low = explorer.smallest_first
    for y in set().union(*lists):
        votes = sum(y in mine for mine in lists)
        if votes == len(lists):
            q[y] = min(0.05 / 3, low)
            continue
        q[y] = 0.3 * low if y in lists[1] else low
        matters = sum(a for a, mine in zip(attention, lists, strict=True) if (y in mine) != (y in lists[1]))
        weight[y] = np.sqrt(max(matters, 1e-9) * (votes / len(lists) + 0.01))
    if q.sum() > 1 or weight.sum() == 0:
        q /= q.sum()
    else:
        q += (1 - q.sum()) * weight / weight.sum()
    return np.asarray((1 - explorer.uniform) * q + explorer.uniform / 9)


@filled
def test_law_of_lists(name: str) -> None:
    """Shares of all lists by their propensities, against the definition; frequencies by chi-square, 5e-8 each."""
    explorer = MAKERS[name]()
    assert isinstance(explorer, MidzunoExplorer)
    for x in range(N):
        q = first_law(explorer, x)
        assert q.sum() == pytest.approx(1)
        Q = explorer.propensities_of(np.full(len(LISTS), x), LISTS)
        np.testing.assert_allclose(Q, (q + (1 - q) * F)[LISTS], rtol=1e-12)
        np.testing.assert_allclose(explorer.all_propensities(np.array([x])).dense()[0], q + (1 - q) * F, rtol=1e-12)
        n = 60_000
        drawn = explorer.draw(np.full(n, x), np.random.default_rng(x)).decisions
        np.testing.assert_allclose(drawn.propensities, (q + (1 - q) * F)[drawn.lists], rtol=1e-12)
        counts = Counter(tuple(sorted(a)) for a in drawn.lists.tolist())
        expected = n * q[LISTS].sum(axis=1) / comb(8, 2)
        observed = np.array([counts[tuple(a)] for a in LISTS.tolist()])
        assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(5e-8, len(LISTS) - 1)
        least = q[[y for y in range(9) if is_disputed(x, y)]].min()
        covered = bool(drawn.covered.all())
        assert covered == bool(drawn.covered.any())
        if covered:
            assert least >= explorer.smallest_disputed / (1 - F) - 1e-12


def is_disputed(x: int, y: int) -> bool:
    lists = POLICIES.predict(np.array([x]), SOME)[0]
    return y not in lists[1] and bool((lists == y).any())


def worth(
    explorer: Explorer,
    X: NDArray[np.int64],
    totals: NDArray[np.float64],
    lists: NDArray[np.int32],
    arms: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], Events]:
    """X_t(π) (n, S) of rounds with these lists, as the evidence sums it."""
    n = len(X)
    decisions = cb.Decisions(
        ids=np.arange(n),
        lists=lists,
        propensities=np.clip(explorer.propensities_of(X, lists), 1e-9, 1),
        epochs=np.zeros(n, dtype=np.int64),
        contexts=X,
        arms=np.full(n, -1) if arms is None else arms,
    )
    events = cb.Rounds(decisions, np.repeat(totals[:, None] / 3, 3, axis=1)).events()
    chosen = np.arange(len(events))
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = events.rewards / explorer.divisors(events, chosen)
        parts = np.where(explorer.inside(events, chosen) != 0, weights[:, None], 0.0) * explorer.inside(events, chosen)
    result = np.zeros((n, len(SOME)))
    np.add.at(result, events.ids[events.rows], parts)
    return result, events


@every_explorer
def test_differences_are_unbiased_and_bounded(make: Callable[[], Explorer]) -> None:
    """Over all lists, or all arms, of every context."""
    explorer, rng = make(), np.random.default_rng(0)
    for x in range(N):
        r = np.zeros(9)
        r[rng.choice(9, 2, replace=False)] = rng.uniform(0.3, 1, 2)
        own = POLICIES.predict(np.array([x]))[0]
        values = r[own].sum(axis=1)[SOME]
        if isinstance(explorer, ArmExplorer):
            lists, law = own[explorer.shown], np.full(len(explorer.shown), 1 / len(explorer.shown))
            X, _ = worth(explorer, np.full(len(lists), x), r[lists].sum(axis=1), lists, arms=explorer.shown)
        elif isinstance(explorer, (WholeListExplorer, OwnListExplorer)):
            lists, law = own[SOME], np.full(len(SOME), 1 / len(SOME))
            X, _ = worth(explorer, np.full(len(lists), x), r[lists].sum(axis=1), lists)
        else:
            assert isinstance(explorer, MidzunoExplorer)
            lists, q = LISTS, first_law(explorer, x)[LISTS].sum(axis=1)
            law = q / comb(8, 2)
            X, _ = worth(explorer, np.full(len(lists), x), r[lists].sum(axis=1), lists)
            np.testing.assert_allclose(law @ X, values + F * 3 * r.sum() / (1 - F), rtol=0, atol=1e-12)
            assert (law * r[lists].sum(axis=1) / q).sum() == pytest.approx(r.sum())  # every list is possible
            assert ((1 - F) * q >= explorer.smallest_list * (1 - 1e-12)).all()
        np.testing.assert_allclose(law @ (X - X[:, [1]]), values - values[1], rtol=0, atol=1e-12)
        if bool(explorer.draw(np.array([x]), 1).decisions.covered[0]):
            assert (X - X[:, [1]]).max() <= 2 / explorer.smallest_disputed * (1 + 1e-12)
            assert X.max() <= 2 / explorer.smallest * (1 + 1e-12)


@every_explorer
def test_divisors_of_its_own_rounds_are_what_it_would_divide_by(make: Callable[[], Explorer]) -> None:
    explorer, X = make(), np.arange(200) % N
    decisions = explorer.draw(X, np.random.default_rng(3)).decisions
    events = cb.Rounds(decisions, np.full((200, 3), 0.5)).events()
    chosen = np.arange(len(events))[30:]
    inside = rows_of(explorer.inside(events, chosen))
    again, own = explorer.propensities(events, chosen, inside), explorer.divisors(events, chosen)
    counted = explorer.inside(events, chosen).any(axis=1)
    np.testing.assert_allclose(again[counted], own[counted], rtol=1e-9)


@every_explorer
def test_other_batches_and_other_processes_draw_the_same_lists(make: Callable[[], Explorer]) -> None:
    explorer, X = make(), np.arange(60) % N
    whole = explorer.draw(X, np.random.default_rng(8), first_id=5, epoch=3, keep=20)
    rng = np.random.default_rng(8)
    parts = [explorer.draw(X[:17], rng, first_id=5, epoch=3), explorer.draw(X[17:], rng, first_id=22, epoch=3)]
    there = explorer_from_state(explorer.state(), POLICIES, PROBLEM)
    sent = there.draw(X, np.random.default_rng(8), first_id=5, epoch=3)
    for other in (parts[0].decisions + parts[1].decisions, sent.decisions):
        for column in ("ids", "lists", "propensities", "epochs", "covered", "arms"):
            np.testing.assert_array_equal(getattr(other, column), getattr(whole.decisions, column))
    if whole.lists is not None:
        np.testing.assert_array_equal(whole.lists, POLICIES.predict(X[-20:], SOME))


def test_states_that_are_none_are_refused() -> None:
    state = midzuno().state()
    for changed in ({"uniform": 0.0}, {"smallest_first": 0.0}, {"leader": 9}, {"attention": np.ones(2)}):
        with pytest.raises(cb.InputError):
            explorer_from_state({**state, **changed}, POLICIES, PROBLEM)
    with pytest.raises(cb.InputError, match="candidates"):
        explorer_from_state({"kind": "whole lists", "candidates": np.empty(0, dtype=np.int64)}, POLICIES, PROBLEM)


def test_own_lists_can_gain_more_than_their_number() -> None:
    """D ≤ ρS·(1 + √2)/2 for every projection, nearly attained by some; and by lists it does pass ρS."""
    rng, largest = np.random.default_rng(6), 0.0
    for _ in range(2000):
        S = int(rng.integers(2, 6))
        basis = np.linalg.qr(rng.standard_normal((S, int(rng.integers(1, S + 1)))))[0]
        M = basis @ basis.T
        largest = max(largest, float((M[:, None, :] - M[None, :, :]).max()))
    assert 1.2 < largest <= (1 + np.sqrt(2)) / 2 + 1e-12
    problem = cb.Problem(8, 3, 1, "total")
    sets = [[2, 4, 5], [2, 3, 5], [3, 4, 5], [0, 1, 2], [0, 3, 4], [1, 3, 5], [1, 3, 4], [0, 4, 5]]
    policies = cb.PolicySet.from_lists([[a] for a in sets], problem)
    explorer = OwnListExplorer(policies, np.arange(8), problem=problem)
    decisions = cb.Decisions(
        ids=np.arange(8),
        lists=policies.predict(np.array([0]))[0],
        propensities=np.full((8, 3), 0.5),
        epochs=np.zeros(8, dtype=np.int64),
        contexts=np.zeros(8, dtype=np.int64),
    )
    events = cb.Rounds(decisions, np.full((8, 3), 1 / 3)).events()
    chosen = np.arange(len(events))
    X = explorer.inside(events, chosen) * (events.rewards / explorer.divisors(events, chosen))[:, None]
    gain = (X[:, :, None] - X[:, None, :]).max()
    assert gain == pytest.approx(15 / 13 / explorer.smallest)
    assert gain <= 1 / explorer.smallest_disputed
