"""One process: lists in, the list to show out, rewards, and a winner; the same after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import comband as cb
from comband.certify.epochs import Epoch
from comband.explore.explorers import DisagreementExplorer
from comband.page.problem import InputError
from comband.policies import RequestedLists
from comband.serve.deciding import GivenNumbers, Plan, pack_plan
from comband.serve.digests import uniform_numbers
from comband.serve.journal import STRIDE, NotRunningError, TakenError
from comband.serve.requests import Reader, problem_of
from comband.serve.service import RepeatedRequestError, Service
from comband.serve.wire import DecisionRequest, RewardPost
from comband.statistics import Bets
from tests.serve.worlds import NAMES, M, World, caught_up, numbered, play, service, serving, spec
from tests.waiting import wait_for


def state_of(made: Service, name: str = "test") -> dict[str, object]:
    """What the learner knows, without the number that tells copies of it apart."""
    assert made.learners is not None
    learning = made.learners.learning(made.experiments.find(name).experiment.id)
    assert learning is not None
    state = learning.learner.state()
    del state["ledger"]["makers"]
    return {"position": learning.position, **state}


def same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def test_a_winner_is_certified_and_then_shown(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec())
            world = World()
            for start in range(0, 3000, 160):
                await play(made, world, start, start + 160)
                plan = made.experiments.find("test").plan
                assert plan is not None
                if plan.winner is not None:
                    break
            assert plan is not None
            assert plan.winner == 0
            wait_for(lambda: made.queries.status("test")["winner"], "people are told")
            status = made.queries.status("test")
            assert status["winner"] == "best"
            assert status["is_certified"]
            assert status["certified"] <= 0.1
            assert status["answer"].startswith(
                "Decided: best. With probability 0.95 no candidate is better by more than"
            )
            result = made.queries.result("test")
            assert result is not None
            assert result["best"] == "best"
            assert result["final"]
            [after] = await made.decide("test", [world.request(9999)])
            assert after.items == world.lists(9999)["best"]
            assert after.propensities == [1.0] * M
            assert set(after.not_needed) == set(NAMES) - {"best"}
            history = made.queries.history("test")
            assert history["points"][-1]["done"]
            assert sum(one["decisions"] for one in history["minutes"]) == start + 161

    asyncio.run(run())


def test_the_learner_is_the_librarys_own_on_the_same_tables(tmp_path: Path) -> None:
    """Items are numbered within a request; the library, given the same tables and numbers, comes to the same."""

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01))
            world = World(3, best=0.05)
            await play(made, world, 0, 320)
            theirs = state_of(made)
            assert len(made.journal.decisions(1, 0, 320)) == 320
        made_of = spec(epsilon=0.01)
        problem = cb.Problem(len(NAMES) * M, M, sparsity=1)
        learner = cb.AdaptiveComband(
            problem, RequestedLists(NAMES, problem), epsilon=0.01, first_epoch=made_of.first_epoch, seed=5
        )
        for start in range(0, 320, 16):
            tables, keys = numbered([world.lists(number) for number in range(start, start + 16)])
            numbers = uniform_numbers(f"{5:064x}", [f"r{i}" for i in range(start, start + 16)])
            k = len(learner.epochs) - 1
            drawn = learner.epochs[k].explorer.draw(tables, GivenNumbers(numbers), epoch=k).decisions
            rewards = [
                [value for _, value in world.rewards(start + i, [keys[i][item] for item in shown])]
                for i, shown in enumerate(drawn.lists)
            ]
            decisions = learner.adopt(drawn)
            learner.tell(decisions, rewards)
        mine = learner.state()["learnt"]
        learnt = theirs["learnt"]
        assert isinstance(learnt, dict)
        np.testing.assert_array_equal(mine["evidence"]["log_wealth"], learnt["evidence"]["log_wealth"])
        assert same(mine["verdict"], learnt["verdict"])
        assert len(mine["epochs"]) == len(learnt["epochs"]) > 2

    asyncio.run(run())


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_restarted_service_goes_on_as_if_it_had_never_stopped(tmp_path: Path, snapshots: bool) -> None:
    async def run() -> None:
        states = []
        for stops in ([], [160, 208, 336]):
            folder = tmp_path / str(len(stops))
            folder.mkdir()
            made = serving(folder)
            await made.create(spec(epsilon=0.01))
            first = 0
            for stop in [*stops, 480]:
                await play(made, World(best=0.05), first, stop, size=16)
                first = stop
                if stop != 480:
                    if not snapshots and made.learners is not None:
                        made.learners._learning.clear()  # it leaves without saving
                    made.close()
                    made = serving(folder)
            await caught_up(made)
            states.append(state_of(made))
            made.close()
        assert same(states[0], states[1])

    asyncio.run(run())


def test_the_same_request_gets_the_same_decision(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec())
            world = World()
            [first] = await made.decide("test", [world.request(1)])
            [again] = await made.decide("test", [world.request(1)])
            assert again == first
            twice = await made.decide("test", [world.request(2), world.request(2)])
            assert twice[0] == twice[1]
            assert twice[0].decision == 1
            with pytest.raises(RepeatedRequestError):
                await made.decide("test", [DecisionRequest(lists=world.lists(3), request="r1")])
            turned = {name: items[::-1] if name == "best" else items for name, items in world.lists(1).items()}
            fewer = {name: items for name, items in world.lists(1).items() if name != "other 3"}
            for lists in (turned, {**fewer, "other 3": world.lists(1)["other 2"]}):  # the same items, and other lists
                with pytest.raises(RepeatedRequestError):
                    await made.decide("test", [DecisionRequest(lists=lists, request="r1")])
            assert made.journal.counts(1)[0] == 2
            without = await made.decide("test", [DecisionRequest(lists=world.lists(4))])
            assert len(without[0].request) == 32

    asyncio.run(run())


def test_rewards_and_what_becomes_of_them(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(window_seconds=1000))
            world = World()
            clock = made.journal.wall()
            made.journal.wall = lambda: clock  # type: ignore[method-assign]
            [one, two] = await made.decide("test", [world.request(1), world.request(2)])
            a, b, c = one.items
            receipt = await made.reward("test", [RewardPost(one.decision, [(b, 1.0)])])  # in parts, the last first
            assert (receipt.accepted, receipt.duplicates, receipt.faults) == (1, 0, [])
            receipt = await made.reward("test", [RewardPost(one.decision, [(a, 0.0), (b, 1.0)])])  # b again: harmless
            assert (receipt.accepted, receipt.duplicates, receipt.faults) == (1, 1, [])
            posts = [
                RewardPost(one.decision, [(b, 0.5)]),
                RewardPost(one.decision, [("never shown", 1.0)]),
                RewardPost(77, [(a, 1.0)]),
                RewardPost(one.decision, [(c, 1.0)]),
            ]
            receipt = await made.reward("test", posts)
            assert receipt.accepted == receipt.duplicates == 0
            outcomes = [fault.outcome for fault in receipt.faults]
            assert outcomes == ["contradiction", "not shown", "unknown", "too much"]
            clock += 999_000  # a quarter of an hour later, out of order
            receipt = await made.reward("test", [RewardPost(two.decision, [(two.items[0], 1.0)])])
            assert receipt.accepted == 1
            clock += 2_000  # after the window
            receipt = await made.reward("test", [RewardPost(two.decision, [(two.items[1], 0.0)])])
            assert [fault.outcome for fault in receipt.faults] == ["late"]
            receipt = await made.reward("test", [RewardPost(two.decision, [(two.items[1], 0.0)])])
            assert (receipt.accepted, receipt.duplicates) == (0, 1)
            assert made.journal.rewards(1, 0, 10) == [(0, 0, 0.0), (0, 1, 1.0), (1, 0, 1.0)]

    asyncio.run(run())


def test_rewards_never_reach_another_experiment(tmp_path: Path) -> None:
    """Numbers of decisions are as large as they like: those of others are none of this experiment's."""

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec("mine"))
            await made.create(spec("theirs"))
            world = World()
            [theirs] = await made.decide("theirs", [world.request(1)])
            ids = [made.experiments.find(name).experiment.id for name in ("mine", "theirs")]
            far = (ids[1] - ids[0]) * STRIDE + theirs.decision
            [fault] = (await made.reward("mine", [RewardPost(far, [(theirs.items[0], 1.0)])])).faults
            assert "unknown" in str(fault)
            assert made.journal.rewards(ids[1], 0, 1) == []

    asyncio.run(run())


