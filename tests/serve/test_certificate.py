"""The chain of a service, and the certificate that is made of it."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from comband.certify.verify import Report, verify
from comband.commands.cli import app
from comband.page.problem import InputError
from comband.serve import housekeeping
from comband.serve.certificates import UnfinishedError
from comband.serve.housekeeping import removable
from comband.serve.service import Service
from comband.serve.wire import Clone, Decision, DecisionRequest, FieldChange, RewardPost
from tests.serve.test_life_cycle import aged, play_until_removable
from tests.serve.worlds import NAMES, World, caught_up, listening, play, service, spec
from tests.waiting import LIMIT


async def ended(made: Service, name: str = "test") -> str:
    """The head of an experiment that is brought to its end."""
    await made.set_state(name, "ended")
    for _ in range(int(LIMIT / 0.02)):
        found = made.head(name)
        if found.ended:
            return found.head
        await asyncio.sleep(0.02)
    raise AssertionError("the chain does not end")


def checked(made: Service, path: Path, heads: list[str], name: str = "test") -> Report:
    """What the verifier says of the certificate."""
    made.certificate(name, str(path / "certificate.zip"))
    return verify(str(path / "certificate.zip"), heads)


OPTIONS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "undecided": {"epsilon": 0.001, "best": 0.04},
    "all lists": {"audited": 1.0},
    "places": {"places": [1.0, 0.6, 0.3], "order": "random"},
    "pairs": {"places": "pairs"},
    "fallback": {"fallback": "second"},
    "nothing": {"fallback": "nothing"},
    "period": {"period": 24, "block": 12, "epsilon": 0.02},
    "recent": {"recent": 140, "epsilon": 0.001, "best": 0.04},
    "open field": {"open_field": True},
    "exposure": {"production": "second", "exposure": 0.5},
    "reward": {"production": "second", "objective": "reward", "max_loss": 40.0},
    "budget": {"epsilon": None, "max_rounds": 300},
    "patience": {"patience": 64},
    "tickets": {"tickets": True, "seed": None},
    "scores": {"prior_scores": [0.3, 0.1, 0.1, 0.1, 0.1, 0.1]},
    "digests": {"digests": ["a1", None, "b2", "c3", "d4", "e5"]},
}


class WithTickets(World):
    """Rewards name decisions by their tickets."""

    def post(self, number: int, decision: Decision) -> RewardPost:
        return RewardPost(decision.ticket, self.rewards(number, decision.items))


@pytest.mark.parametrize("option", OPTIONS)
def test_the_certificate_of_an_experiment_is_verified(tmp_path: Path, option: str) -> None:
    async def run() -> None:
        more = dict(OPTIONS[option])
        world = (WithTickets if more.get("tickets") else World)(best=more.pop("best", 0.25))
        with service(tmp_path) as made:
            await made.create(spec(**more))
            heads = [made.head("test").head]
            await play(made, world, 0, 208)
            heads.append(made.head("test").head)
            await play(made, world, 208, 400)
            with pytest.raises(UnfinishedError):
                made.certificate("test", str(tmp_path / "early.zip"))
            heads.append(await ended(made))
            found = checked(made, tmp_path, heads)
        assert found.verified, found.reason
        assert not any("unknown" in line for line in found.not_checked), found.not_checked
        drawn = [line for line in found.checked if "are what the seed draws" in line]
        assert (option == "pairs") == drawn[0].startswith("0 of")

    asyncio.run(run())


def test_candidates_that_come_and_go(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(best=0.04)
        with service(tmp_path) as made:
            await made.create(spec(open_field=True, fallback="second", epsilon=0.001))
            await play(made, world, 0, 128)
            await made.change_field("test", FieldChange(add="new", digest="f6"))
            await play(made, world, 128, 256)
            await made.change_field("test", FieldChange(withdraw="best"))
            await made.change_field("test", FieldChange(withdraw="other 1", planned=True))
            await play(made, world, 256, 400)
            head = await ended(made)
            found = checked(made, tmp_path, [head])
        assert found.verified, found.reason
        with zipfile.ZipFile(tmp_path / "certificate.zip") as file:
            lines = [json.loads(line) for line in file.read("chain.jsonl").splitlines()]
            claim = json.loads(file.read("bundle.json"))["claim"]
        changes = [line for line in lines if line["kind"] == "change"]
        assert [(one["arrivals"], one["withdrawn"], one["planned"]) for one in changes] == [
            (["new"], [], False),
            ([], [0], False),
            ([], [3], True),
        ]
        assert changes[0]["digests"] == ["f6"]
        assert claim["delta"] == pytest.approx(0.1)

    asyncio.run(run())


def test_answers_that_never_come_are_counted(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(best=0.04)
        with service(tmp_path) as made:
            await made.create(spec(window_seconds=1.0, epsilon=0.001))
            decisions = await made.decide("test", [world.request(i) for i in range(96)])
            await made.reward("test", [world.post(i, decisions[i]) for i in range(0, 96, 2)])
            head = await ended(made)
            found = checked(made, tmp_path, [head])
        assert found.verified, found.reason
        assert any("(48)" in line for line in found.checked)

    asyncio.run(run())


def test_what_is_removed_by_age_leaves_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "LOOKED_BACK_ON", 0)

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01, audited=0.1))
            n = await play_until_removable(made, 96)
            heads = [made.head("test").head]
            assert aged(made, 1, removable(made.journal)[1], made.journal.wall() + 1) > 30
            await play(made, World(), n, n + 64)
            heads.append(await ended(made))
            found = checked(made, tmp_path, heads)
        assert found.verified, found.reason

    asyncio.run(run())


def test_a_clone_knows_the_digests_of_those_who_are_there(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(fallback="second", digests=["a", "b", "c", None, "e", "f"]))
            await made.change_field("test", FieldChange(add="new", withdraw="best", planned=True, digest="n"))
            copy = await made.clone("test", Clone(name="copy"))
            assert copy.spec.candidates == [*NAMES[1:], "new"]
            assert copy.spec.digests == ["b", "c", None, "e", "f", "n"]

    asyncio.run(run())


def test_no_chain_where_none_is_wanted_or_possible(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec("without", audited=None))
            await made.create(spec("natural", places=[1.0, 0.6, 0.3]))
            for name in ("without", "natural"):
                await play(made, World(), 0, 32, name=name)
                with pytest.raises(InputError, match="no chain is kept"):
                    made.head(name)
                with pytest.raises(InputError, match="no chain is kept"):
                    made.certificate(name, str(tmp_path / "none.zip"))
            with pytest.raises(InputError, match="probabilities of places"):
                await made.create(spec("both", places=[1.0, 0.6, 0.3], order="natural", audited=0.1))
            with pytest.raises(InputError, match="digests must be one for each of the 6"):
                await made.create(spec("few", digests=["a"]))

    asyncio.run(run())


def test_two_processes_and_a_learner_that_is_replaced(tmp_path: Path) -> None:
    """Decisions of both, by plans of the one that learns; then the other learns from the last snapshot on."""

    async def run() -> None:
        world = World(best=0.04)
        with service(tmp_path, learn=False) as other:
            with service(tmp_path) as made:
                await made.create(spec(epsilon=0.001))
                await play(made, world, 0, 160)
                await play(made, world, 160, 256)
                other.experiments.refresh()
                decisions = await other.decide("test", [world.request(i) for i in range(256, 288)])
                await other.reward("test", [world.post(256 + i, one) for i, one in enumerate(decisions)])
                await caught_up(made)
                heads = [other.head("test").head]
            with service(tmp_path) as made:
                await play(made, world, 288, 400)
                heads.append(await ended(made))
                found = checked(made, tmp_path, heads)
        assert found.verified, found.reason

    asyncio.run(run())


def forged(path: Path, name: str, change: Any) -> Report:
    """The verdict on a bundle of which one part is another one."""
    with zipfile.ZipFile(path / "certificate.zip") as file:
        parts = {one: file.read(one) for one in file.namelist()}
    parts[name] = change(parts[name])
    with zipfile.ZipFile(path / "forged.zip", "w") as file:
        for one, data in parts.items():
            file.writestr(one, data)
    return verify(str(path / "forged.zip"))


def test_what_was_changed_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.001, audited=0.2))
            await play(made, World(best=0.04), 0, 400)
            await ended(made)
            assert checked(made, tmp_path, []).verified

    asyncio.run(run())
    with zipfile.ZipFile(tmp_path / "certificate.zip") as file:
        names = [name for name in file.namelist() if name != "verify.py"]
        assert {"decisions.leaves.npy", "answers.rewards.npy", "lists.0.requests.json"} <= set(names)
    rng = np.random.default_rng(1)
    for name in names:
        for _ in range(8):

            def flip(data: bytes, start: int = 128 if name.endswith(".npy") else 0) -> bytes:
                at = int(rng.integers(start, len(data)))
                return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]

            found = forged(tmp_path, name, flip)
            assert not found.verified, name
            assert found.reason


def test_a_request_that_comes_again_adds_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(best=0.04)
        with service(tmp_path) as made:
            await made.create(spec())
            asked: list[DecisionRequest] = [world.request(i) for i in range(8)]
            first = await made.decide("test", asked)
            head = made.head("test")
            assert await made.decide("test", asked) == first
            assert made.head("test") == head
            both = await made.decide("test", [asked[3], world.request(8), asked[5]])
            assert [one.decision for one in both] == [3, 8, 5]
            await made.reward("test", [world.post(i, one) for i, one in enumerate(first)])
            await made.reward("test", [world.post(8, both[1])])
            last = await ended(made)
            assert checked(made, tmp_path, [head.head, last]).verified

    asyncio.run(run())


def test_the_command_asks_a_service(tmp_path: Path) -> None:
    async def run(made: Service) -> None:
        await made.create(spec(window_seconds=0.5))
        await made.decide("test", [World().request(0)])

    with service(tmp_path) as made, listening(made) as address:
        asyncio.run(run(made))
        where = f"{address}/v1/experiments/test"
        early = CliRunner().invoke(app, ["certificate", where])
        assert early.exit_code == 1
        assert "reveals the secret seed" in early.output
        asyncio.run(ended(made))
        found = CliRunner().invoke(app, ["certificate", where, "--head", made.head("test").head])
        assert found.exit_code == 0, found.output
        assert found.output.rstrip().endswith("VERIFIED")
        wrong = CliRunner().invoke(app, ["certificate", f"{address}/test"])
        assert "ends with /v1/experiments/NAME" in wrong.output


def test_names_are_those_of_the_field() -> None:
    assert len(NAMES) == len(OPTIONS["digests"]["digests"])
