"""Each guard finds its fault within thousands of rounds, and is silent in clean runs; its bets have mean one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import xlogy, zeta
from scipy.stats import binom, hypergeom

import comband as cb
from comband.explore.explorers.disagreement import DisagreementExplorer
from comband.explore.explorers.mixture import MixtureExplorer
from comband.policies.sparse import SparsePropensities
from comband.statistics import guards
from tests.states import plain

K, M = 20, 3
MANY = 6000  # actions, too many to watch each alone


def mixtures(rng: np.random.Generator, n_actions: int = K) -> tuple[cb.Mixture, cb.Mixture]:
    problem = cb.Problem(n_actions=n_actions, list_size=M)
    lists = np.argsort(rng.random((6, 30, K)), axis=2)[:, :, :M]
    policies = cb.PolicySet.from_lists(lists, problem)
    weights, others = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    return (
        cb.Mixture(policies, weights, problem=problem, floor=0.2),
        cb.Mixture(policies, others, problem=problem, floor=0.2),
    )


def rounds_until_alarm(fault: str, seed: int, n_rounds: int = 8000, block: int = 500, n_actions: int = K) -> int | None:
    rng = np.random.default_rng([seed, 11])
    now, before = mixtures(rng, n_actions)
    guard = cb.statistics.ExposureGuard(n_actions, unanswered=fault.startswith("lost"))
    for start in range(0, n_rounds, block):
        X = rng.integers(30, size=block)
        lists = now.draw(X, rng).lists.copy()
        keep = np.ones(block, dtype=bool)
        recorded = None
        if fault.startswith("stale"):
            old = rng.random(block) < 0.05
            wrong = now.propensities(X, lists)
            wrong[old] = before.propensities(X[old], lists[old])
            recorded = wrong
        elif fault == "overridden":
            lists[rng.random(block) < 0.02] = np.arange(M)
        elif fault.startswith("lost"):
            with_item = (lists == 4).any(axis=1) if fault == "lost for an item" else np.zeros(block, dtype=bool)
            keep = (rng.random(block) < 0.05) | (with_item & (rng.random(block) < 0.3))
        q = now.sparse_propensities(X[keep])
        if fault == "rounded":
            q = SparsePropensities(q.n_actions, q.rows, q.actions, q.values.round(1), q.rest.round(1))
        guard.update(lists[keep], q, recorded)
        if guard.alarm:
            assert guard.message
            return start + block
    assert guard.message == ""
    return None


@pytest.mark.parametrize("n_actions", [K, MANY])
@pytest.mark.parametrize("fault", ["stale", "rounded", "overridden", "lost for an item"])
def test_faults_are_found(fault: str, n_actions: int) -> None:
    assert all(rounds_until_alarm(fault, seed, n_actions=n_actions) is not None for seed in range(4))


@pytest.mark.parametrize("fault", ["none", "lost at random"])
def test_clean_runs_are_silent(fault: str) -> None:
    # 200 clean runs at level .001: more than 5 alarms have a probability below 1e-7 (Poisson with mean .2).
    alarms = sum(rounds_until_alarm(fault, seed, n_rounds=2000) is not None for seed in range(200))
    assert alarms <= 5


def test_clean_runs_are_silent_with_many_actions() -> None:
    # 60 runs at level .05: 18 alarms or more have a probability below 1e-8 (binomial).
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 12])
        mixture, guard = mixtures(rng, MANY)[0], cb.statistics.ExposureGuard(MANY, level=0.05)
        X = rng.integers(30, size=200)
        for part in np.array_split(np.arange(200), 10):
            guard.update(mixture.draw(X[part], rng).lists, mixture.sparse_propensities(X[part]))
        alarms += guard.alarm
    assert alarms < 18


def explorers(rng: np.random.Generator, n_actions: int) -> list[MixtureExplorer | DisagreementExplorer]:
    mixture = mixtures(rng, n_actions)[0]
    policies, problem, six = mixture.policies, mixture.problem, np.arange(6)
    return [
        MixtureExplorer(policies, six, weights=mixture.weights, floor=mixture.floor, problem=problem),
        MixtureExplorer(policies, six, weights=mixture.weights, floor=1.0, problem=problem),
        DisagreementExplorer(policies, six, leader=2, attention=rng.random(6), smallest_disputed=0.1, problem=problem),
    ]


def of_all(explorer: MixtureExplorer | DisagreementExplorer, X: NDArray[np.int64]) -> NDArray[np.float64]:
    """Propensities of all actions, (n, K)."""
    return explorer.mixture.propensities(X) if isinstance(explorer, MixtureExplorer) else explorer.propensities_of(X)


@pytest.mark.parametrize("n_actions", [K, MANY])
def test_sparse_propensities_are_those_of_all_actions(n_actions: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(30, size=40)
    for explorer in explorers(rng, n_actions):
        sparse, dense = explorer.all_propensities(X), of_all(explorer, X)
        np.testing.assert_array_equal(sparse.dense(), dense)
        lists = rng.integers(n_actions, size=(40, 7))
        lists[:, :M] = explorer.draw(X, rng).decisions.lists
        np.testing.assert_array_equal(sparse.of(lists), np.take_along_axis(dense, lists, axis=1))
        assert len(explorer.all_propensities(X[:0])) == 0


@pytest.mark.parametrize("n_actions", [K, MANY])
def test_bets_are_those_of_sums_over_groups(n_actions: int) -> None:
    """The bets of a guard, recomputed from the propensities of all actions one by one."""
    rng = np.random.default_rng(2)
    for explorer in explorers(rng, n_actions):
        guard = cb.statistics.ExposureGuard(n_actions)
        X = rng.integers(30, size=5 if n_actions == MANY else 37)
        lists = explorer.draw(X, rng).decisions.lists.astype(np.int64)
        guard.update(lists, explorer.all_propensities(X))
        wealth = np.zeros_like(guard._log_wealth)
        for shown, q in zip(lists, of_all(explorer, X), strict=True):
            hit = np.isin(np.arange(n_actions), shown)
            groups = [np.digitize(q, guards._EDGES) == b for b in range(len(guards._EDGES) + 1)]
            classes = guards._BUCKETS if n_actions == MANY else K
            groups += [np.arange(n_actions) % classes == c for c in range(classes)]
            rows = [(hit[g].sum(), q[g].sum(), min((q[g] > 0).sum(), M)) for g in groups]
            rows.append(((1 / q[shown]).sum(), (q > 0).sum(), M / q[q > 0].min()))
            for i, (observed, expected, largest) in enumerate(rows):
                for sign, scale in ((1, expected), (-1, largest - expected)):
                    if scale > 1e-9:
                        z = max(sign * (observed - expected) / scale, -1.0)
                        wealth[i, 0 if sign > 0 else 1] += np.log1p(guards._STAKES * z)
        np.testing.assert_allclose(guard._log_wealth, wealth, atol=1e-9)
        dense = cb.statistics.ExposureGuard(n_actions)
        dense.update(lists, of_all(explorer, X))
        np.testing.assert_allclose(dense._log_wealth, wealth, atol=1e-9)


@pytest.mark.parametrize("classes", [None, 3])
def test_every_bet_on_exposure_has_mean_one(classes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By enumeration of all lists of a mixture."""
    if classes:
        monkeypatch.setattr(guards, "_SINGLE", 1)
        monkeypatch.setattr(guards, "_BUCKETS", classes)
    problem = cb.Problem(n_actions=7, list_size=2)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 4]], [[6, 0]]], problem)
    mixture = cb.Mixture(policies, [0.5, 0.3, 0.2], problem=problem, floor=0.4)
    chances = {frozenset(pair): 0.4 / 21 for pair in itertools.combinations(range(7), 2)}
    for pair, weight in (((0, 1), 0.5), ((1, 4), 0.3), ((6, 0), 0.2)):
        chances[frozenset(pair)] += 0.6 * weight
    mean: NDArray[np.float64] | float = 0.0
    for shown, chance in chances.items():
        guard = cb.statistics.ExposureGuard(7)
        guard.update([sorted(shown)], mixture.sparse_propensities([0]))
        mean = mean + chance * np.exp(guard._log_wealth)
    np.testing.assert_allclose(mean, 1.0, atol=1e-12)


