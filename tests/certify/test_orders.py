"""Which pairs are watched, that what is staked on them is safe, and that swaps are noticed while nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.drift import play
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.certify.notifications import Entered, Guard, Moment
from comband.certify.orders import OrdersGuard, _differences
from tests.certify.test_field import timing_out
from tests.learners.small_worlds import small_world
from tests.states import plain


class Witness(Guard):
    """Keeps what entered."""

    warning = ""

    def __init__(self) -> None:
        self.seen: tuple[Entered, ...] = ()

    def observe(self, moment: Moment) -> None:
        if isinstance(moment, Entered):
            self.seen = (*self.seen, moment)


WORLD = small_world("clustered", 3)
GAPS = cb.PolicySet.from_lists(timing_out(WORLD, "good", 3), WORLD.problem, fallback="nothing")
PROBLEMS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "disagreement": (cb.AdaptiveComband, {}, WORLD.policies),
    "empty places": (cb.AdaptiveComband, {}, GAPS),
    "factors": (cb.AdaptiveComband, {"places": [1.0, 0.5]}, WORLD.policies),
    "pairs": (cb.AdaptiveComband, {"places": "pairs"}, WORLD.policies),
    "totals": (cb.AdaptiveComband, {"feedback": "total"}, WORLD.policies),
    "lists": (cb.UniformLists, {}, WORLD.policies),
    "mixture": (cb.UniformMixture, {}, WORLD.policies),
    "arms": (cb.ABTest, {}, WORLD.policies),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_differences_are_never_larger_than_what_is_staked_allows(name: str) -> None:
    kind, options, policies = PROBLEMS[name]
    problem, witness = cb.Problem(10, 2, 1, **options), Witness()
    learner = kind(problem, policies, epsilon=0.02, first_epoch=100, guards=[witness], seed=2)
    rng = np.random.default_rng(4)
    for _ in range(12):
        decisions = learner.ask(rng.integers(12, size=100))
        label = rng.integers(10, size=100)
        clicked = (decisions.lists == label[:, None]).astype(float)
        learner.tell(decisions, clicked.any(axis=1).astype(float) if "feedback" in options else clicked)
    orders, seen, largest = learner.watch[OrdersGuard], 0, 0.0
    assert orders.order.begun > 0
    for moment in witness.seen:
        candidates = moment.epoch.candidates
        pairs = np.array([(a, b) for a in candidates for b in candidates if a < b])
        if len(pairs) == 0:
            continue
        bounds = np.array([orders._bounds(moment.epoch, *pair) for pair in pairs.tolist()])
        found = _differences(moment, pairs)
        assert (-found <= bounds[:, 0] * (1 + 1e-9)).all()
        assert (found <= bounds[:, 1] * (1 + 1e-9)).all()
        seen += len(found)
        largest = max(largest, float((np.abs(found) / bounds.max(axis=1)).max(initial=0.0)))
    assert seen > 50
    assert largest > 0.05  # bounds that say something


def test_bounds_are_those_of_rivals_and_of_the_leader() -> None:
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.01)
    epoch, orders = learner.epochs.current, learner.watch[OrdersGuard]
    leader, (one, other) = epoch.leader, [i for i in range(8) if i != epoch.leader][:2]
    floor = epoch.explorer.smallest_disputed
    rival, own = 1 / floor, 1 / (0.6 * floor)
    assert orders._bounds(epoch, leader, one) == pytest.approx((rival, own))
    assert orders._bounds(epoch, one, leader) == pytest.approx((own, rival))
    assert orders._bounds(epoch, one, other) == pytest.approx((own, own))


def test_the_mean_of_differences_is_the_gap() -> None:
    """Whatever the epochs do: what the guard is told is unbiased, in all pairs."""
    witness = Witness()
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.001, first_epoch=100, guards=[witness])
    rng = np.random.default_rng(1)
    for _ in range(40):
        WORLD.play(learner, 100, rng)
    assert len(learner.epochs) > 5
    pair = np.array([[0, 1]])
    sums: list[NDArray[np.float64]] = []
    n = 0
    for moment in witness.seen:
        if np.isin(pair, moment.epoch.candidates).all():
            sums.append(_differences(moment, pair)[:, 0])
            n += len(moment.decisions)
    d = np.concatenate(sums)
    error = np.sqrt((d**2).sum()) / n
    assert abs(d.sum() / n - (WORLD.values[0] - WORLD.values[1])) < 5.5 * error


def test_pairs_are_leaders_with_their_closest_rivals_and_both_are_candidates() -> None:
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.01, first_epoch=100)
    rng = np.random.default_rng(3)
    for _ in range(30):
        WORLD.play(learner, 100, rng)
        pairs, epoch = learner.watch[OrdersGuard].order.pairs, learner.epochs.current
        assert np.isin(pairs, epoch.candidates).all()
        if len(learner.epochs) > 2 and len(epoch.candidates) > 1:
            assert (pairs == epoch.leader).any()
    assert learner.watch[OrdersGuard].order.begun >= 2


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    learners = [
        cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.001, first_epoch=100, patience=90, seed=4)
        for _ in range(2)
    ]
    rngs = [np.random.default_rng(6) for _ in range(2)]
    for step in range(20):
        for one, rng in zip(learners, rngs, strict=True):
            WORLD.play(one, 7 + 13 * (step % 3), rng)
            WORLD.play(one, 60, rng)
        learners[1].save(tmp_path / "learner.npz")
        learners[1] = cb.AdaptiveComband.load(tmp_path / "learner.npz", WORLD.policies)
        assert plain(learners[0].state()["learnt"]) == plain(learners[1].state()["learnt"])
    assert learners[0].watch[OrdersGuard].order.begun > 0


def test_rounds_count_from_decisions_of_their_epoch_on() -> None:
    """All rounds of epochs in which both are candidates, since the pair is watched, and each of them once."""
    witness = Witness()
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.001, first_epoch=100, guards=[witness])
    rng = np.random.default_rng(8)
    for _ in range(15):
        WORLD.play(learner, 70, rng)
    orders: OrdersGuard = learner.watch[OrdersGuard]
    state = orders.state()["order"]
    assert len(state["pairs"])
    for pair, first, counts, sums in zip(state["pairs"], state["first"], state["counts"], state["sums"], strict=True):
        rounds, total = 0, 0.0
        for moment in witness.seen:
            if np.isin(pair, moment.epoch.candidates).all():
                rounds += int((moment.decisions >= first).sum())
                total += float(_differences(moment, pair[None])[moment.block.ids >= first].sum())
        assert counts.sum() == rounds > 0
        assert sums.sum() == pytest.approx(total, abs=1e-9)


def test_a_swap_is_noticed_and_a_world_at_rest_is_not() -> None:
    noticed = [play(0.035, seed, before=6000, after=5000)[0] for seed in range(4)]
    # One in a hundred is missed, all four with a probability below 1e-6.
    assert sum(one is not None and one > 6000 for one in noticed) >= 1
    at_rest = [play(0.025, seed, before=4000, after=0)[0] for seed in range(4)]
    assert sum(one is not None for one in at_rest) <= binom.isf(1e-6, 4, 0.002)  # two guards


@pytest.mark.slow
def test_a_swap_of_the_two_best_is_noticed_within_five_thousand_rounds() -> None:
    """At 5% clicks with the best candidate and 2.5% with the second, after half of 20,000 rounds, in 95% of runs."""
    runs = 200
    found = [play(0.025, seed, before=10_000, after=5000)[0] for seed in range(runs)]
    late = [one for one in found if one is None]
    early = [one for one in found if one is not None and one <= 10_000]
    print(f"{runs - len(late) - len(early)} of {runs} noticed within 5,000 rounds, {len(early)} before")
    assert runs - len(late) - len(early) >= binom.ppf(1e-6, runs, 0.95)
    assert len(early) <= binom.isf(1e-6, runs, 0.002)  # two guards
