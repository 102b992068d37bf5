"""Values, intervals and the certified epsilon of logged rounds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

import comband as cb
from comband.evaluation import usual_estimates
from tests.evaluation.logs.worlds import PROBLEM, small_log


def _tiny() -> tuple[cb.Rounds, cb.PolicySet]:
    problem = cb.Problem(n_actions=4, list_size=2)
    policies = cb.PolicySet.from_lists([[[0, 1], [2, 3]], [[1, 2], [0, 1]]], problem, names=["a", "b"])
    rounds = cb.Rounds.from_log(
        np.array([0, 1, 0]),
        lists=[[0, 1], [1, 3], [2, 3]],
        rewards=[[1.0, 0.5], [0.0, 1.0], [0.0, 0.0]],
        propensities=[[0.5, 0.25], [0.5, 0.5], [0.5, 0.5]],
        problem=problem,
    )
    return rounds, policies


def test_values_by_hand() -> None:
    rounds, policies = _tiny()
    result = cb.evaluate(rounds, policies, max_reward=2)
    a, b = result.candidates
    # a: (1/.5 + .5/.25) + 1/.5 + 0 over 3 rounds; b: .5/.25 + 0 + 0
    assert (a.name, b.name) == ("a", "b")
    assert a.value == pytest.approx(6 / 3)
    assert b.value == pytest.approx(2 / 3)
    assert a.effective_rewards == pytest.approx(6**2 / (4**2 + 2**2))
    assert b.effective_rewards == pytest.approx(1.0)
    assert (result.rounds, result.rewarded_rounds, result.rewards) == (3, 2, 3)
    assert result.min_propensity == 0.25
    assert result.epsilon == b.gap_bound
    assert a.gap_bound == 0
    assert "assume nothing" in result.explained[0]


def test_a_value_lies_in_its_interval_whatever_the_weights() -> None:
    problem = cb.Problem(4, 1, 1)
    log = cb.Rounds.from_log(
        np.zeros(3, dtype=int), lists=[[0]] * 3, rewards=[[1]] * 3, propensities=[[0.01]] * 3, problem=problem
    )
    for stated in (None, 0.01):
        (one,) = cb.evaluate(
            log, cb.PolicySet.from_lists([[[0]]], problem), max_reward=1, min_propensity=stated
        ).candidates
        assert one.interval[0] <= one.value <= one.interval[1] <= 1


def _one_item_log(
    contexts: NDArray[np.int64], shown: NDArray[np.int64], rewards: NDArray[np.float64], chances: NDArray[np.float64]
) -> cb.Rounds:
    return cb.Rounds.from_log(
        contexts,
        lists=shown[:, None],
        rewards=rewards[:, None],
        propensities=chances[:, None],
        problem=cb.Problem(3, 1, 1),
    )


@pytest.mark.parametrize("stated", [None, 1.0])
def test_items_that_were_never_possible_are_not_judged(stated: float | None) -> None:
    problem = cb.Problem(n_actions=4, list_size=2)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["shown", "never"])
    n = 200
    log = cb.Rounds.from_log(
        np.zeros(n, dtype=int),
        lists=np.tile([0, 1], (n, 1)),
        rewards=np.tile([1.0, 0.0], (n, 1)),
        propensities=np.ones((n, 2)),
        problem=problem,
    )
    result = cb.evaluate(log, policies, max_reward=2, min_propensity=stated)
    assert 1 <= result.epsilon < 1.1  # "never" could bring 2, "shown" brings 1
    shown, never = result.candidates
    assert shown.name == "shown"
    assert not shown.unjudged
    assert never.gap_bound == result.epsilon
    assert never.interval == pytest.approx((0, 2))
    assert "sum to 0 per round" in never.unjudged
    assert result.unjudged == (never,)
    assert result.promise.startswith("Cannot be judged, since the log could not show all of their items: never.")
    assert any("'never' cannot be judged" in note for note in result.notes)
    assert result.trusted
    check = result.propensity_check
    assert check is not None
    assert (check.fits, check.usable, check.uncovered) == (False, True, ("never",))
    alone = cb.evaluate(log, policies.subset([1]), max_reward=2, min_propensity=stated)
    assert not alone.trusted  # no candidate can be judged
    assert alone.verdict.kind == "not valid"
    assert "DO NOT FIT" in alone.headline().splitlines()[0]
    assert not alone.claim.holds
    assert "With probability" not in f"{alone.promise} {alone.headline()} {alone.comparison().headline()}"
    assert alone.promise.endswith(": never. No promise: for no candidate do the propensities fit.")


def _weights_of_outcomes(n: int, chances: list[float]) -> Iterator[tuple[NDArray[np.int64], float]]:
    """How often each outcome comes in n rounds, with the exact probability of that."""
    for bars in combinations(range(n + len(chances) - 1), len(chances) - 1):
        counts = np.diff([-1, *bars, n + len(chances) - 1]) - 1
        log = math.lgamma(n + 1) - sum(
            math.lgamma(c + 1) - c * math.log(p) for c, p in zip(counts, chances, strict=True)
        )
        yield counts, math.exp(log)


@pytest.mark.parametrize("overlap", ["full", "partial", "none"])
def test_nothing_is_promised_wrongly_by_exact_enumeration(overlap: str) -> None:
    """All logs of 24 or 9 rounds, where item 2 is shown on both contexts (half of the time), on one of them, or never.

    Item 2 always pays, item 0 only on B and half. Probabilities of a wrong statement are exact sums, so the only margin
    is rounding. Assuming that every item had a chance, "2 is not better by more than …" is wrong far too often.
    """
    n, delta = 24 if overlap != "full" else 9, 0.25
    shows_2 = {"full": [True, True], "partial": [True, False], "none": [False, False]}[overlap]
    outcomes = [(x, y) for x in (0, 1) for y in ((0, 2) if shows_2[x] else (0,))]
    context, item = np.array(outcomes).T
    share = np.where(np.array(shows_2)[context], 0.5, 1.0)
    pays = np.where(item == 2, 1.0, np.where(context == 1, 0.5, 0.0))
    truth = {"zero": 0.25, "two": 1.0}
    policies = cb.PolicySet.from_lists([[[0], [0]], [[2], [2]]], cb.Problem(3, 1, 1), names=list(truth))
    wrong = outside = assumed = whole = 0.0
    for counts, chance in _weights_of_outcomes(n, list(0.5 * share)):
        e = np.repeat(np.arange(len(outcomes)), counts)
        result = cb.evaluate(_one_item_log(context[e], item[e], pays[e], share[e]), policies, max_reward=1, delta=delta)
        gap = max(truth.values()) - truth[result.candidates[0].name]
        whole += chance
        wrong += chance * (gap > result.epsilon + 1e-9)
        assumed += chance * (gap > result.covered_epsilon + 1e-9)
        outside += chance * any(
            not c.interval[0] - 1e-9 <= truth[c.name] <= c.interval[1] + 1e-9 for c in result.candidates
        )
    assert whole == pytest.approx(1)
    assert wrong <= delta
    assert outside <= delta
    if overlap == "full":
        assert assumed <= delta
    if overlap == "none":
        assert assumed > 0.9


@pytest.mark.parametrize("overlap", ["full", "partial", "none"])
def test_guarantees_hold_whatever_could_be_shown(overlap: str) -> None:
    """60 logs at delta = .1, looked at three times: more than 24 failures of a statement have probability < 1e-8."""
    rng = np.random.default_rng(8)
    problem = cb.Problem(n_actions=8, list_size=2, sparsity=1)
    n_contexts = 12
    lists = np.argsort(rng.random((4, n_contexts, 8)), axis=2)[:, :, :2]
    policies = cb.PolicySet.from_lists(lists, problem)
    # Each context likes one item; the last candidate always has it, and logging hides it where `hidden`.
    liked = lists[3, :, 0]
    hidden = rng.random(n_contexts) < {"full": 0.0, "partial": 0.8, "none": 1.0}[overlap]
    truth = (lists == liked[None, :, None]).any(axis=2).mean(axis=1) * 0.8
    allowed = np.ones((n_contexts, 8), dtype=bool)
    allowed[np.arange(n_contexts)[hidden], liked[hidden]] = False
    propensity = 2 / allowed.sum(axis=1)
    wrong = outside = assumed = 0
    for _ in range(60):
        x = rng.integers(0, n_contexts, size=900)
        shown = np.argsort(np.where(allowed[x], rng.random((900, 8)), 2.0), axis=1)[:, :2]
        rewards = (shown == liked[x][:, None]) & (rng.random((900, 1)) < 0.8)
        log = cb.Rounds.from_log(
            x, lists=shown, rewards=rewards, propensities=np.repeat(propensity[x][:, None], 2, axis=1), problem=problem
        )
        failed = np.zeros(3, dtype=bool)
        for n in (100, 300, 900):
            result = cb.evaluate(log[:n], policies, max_reward=1, delta=0.1)
            gap = truth.max() - truth[result.candidates[0].index]
            failed |= [
                gap > result.epsilon,
                any(not c.interval[0] <= truth[c.index] <= c.interval[1] for c in result.candidates),
                gap > result.covered_epsilon,
            ]
        wrong, outside, assumed = wrong + failed[0], outside + failed[1], assumed + failed[2]
    assert wrong <= 24
    assert outside <= 24
    if overlap == "full":
        assert result.epsilon < 0.5  # not by promising nothing
    else:
        assert assumed > 30  # with a missing item taken for a worthless one, most logs mislead


def test_a_stated_bound_holds_for_the_candidates_that_keep_it() -> None:
    """One candidate's items are missing: it is named, and the others are judged as if it were not there."""
    rounds, policies = small_log(6000)
    lists = np.stack([policies[i].predict(np.arange(30)) for i in range(5)])
    problem = cb.Problem(n_actions=30, list_size=3, sparsity=1)
    strange = cb.PolicySet.from_lists(
        np.concatenate([lists, np.tile([25, 26, 27], (1, 30, 1))]), problem, names=[*policies.names, "strange"]
    )
    least = 0.4 * PROBLEM.uniform_propensity
    with_it = cb.evaluate(rounds, strange, max_reward=1, min_propensity=least)
    without = cb.evaluate(rounds, policies, max_reward=1, min_propensity=least)
    assert [c.name for c in with_it.unjudged] == ["strange"]
    assert with_it.epsilon == 1
    assert without.epsilon <= with_it.covered_epsilon < 1.1 * without.epsilon < 0.2
    assert with_it.best.name == without.best.name


