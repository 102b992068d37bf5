"""How many rounds a comparison will take, or what a budget will certify: by theorem, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from comband import theory
from comband.certify.ab_test import ABTest
from comband.certify.adaptive import AdaptiveComband
from comband.certify.beliefs import check_scores
from comband.certify.learner import CertifyingLearner
from comband.certify.uniform_lists import UniformLists
from comband.certify.uniform_mixture import UniformMixture
from comband.page.frames import Tabular
from comband.page.metrics import Metric
from comband.page.problem import (
    InputError,
    Problem,
    check_count,
    check_epsilon,
    check_fraction,
    check_number,
    check_positive,
)
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.worlds import SyntheticRecommender
from comband.worlds.running import run

EXPENSIVE = 0.05  # of production's value: a smaller margin takes many times the rounds
METHODS: dict[str, type[CertifyingLearner]] = {
    "adaptive": AdaptiveComband,
    "mixture of candidates": UniformMixture,
    "uniform lists": UniformLists,
    "A/B/n": ABTest,
}


@dataclass(frozen=True, slots=True)
class Forecast(Tabular):
    """Rounds that a method needs until the best candidate is known up to epsilon; or the epsilon that it certifies with
    a budget of rounds.

    rounds:
        By theorem: enough in every world. By simulation: the median of `runs`; None if half of them hit the cap. Or the
        budget.
    interval:
        The fewest and the most rounds of any run; None where a run hit the cap. Each run has its own world, and the
        median over worlds lies in between with probability 1 − 2^(1 − runs).
    epsilon, epsilons:
        With a budget: the median of what is certified when it is spent, and the smallest and the largest of any run.
    lift_width:
        Where a candidate is in production: how wide the interval of the winner's lift is at the end, as a share of the
        best one's value; the median of the runs.
    """

    method: str
    basis: str
    rounds: int | None
    interval: tuple[int | None, int | None] | None = None
    runs: int = 0
    cap: int | None = None
    epsilon: float | None = None
    epsilons: tuple[float, float] | None = None
    lift_width: float | None = None

    def columns(self) -> dict[str, list[Any]]:
        """One row; the fewest and the most rounds of any run in columns of their own."""
        fewest, most = self.interval or (None, None)
        told: dict[str, Any] = {
            "method": self.method,
            "basis": self.basis,
            "rounds": self.rounds,
            "fewest": fewest,
            "most": most,
        }
        told |= {"runs": self.runs, "cap": self.cap, "lift_width": self.lift_width, "epsilon": self.epsilon}
        smallest, largest = self.epsilons or (None, None)
        return {name: [value] for name, value in {**told, "smallest": smallest, "largest": largest}.items()}


def ab_test_rounds(problem: Problem, *, n_policies: int, click_rate: float, epsilon: float, delta: float) -> int:
    """Rounds for all arms of an A/B/n test together, if no candidate's value exceeds `click_rate`.

    Each of P candidates is shown to n visitors of its own. A round's reward lies in [0, ρ] with variance at most
    ρ·click_rate, so the difference of two arms has variance at most 2ρ·click_rate and range 2ρ; Bernstein's inequality
    for P − 1 pairs gives n = (4ρ·click_rate + (4/3)ρε)·log((P−1)/δ)/ε².

    >>> ab_test_rounds(Problem(100, 5, sparsity=1), n_policies=2, click_rate=0.1, epsilon=0.1, delta=0.05)
    320
    """
    P = check_count("n_policies", n_policies)
    epsilon, delta = check_epsilon(epsilon, problem), check_fraction("delta", delta)
    if P == 1:
        return 0
    rho = problem.max_reward
    arm = (4 * rho * check_positive("click_rate", click_rate) + 4 / 3 * rho * epsilon) / epsilon**2
    return P * math.ceil(arm * (math.log(P - 1) - math.log(delta)))


def by_theorem(problem: Problem, *, n_policies: int, click_rate: float, epsilon: float, delta: float) -> list[Forecast]:
    """What is enough in every world, so no forecast: the baselines, exploration that is learnt online, and last the
    paper's algorithm.

    The schedule of learnt exploration is that of `OnlineComband` in batches of one, without uniform lists; that of the
    paper's algorithm is `theory.pac_comband`, by the joint route. From totals there are only A/B/n and the paper's, by
    the gradient route.
    """
    P = check_count("n_policies", n_policies)
    items = not reading_of(problem).TOTAL
    paper = theory.pac_comband(
        problem, n_policies=P, epsilon=epsilon, delta=delta, route="joint" if items else "gradient"
    ).n_rounds
    arms = ab_test_rounds(problem, n_policies=P, click_rate=click_rate, epsilon=epsilon, delta=delta)
    forecasts = [Forecast("A/B/n", "theorem", arms)]
    if items:
        online = theory.pac_comband(problem, n_policies=P, epsilon=epsilon, delta=delta, route="online")
        forecasts.append(Forecast("uniform lists", "theorem", online.n_uniform))
        forecasts.append(Forecast("learnt online", "theorem", online.n_online))
    return [*forecasts, Forecast("PAC-COMBAND (the paper)", "theorem", paper)]


def chosen_by_theorem(forecasts: list[Forecast]) -> Forecast | None:
    """What `OnlineComband` does: learnt exploration or uniform lists, whichever needs fewer rounds; not from totals."""
    ways = [one for one in forecasts if one.basis == "theorem" and one.method in ("uniform lists", "learnt online")]
    return min(ways, key=lambda one: one.rounds or 0, default=None)


def by_simulation(
    problem: Problem,
    *,
    n_policies: int,
    click_rate: float,
    epsilon: float | None,
    scores: ArrayLike | None = None,
    delta: float = 0.05,
    methods: tuple[str, ...] = tuple(METHODS),
    runs: int = 6,
    max_rounds: int = 100_000,
    batch_size: int = 500,
    seed: int = 0,
    metrics: Mapping[Metric, float] | None = None,
    shares: Sequence[float] = (),
    progress: Callable[[str], None] | None = None,
) -> Iterator[Forecast]:
    """Run each method in simulated shops of this size (`SyntheticRecommender`, clustered candidates) until it is sure.

    All methods see the same shops and candidates. What comes out holds for shops like these: real candidates may agree
    more (then it is faster) or differ less (then it is slower).

    With epsilon=None `max_rounds` is a budget, and what it certifies is forecast. With `scores` (P,), what is known of
    the candidates beforehand in units of reward per round, the simulated candidates have these values, as nearly as the
    shop allows: of five times as many, those are taken.

    With `metrics`, each with the share of items on which a click has its largest value, the adaptive learner is also
    run with them: half of the candidates are better than production, and the lift is forecast too. With
    `shares`, those of segments of visitors, also with a learner for each segment at its part of delta: the smallest
    one needs most rounds.
    """
    ways = _ways(methods, metrics or {}, check_shares(shares), delta, max_rounds)
    if metrics and epsilon is None:
        raise InputError("what a budget certifies is forecast without metrics: leave them out, or say the epsilon.")
    for name in methods:
        if name not in METHODS:
            raise InputError(f"methods must be among {', '.join(METHODS)}, got {name!r}.")
    check_count("runs", runs)
    if epsilon is not None:
        check_number("epsilon", epsilon)
    known = None if scores is None else check_scores(scores, n_policies)
    seeds = np.random.SeedSequence(seed).spawn(runs)
    for way in ways:
        name = way.name
        used: list[int | None] = []
        certified: list[float] = []
        widths: list[float] = []
        for number, root in enumerate(seeds):
            if progress is not None:
                progress(f"{name}, run {number + 1} of {runs}")
            # Not root.spawn, which counts up: every method gets the same shop, candidates and visitors.
            children = [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, i)) for i in range(4)]
            for_world, for_candidates, for_learner, for_visitors = children
            world = SyntheticRecommender(problem, click_rate=click_rate, seed=for_world)
            policies = (
                world.candidates(n_policies, seed=for_candidates)
                if known is None
                else candidates_with_values(world, known, for_candidates)
            )
            learner = METHODS[way.method](
                problem,
                policies,
                epsilon=epsilon,
                delta=way.delta,
                max_rounds=way.max_rounds,
                seed=for_learner,
                **way.settings(world, policies),
            )
            run(
                learner,
                world,
                batch_size=batch_size,
                max_rounds=way.max_rounds,
                seed=for_visitors,
                metrics=way.values(root, problem.n_actions),
            )
            result = learner.result()
            certified.append(result.epsilon)
            done = epsilon is None or certified[-1] <= epsilon
            if way.metrics:  # that holds of one that is not known to be safe too
                done = learner.verdict.certified is not None
            used.append(math.ceil(learner.rounds / way.share) if done else None)
            if result.lift is not None:
                most = float(world.values(policies).max())
                widths.append((result.lift.high - result.lift.low) / most)
        forecast = _summary(name, used, max_rounds)
        if widths:
            forecast = replace(forecast, lift_width=sorted(widths)[len(widths) // 2])
        if epsilon is None:
            middle = sorted(certified)[len(certified) // 2]
            forecast = replace(forecast, epsilon=middle, epsilons=(min(certified), max(certified)))
        yield forecast


@dataclass(frozen=True, eq=False, slots=True)
class _Way:
    """One row of a forecast: a method with what is declared, for a `share` of the visitors."""

    name: str
    method: str
    delta: float
    max_rounds: int
    share: float = 1.0
    metrics: Mapping[Metric, float] = field(default_factory=dict)

    def settings(self, world: SyntheticRecommender, policies: PolicySet) -> dict[str, Any]:
        """What is declared beside the promise."""
        if not self.metrics:
            return {}
        order = np.argsort(-world.values(policies))
        return {"production": policies.names[int(order[len(order) // 2])], "metrics": list(self.metrics)}

    def values(
        self, root: np.random.SeedSequence, n_actions: int
    ) -> Callable[[NDArray[np.int32], NDArray[np.float64]], dict[str, NDArray[np.float64]]] | None:
        """What clicks are worth by each metric: those on a share of the items have its largest value."""
        if not self.metrics:
            return None
        rng = np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 4)))
        worth = {one.name: one.largest * (rng.random(n_actions) < rate) for one, rate in self.metrics.items()}
        return lambda lists, clicks: {name: clicks * of[lists] for name, of in worth.items()}


def _ways(
    methods: Sequence[str], metrics: Mapping[Metric, float], shares: Sequence[float], delta: float, max_rounds: int
) -> list[_Way]:
    ways = [_Way(name, name, delta, max_rounds) for name in methods]
    if metrics:
        named = ", ".join(one.name for one in metrics)
        ways.insert(1, _Way(f"adaptive, safe by {named}", "adaptive", delta, max_rounds, metrics=metrics))
    if shares:
        n, least = len(shares), min(shares)
        most = max(int(max_rounds * least), 1)
        ways.append(_Way(f"adaptive in each of {n} segments", "adaptive", delta / n, most, least))
    return ways


def check_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Shares of segments, which sum to 1."""
    found = tuple(check_positive("shares", share) for share in shares)
    if found and (len(found) < 2 or abs(sum(found) - 1) > 1e-6):
        raise InputError(f"the shares of segments must be two or more that sum to 1, got {list(found)}.")
    return found


