"""What every explorer promises: exact propensities, and the same lists wherever its state is sent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.explore.explorers import (
    ArmExplorer,
    DisagreementExplorer,
    Explorer,
    MixtureExplorer,
    explorer_from_state,
    register,
)
from comband.page import storage
from comband.page.bits import rows_of
from comband.page.rounds import Events
from tests.states import plain
from tests.strategies import random_policies

P, N = 9, 7
PROBLEM = cb.Problem(n_actions=14, list_size=3, sparsity=1)
POLICIES = random_policies(P, N, PROBLEM, np.random.default_rng(4))
SOME = np.array([0, 2, 3, 5, 8])

MAKERS: dict[str, Callable[[], Explorer]] = {
    "mixture": lambda: MixtureExplorer(
        POLICIES, SOME, weights=np.random.default_rng(1).dirichlet(np.ones(P)), floor=0.2, problem=PROBLEM
    ),
    "mixture of candidates": lambda: MixtureExplorer(
        POLICIES, SOME, weights=np.isin(np.arange(P), SOME) / len(SOME), floor=0.3, problem=PROBLEM
    ),
    "disagreement": lambda: DisagreementExplorer(
        POLICIES, SOME, leader=1, attention=[0.1, 0.5, 0.3, 0.2, 0.4], smallest_disputed=0.15, problem=PROBLEM
    ),
    "disagreement and own lists": lambda: DisagreementExplorer(
        POLICIES,
        SOME,
        leader=1,
        attention=[0.1, 0.5, 0.3, 0.2, 0.4],
        smallest_disputed=0.15,
        own=[0.1, 0, 0.3, 0.2, 0],
        problem=PROBLEM,
    ),
    "arms": lambda: ArmExplorer(POLICIES, SOME, shown=np.array([0, 1, 2, 3, 5, 8]), problem=PROBLEM),
}
every_explorer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def drawn_events(explorer: Explorer, X: NDArray[np.int64]) -> tuple[cb.Decisions, Events]:
    decisions = explorer.draw(X, np.random.default_rng(3), epoch=2).decisions
    return decisions, cb.Rounds(decisions, np.where(np.arange(3) == 1, 1.0, 0.0) * np.ones((len(X), 1))).events()


@every_explorer
def test_what_it_says_of_itself_holds(make: Callable[[], Explorer]) -> None:
    explorer, X = make(), np.repeat(np.arange(N), 40)
    decisions, events = drawn_events(explorer, X)
    assert (decisions.epochs == 2).all()
    dense = explorer.all_propensities(X).dense()
    np.testing.assert_allclose(dense.sum(axis=1), PROBLEM.list_size)
    of_shown = np.take_along_axis(dense, decisions.lists.astype(np.int64), axis=1)
    np.testing.assert_allclose(decisions.propensities, of_shown, atol=1e-12)
    np.testing.assert_allclose(explorer.propensities_of(X, decisions.lists), of_shown, atol=1e-12)
    chosen = np.arange(len(events))[::2]
    inside = explorer.inside(events, chosen)
    assert inside.shape == (len(chosen), len(SOME))
    again = explorer.propensities(events, chosen, rows_of(inside))
    np.testing.assert_allclose(again, explorer.divisors(events, chosen), atol=1e-12)
    for row in np.flatnonzero(decisions.covered[:: len(X) // N]):
        for rival in POLICIES.predict(np.array([row]), SOME)[0]:
            assert (dense[row * (len(X) // N), rival] >= explorer.smallest - 1e-12).all()


@every_explorer
def test_values_come_out_right_on_average(make: Callable[[], Explorer]) -> None:
    """E X(π) = V(π): divided by propensities, or, by arms, from the candidates' own rounds."""
    explorer, X = make(), np.zeros(200_000, dtype=np.int64)
    decisions = explorer.draw(X, np.random.default_rng(0)).decisions
    worth = np.linspace(0, 1, PROBLEM.n_actions) / PROBLEM.list_size
    rewards = worth[decisions.lists]
    events = cb.Rounds(decisions, rewards).events()
    chosen = np.arange(len(events))
    inside = explorer.inside(events, chosen)
    weights = events.rewards / explorer.divisors(events, chosen)
    estimated = (weights @ inside) / len(X)
    values = worth[POLICIES.predict(np.zeros(1, dtype=np.int64), SOME)[0]].sum(axis=1)
    spread = np.sqrt((weights[:, None] ** 2 * inside).sum(axis=0)) * PROBLEM.list_size / len(X)
    assert (np.abs(estimated - values) < 6 * spread).all()  # six standard deviations, taken generously


ELSEWHERE = """
import sys
import numpy as np
from comband.page import storage
from comband.explore.explorers import explorer_from_state
from tests.explore.explorers.test_explorers import N, POLICIES, PROBLEM

explorer = storage.load(sys.argv[1], "explorer", lambda state: explorer_from_state(state, POLICIES, PROBLEM))
decisions = explorer.draw(np.arange(60) % N, np.random.default_rng(int(sys.argv[2])), first_id=7, epoch=5).decisions
storage.save(sys.argv[3], "decisions", decisions.state())
"""


@every_explorer
def test_in_another_process_it_draws_the_same_lists(make: Callable[[], Explorer], tmp_path: Path) -> None:
    explorer = make()
    storage.save(tmp_path / "explorer", "explorer", explorer.state())
    sent = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "explorer"), "11", str(tmp_path / "drawn")]
    subprocess.run(sent, check=True, cwd=Path(__file__).parents[3])
    here = explorer.draw(np.arange(60) % N, np.random.default_rng(11), first_id=7, epoch=5).decisions
    assert plain(cb.Decisions.load(tmp_path / "drawn").state()) == plain(here.state())


@every_explorer
def test_its_state_is_all_of_it(make: Callable[[], Explorer]) -> None:
    explorer = make()
    again = explorer_from_state(explorer.state(), POLICIES, PROBLEM)
    assert type(again) is type(explorer)
    assert plain(again.state()) == plain(explorer.state())
    assert (again.smallest, again.smallest_disputed) == (explorer.smallest, explorer.smallest_disputed)
    for wrong in ({"kind": "guesswork"}, {"candidates": np.array([3, 2])}, {"candidates": np.array([2, P])}):
        with pytest.raises(cb.InputError):
            explorer_from_state({**explorer.state(), **wrong}, POLICIES, PROBLEM)


def test_kinds_have_one_name_each() -> None:
    class Other:
        KIND = "mixture"

    with pytest.raises(cb.InputError, match="an explorer of the kind 'mixture' already"):
        register(Other)


def test_what_was_seen_comes_back_with_the_lists() -> None:
    explorer, X = MAKERS["disagreement"](), np.arange(50) % N
    lists = POLICIES.predict(X, SOME)
    for keep in (0, 1, 20, 50, 80):
        drawn = explorer.draw(X, np.random.default_rng(0), keep=keep)
        if keep == 0:
            assert drawn.lists is None
        else:
            np.testing.assert_array_equal(drawn.lists, lists[max(0, 50 - keep) :])