def test_a_plan_needs_all_whom_its_epoch_compares() -> None:
    """Also who was dropped when it was published: the evidence of the epoch is about them, too."""
    stated = spec(candidates=["a", "b", "c"], list_size=1)
    reader = Reader(stated, stated.candidates)
    problem = problem_of(stated)
    explorer = DisagreementExplorer(
        RequestedLists(reader.names, problem),
        [0, 1, 2],
        leader=1,
        attention=[1, 0, 1],
        smallest_disputed=0.2,
        problem=problem,
    )
    bets = Bets.choose(1, np.array([0.1, 0.0, 0.1]), 1 / explorer.smallest_disputed)
    epoch = Epoch(1, explorer, bets, 1 / explorer.smallest, 0.1, np.zeros(3), 0, 0)
    plan = Plan.unpacked(7, pack_plan(epoch, None, np.array([True, True, False]), 0), reader)
    assert plan.needed.tolist() == [True, True, True]
    with pytest.raises(InputError, match="1 candidates that are still compared have no list, the first of them 'c'"):
        reader.scan(b'{"lists": {"a": ["x"], "b": ["y"]}, "request": "1"}', plan.needed)


def test_a_clock_that_is_set_back_stands_still(tmp_path: Path) -> None:
    """Decisions keep their order and their window; nothing is settled early, and nothing late is let in."""

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(window_seconds=100, block=1))
            world, now = World(), made.journal.wall()
            made.journal.wall = lambda: now  # type: ignore[method-assign]
            [first] = await made.decide("test", [world.request(1)])
            now -= 3_600_000
            [second] = await made.decide("test", [world.request(2)])
            times = [row.time for row in made.journal.decisions(1, 0, 2)]
            assert times[0] == times[1]
            receipt = await made.reward("test", [world.post(2, second)])
            assert receipt.accepted == M
            assert made.journal.counts(1)[1] == 0  # the first one still waits
            now += 3_600_000 + 101_000
            await caught_up(made)
            assert made.journal.counts(1)[1] == 2
            now -= 3_600_000  # set back again: what is settled stays so
            receipt = await made.reward("test", [world.post(1, first)])
            assert {fault.outcome for fault in receipt.faults} == {"late"}

    asyncio.run(run())


