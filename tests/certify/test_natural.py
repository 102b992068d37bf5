"""A certifying learner that shows lists in natural order."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.certify.watch import PlacesGuard
from comband.explore.explorers.natural import NaturalExplorer
from comband.page.places import examinations, placed_rounds
from comband.page.problem import saved_problem
from comband.policies.reading import reading_of

THETA = (1.0, 0.6, 0.3)


def shop(places: Any, seed: int = 0) -> tuple[cb.Problem, cb.SyntheticRecommender, cb.PolicySet]:
    problem = cb.Problem(20, 3, sparsity=1, places=places, order="natural")
    world = cb.SyntheticRecommender(problem, click_rate=0.4, place_effect=places, n_users=12, seed=seed)
    return problem, world, world.candidates(6, seed=seed + 1)


@pytest.mark.parametrize("places", [None, THETA])
@pytest.mark.parametrize("options", [{}, {"objective": "reward"}, {"exposure": 0.3}, {"exploration": "mixture"}])
def test_lists_state_their_places_and_a_saved_learner_goes_on(
    places: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    problem, world, policies = shop(places)
    if "exposure" in options:
        options = {**options, "production": policies.names[0]}
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.05, first_epoch=100, seed=1, **options)
    rng = np.random.default_rng(3)
    for _ in range(4):
        batch = world.sample(80, rng)
        decisions = learner.ask(batch.contexts)
        placements: Any = decisions.placements
        np.testing.assert_allclose(placements.sum(axis=2), decisions.propensities, atol=1e-12)
        assert (np.diagonal(placements, axis1=1, axis2=2) > 0).all()
        learner.tell(decisions, batch.answer(decisions.lists))
    learner.save(tmp_path / "learner.npz")
    again = cb.AdaptiveComband.load(tmp_path / "learner.npz", policies)
    assert again.problem.order == "natural"
    X = world.sample(50, rng).contexts
    one, other = learner.ask(X), again.ask(X)
    np.testing.assert_array_equal(one.lists, other.lists)
    np.testing.assert_array_equal(one.placements, other.placements)


def test_visitors_who_do_not_take_part_see_the_page_of_production() -> None:
    problem, world, policies = shop(THETA)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.05, production=policies.names[2], exposure=0.2, seed=1)
    X = world.sample(2000, np.random.default_rng(0)).contexts
    own = policies.predict(X)[:, 2]
    same = (learner.ask(X).lists == own).all(axis=1)
    assert same.mean() > 0.74  # 0.8 but for chance, in the same order


@pytest.mark.parametrize("places", [None, THETA])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_estimates_are_unbiased_by_enumeration(places: Any, share: float) -> None:
    """Over all lists of one context, each as likely as it is: Σ rel·θ of what was shown, weighed, is the value."""
    problem, world, policies = shop(places)
    reading = reading_of(problem)
    theta = np.ones(3) if places is None else np.array(THETA)
    kind: Any = type(cb.AdaptiveComband(problem, policies, epsilon=0.1).epochs.current.explorer)
    explorer = kind(
        policies, np.arange(6), leader=0, attention=np.ones(6), smallest_disputed=0.05, problem=problem,
        own=np.full(6, share / 6), shuffled=0.3, key=5,
    )  # fmt: skip
    assert isinstance(explorer, NaturalExplorer)
    x = world.sample(1, np.random.default_rng(1)).contexts
    n = 200_000
    made = explorer.draw(np.repeat(x, n, axis=0), np.random.default_rng(2)).decisions
    wanted = np.random.default_rng(3).uniform(0.1, 0.9, size=20)  # how relevant each item is
    stated: Any = made.placements
    # What a list brings on average, weighed: E over places is Σ_y rel·e/e = Σ rel over items of the candidate, exactly.
    e = examinations(made, theta)
    Q: dict[int, Any] = {}
    for j in range(3):
        for y in np.unique(made.lists[:, j]):
            row = np.flatnonzero(made.lists[:, j] == y)[0]
            Q[int(y)] = stated[row, j]
    for p, own in enumerate(policies.predict(x)[0]):
        value = sum(wanted[y] * theta[k] for k, y in enumerate(own))
        exact = sum(
            sum(Q[int(y)][place] * wanted[y] * theta[place] for place in range(3)) * theta[k] / float(Q[int(y)] @ theta)
            for k, y in enumerate(own)
        )
        assert exact == pytest.approx(value), p
    rounds = cb.Rounds(made, wanted[made.lists] * theta)
    events = (rounds if places is None else placed_rounds(rounds, THETA)).events()
    np.testing.assert_allclose(e, stated @ theta)
    counted = reading.counted(policies)
    for p in range(6):
        inside = counted.contains(events.contexts, events.rows, events.actions, np.array([p]))[:, 0]
        weighed = float((events.rewards * inside / events.propensities).sum()) / n
        own = policies.predict(x)[0, p]
        assert weighed == pytest.approx(float((wanted[own] * theta).sum()), rel=0.03)


def test_what_does_not_go_with_natural_order_is_refused() -> None:
    wrong: Any
    for words, wrong in (
        ("leave order='natural' out", {"places": "pairs"}),
        ("rewards of single items", {"feedback": "total"}),
        ("order must be", {"order": "sorted"}),
    ):
        with pytest.raises(cb.InputError, match=words):
            cb.Problem(20, 3, **{"order": "natural", **wrong})
    problem, _, policies = shop(None)
    for make in (
        lambda: cb.OnlineComband(problem, policies, epsilon=0.3),
        lambda: cb.Exp4(problem, policies, horizon=90),
    ):
        with pytest.raises(cb.InputError, match="natural"):
            make()


def test_an_ab_test_states_where_its_lists_have_their_items() -> None:
    """Each with its share, and so a log of it can be read with factors; the place guard does not look, for nothing
    rests on what places do.
    """
    problem, world, policies = shop(THETA)
    learner = cb.ABTest(problem, policies, epsilon=0.05, seed=1)
    batch = world.sample(300, np.random.default_rng(2))
    decisions = learner.ask(batch.contexts)
    own, stated = policies.predict(batch.contexts), np.asarray(decisions.placements)
    for i in range(300):
        assert decisions.lists[i].tolist() == own[i, decisions.arms[i]].tolist()
        for j, y in enumerate(decisions.lists[i]):
            np.testing.assert_allclose(stated[i, j], (own[i] == y).mean(axis=0))
    learner.tell(decisions, batch.answer(decisions.lists))
    assert learner.watch[PlacesGuard].places.n_rounds == 0


def test_natural_order_is_what_factors_mean_and_what_was_saved_before_is_in_random_order() -> None:
    usual = cb.Problem(20, 3, places=THETA)
    assert usual.order == "natural"
    assert usual == cb.Problem(20, 3, places=THETA, order="natural")
    assert repr(usual) == "Problem(n_actions=20, list_size=3, places=(1.0, 0.6, 0.3))"
    assert repr(cb.Problem(20, 3, places=THETA, order="random")).endswith("order='random')")
    assert cb.Problem(20, 3).order is cb.Problem(20, 3, places="pairs").order is None
    for order, meant in ((None, "random"), ("random", "random"), ("natural", "natural")):
        assert saved_problem({**asdict(usual), "order": order}).order == meant
    assert saved_problem({"n_actions": 20, "list_size": 3, "places": list(THETA)}).order == "random"
    assert saved_problem(asdict(cb.Problem(20, 3))) == cb.Problem(20, 3)