def test_events_add_up_to_the_whole() -> None:
    rounds, policies = small_log()
    parts = (slice(0, 99), slice(99, None))
    halves = [cb.Rounds(rounds.decisions[part], rounds.rewards[part]).events() for part in parts]
    settings: dict[str, Any] = {"max_reward": 1.0, "min_propensity": float(rounds.decisions.propensities.min())}
    apart, whole = cb.evaluate(halves[0] + halves[1], policies, **settings), cb.evaluate(rounds, policies, **settings)
    assert (apart.candidates, apart.epsilon) == (whole.candidates, whole.epsilon)
    assert apart.propensity_check is None
    assert "could not be checked" in apart.notes[-1]


def test_min_propensity_must_hold_and_only_widens() -> None:
    rounds, policies = small_log()
    smallest = float(rounds.decisions.propensities.min())
    known = cb.evaluate(rounds, policies, max_reward=1, min_propensity=smallest)
    cautious = cb.evaluate(rounds, policies, max_reward=1, min_propensity=smallest / 4)
    assert known.covered_epsilon == known.epsilon
    assert not any("assume nothing about items" in note for note in known.explained)
    assert cautious.epsilon >= known.epsilon
    shown = policies.predict(rounds.decisions.contexts)
    shared = (shown[:, :, :, None] == rounds.decisions.lists[:, None, None, :]).any(axis=(1, 2))
    least = float(rounds.decisions.propensities[shared].min())
    assert cb.evaluate(rounds, policies, max_reward=1, min_propensity=least).epsilon <= known.epsilon
    with pytest.raises(cb.InputError, match="must not exceed that of any item that a candidate shows"):
        cb.evaluate(rounds, policies, max_reward=1, min_propensity=least * 1.001)