def test_decisions_without_any_answer_count_when_their_window_is_over(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(window_seconds=0.3, block=4))
            world = World()
            decisions = await made.decide("test", [world.request(i) for i in range(8)])
            await made.reward("test", [RewardPost(decisions[5].decision, [(decisions[5].items[0], 1.0)])])
            await caught_up(made)
            assert made.learners is not None
            learning = made.learners.learning(1)
            assert learning is not None
            assert learning.position == learning.learner.rounds == 8
            assert learning.learner.evidence.reward == 1.0

    asyncio.run(run())


def test_paused_resumed_and_ended(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(block=16, window_seconds=1000))
            world = World()
            [one] = await made.decide("test", [world.request(0)])
            assert await made.set_state("test", "paused") == "running"
            with pytest.raises(NotRunningError, match="paused"):
                await made.decide("test", [world.request(1)])
            assert await made.decide("test", [world.request(0)]) == [one]  # its answer may have been lost
            assert (await made.reward("test", [world.post(0, one)])).accepted == M
            assert await made.set_state("test", "running") == "paused"
            more = await made.decide("test", [world.request(i) for i in range(1, 5)])
            assert await made.set_state("test", "ended") == "running"
            with pytest.raises(NotRunningError, match="ended"):
                await made.decide("test", [world.request(9)])
            assert await made.set_state("test", "running") is None
            await made.reward("test", [world.post(i + 1, one) for i, one in enumerate(more)])
            # The last block is not whole, and is taken in all the same.
            wait_for(lambda: made.journal.counts(1)[1] == 5, "all is settled")

    asyncio.run(run())


