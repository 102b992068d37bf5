"""The peers that compose lists: what they draw and credit, against enumeration; and the packages, where they are."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.peers.experts import Exp4Lists, coordinate_descent
from benchmarks.peers.learning import VowpalPerSlot
from benchmarks.peers.multileaving import Optimised, Probabilistic, TeamDraft, optimised, rank_credits
from benchmarks.peers.offpolicy import UniformLogging, slate_value
from scipy.optimize import linprog

import comband as cb

LISTS = np.array([[0, 1, 2], [0, 2, 3], [4, 1, 0], [5, 0, 4]], dtype=np.int32)
P, M = LISTS.shape
N = 60_000
Assigned = tuple[tuple[int, ...], tuple[int, ...]]


def drawn(kind: object) -> Counter[tuple[int, ...]]:
    shown = kind.compose(np.broadcast_to(LISTS, (N, P, M)))  # type: ignore[attr-defined]
    return Counter(map(tuple, shown.tolist()))


def agree(counts: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> None:
    """Frequencies within six standard errors."""
    assert sum(chances.values()) == pytest.approx(1.0)
    assert set(counts) <= {one for one, chance in chances.items() if chance > 0}
    for one, chance in chances.items():
        assert abs(counts[one] / N - chance) <= 6 * np.sqrt(chance * (1 - chance) / N) + 1e-12, one


def drafted(order: tuple[int, ...]) -> tuple[int, ...]:
    shown: list[int] = []
    for policy in order:
        shown.append(next(item for item in LISTS[policy].tolist() if item not in shown))
    return tuple(shown)


def test_team_draft_is_that_of_all_orders() -> None:
    orders = list(itertools.permutations(range(P), M))
    chances: dict[tuple[int, ...], float] = defaultdict(float)
    for order in orders:
        chances[drafted(order)] += 1 / len(orders)
    agree(drawn(TeamDraft(P, np.random.default_rng(0))), chances)


def test_team_draft_favours_nobody_when_clicks_are_random() -> None:
    """Every owner is as likely in every place; credit per place is then the rate of clicks."""
    kind, rng = TeamDraft(P, np.random.default_rng(1)), np.random.default_rng(2)
    lists = np.broadcast_to(LISTS, (N, P, M))
    kind.credit(lists, kind.compose(lists), (rng.random((N, M)) < 0.3).astype(float))
    np.testing.assert_allclose(kind.scores(), 0.3, atol=6 * np.sqrt(0.21 / (N * M / P)))


def softmax(policy: int, before: tuple[int, ...]) -> dict[int, float]:
    weights = {item: (rank + 1) ** -3.0 for rank, item in enumerate(LISTS[policy].tolist()) if item not in before}
    return {item: weight / sum(weights.values()) for item, weight in weights.items()}


def assignments() -> dict[Assigned, float]:
    """(list, who filled its places) → probability."""
    found: dict[Assigned, float] = {((), ()): 1.0}
    for _ in range(M):
        grown: dict[Assigned, float] = defaultdict(float)
        for (shown, owners), chance in found.items():
            able = [policy for policy in range(P) if softmax(policy, shown)]
            for policy in able:
                for item, own in softmax(policy, shown).items():
                    grown[((*shown, item), (*owners, policy))] += chance * own / len(able)
        found = grown
    return found


def test_probabilistic_lists_and_credits_are_those_of_all_assignments() -> None:
    chances: dict[tuple[int, ...], float] = defaultdict(float)
    owners: dict[tuple[int, ...], np.ndarray] = {}
    for (shown, by), chance in assignments().items():
        chances[shown] += chance
        owned = owners.setdefault(shown, np.zeros((M, P)))
        owned[np.arange(M), list(by)] += chance
    kind = Probabilistic(P, np.random.default_rng(3))
    agree(drawn(kind), chances)
    for shown, owned in owners.items():
        for place in range(M):
            found = kind.marginals(LISTS, np.array(shown, dtype=np.int32), place)
            np.testing.assert_allclose(found, owned[place] / chances[shown], atol=1e-12)


def test_optimised_lists_are_unbiased_where_they_can_be() -> None:
    lists = np.array([[0, 1], [1, 0]], dtype=np.int32)
    sampled = np.array([[0, 1], [1, 0]], dtype=np.int32)
    chances = optimised(lists, sampled)
    expected = sum(c * np.cumsum(rank_credits(lists, one), axis=1) for c, one in zip(chances, sampled, strict=True))
    np.testing.assert_allclose(expected[0], expected[1], atol=1e-9)
    np.testing.assert_allclose(chances, 0.5)


def test_optimised_lists_solve_the_programme_with_all_its_bounds() -> None:
    """Least of variance plus spreads: by the same solver, given every bound, the optimum is the same."""
    rng = np.random.default_rng(11)
    for n_policies in (2, 5, 40):
        lists = np.array([rng.permutation(8)[:3] for _ in range(n_policies)], dtype=np.int32)
        sampled = Optimised(n_policies, rng).sample(lists)
        credits = np.array([rank_credits(lists, one) for one in sampled])  # (samples, P, m)
        expected, sums = credits @ (1 / np.arange(1, 4)), np.cumsum(credits, axis=2)
        variances = ((expected - expected.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        n, highest, lowest = len(sampled), np.repeat(np.eye(3), n_policies, axis=0), np.zeros((3 * n_policies, 3))
        rows = sums.transpose(2, 1, 0).reshape(-1, n)  # by length, then by candidate
        solved = linprog(
            np.concatenate([variances, np.ones(3), -np.ones(3)]),
            A_ub=np.block([[rows, -highest, lowest], [-rows, lowest, highest]]),
            b_ub=np.zeros(6 * n_policies),
            A_eq=np.concatenate([np.ones(n), np.zeros(6)])[None],
            b_eq=[1.0],
        )
        chances = optimised(lists, sampled)
        spread = np.ptp(np.tensordot(chances, sums, axes=1), axis=0).sum()
        assert chances.min() >= 0
        np.testing.assert_allclose(chances.sum(), 1)
        np.testing.assert_allclose(chances @ variances + spread, solved.fun, rtol=1e-7)


def test_optimised_lists_with_near_ties_are_found_too() -> None:
    """One candidate's bound is broken here by 4e-8, within the solver's tolerance: giving it again changes nothing."""
    lists = [[11, 6, 10, 7, 9, 5], [6, 4, 7, 1, 10, 2], [0, 2, 8, 7, 10, 6], [11, 0, 8, 2, 5, 6], [5, 6, 0, 11, 9, 3]]
    lists += [[8, 0, 6, 5, 10, 4], [5, 6, 0, 4, 10, 1]]
    sampled = [[5, 0, 6, 4, 11, 9], [5, 8, 0, 6, 4, 11], [5, 8, 11, 0, 6, 10], [5, 8, 11, 6, 4, 0], [8, 0, 2, 11, 5, 6]]
    sampled += [[8, 6, 11, 0, 10, 5], [11, 6, 4, 0, 2, 8], [11, 6, 8, 5, 0, 9], [11, 6, 10, 7, 0, 9]]
    sampled += [[11, 8, 0, 6, 2, 5]]
    chances = optimised(np.array(lists, dtype=np.int32), np.array(sampled, dtype=np.int32))
    np.testing.assert_allclose(chances.sum(), 1)


def test_optimised_lists_obey_the_prefix_constraint() -> None:
    for shown in Optimised(P, np.random.default_rng(4)).sample(LISTS):
        for place in range(M):
            first = {next(item for item in own if item not in shown[:place]) for own in LISTS.tolist()}
            assert shown[place] in first


def test_exp4_credits_whole_lists_without_bias() -> None:
    """Expected credit of one round, over the draw, is each candidate's reward."""
    lists = np.array([[[0, 1], [1, 0], [2, 3]]], dtype=np.int32)
    pays = np.array([1.0, 1.0, 2.0])
    kind = Exp4Lists(3, 1000, np.random.default_rng(5))
    kind.gains[:] = [3.0, 0.0, 1.0]
    kind.compose(lists)
    chances, mean = kind._chances.copy(), np.zeros(3)
    for policy in range(3):
        kind.gains[:] = 0
        kind.credit(lists, lists[:, policy], np.array([[pays[policy] / 2] * 2]))
        mean += chances[policy] * kind.gains
    np.testing.assert_allclose(mean, pays)