def test_min_propensity_is_about_items_that_candidates_show() -> None:
    """A rare item of nobody's does not contradict it, in rewarded rounds or others; a rare one of somebody's does."""
    problem = cb.Problem(4, 2, sparsity=1)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 2]]], problem)
    lists, rewards = np.array([[0, 1], [1, 2], [2, 3], [0, 3]] * 50), np.array([[1, 0], [0, 0], [0, 1], [0, 0]] * 50)
    propensities = np.where(lists == 3, 0.01, 0.6)
    log: dict[str, Any] = {"lists": lists, "rewards": rewards, "problem": problem}
    rounds = cb.Rounds.from_log(np.zeros(200, dtype=int), propensities=propensities, **log)
    for given in (rounds, rounds.events()):
        answer = cb.evaluate(given, policies, max_reward=1, min_propensity=0.6)
        assert answer.min_propensity == 0.6
        assert answer.best.name == policies.names[0]
    propensities = np.where(lists == 2, 0.5, propensities)
    rare = cb.Rounds.from_log(np.zeros(200, dtype=int), propensities=propensities, **log)
    many = cb.PolicySet.from_lists([[[0, 1]]] * 69 + [[[1, 2]]], problem)  # of the last one among two words of bits
    for candidates in (policies, many):
        with pytest.raises(cb.InputError, match=r"must not exceed that of any item .* got 0.6 where the log has 0.5"):
            cb.evaluate(rare, candidates, max_reward=1, min_propensity=0.6)