def test_compared_propensities_that_differ_are_proof_whatever_the_number_of_actions() -> None:
    guard = cb.statistics.ExposureGuard(10**9)
    for recorded, alarm in ((0.25 + 1e-9, False), (np.nan, True)):
        guard.compare([[0.5, recorded]], [[0.5, 0.25]])
        assert guard.alarm == alarm
    assert guard.n_compared == 2
    assert "1 recorded propensities are not those of the design" in guard.message


def test_a_guard_is_restored_or_refuses() -> None:
    rng = np.random.default_rng(3)
    now = mixtures(rng)[0]
    X = rng.integers(30, size=50)
    guard = cb.statistics.ExposureGuard(K)
    guard.update(now.draw(X, rng).lists, now.propensities(X))
    state = guard.state()
    assert plain(cb.statistics.ExposureGuard.from_state(state, K).state()) == plain(state)
    with pytest.raises(cb.InputError, match="log_wealth must have the shape"):
        cb.statistics.ExposureGuard.from_state(state, K + 1)
    with pytest.raises(cb.InputError, match="must not exceed its peak"):
        cb.statistics.ExposureGuard.from_state({**state, "log_wealth": state["log_wealth"] + 9}, K)
    with pytest.raises(cb.InputError, match="the state lacks"):
        cb.statistics.DriftGuard.from_state({"peak": 0.0})