def test_vcee_meets_both_constraints() -> None:
    rng, K, floor = np.random.default_rng(6), 12, 0.3
    lists = np.argsort(rng.random((40, 6, K)), axis=2)[:, :, :3].astype(np.int32)
    b = np.linspace(0, 40, 6)
    weights = coordinate_descent(lists, b, K, floor)
    assert weights.sum() <= 1 + 1e-9
    assert weights @ b <= 2 * K + 1e-6
    q = np.zeros((40, K))
    for policy in range(6):
        np.put_along_axis(q, lists[:, policy], np.take_along_axis(q, lists[:, policy], 1) + weights[policy], axis=1)
    smooth = (1 - floor) * q + floor * 3 / K
    for policy in range(6):
        assert (1 / np.take_along_axis(smooth, lists[:, policy], 1)).sum(axis=1).mean() <= 2 * K + b[policy] + 1e-6


def test_vowpal_wabbits_list_is_the_best_label_slot_by_slot() -> None:
    """One question gives what m of them would, each without the labels taken so far."""
    pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is a peer: `make peers` installs it")
    rng, K, m = np.random.default_rng(10), 8, 3
    X = sp.csr_array(rng.standard_normal((60, 5)))
    learner = VowpalPerSlot(cb.Problem(n_actions=K, list_size=m, sparsity=1), seed=1)
    for start in range(0, 40, 10):
        part = X[start : start + 10]
        lists = learner.ask(part)
        learner.tell(part, lists, (lists < 3).astype(float) * (rng.random(lists.shape) < 0.7))
    found = learner.predict(X[40:])
    for row, labels in enumerate(found):
        left = list(range(K))
        for label in labels.tolist():
            p = np.array(learner.vw.predict(learner._example(X[40:], row, left)))
            assert p[left.index(label)] == p.max()
            left.remove(label)