@pytest.mark.parametrize("bad", [{"delta": 0}, {"delta": 1}, {"max_reward": 0}, {"min_propensity": -1}])
def test_wrong_settings_are_refused(bad: dict[str, Any]) -> None:
    rounds, policies = small_log(20)
    with pytest.raises(cb.InputError, match=next(iter(bad))):
        cb.evaluate(rounds, policies, **{"max_reward": 1.0, **bad})


def test_a_single_candidate_is_the_best() -> None:
    rounds, policies = small_log(50)
    result = cb.evaluate(rounds, policies.subset([2]), max_reward=1)
    assert result.epsilon == 0.0
    assert result.best.name == "ünïcode"


def test_as_dict_is_json() -> None:
    rounds, policies = small_log(50)
    plain = cb.evaluate(rounds, policies, max_reward=1).as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False))["best"] == plain["best"]


def test_guarantees_hold_on_many_logs() -> None:
    """60 logs at delta = .1: more than 24 failures of one statement have probability below 1e-8; there are ten."""
    rng = np.random.default_rng(4)
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=50, seed=5)
    policies = world.candidates(8, seed=6)
    truth = world.values(policies)
    mixture = cb.Mixture(policies, np.full(8, 1 / 8), problem=PROBLEM, floor=0.5)
    least = 0.5 * PROBLEM.uniform_propensity
    outside = wrong = 0
    exceeded = np.zeros(8)  # each candidate's own bound, named beforehand
    for _ in range(60):
        batch = world.sample(400, rng)
        decisions = mixture.draw(batch.contexts, rng)
        rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
        result = cb.evaluate(rounds, policies, max_reward=1, min_propensity=least, delta=0.1)
        outside += any(not c.interval[0] <= truth[c.index] <= c.interval[1] for c in result.candidates)
        wrong += bool(truth.max() - truth[result.candidates[0].index] > result.epsilon)
        for c in result.candidates:
            exceeded[c.index] += bool(truth[c.index] - truth[result.candidates[0].index] > c.gap_bound)
    assert exceeded.max() <= 24
    assert outside <= 24
    assert wrong <= 24


def test_pairs_certify_far_more_than_separate_intervals() -> None:
    rng = np.random.default_rng(7)
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, seed=5)
    policies = world.candidates(8, seed=6)
    batch = world.sample(20_000, rng)
    decisions = cb.Mixture(policies, np.full(8, 1 / 8), problem=PROBLEM, floor=0.5).draw(batch.contexts, rng)
    rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
    least = 0.5 * PROBLEM.uniform_propensity
    result = cb.evaluate(rounds, policies, max_reward=1, min_propensity=least)
    separate = max(c.interval[1] for c in result.candidates[1:]) - result.best.interval[0]
    assert result.epsilon < separate / 2