def stretches(
    rates: list[tuple[NDArray[np.float64], NDArray[np.float64]]], seed: int, *, step: int = 50, level: float = 0.001
) -> tuple[cb.statistics.DriftGuard, int | None]:
    """A guard fed in steps through stretches with given chances of rewards for and against; when it gave alarm."""
    rng, guard, total = np.random.default_rng([seed, 2]), cb.statistics.DriftGuard(level=level), 0
    for favour, against in rates:
        n = len(favour)
        wins, losses = (np.flatnonzero(rng.random(n) < rate) for rate in (favour, against))
        guard.begin(n)
        for seen in range(step, n + 1, step):
            guard.update(wins[wins < seen], losses[losses < seen], seen)
            if guard.alarm:
                return guard, total + seen
        total += n
    return guard, None


def test_a_changing_world_is_noticed() -> None:
    n = 400
    up, down = np.linspace(0.05, 0.35, n), np.linspace(0.35, 0.05, n)
    for seed in range(3):
        for slow in ((up, up), (np.full(n, 0.2), down)):
            guard, when = stretches([slow] * 12, seed)
            assert when is not None
            assert "the world is not at rest" in guard.message
        # Once, late, and in the last stretch: noticed before the stretch ends. Clean stretches before cost little.
        rest = np.full(2000, 0.1)
        change = np.where(np.arange(2000) < 1000, 0.1, 0.2), np.where(np.arange(2000) < 1000, 0.1, 0.04)
        _, when = stretches([(rest, rest)] * 6 + [change], seed)
        assert when is not None
        assert 13_000 < when < 14_000


def test_a_steady_world_gives_no_alarm() -> None:
    # 100 runs at level .05: 22 alarms or more have a probability below 1e-8 (binomial).
    n = 400
    rates = [(np.full(n, 0.2), np.full(n, 0.05))] * 8
    assert sum(stretches(rates, seed, level=0.05)[1] is not None for seed in range(100)) < 22


def test_stretches_that_end_when_it_suits_them_give_no_alarm() -> None:
    """Each stretch ends where the last rounds look most unlike the first, or runs its course."""
    alarms = 0
    for seed in range(60):
        rng, guard = np.random.default_rng([seed, 4]), cb.statistics.DriftGuard(level=0.05)
        for _ in range(10):
            hits = rng.random((2, 300)) < 0.2
            lately = np.array([hits[0, max(0, t - 40) : t].sum() for t in range(301)])
            end = int(np.argmax(lately > 14)) or 300
            guard.begin(300)
            for seen in range(50, end + 1, 50):
                guard.update(np.flatnonzero(hits[0, :seen]), np.flatnonzero(hits[1, :seen]), seen)
        alarms += guard.alarm
    # 60 runs at level .05: 18 alarms or more have a probability below 1e-8 (binomial).
    assert alarms < 18