def test_candidates_that_do_not_answer_have_the_list_of_the_fallback(tmp_path: Path) -> None:
    """Half of the requests lack the lists of all but the fallback: what is learnt is what a table with the fallback's
    lists in their places would have taught.
    """

    async def run() -> None:
        states = []
        for filled in (False, True):
            folder = tmp_path / str(filled)
            folder.mkdir()
            with service(folder) as made:
                await made.create(spec(fallback="second", epsilon=0.01))
                world = World(4, best=0.05)
                for start in range(0, 320, 16):
                    asked = []
                    for number in range(start, start + 16):
                        lists = world.lists(number)
                        if number % 2:
                            some = {"second": lists["second"]}
                            lists = dict.fromkeys(NAMES, lists["second"]) if filled else some
                        asked.append(DecisionRequest(lists=lists, request=f"r{number}"))
                    decisions = await made.decide("test", asked)
                    await made.reward("test", [world.post(start + i, one) for i, one in enumerate(decisions)])
                    await caught_up(made)
                states.append(state_of(made))
        assert same(states[0], states[1])

    asyncio.run(run())


def test_requests_that_are_refused_leave_no_trace(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec())
            await made.create(spec("with-fallback", fallback="best"))
            lists = World().lists(0)
            wrong = [
                ({**lists, "best": ["a", "b"]}, "3 items"),
                ({**lists, "best": ["a", "b", "a"]}, "twice"),
                ({**lists, "nobody": ["a", "b", "c"]}, "no candidate"),
                ({"best": lists["best"]}, "5 candidates that are still compared"),
                ([["a", "b", "c"]], "one entry for each of the 6"),
                (None, "lists"),
                ([None] * 6, "no candidate has a list"),
            ]
            for given, message in wrong:
                with pytest.raises(InputError, match=message):
                    await made.decide("test", [DecisionRequest(lists=given)])  # type: ignore[arg-type]
            with pytest.raises(InputError, match="fallback 'best' must be in every request"):
                await made.decide("with-fallback", [DecisionRequest(lists={"second": lists["second"]})])
            with pytest.raises(InputError, match="context"):
                await made.decide("test", [DecisionRequest(context=[1.0])])
            with pytest.raises(TakenError):
                await made.create(spec())
            for more, message in (
                ({"candidates": ["a", "a"]}, "differ"),
                ({"fallback": "nobody"}, "fallback"),
                ({"epsilon": 2.0}, "epsilon"),
                ({"models": "x"}, "started with"),
            ):
                with pytest.raises(InputError, match=message):
                    await made.create(spec("other", **more))
            assert made.journal.counts(1)[0] == made.journal.counts(2)[0] == 0
            assert len(made.experiments.all()) == 2

    asyncio.run(run())


def test_models_in_the_service(tmp_path: Path) -> None:
    """Contexts in the request, policies in the process: the lists are theirs."""
    problem = cb.Problem(30, M)
    rng = np.random.default_rng(0)
    policies = cb.PolicySet.linear(rng.standard_normal((4, 5, 30)), problem, names=["a", "b", "c", "d"])

    async def run() -> None:
        with service(tmp_path, models={"mine": lambda: policies}) as made:
            await made.create(spec(candidates=["a", "b", "c", "d"], models="mine"))
            X = rng.standard_normal((20, 5))
            asked = [DecisionRequest(context=x.tolist(), request=f"r{i}") for i, x in enumerate(X)]
            decisions = await made.decide("test", asked)
            for lists, one in zip(policies.predict(X).tolist(), decisions, strict=True):
                assert set(one.items) <= {item for row in lists for item in row}
                assert one.not_needed == []
            assert await made.decide("test", asked[:1]) == decisions[:1]
            with pytest.raises(InputError, match="context"):
                await made.decide("test", [DecisionRequest(lists=[[1, 2, 3]] * 4)])
            with pytest.raises(InputError, match="one length"):
                await made.decide("test", [asked[0], DecisionRequest(context=[1.0])])

    asyncio.run(run())