def test_right_propensities_fit_and_wrong_ones_do_not() -> None:
    rounds, policies = small_log(4000)
    decisions = rounds.decisions
    least = float(decisions.propensities.min())
    good = cb.check_logged_propensities(rounds, policies, min_propensity=least)
    assert good.fits
    assert good.expected == 3.0
    slots = cb.Decisions(
        ids=decisions.ids,
        lists=decisions.lists,
        propensities=decisions.propensities / 3,  # of the item in its slot instead of anywhere in the list
        epochs=decisions.epochs,
        contexts=decisions.contexts,
    )
    wrong = cb.check_logged_propensities(cb.Rounds(slots, rounds.rewards), policies, min_propensity=least / 3)
    assert not wrong.fits
    assert "DO NOT FIT" in str(wrong)
    assert wrong.mean > 6


def test_half_the_propensity_is_noticed_in_a_small_log() -> None:
    rng = np.random.default_rng(0)
    problem = cb.Problem(6, 2, 1)
    lists = np.argsort(rng.random((400, 6)), axis=1)[:, :2]
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem)

    def check(q: float, n: int) -> cb.evaluation.PropensityCheck:
        rounds = cb.Rounds.from_log(
            np.zeros(n, dtype=int),
            lists=lists[:n],
            rewards=np.zeros((n, 2)),
            propensities=np.full((n, 2), q),
            problem=problem,
        )
        return cb.check_logged_propensities(rounds, policies, min_propensity=q)

    assert not check(1 / 6, 400).fits  # the probability of an item in its slot
    assert check(1 / 3, 400).fits
    assert check(1 / 3, 400).conclusive
    few = check(1 / 3, 20)
    assert few.fits
    assert not few.conclusive
    assert "too few rounds" in str(few)


def test_intervals_and_epsilon_are_those_of_the_wealths_at_their_shares_of_delta() -> None:
    """2P one-sided bounds for the values, P − 1 for the differences, from products over the rounds."""
    rounds, policies = small_log(3000)
    decisions, least, most, delta = rounds.decisions, 0.4 * 3 / 20, 2.0, 0.07
    result = cb.evaluate(rounds, policies, max_reward=most, min_propensity=least, delta=delta)
    lists, P = policies.predict(decisions.contexts), len(policies)
    inside = (decisions.lists[:, None, :, None] == lists[:, :, None, :]).any(axis=3)
    X = (inside * (rounds.rewards / decisions.propensities)[:, None, :]).sum(axis=2)
    bets = 0.98 * 0.5 ** np.arange(16)

    def crossing(log_wealths: Callable[[float], NDArray[np.float64]], threshold: float) -> float:
        """Where a wealth that grows on [0, most] first reaches the threshold."""

        def missing(x: float) -> float:
            return float(np.logaddexp.reduce(log_wealths(x)) - np.log(len(bets) * threshold))

        return float(brentq(missing, 0, most)) if missing(0) < 0 < missing(most) else most * (missing(0) < 0)

    def upper(z: NDArray[np.float64], threshold: float) -> float:
        return crossing(lambda v: np.log1p(-bets[:, None] * least / most * (z - v)).sum(axis=1), threshold)

    for c in result.candidates:
        x = X[:, c.index]
        gap = upper(x - X[:, result.best.index], (P - 1) / delta) if c.index != result.best.index else 0.0
        assert gap <= c.gap_bound <= 1.01 * gap + 1e-9
        high = upper(x, 2 * P / delta)
        assert high <= c.interval[1] <= 1.01 * high
        low = most - crossing(
            lambda v, x=x: np.log1p(bets[:, None] * (x / max(most - v, 1e-12) - 1)).sum(axis=1),  # type: ignore[misc]
            2 * P / delta,
        )
        assert low * 0.99 <= c.interval[0] <= low
    assert 0 < result.epsilon < most
    assert result.epsilon == max(c.gap_bound for c in result.candidates)