@pytest.mark.parametrize("theta", [0.02, 0.3, 0.5, 0.9])
def test_bets_on_change_have_mean_at_most_one(theta: float) -> None:
    """By summation over all outcomes: the bets depend only on the counts between the possible changes."""
    n, edges = 25, [0, 16, 22, 25]
    assert guards._CHANGES[:3].tolist() == [16, 22, 31]
    sizes = np.diff(edges)
    mean = mean_halves = 0.0
    for counts in itertools.product(*(range(size + 1) for size in sizes)):
        chance = float(np.prod(binom.pmf(counts, sizes, theta)))
        at = np.concatenate([start + np.arange(c) for start, c in zip(edges, counts, strict=False)]).astype(np.int64)
        mean += chance * np.exp(guards._log_change(at, n, np.minimum(guards._CHANGES, n)))
    for early, late in itertools.product(range(13), range(14)):
        at = np.concatenate([np.arange(early), 12 + np.arange(late)])
        chance = float(binom.pmf(early, 12, theta) * binom.pmf(late, 13, theta))
        bet = np.exp(guards._log_halves(at, n))
        law = hypergeom(n, early + late, 12)
        np.testing.assert_allclose(bet, 0.5 / np.sqrt(min(1, 2 * law.cdf(early), 2 * law.sf(early - 1))), rtol=1e-9)
        mean_halves += chance * bet
    assert 0.001 < mean <= 1 + 1e-12
    assert 0.5 <= mean_halves <= 1 + 1e-12


# ---- a rhythm that is stated -----------------------------------------------------------------------------------------

# By phase, the chances of no reward, one for the leader, one against it, and both.
DAY_AND_NIGHT = np.array([[0.1, 0.75, 0.1, 0.05], [0.7, 0.05, 0.2, 0.05]])


def best_stopping(kind: int, n_periods: int, chances: NDArray[np.float64], period: int) -> float:
    """The largest mean, over all rules that stop at the end of some period, of the numerator of E_n over the
    probability of the trials at the average chance; by recursion over all outcomes. `chances` (4, outcomes) are those
    of the rhythm's four phases, and the guard is told `period`.
    """
    alike = chances.mean(axis=0)
    theta = float(1 - alike[0]) if kind == 0 else float(alike[1] / alike[1:].sum())

    def now(outcomes: tuple[int, ...]) -> float:
        told = np.array(outcomes)
        at, n, changes = guards._trials(np.flatnonzero(told == 1), np.flatnonzero(told == 2), len(told), period)[kind]
        k = len(at)
        most = xlogy(k, k / max(n, 1)) + xlogy(n - k, 1 - k / max(n, 1))
        true = xlogy(k, theta) + xlogy(n - k, 1 - theta)
        return float(np.exp(guards._log_change(at, n, changes) + most - true))

    def going_on(outcomes: tuple[int, ...]) -> float:
        mean = 0.0
        for more in itertools.product(range(chances.shape[1]), repeat=4):
            told = (*outcomes, *more)
            reached = now(told)
            best = reached if len(told) == 4 * n_periods else max(reached, going_on(told))
            mean += float(np.prod(chances[np.arange(4), more])) * best
        return mean

    return going_on(())


@pytest.mark.parametrize(
    ("kind", "n_periods", "day", "night"),
    [(0, 3, [0.1, 0.9], [0.9, 0.1]), (1, 2, [0.1, 0.85, 0.05], [0.2, 0.05, 0.75])],
)
def test_bets_on_change_are_fair_at_the_ends_of_periods(
    kind: int, n_periods: int, day: list[float], night: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "_CHANGES", np.array([2, 5]))
    chances = np.array([day, day, night, night])
    assert 0.3 < best_stopping(kind, n_periods, chances, 4) <= 1 + 1e-12
    assert best_stopping(kind, n_periods, chances, 1) > 1.05  # who does not know of the rhythm is deceived by it


