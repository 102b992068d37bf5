"""The two phases of PAC-COMBAND on a doubling budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comband.explore.design import design_exploration
from comband.explore.explorers.base import Explorer, Standing
from comband.explore.explorers.mixture import mixture_explorer
from comband.explore.oracles.enumeration import EnumerationOracle
from comband.explore.solvers.stopping import Stopping
from comband.page.places import item_events
from comband.page.rounds import Events

_FLOOR = 0.5  # γ of the paper's Algorithm 1


@dataclass(frozen=True, slots=True)
class DoublingExploration:
    """Uniform lists, then the log-barrier mixture designed on them, in stages that double.

    In the first half of each stage (rounds N to 1.5 N) lists are uniform; in the second (1.5 N to 2 N) they come from
    the mixture that `design_exploration` finds on all events so far, over all candidates, with γ = ½ (paper, Algorithm
    1). No candidate is excluded from the design.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.DoublingExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        problem, events = standing.problem, standing.events
        if standing.reading.factors is not None:
            events = item_events(events, standing.reading.factors)
        policies, first = standing.policies, standing.first_epoch
        weights, floor = np.zeros(len(policies)), 1.0
        weights[standing.field] = 1 / len(standing.field)
        stage = np.log2(max(standing.rounds, first) / first)
        if standing.rounds >= 1.5 * first * 2 ** np.floor(stage) and len(events):
            shown = policies if len(standing.field) == len(policies) else policies.subset(standing.field)
            design = design_exploration(
                events + Events.none(standing.rounds),
                EnumerationOracle(shown),
                problem=problem,
                floor=_FLOOR,
                stopping=Stopping(relative_gap=1e-3),
            )
            weights[standing.field], floor = design.mixture.weights, _FLOOR
        return mixture_explorer(policies, standing.candidates, weights=weights, floor=floor, problem=problem)