def test_obp_values_are_the_set_wise_ones() -> None:
    pytest.importorskip("obp.ope", reason="obp is a peer: `make peers` installs it", exc_type=ImportError)
    rng, n, K, m = np.random.default_rng(7), 50, 6, 3
    listed, q = rng.random((n, m)) < 0.5, np.full((n, m), m / K)
    rewards = (rng.random((n, m)) < 0.3).astype(float)
    assert slate_value("IIPS", listed, q, rewards, K) == pytest.approx(float((rewards * listed / q).sum() / n))
    whole = listed.all(axis=1)
    odds = 6 * 5 * 4 / 6
    upto = np.cumprod(listed, axis=1) * (K / m) * np.cumprod([1, (K - 1) / (m - 1), (K - 2) / (m - 2)])
    assert slate_value("RIPS", listed, q, rewards, K) == pytest.approx(float((rewards * upto).sum() / n))
    assert slate_value("SIPS", listed, q, rewards, K) == pytest.approx(float((rewards.sum(1) * whole * odds).sum() / n))


@pytest.mark.parametrize(("estimator", "floor"), [("IIPS", 1.0), ("RIPS", 1.0), ("SIPS", 1.0), ("IIPS", 0.05)])
def test_obp_is_handed_all_that_counts(estimator: str, floor: float) -> None:
    """Scores of parts of a log, without rounds whose weight is 0, are those of the whole log."""
    pytest.importorskip("obp.ope", reason="obp is a peer: `make peers` installs it", exc_type=ImportError)
    rng, n, K, m, P = np.random.default_rng(8), 400, 5, 2, 3
    problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
    lists = np.argsort(rng.random((P, 7, K)), axis=2)[:, :, :m].astype(np.int32)
    policies = cb.PolicySet.from_lists(lists, problem)
    logging, parts = UniformLogging(problem, policies, estimator, floor, seed=1), []
    for _ in range(2):
        decisions = logging.ask(rng.integers(7, size=n))
        clicks = (rng.random((n, m)) < 0.2).astype(float)
        logging.tell(decisions, clicks)
        logging.scores()
        parts.append((decisions.contexts, decisions.lists, decisions.propensities, clicks))
    rows, shown, q, rewards = (np.concatenate(column) for column in zip(*parts, strict=True))
    own = policies.predict(rows)
    whole = [
        slate_value(estimator, (shown[:, :, None] == own[:, p, None, :]).any(axis=2), q, rewards, K) for p in range(P)
    ]
    assert max(whole) > 0
    np.testing.assert_allclose(logging.scores(), whole, rtol=1e-9)


def test_multileaving_is_that_of_the_public_package() -> None:
    """Draws and credits of mpkato/interleaving, run beside; it is on no index, so mostly it is not there."""
    public = pytest.importorskip("interleaving", reason="mpkato/interleaving is not installed", exc_type=ImportError)
    if not hasattr(public, "Probabilistic"):
        pytest.skip("the package of this name on the index is another one")
    np.random.seed(0)  # noqa: NPY002 (the package draws from the global state)
    lists, runs = LISTS.tolist(), 4000
    for kind, own in ((public.TeamDraft, TeamDraft), (public.Probabilistic, Probabilistic)):
        theirs = Counter(tuple(kind(lists, max_length=M).interleave()) for _ in range(runs))
        ours = drawn(own(P, np.random.default_rng(8)))
        for one in set(theirs) | set(ours):
            chance = ours[one] / N
            assert abs(theirs[one] / runs - chance) <= 6 * np.sqrt((chance + 1 / N) / runs), one
    kind = Probabilistic(P, np.random.default_rng(9))
    for shown in list(drawn(kind))[:5]:
        ranking = SimpleList(shown)
        scores = public.Probabilistic.compute_scores(ranking, [1])
        expected = kind.marginals(LISTS, np.array(shown, dtype=np.int32), 1)
        np.testing.assert_allclose([scores[policy] for policy in range(P)], expected, atol=1e-9)
    credits = public.Optimized._sample(
        SimpleNamespace(_credit_func=lambda rank: 1 / rank), M, lists
    )  # one list under the prefix constraint, with its credits
    expected = rank_credits(LISTS, np.array(list(credits), dtype=np.int32))
    for policy in range(P):
        np.testing.assert_allclose([credits.credits[policy][item] for item in credits], expected[policy])


class SimpleList(list[int]):
    """A ranking as the package wants it."""

    lists = LISTS.tolist()