def slack_remarks(metrics: Mapping[Metric, float], click_rate: float) -> list[str]:
    """What a margin costs, said before the start.

    >>> said = slack_remarks({Metric(name="sold", margin=0.02, relative=True): 0.2}, 0.1)
    >>> said[0].partition(": ")[0], "one of 10% takes about 1/25" in said[0]
    ('sold', True)
    """
    remarks = []
    for metric, rate in metrics.items():
        share = metric.margin if metric.relative else metric.margin / (metric.largest * rate * click_rate)
        if share == 0:
            remarks.append(
                f"{metric.name}: without a margin only candidates that are better than production are ever shown safe."
            )
        elif share < EXPENSIVE:
            times = (0.1 / share) ** 2
            remarks.append(
                f"{metric.name}: a margin of {100 * share:.2g}% of production's value is expensive. Safety takes rounds"
                f" in proportion to 1/slack²: one of 10% takes about 1/{times:.0f} of them for a candidate as good as"
                " production."
            )
    return remarks


def candidates_with_values(
    world: SyntheticRecommender, values: NDArray[np.float64], seed: np.random.SeedSequence
) -> PolicySet:
    """Candidates of a simulated shop whose values are as near to these as five times as many allow, in this order."""
    pool = world.candidates(5 * len(values), spread=3.0, seed=seed)
    _, chosen = linear_sum_assignment(np.abs(values[:, None] - world.values(pool)))
    return pool.subset(chosen)


def _summary(name: str, used: list[int | None], cap: int) -> Forecast:
    ranked = sorted(math.inf if rounds is None else rounds for rounds in used)
    middle = ranked[len(ranked) // 2]  # the upper median: no averaging with a run that hit the cap

    def known(value: float) -> int | None:
        return None if math.isinf(value) else int(value)

    return Forecast(name, "simulation", known(middle), (known(ranked[0]), known(ranked[-1])), len(used), cap)
