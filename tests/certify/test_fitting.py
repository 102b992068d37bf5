"""A learner that fits factors of places as rounds come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.certify.watch import PlacesGuard
from comband.page.places import examinations, fit_examination, placed_rounds
from comband.policies.reading import reading_of
from comband.statistics import factor_fit
from comband.statistics.factor_fit import FactorFit
from comband.statistics.place_guard import PlaceGuard
from tests.certify.test_placed import THETA, TwoShops
from tests.page.test_places import natural_log

PAGE = cb.Problem(20, 3, 1, places="fit")


def learner_of(seed: int = 0, **options: Any) -> tuple[TwoShops, cb.AdaptiveComband]:
    world = TwoShops(PAGE)
    policies = cb.PolicySet.from_lists(world.lists, PAGE, names=["A", "B"])
    return world, cb.AdaptiveComband(PAGE, policies, **{"epsilon": 1e-3, "seed": seed, **options})


def play(world: TwoShops, learner: cb.AdaptiveComband, rounds: int, rng: np.random.Generator) -> list[cb.Decisions]:
    made = []
    while learner.rounds < rounds and not learner.done:
        batch = world.sample(100, rng)
        made.append(learner.ask(batch.contexts))
        learner.tell(made[-1], batch.answer(made[-1].lists))
    return made


def test_nothing_is_claimed_until_factors_are_clear() -> None:
    world, learner = learner_of()
    made = play(world, learner, 1000, np.random.default_rng(1))
    epoch = learner.epochs.current
    assert epoch.fitting
    assert not epoch.bets.stakes.any()
    assert not learner.evidence.log_wealth.any()
    for decisions in made:  # all orders alike
        placements: Any = decisions.placements
        np.testing.assert_allclose(placements, np.repeat(decisions.propensities[:, :, None] / 3, 3, axis=2), rtol=1e-12)
    result = learner.result()
    assert result.verdict.kind == "cannot tell"
    assert "factors of places are not clear yet after" in str(result)
    assert learner.status().certified is None
    assert not any(claim.holds for claim in result.claims if claim.kind in ("certificate", "intervals"))


def test_epochs_are_read_by_the_factors_that_were_fitted_before_them() -> None:
    """Evidence of an epoch is that of a page whose factors were stated so; what came before is not in it."""
    world, learner = learner_of()
    made = play(world, learner, 6000, np.random.default_rng(1))
    first = next(k for k, epoch in enumerate(learner.epochs) if not epoch.fitting)
    assert 0 < first < len(learner.epochs) - 1
    assert learner.evidence.since == first
    assert all(epoch.fitting == (k < first) for k, epoch in enumerate(learner.epochs))
    seen = learner.evidence.seen.events
    rows = np.concatenate([one.placements for one in made])
    lists = np.concatenate([one.lists for one in made])
    of_epoch = seen.epochs[seen.rows]
    assert of_epoch.min() == first
    for e in range(len(seen)):
        y, k = divmod(int(seen.actions[e]), 3)
        theta = learner.epochs[int(of_epoch[e])].explorer.theta  # type: ignore[attr-defined]
        i = int(seen.ids[seen.rows[e]])
        due = float(rows[i, lists[i].tolist().index(y)] @ theta)
        assert seen.propensities[e] == pytest.approx(due / theta[k] / 3, rel=1e-12)
    # The factors of an epoch are those of the rounds before it.
    fit = learner.watch[PlacesGuard].fit
    found: Any = fit.factors
    assert (np.abs(np.array(found) - THETA)[1:] < 5.5 * np.array(found.standard_errors)[1:]).all()
    claim = learner.result().claims[0]
    assert claim.condition.startswith("if places are examined as fitted (1, ")
    assert claim.condition in claim.text
    assert any("factors of places as they are fitted to" in text for text in learner.result().explained)


def test_answers_of_several_epochs_at_once_count_by_the_factors_of_their_own() -> None:
    world, learner = learner_of(patience=3000, first_epoch=200)
    rng = np.random.default_rng(1)
    made = play(world, learner, 5000, rng)
    decisions = made[10] + made[-1] + made[-12]
    numbers = np.unique(decisions.epochs)
    assert len(numbers) == 3
    rounds = cb.Rounds(decisions, (rng.random(decisions.lists.shape) < 0.2).astype(float))
    _, counted = reading_of(PAGE).told(rounds, learner.epochs)
    for i in range(len(rounds)):
        theta = learner.epochs[int(decisions.epochs[i])].explorer.theta  # type: ignore[attr-defined]
        one = placed_rounds(rounds[np.array([i])], theta, share=True)
        np.testing.assert_array_equal(counted.decisions.ids[i], one.decisions.ids[0])
        np.testing.assert_allclose(counted.decisions.propensities[i], one.decisions.propensities[0], rtol=1e-13)
        np.testing.assert_array_equal(counted.rewards[i], one.rewards[0])
        assert examinations(decisions[np.array([i])], theta).shape == (1, 3)


@pytest.mark.parametrize("rounds", [700, 4000])
def test_a_saved_learner_goes_on(rounds: int, tmp_path: Path) -> None:
    world, learner = learner_of(seed=4)
    rng = np.random.default_rng(6)
    play(world, learner, rounds, rng)
    assert learner.epochs.current.fitting == (rounds == 700)
    learner.save(tmp_path / "learner.npz")
    again = cb.AdaptiveComband.load(tmp_path / "learner.npz", learner.policies)
    assert str(again.result()) == str(learner.result())
    for one in (learner, again):
        play(world, one, rounds + 2500, np.random.default_rng(8))
    assert not learner.epochs.current.fitting
    np.testing.assert_array_equal(again.evidence.log_wealth, learner.evidence.log_wealth)
    assert again.watch[PlacesGuard].places.log_evidence == learner.watch[PlacesGuard].places.log_evidence
    assert again.watch[PlacesGuard].fit.factors == learner.watch[PlacesGuard].fit.factors
    np.testing.assert_array_equal(
        again.epochs.current.explorer.theta,  # type: ignore[attr-defined]
        learner.epochs.current.explorer.theta,  # type: ignore[attr-defined]
    )


def test_factors_that_change_after_the_fit_are_noticed() -> None:
    """Given the place's share, a reward in another place has a likelihood ratio of .4 nats on average in random order:
    5% of some 5,000 rewards are such, and as many as 20% at first; an alarm at log 1,000 = 6.9.
    """
    world, learner = learner_of(seed=2, epsilon=1e-6)
    rng = np.random.default_rng(3)
    play(world, learner, 6000, rng)
    assert not learner.watch.warnings
    while learner.rounds < 80_000 and not learner.watch.warnings:
        batch = world.sample(2000, rng)
        decisions = learner.ask(batch.contexts)
        seen = batch.answer(decisions.lists)
        learner.tell(decisions, seen * (rng.random(seen.shape) < np.array([0.3, 0.5, 1.0])))
    (warning,) = learner.watch.warnings
    assert "do not hold as they were fitted" in warning
    assert not learner.result().claims[0].holds


def test_lists_are_in_random_order_only_until_factors_are_clear() -> None:
    world, learner = learner_of(production="A", exposure=0.5)
    own = world.lists
    rng = np.random.default_rng(2)
    first = play(world, learner, 300, rng)
    same = np.concatenate([(one.lists == own[0, np.asarray(one.contexts)]).all(axis=1) for one in first])
    assert 0.4 < same.mean() < 0.6  # half of the visitors see production's page as it is
    play(world, learner, 12_000, rng)
    assert learner.epochs.current.explorer.shuffled <= 0.2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("natural order as soon as", lambda: cb.Problem(20, 3, places="fit", order="random")),
        ("totals do not tell", lambda: cb.Problem(20, 3, places="fit", feedback="total")),
        ('exploration "adaptive"', lambda: cb.UniformMixture(PAGE, _policies(), epsilon=0.1)),
        ("max_loss is about all rounds", lambda: learner_of(production="A", max_loss=5.0)),
        ("max_evaluated be at least 2", lambda: learner_of(max_evaluated=1)),
        ("is for AdaptiveComband", lambda: cb.evaluate(natural_log(THETA, 50, 0), _two(), max_reward=3, places="fit")),
        ("is for AdaptiveComband", lambda: PlaceGuard("fit", list_size=3)),  # type: ignore[arg-type]
        ("is for AdaptiveComband", lambda: cb.PacComband(PAGE, _policies(), n_explore=9, n_estimate=9)),
    ],
)
def test_what_cannot_be_fitted_is_refused(words: str, make: Any) -> None:
    with pytest.raises(cb.InputError, match=words):
        make()


def _two() -> cb.PolicySet:
    return cb.PolicySet.from_lists([[[0, 1, 2]], [[1, 2, 0]]], cb.Problem(5, 3))


def _policies() -> cb.PolicySet:
    return cb.PolicySet.from_lists(TwoShops(PAGE).lists, PAGE, names=["A", "B"])


# ---- the fit itself --------------------------------------------------------------------------------------------------


def test_the_fit_is_that_of_all_rounds_together(tmp_path: Path) -> None:
    rounds = natural_log(THETA, 3000, 5)
    rewarded = rounds.rewards.any(axis=1)
    rewards, rows = rounds.rewards[rewarded], rounds.decisions.placements[rewarded]  # type: ignore[index]
    fit = FactorFit(list_size=3)
    for part in np.array_split(np.arange(len(rewards)), 7):
        fit.update(rewards[part], rows[part])
    whole, found = fit_examination(rounds), fit.factors
    assert found is not None
    np.testing.assert_allclose(found, whole, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    again = FactorFit.from_state(fit.state(), list_size=3)
    assert again.factors == found
    with pytest.raises(cb.InputError, match="must be those of its rounds"):
        FactorFit.from_state({**fit.state(), "n_rounds": 3}, list_size=3)


def test_bets_begin_when_no_standard_error_is_above_a_fifth() -> None:
    rng, fit = np.random.default_rng(1), FactorFit(list_size=2)
    before: float = np.inf
    while not fit.clear:
        if fit.factors is not None:
            before = fit.factors.standard_errors[1] / fit.factors[1]
            assert before > factor_fit._CLEAR
        fit.update(np.eye(2)[(rng.random(5) < 1 / 3).astype(int)], np.full((5, 2, 2), 0.5))
    found: Any = fit.factors
    assert found.standard_errors[1] <= 0.2 * found[1] < found.standard_errors[1] * 2
    assert np.isfinite(before)


def test_items_that_stand_in_one_place_tell_no_factors() -> None:
    fit = FactorFit(list_size=2)
    fit.update(np.eye(2)[[0, 1] * 50], np.tile(np.eye(2), (100, 1, 1)))
    assert fit.factors is None
    assert not fit.clear


def test_the_guard_goes_on_with_other_factors() -> None:
    """Each bet is one against the factors of its time: the wealth is the product of theirs."""
    rng, rows = np.random.default_rng(2), np.full((1, 2, 2), 0.5)
    guard = PlaceGuard(None, list_size=2, max_reward=1)
    guard.state_fitted([1, 0.5])
    stakes = []
    for k in rng.integers(2, size=60):
        before = guard._log_wealths.copy()
        if guard.n_rounds == 30:
            guard.state_fitted([1, 0.8])
        theta = np.array([1, 0.5]) if guard.n_rounds < 30 else np.array([1, 0.8])
        guard.update(np.eye(2)[[k]], rows)
        fall = theta * 0.5 ** np.arange(2)  # one of the factors that are bet on
        ratio = (fall / fall.sum())[k] / (theta / theta.sum())[k]
        stakes.append((guard._log_wealths - before)[2] - np.log(ratio))
    np.testing.assert_allclose(stakes, 0, atol=1e-12)
    again = PlaceGuard.from_state(guard.state(), None, list_size=2, max_reward=1)
    assert again.places == (1.0, 0.8)
    for one in (guard, again):
        one.update(np.eye(2)[[1, 0, 1]], np.repeat(rows, 3, axis=0))
    assert again.log_evidence == guard.log_evidence