def test_a_change_may_have_happened_at_the_ends_of_periods_alone() -> None:
    rng = np.random.default_rng(8)
    favour, against = np.flatnonzero(rng.random(490) < 0.3), np.flatnonzero(rng.random(490) < 0.2)
    (_, n, changes), (_, m, in_balance) = guards._trials(favour, against, 490, 7)
    one_sided = np.setxor1d(favour, against)
    assert n == 490
    assert m == len(one_sided)
    for tau, moment, trial in zip(guards._CHANGES, changes, in_balance, strict=True):
        assert moment == min(-(-int(tau) // 7) * 7, 490)
        end = (int(one_sided[min(tau, m) - 1]) // 7 + 1) * 7  # of the period in which that many trials are over
        assert trial == (one_sided < end).sum()


@pytest.mark.parametrize("n_periods", [2, 3, 4])
def test_bets_on_periods_that_change_places_have_mean_one(n_periods: int) -> None:
    mean, extremes = np.zeros(2), np.ones(2)
    outcomes = range(3 if n_periods == 4 else 4)
    chances = DAY_AND_NIGHT[:, list(outcomes)]
    chances = chances / chances.sum(axis=1, keepdims=True)
    for told in itertools.product(outcomes, repeat=2 * n_periods):
        chance = float(np.prod([chances[t % 2, what] for t, what in enumerate(told)]))
        at = np.array(told)
        favour, against = np.flatnonzero((at == 1) | (at == 3)), np.flatnonzero(at >= 2)
        bets = np.exp([guards._log_swaps(scores) for scores in guards._scores(favour, against, len(told), 2)])
        mean += chance * bets
        extremes = np.array([min(extremes[0], bets.min()), max(extremes[1], bets.max())])
    np.testing.assert_allclose(mean, 1.0, atol=1e-12)
    assert extremes[0] >= 0.5
    assert extremes[1] > 1.01 or n_periods < 4  # of one pair no more than the size is known


def rhythm(seed: int, *, told: bool, later: float = 1.0, level: float = 0.05) -> int | None:
    """When a guard gives alarm in stretches of twelve periods of day and night, told of the rhythm or not; in the
    second half of the fourth one all chances are multiplied by `later`.
    """
    period = 300
    day = np.arange(period) < period // 2
    favour, against = np.where(day, 0.5, 0.02), np.where(day, 0.02, 0.2)
    rng, guard = np.random.default_rng([seed, 9]), cb.statistics.DriftGuard(period=period if told else 1, level=level)
    for stretch in range(6):
        factor = np.repeat(np.where((stretch == 3) & (np.arange(12) >= 6), later, 1.0), period)
        hits = [np.flatnonzero(rng.random(12 * period) < np.tile(rate, 12) * factor) for rate in (favour, against)]
        guard.begin(12 * period)
        for seen in range(50, 12 * period + 1, 50):
            guard.update(hits[0][hits[0] < seen], hits[1][hits[1] < seen], seen)
            if guard.alarm:
                return stretch * 12 * period + seen
    return None


def test_a_rhythm_that_is_stated_gives_no_alarm() -> None:
    # 100 runs at level .05: 22 alarms or more have a probability below 1e-8 (binomial).
    assert sum(rhythm(seed, told=True) is not None for seed in range(100)) < 22
    assert all(rhythm(seed, told=False, level=0.001) is not None for seed in range(3))


@pytest.mark.slow
def test_a_rhythm_that_is_stated_gives_alarm_once_in_a_thousand_runs() -> None:
    runs = 3000
    alarms = sum(rhythm(seed, told=True, level=0.001) is not None for seed in range(runs))
    print(f"a rhythm that is stated: {alarms} alarms in {runs} runs")
    assert alarms <= binom.isf(1e-6, runs, 0.001)


def test_a_change_across_periods_is_noticed_beside_a_rhythm() -> None:
    for seed in range(5):
        when = rhythm(seed, told=True, later=0.5, level=0.001)
        assert when is not None
        assert 3.5 * 3600 < when <= 4 * 3600
    # A little in each stretch, always the same way: no single one shows it.
    period = 20
    day = np.arange(period) < period // 2
    for seed in range(3):
        rng, guard = np.random.default_rng([seed, 10]), cb.statistics.DriftGuard(period=period)
        for _ in range(60):
            hits = rng.random(400) < np.tile(np.where(day, 0.4, 0.05), 20) * np.linspace(1.4, 0.6, 400)
            guard.begin(400)
            guard.update(np.flatnonzero(hits), [], 400)
        assert guard.alarm


def test_rounds_of_a_period_that_is_not_over_do_not_count() -> None:
    one, two = (cb.statistics.DriftGuard(period=100) for _ in range(2))
    for guard, n in ((one, 799), (two, 700)):
        guard.begin(850)
        guard.update(np.arange(0, n, 3), np.arange(0, n, 5), n)
    assert one.state() == two.state()
    assert one.state()["planned"] == 800
    assert not one.is_due(799)


def test_a_drift_guard_that_is_saved_goes_on() -> None:
    rng, one = np.random.default_rng(5), cb.statistics.DriftGuard()
    one.begin(300)
    one.update(np.flatnonzero(rng.random(200) < 0.2), np.flatnonzero(rng.random(200) < 0.2), 200)
    two = cb.statistics.DriftGuard.from_state(one.state())
    for guard in (one, two):
        guard.update(np.arange(0, 300, 5), np.arange(0, 300, 7), 300)
        guard.begin(300)
    assert one.state() == two.state()
    assert one.n_rounds == 300


def test_refuses_propensities_of_shown_actions_only() -> None:
    with pytest.raises(cb.InputError, match="those of all actions"):
        cb.statistics.ExposureGuard(K).update([[0, 1, 2]], [[0.1, 0.2, 0.3]])


def test_stretches_are_averaged_with_weights_that_sum_to_one() -> None:
    """½ Σ_k v_k E^(k) + ½ Σ_k v_k Π_{j≥k} bet_j by hand, over a stretch that runs its course and one that does not."""
    rng, guard = np.random.default_rng(6), cb.statistics.DriftGuard()
    v = np.arange(2.0, 5.0) ** -1.5 / (zeta(1.5) - 1)
    ran, changes, halves = True, list[float](), list[float]()
    for k, (planned, n) in enumerate(((100, 200), (300, 150), (100, 100))):
        early, late = (np.flatnonzero(rng.random(n) < np.linspace(*ends, n)) for ends in ((0.9, 0.1), (0.1, 0.9)))
        guard.begin(planned)
        guard.update(early, late, n)
        trials = guards._trials(early, late, n)
        changes.append(float(np.mean([np.exp(guards._log_change(*one)) for one in trials])))
        if not ran:
            halves[-1] = 0.5  # the one before has ended before its plan
        ran = n >= planned
        first = guards._trials(early, late, planned)
        halves.append(float(np.mean([np.exp(guards._log_halves(*one[:2])) for one in first])) if ran else 1.0)
        slow = sum(v[j] * np.prod(halves[j:]) for j in range(k + 1))
        total = (float(v[: k + 1] @ changes) + slow) / 2
        state = guard.state()
        assert (state["past"] + state["now"] + state["slow"]) / 2 == pytest.approx(total, rel=1e-9)
    assert v.sum() + sum((k + 2) ** -1.5 for k in range(3, 10**5)) / (zeta(1.5) - 1) < 1
    assert guard.log_evidence >= np.log(total) - 1e-9


def test_the_level_is_one_in_a_thousand() -> None:
    for peak, alarm in ((np.log(999), False), (np.log(1001), True)):
        assert cb.statistics.DriftGuard.from_state({**cb.statistics.DriftGuard().state(), "peak": peak}).alarm == alarm
        assert (
            cb.statistics.ExposureGuard.from_state({**cb.statistics.ExposureGuard(3).state(), "peak": peak}, 3).alarm
            == alarm
        )