def test_events_alone_do_not_tell_the_smallest_propensity() -> None:
    problem = cb.Problem(3, 1, 1)
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem)
    log = cb.Rounds.from_log(
        np.zeros(4, dtype=int),
        lists=[[0], [1], [2], [0]],
        rewards=[[1], [0], [0], [1]],
        propensities=[[0.5], [0.1], [0.4], [0.5]],
        problem=problem,
    )
    with pytest.raises(cb.InputError, match="state min_propensity"):
        cb.evaluate(log.events(), policies, max_reward=1)
    with pytest.raises(cb.InputError, match="raise max_reward"):
        cb.evaluate(log, policies, max_reward=0.1, min_propensity=0.1)


def test_candidates_are_asked_once_for_each_context_that_matters() -> None:
    rounds, tabulated = small_log(400)
    asked: list[int] = []

    class Counted:
        def __init__(self, policy: cb.Policy) -> None:
            self._policy = policy

        def predict(self, X: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
            asked.append(len(X))
            return self._policy.predict(X)

    policies = cb.PolicySet([Counted(policy) for policy in tabulated], tabulated.names)
    answer = cb.evaluate(rounds, policies, max_reward=PROBLEM.max_reward)
    rewarded = len(np.unique(rounds.events().contexts))
    assert sum(asked) == len(policies) * (rewarded + len(np.unique(rounds.decisions.contexts)))  # all are looked at
    assert answer == cb.evaluate(rounds, tabulated, max_reward=PROBLEM.max_reward)
    asked.clear()
    cb.evaluate(rounds.events(), policies, max_reward=PROBLEM.max_reward, min_propensity=1e-3)
    assert sum(asked) == len(policies) * rewarded


def test_a_propensity_above_one_is_refused_wherever_it_is_stated() -> None:
    """Also where no candidate's item was ever rewarded, so that nothing in the log speaks against it."""
    problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem)
    log = cb.Rounds.from_log(
        np.zeros(300, dtype=int),
        lists=np.full((300, 1), 3),
        problem=problem,
        rewards=(np.arange(300) % 3 == 1)[:, None],
        propensities=np.full((300, 1), 0.25),
    )
    for source in (log, log.events()):
        with pytest.raises(cb.InputError, match="a probability, at most 1, got 50"):
            cb.evaluate(source, policies, max_reward=1, min_propensity=50)


def test_the_smallest_delta_has_an_answer() -> None:
    rounds, policies = small_log()
    answers = [cb.evaluate(rounds, policies, max_reward=1, delta=delta) for delta in (1e-15, 1e-16, 1e-17, 1e-150)]
    assert all(np.isfinite(answer.epsilon) for answer in answers)
    approximate = [answer.approximate_epsilon for answer in answers]
    assert approximate == sorted(approximate)
    assert approximate[0] < approximate[-1]


@pytest.mark.parametrize("wrong", ["log.csv", Path("log.csv"), np.zeros((3, 2)), None, {"a": 1}])
@pytest.mark.parametrize("other", ["policies", "lists.csv", None])
def test_a_wrong_log_is_what_the_message_is_about(wrong: Any, other: Any) -> None:
    policies = small_log()[1] if other == "policies" else other
    for options in ({}, {"max_reward": 1}, {"min_propensity": 7.0}):
        with pytest.raises(cb.InputError, match=f"rounds must be Rounds or Events, got {type(wrong).__name__}") as told:
            cb.evaluate(wrong, policies, **options)
        assert ("evaluate_log" in str(told.value)) == isinstance(wrong, str | Path)
    with pytest.raises(cb.InputError, match="rounds must be Rounds"):
        usual_estimates(wrong, policies)


def test_a_log_in_files_is_named_by_paths() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2]})
    with pytest.raises(cb.InputError, match=r"a log must be a path, .* got DataFrame; read a data frame by read_log"):
        cb.evaluate_log(frame, "lists.csv")
    for wrong, name in (({"a": 1}, "dict"), (np.zeros((2, 2)), "ndarray among them"), ([3], "int among them")):
        with pytest.raises(cb.InputError, match=f"a log must be a path, a pattern or several of them, got {name}"):
            cb.evaluate_log(wrong, "lists.csv")
