from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.certify.planner import Planner
from comband.explore.explorers import DisagreementExplorer, MixtureExplorer
from comband.page.problem import as_generator
from comband.statistics.grids import log_mean_exp
from tests.learners.small_worlds import K, M, SmallWorld, small_world
from tests.states import plain, text

WORLD = small_world("clustered", 3)


def learner_for(world: SmallWorld = WORLD, **options: object) -> cb.AdaptiveComband:
    settings: dict[str, object] = {"epsilon": 0.06, "first_epoch": 100, "seed": 1} | options
    return cb.AdaptiveComband(world.problem, world.policies, **settings)  # type: ignore[arg-type]


def finish(learner: cb.certify.CertifyingLearner, world: SmallWorld = WORLD, n: int = 100, limit: int = 30_000) -> None:
    rng = as_generator(2)
    while not learner.done and learner.rounds < limit:
        world.play(learner, n, rng)


def answers(world: SmallWorld, x: np.ndarray, lists: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    label = (rng.random(len(x))[:, None] >= np.cumsum(world.chances, axis=1)[x]).sum(axis=1)
    return np.asarray(lists == label[:, None], dtype=float)


def test_certifies_drops_and_tells_the_story() -> None:
    learner = learner_for()
    before = learner.status()
    assert before.forecast == np.inf or before.forecast > 0
    assert before.certified is None
    finish(learner)
    status, result = learner.status(), learner.result()
    assert learner.done
    assert result.epsilon <= 0.06
    assert WORLD.values[result.index] >= WORLD.values.max() - 0.06
    assert status.survivors + len(status.dropped) == len(WORLD.policies)
    assert status.forecast == 0
    rounds = [gone.round for gone in status.dropped]
    assert rounds == sorted(rounds)
    assert all(gone.log_evidence >= np.log(20) for gone in status.dropped)
    assert "was dropped after" in str(status.dropped[0])
    assert status.reward_lost > 0
    assert all(other.interval[1] <= result.interval[1] + result.epsilon + 1e-9 for other in result.runners_up)
    low, high = learner.intervals()
    assert ((low <= WORLD.values) & (WORLD.values <= high)).all()


def test_one_policy_is_certified_at_once() -> None:
    policies = WORLD.policies.subset([2])
    learner = cb.AdaptiveComband(WORLD.problem, policies, epsilon=0.1)
    decisions = learner.ask(np.array([0, 1]))
    learner.tell(decisions, np.zeros((2, M)))
    assert learner.done
    assert learner.result().epsilon == 0


def test_budget_reports_the_epsilon_reached() -> None:
    learner = learner_for(epsilon=0.001, max_rounds=2000)
    finish(learner)
    result = learner.result()
    assert learner.rounds == 2000
    assert 0.001 < result.epsilon < 1
    assert any("not certified to 0.001" in note for note in result.notes)
    assert WORLD.values[result.index] >= WORLD.values.max() - result.epsilon


def test_the_claim_shrinks_with_the_rounds() -> None:
    learner = learner_for(epsilon=0.01)
    rng = as_generator(0)
    claims = []
    for _ in range(3):
        for _ in range(10):
            WORLD.play(learner, 200, rng)
        claims.append(learner.status().certified or np.nan)
    assert claims[0] > claims[-1]


def test_unknown_sparsity_and_several_rewards_a_round() -> None:
    problem = cb.Problem(n_actions=K, list_size=M)
    policies = cb.PolicySet.from_lists(WORLD.policies.predict(np.arange(12)).transpose(1, 0, 2), problem)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.3, first_epoch=100, seed=0)
    rng = as_generator(3)
    while not learner.done and learner.rounds < 20_000:
        x = rng.integers(12, size=200)
        decisions = learner.ask(x)
        chance = np.take_along_axis(WORLD.chances[x], decisions.lists.astype(np.int64), axis=1)
        learner.tell(decisions, (rng.random(chance.shape) < chance) * 0.5 + (rng.random(chance.shape) < chance) * 0.5)
    assert learner.done
    assert WORLD.values[learner.result().index] >= WORLD.values.max() - 0.3


