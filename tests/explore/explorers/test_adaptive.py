"""Where few candidates are left, the smallest propensity is weighed against the variance by what rewards say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers import DisagreementExploration, Explorer, Standing
from comband.explore.explorers.adaptive import _LOWER_SHARES, _SHARE, smallest_disputed
from tests.certify.test_placed import READINGS


@dataclass(frozen=True)
class Plan:
    """What was chosen, and the forecasts by smallest propensity: of the choice, and of the ends of what could be."""

    n_candidates: int
    chosen: float
    usual: float
    forecasts: dict[float, float]


class Noting:
    """Plans as usual, and notes what else there was: what a standing shows changes as rounds go on."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def plan(self, standing: Standing) -> Explorer:
        explorer = DisagreementExploration().plan(standing)
        columns = {name: getattr(standing, name) for name in Standing.__dataclass_fields__}
        usual = DisagreementExploration().plan(Standing(**{**columns, "forecast": None}))
        forecasts = {}
        if standing.forecast is not None:
            columns["forecast"] = lambda option: option.smallest_disputed
            least = DisagreementExploration().plan(Standing(**columns))
            forecasts = {option.smallest_disputed: standing.forecast(option) for option in (explorer, usual, least)}
        self.plans.append(
            Plan(len(standing.candidates), explorer.smallest_disputed, usual.smallest_disputed, forecasts)
        )
        return explorer


def plans(reading: str, n_candidates: int) -> list[Plan]:
    problem = cb.Problem(n_actions=30, list_size=3, sparsity=1, places=READINGS[reading])
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    noting = Noting()
    learner: Any = cb.certify.CertifyingLearner(
        problem, shop.candidates(n_candidates, seed=2), exploration=noting, epsilon=0.001, seed=3
    )
    cb.run(learner, shop, batch_size=100, max_rounds=2500)
    return noting.plans


@pytest.mark.parametrize("reading", ["pairs", "factors"])
def test_of_few_candidates_the_share_with_the_shortest_forecast_is_taken(reading: str) -> None:
    first, *others = plans(reading, 3)
    assert not first.forecasts
    assert first.chosen == first.usual
    for plan in others:
        assert min(plan.forecasts) < plan.usual
        assert plan.forecasts[plan.chosen] == min(plan.forecasts.values())
        assert 0 < plan.forecasts[plan.chosen] < np.inf
    assert any(plan.chosen < plan.usual for plan in others)


@pytest.mark.parametrize(("reading", "n_candidates"), [("pairs", 20), ("shuffled", 3)])
def test_elsewhere_the_usual_share_is_taken(reading: str, n_candidates: int) -> None:
    made = plans(reading, n_candidates)
    assert made[1].forecasts
    assert all(plan.chosen == plan.usual for plan in made if plan.n_candidates > 16 or reading == "shuffled")


def test_a_lower_share_never_promises_more() -> None:
    for needed in (1.0, 1.5, 2.0, 7.0):
        shares = [smallest_disputed(1.0, needed, share) for share in (_SHARE, *_LOWER_SHARES)]
        assert shares == sorted(shares, reverse=True)
        assert shares[-1] < shares[0]