def test_answers_enter_in_the_order_of_decisions() -> None:
    """Early answers wait for those before them; then the evidence is what it would have been anyway."""
    prompt, late = learner_for(), learner_for()
    rng = as_generator(5)
    x = rng.integers(12, size=90)
    a, b = prompt.ask(x), late.ask(x)
    rewards = answers(WORLD, x, a.lists, rng)
    prompt.tell(a, rewards)
    late.tell(b[40:], rewards[40:])
    assert late.queue.front == 0
    assert late.status().waiting == 40
    assert not late.evidence.log_wealth.any()
    late.tell(b[:10], rewards[:10])
    assert late.queue.front == 10
    late.tell(b[10:40][::-1], rewards[10:40][::-1])
    assert late.queue.front == 90
    np.testing.assert_allclose(late.evidence.log_wealth, prompt.evidence.log_wealth, rtol=1e-12, atol=1e-14)
    assert late.evidence.seen.events.ids.tolist() == prompt.evidence.seen.events.ids.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_any_split_order_and_repetition_gives_the_same_evidence(seed: int) -> None:
    whole, parts = learner_for(first_epoch=500), learner_for(first_epoch=500)
    rng = as_generator(seed)
    x = rng.integers(12, size=400)
    a, b = whole.ask(x), parts.ask(x)
    rewards = answers(WORLD, x, a.lists, rng)
    whole.tell(a, rewards)
    order = rng.permutation(400)
    for block in np.array_split(order, 7):
        again = np.concatenate([block, block[:3]])
        assert parts.tell(b[again], rewards[again]).accepted == len(block)
    assert parts.queue.front == 400
    np.testing.assert_allclose(parts.evidence.log_wealth, whole.evidence.log_wealth, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(parts.intervals(), whole.intervals(), rtol=1e-12, atol=1e-14)
    assert parts.result().epsilon == pytest.approx(whole.result().epsilon, rel=1e-9)


def test_missing_answers_count_as_no_reward_after_their_time() -> None:
    learner = learner_for(patience=30)
    rng = as_generator(6)
    x = rng.integers(12, size=100)
    with pytest.raises(cb.InputError, match="must not be larger than patience=30, got 100"):
        learner.ask(x)
    first = learner.ask(x[:25])
    rewards = answers(WORLD, x[:25], first.lists, rng)
    answered = np.arange(25) != 5
    learner.tell(first[answered], rewards[answered])
    assert (learner.queue.front, learner.queue.behind, learner.queue.waiting) == (5, 19, 1)
    learner.ask(x[25:35])
    assert (learner.queue.front, learner.queue.oldest, learner.status().missing) == (5, 5, 0)  # as long as it may wait
    learner.ask(x[35:36])
    assert (learner.queue.front, learner.status().missing, learner.queue.waiting) == (25, 1, 11)
    learner.tell(first[[5]], rewards[[5]])
    assert learner.status().late == 1
    notes = learner.result().notes
    assert any("not answered in time" in note for note in notes)
    assert any("too late" in note for note in notes)


def lossy_run(lost_item: int | None, seed: int, n_batches: int = 60) -> cb.AdaptiveComband:
    """Equal candidates; 3% of the answers are lost, and a third of those to lists with a certain item."""
    world = small_world("equal", seed)
    learner = cb.AdaptiveComband(world.problem, world.policies, epsilon=0.01, patience=200, seed=seed)
    rng = np.random.default_rng([seed, 3])
    for _ in range(n_batches):
        decisions = learner.ask(rng.integers(len(world.chances), size=100))
        lost = rng.random(100) < 0.03
        if lost_item is not None:
            lost |= (decisions.lists == lost_item).any(axis=1) & (rng.random(100) < 1 / 3)
        clicked = rng.integers(world.problem.n_actions, size=(100, 1))
        learner.tell(decisions[~lost], (decisions.lists == clicked).astype(float)[~lost])
    return learner


def test_answers_lost_for_an_item_are_noticed_and_others_are_not() -> None:
    for seed in range(3):
        assert any("never answered" in text for text in lossy_run(4, seed).result().warnings)
    # Three guards at level .001: more than 3 alarms in 20 clean runs have a probability below 1e-6.
    assert sum(bool(lossy_run(None, s, 20).result().warnings) for s in range(20)) <= 3


def test_a_saved_learner_goes_on_watching(tmp_path: Path) -> None:
    learner = lossy_run(None, 0, 4)
    learner.save(tmp_path / "learner")
    again = cb.AdaptiveComband.load(tmp_path / "learner", learner.policies)
    assert plain(again.queue.state()) == plain(learner.queue.state())
    assert text(again.watch.state()) == text(learner.watch.state())
    assert again.verdict.claim() == learner.verdict.claim()


def test_what_was_certified_once_stays_certified() -> None:
    """A later leader may be less certain; the smaller epsilon of an earlier one still holds."""
    world = small_world("clustered", 3)
    learner = cb.AdaptiveComband(world.problem, world.policies, epsilon=0.001, first_epoch=100, seed=3)
    rng = np.random.default_rng(0)
    smallest = np.inf
    for _ in range(40):
        world.play(learner, 100, rng)
        verdict = learner.verdict
        epsilon = verdict.claim().epsilon
        if verdict.best_before is not None and verdict.alive[verdict.best_before.leader]:
            assert epsilon <= verdict.best_before.epsilon
        smallest = min(smallest, epsilon)
    assert smallest < world.problem.max_reward


def among_equals(seed: int, epsilon: float = 0.03) -> cb.AdaptiveComband:
    world = small_world("equal", seed)
    learner = cb.AdaptiveComband(world.problem, world.policies, epsilon=epsilon, first_epoch=100, seed=seed)
    rng = np.random.default_rng(seed)
    while not learner.done and learner.rounds < 6000:
        world.play(learner, 100, rng)
    return learner


@pytest.mark.usefixtures("unwatched")
def test_a_leader_that_is_good_enough_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among equals the highest estimate wanders, and each change leaves evidence behind."""

    def changes() -> int:
        runs = [[epoch.leader for epoch in among_equals(seed).epochs] for seed in range(8)]
        return sum(int(np.count_nonzero(np.diff(leaders))) for leaders in runs)

    staying = changes()
    monkeypatch.setattr(Planner, "rounds_to_go", lambda *_: 0.0)  # then the highest estimate leads every epoch
    assert staying < changes()


def test_a_higher_estimate_beside_the_winner_is_explained() -> None:
    results = [among_equals(seed, epsilon=0.1).result() for seed in range(12)]
    told = [str(result.verdict) for result in results if result.verdict.decided]
    others = [result for result in results if result.verdict.decided]
    for words, result in zip(told, others, strict=True):
        higher = any(other.value > result.value for other in result.runners_up)
        guessed = result.guess is not None and result.guess.name != result.name
        assert ("has a higher estimate" in words or "The best guess is another one" in words) == (higher or guessed)
    assert len({"another one" in words.lower() for words in told}) == 2


def test_without_patience_it_waits() -> None:
    learner = learner_for()
    decisions = learner.ask(np.arange(12))
    learner.tell(decisions[1:], np.zeros((11, M)))
    assert learner.queue.front == 0
    assert learner.result().epsilon == learner.problem.max_reward  # answers that wait promise nothing


def test_many_candidates_are_not_all_asked() -> None:
    learner = learner_for(max_evaluated=4)
    assert isinstance(learner.epochs[0].explorer, MixtureExplorer)
    finish(learner)
    assert isinstance(learner.epochs.current.explorer, MixtureExplorer | DisagreementExplorer)
    assert learner.result().epsilon <= 0.06


def test_rare_contexts_with_more_dispute_are_counted_against_the_bets() -> None:
    """In one context of 400 all candidates disagree: some rounds are uncovered, and the answer is still right."""
    rng = np.random.default_rng(0)
    problem = cb.Problem(n_actions=40, list_size=2, sparsity=1)
    lists = np.tile(np.array([0, 1]), (10, 400, 1))
    lists[1:5, 1:] = [0, 2]
    lists[5:, 1:] = [3, 1]
    lists[:, 0] = np.arange(20).reshape(10, 2) + 10
    policies = cb.PolicySet.from_lists(lists, problem)
    chances = np.zeros((400, 40))
    chances[:, 0], chances[:, 1], chances[:, 2], chances[:, 3] = 0.4, 0.3, 0.25, 0.35
    values = np.array([np.take_along_axis(chances, rows, axis=1).sum(axis=1).mean() for rows in lists])
    world = SmallWorld(problem, policies, chances, values)
    learner = learner_for(world, epsilon=0.02)
    while not learner.done:
        world.play(learner, 100, rng)
    assert sum(learner.evidence.n_uncovered) > 0
    assert learner.result().index == 0


def test_a_policy_that_changes_its_mind_is_reported() -> None:
    class Fickle:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.argsort(self.rng.random((len(X), K)), axis=1)[:, :M].astype(np.int32)

    policies = cb.PolicySet([Fickle(), *(WORLD.policies[i] for i in range(4))])
    learner = cb.AdaptiveComband(WORLD.problem, policies, epsilon=0.02, first_epoch=100, max_rounds=1000, seed=0)
    finish(learner)
    assert any("recorded propensities are not those of the design" in text for text in learner.result().warnings)


@pytest.mark.parametrize("changes", [False, True])
def test_a_world_that_changes_within_an_epoch_is_reported(changes: bool) -> None:
    """A fifth of the lists is rewarded in the first half of each epoch, and four fifths in the second."""
    learner = learner_for(epsilon=0.001, first_epoch=400, epoch_growth=1.01)
    rng = as_generator(7)
    for batch in range(8):
        decisions = learner.ask(rng.integers(12, size=100))
        clicked = rng.random(100) < (0.5 if not changes else 0.8 if batch % 4 >= 2 else 0.2)
        learner.tell(decisions, clicked[:, None] * (np.arange(M) == 0).astype(float))
    assert any("changed over time" in text for text in learner.result().warnings) == changes


class Stuck(np.random.Generator):
    """Always draws the same number."""

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.full(size, 0.3)


@pytest.mark.parametrize("stuck", [False, True])
def test_lists_that_are_not_drawn_with_their_propensities_are_reported(stuck: bool) -> None:
    learner = learner_for(epsilon=0.001, seed=(Stuck if stuck else np.random.Generator)(np.random.PCG64(0)))
    for _ in range(15):
        decisions = learner.ask(np.zeros(100, dtype=np.int64))
        learner.tell(decisions, np.zeros((100, M)))
    assert any("not shown" in text for text in learner.result().warnings) == stuck


def test_arguments_are_checked() -> None:
    for wrong in ({"epsilon": 0}, {"delta": 1}, {"epoch_growth": 1.0}, {"patience": 0}, {"max_evaluated": 0}):
        with pytest.raises(cb.InputError):
            learner_for(**wrong)


def rescaled(s: float) -> tuple[int, list[int], cb.Selection]:
    """The same answers in another unit of reward: rounds, who was dropped when, and the result in that unit."""
    problem = cb.Problem(6, 2, s)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]], [[4, 5]], [[0, 5]]], problem)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.05 * s, first_epoch=60, seed=1)
    rng = as_generator(5)
    while not learner.done and learner.rounds < 3000:
        decisions = learner.ask(np.zeros(20, dtype=int))
        clicked = (rng.random((20, 6)) < [0.3, 0.1, 0.25, 0.1, 0.05, 0.2]) & (
            rng.integers(6, size=(20, 1)) == np.arange(6)
        )
        learner.tell(decisions, s * np.take_along_axis(clicked, decisions.lists.astype(int), axis=1))
    return learner.rounds, [dropped.round for dropped in learner.status().dropped], learner.result()


def test_a_rescaled_problem_takes_the_same_rounds() -> None:
    rounds, dropped, result = rescaled(1.0)
    assert 0 < rounds < 3000
    for s in (0.1, 0.37, 0.001, 1e-6):
        again, dropped_again, scaled = rescaled(s)
        assert (again, dropped_again, scaled.name) == (rounds, dropped, result.name)
        assert scaled.epsilon / s == pytest.approx(result.epsilon, rel=1e-6)
        assert scaled.value / s == pytest.approx(result.value, rel=1e-6)
        np.testing.assert_allclose(np.array(scaled.interval) / s, result.interval, rtol=1e-6, atol=1e-9)


def test_ten_million_actions_and_a_thousand_candidates() -> None:
    """Uniform lists show an action with probability 1e-7: stakes must reach that low."""
    problem = cb.Problem(10**7, 1, 1)
    policies = cb.PolicySet.from_lists(np.arange(1001)[:, None, None], problem)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.1, seed=0)
    decisions = learner.ask(np.zeros(50, dtype=int))
    learner.tell(decisions, np.asarray(decisions.lists == 0, dtype=float))
    assert learner.rounds == 50
    assert learner.result().epsilon <= 1


def test_rounds_without_reward_certify_as_soon_as_they_should() -> None:
    problem = cb.Problem(n_actions=6, list_size=2, sparsity=1)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[0, 2]], [[3, 4]]], problem)
    in_vain = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        learner = cb.UniformLists(problem, policies, epsilon=0.15, seed=seed)
        while not learner.done:
            # Whatever is certified by now, as the evidence has it, is noticed by now.
            assert learner.rounds % 5 or not learner.rounds or learner.verdict.claim().epsilon > 0.15
            decisions = learner.ask([0])
            rewards = (decisions.lists == 0) * (rng.random() < 0.03)
            learner.tell(decisions, rewards)
        in_vain += not rewards.any()
        assert (learner.status().certified or np.nan) <= 0.15
    assert in_vain  # else nothing was shown


@pytest.mark.parametrize("seed", range(4))
def test_a_leader_is_not_dropped_by_late_answers_of_an_older_epoch(seed: int) -> None:
    """What is promised of a leader may hold though it is not the best, and estimates are differences to it: evidence
    that it is not the best, from an epoch that another led, counts when somebody else leads again.
    """
    problem = cb.Problem(2, 1, 1)
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem)
    learner = cb.UniformLists(problem, policies, epsilon=0.01, first_epoch=200, seed=seed)
    old = learner.epochs.current.leader
    new = 1 - old
    decisions = learner.ask(np.zeros(400, dtype=int))
    shows_new = decisions.lists == new
    rewards = 1.0 * ~shows_new
    rewards[:200] = 0.0
    rewards[np.flatnonzero(shows_new)[:10]] = 1.0
    learner.tell(decisions[:200], rewards[:200])  # the other one looks better, and leads from here on
    assert learner.epochs.current.leader == old  # nobody was asked for a decision yet
    learner.ask(np.zeros(1, dtype=int))
    assert learner.epochs.current.leader == new
    learner.tell(decisions[200:350], rewards[200:350])
    learner.ask(np.zeros(1, dtype=int))
    assert learner.epochs.current.leader == new
    assert log_mean_exp(learner.evidence.log_wealth[new]) > np.log(1 / learner.spec.delta)  # which would drop any other
    status, result = learner.status(), learner.result()
    assert (status.survivors, status.dropped) == (2, ())
    assert all(np.isfinite(candidate.value) for candidate in (result.best, *result.runners_up))
    learner.tell(decisions[350:], rewards[350:])
    learner.ask(np.zeros(1, dtype=int))
    assert learner.epochs.current.leader == old
    assert [(one.index, one.leader) for one in learner.status().dropped] == [(new, policies.names[old])]


def test_reward_as_the_objective_shows_the_lists_of_those_who_may_be_best() -> None:
    """Most rounds show own lists, by how likely each is to be the best: less is lost in as many rounds."""
    problem = cb.Problem(n_actions=30, list_size=3, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    policies, lost = world.candidates(12, seed=2), {}
    for objective in ("rounds", "reward"):
        rewards = 0.0
        for seed in range(5):
            learner = cb.AdaptiveComband(
                problem, policies, epsilon=0.02, objective=objective, max_rounds=3000, seed=seed
            )
            cb.run(learner, world, batch_size=100, seed=seed)
            rewards += learner.evidence.reward
            explorer = learner.epochs.current.explorer
            assert isinstance(explorer, DisagreementExplorer)
            assert explorer.own.sum() == pytest.approx(0.85 if objective == "reward" else 0)
        lost[objective] = -rewards
    assert lost["reward"] < lost["rounds"] - 300  # of 15,000 rounds; it is about 1,500


def test_objectives_that_cannot_be() -> None:
    problem = cb.Problem(n_actions=30, list_size=3, sparsity=1)
    policies = cb.SyntheticRecommender(problem, seed=1).candidates(4, seed=2)
    with pytest.raises(cb.InputError, match="objective must be 'rounds' or 'reward'"):
        cb.AdaptiveComband(problem, policies, epsilon=0.1, objective="clicks")
    totals = cb.Problem(n_actions=30, list_size=3, sparsity=1, feedback="total")
    with pytest.raises(cb.InputError, match="rewards of single items"):
        cb.AdaptiveComband(totals, policies, epsilon=0.1, objective="reward")


def test_many_candidates_and_rewards_that_come_one_by_one() -> None:
    """More than 64 candidates, two words of bits: told one round at a time, they are those of rounds told at once."""
    problem = cb.Problem(n_actions=60, list_size=4, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    policies = shop.candidates(100, seed=2)
    single, whole = (cb.AdaptiveComband(problem, policies, epsilon=0.01, first_epoch=100, seed=4) for _ in range(2))
    visitors = shop.sample(101, np.random.default_rng(3))
    asked = [single.ask(visitors.contexts[[i]]).lists for i in range(100)]
    rewards = visitors.answer(np.concatenate([*asked, asked[-1]]))[:100]
    decisions = whole.ask(visitors.contexts[:100])
    np.testing.assert_array_equal(decisions.lists, np.concatenate(asked))
    single = cb.AdaptiveComband(problem, policies, epsilon=0.01, first_epoch=100, seed=4)
    for i in range(100):
        single.tell(single.ask(visitors.contexts[[i]]), rewards[[i]])
    whole.tell(decisions, rewards)
    np.testing.assert_array_equal(single.ask(visitors.contexts[100:]).lists, whole.ask(visitors.contexts[100:]).lists)
    assert len(single.epochs) == 2
    np.testing.assert_allclose(single.evidence.values.means, whole.evidence.values.means, rtol=1e-12)
    assert (rewards.sum(axis=1) > 0).sum() > 2
