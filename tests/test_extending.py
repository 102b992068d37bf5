"""Parts of one's own, made here alone and passed in: nothing in comband is changed for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import comband as cb
from comband.certify.notifications import Entered, Guard, Moment
from comband.evaluation.logs import LogFormat
from comband.evaluation.logs.columns import as_floats, as_keys
from comband.evaluation.logs.formats import RawRounds
from comband.explore import design
from comband.explore.explorers import Explorer, MixtureExplorer, Standing
from comband.worlds.testing import EnvironmentSuite, check

PROBLEM = cb.Problem(n_actions=12, list_size=3, sparsity=1)
SHOP = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
CANDIDATES = SHOP.candidates(6, seed=1)


class FewRewards(Guard):
    """Warns when hardly any round is rewarded, as when clicks are no longer logged."""

    def __init__(self) -> None:
        self.rounds = self.rewarded = 0

    def observe(self, moment: Moment) -> None:
        if isinstance(moment, Entered):
            self.rounds += moment.block.n_rounds
            self.rewarded += len(moment.block.ids)

    @property
    def warning(self) -> str:
        silent = self.rounds >= 1000 and self.rewarded < 0.001 * self.rounds
        return "hardly any round is rewarded: are clicks still logged?" if silent else ""


def test_a_guard_of_ones_own() -> None:
    quiet = cb.AdaptiveComband(PROBLEM, CANDIDATES, epsilon=0.05, guards=[FewRewards()], seed=1)
    cb.run(quiet, SHOP, batch_size=100, max_rounds=3000)
    assert not any("hardly any round" in note for note in quiet.result().warnings)

    silent = cb.AdaptiveComband(PROBLEM, CANDIDATES, epsilon=0.05, guards=[FewRewards()], seed=1)
    for _ in range(12):
        decisions = silent.ask(SHOP.sample(100, np.random.default_rng(2)).contexts)
        silent.tell(decisions, np.zeros((100, 3)))
    assert any("hardly any round is rewarded" in note for note in silent.result().warnings)


@dataclass(frozen=True)
class LeaderFirst:
    """Half of the lists are the leader's; the other candidates share the rest, over a tenth of uniform lists."""

    def plan(self, standing: Standing) -> Explorer:
        rivals = max(len(standing.candidates) - 1, 1)
        weights = np.zeros(len(standing.policies))
        weights[standing.candidates] = 0.5 / rivals
        weights[standing.candidates[standing.leader]] = 0.5
        return MixtureExplorer(
            standing.policies, standing.candidates, weights=weights / weights.sum(), floor=0.1, problem=PROBLEM
        )


def test_an_exploration_of_ones_own() -> None:
    learner = cb.certify.CertifyingLearner(PROBLEM, CANDIDATES, exploration=LeaderFirst(), epsilon=0.05, seed=3)
    result = cb.run(learner, SHOP, batch_size=200, max_rounds=30_000).result
    truth = SHOP.values(CANDIDATES)
    assert result.epsilon <= 0.05
    assert truth.max() - truth[result.index] <= result.epsilon


COLUMNS = ("visitor", "banner", "bought", "drawn_with")


def _rounds(table: Any, list_size: int, context: Any, faults: Any) -> Iterator[RawRounds]:
    for piece in table.pieces([*COLUMNS], faults):
        bought, drawn = (as_floats(piece.columns[name]).values for name in COLUMNS[2:])
        visitor, banner = (as_keys(piece.columns[name]).values for name in COLUMNS[:2])
        yield RawRounds(piece.rows, None, visitor, banner[:, None], bought[:, None], drawn[:, None])


def test_a_log_format_of_ones_own(tmp_path: Path) -> None:
    banners = LogFormat("banners", _rounds, COLUMNS, "each row is one banner", slots=1)
    rng = np.random.default_rng(4)
    shown = rng.integers(0, 4, 2000)
    bought = (rng.random(2000) < 0.1 + 0.2 * (shown == 2)).astype(int)
    rows = [f"{i},{y},{r},0.25" for i, (y, r) in enumerate(zip(shown, bought, strict=True))]
    log, lists = tmp_path / "log.csv", tmp_path / "lists.csv"
    log.write_text("\n".join([",".join(COLUMNS), *rows]), encoding="utf-8")
    always = [f"{i},always {y},{y}" for i in range(2000) for y in range(4)]
    lists.write_text("\n".join(["context,candidate,item_0", *always]), encoding="utf-8")
    reading = cb.read_log(log, cb.read_candidates(lists), format=banners)
    answer = cb.evaluate_log(reading)
    assert answer.evaluation.best.name == "always 2"
    expected = bought[shown == 2].sum() / 0.25 / 2000
    assert answer.evaluation.best.value == pytest.approx(expected)


def average(potential: Any, active: Any, found: Any, state: Any, step: int) -> bool:
    """All columns found so far alike: steps of 1/(t + 1), no line search, no constants."""
    place = active.add(type(found)(found.keys[:1], found.bits[:1], found.scores[:1]))[0]
    weights = active.weights * step / (step + 1)
    weights[place] += 1 / (step + 1)
    active.set_weights(weights)
    return True


def test_a_step_rule_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(design.SOLVERS, "average", average)
    mixture = cb.Mixture(CANDIDATES, np.full(6, 1 / 6), problem=PROBLEM, floor=1.0)
    batch = SHOP.sample(3000, np.random.default_rng(6))
    decisions = mixture.draw(batch.contexts, 7)
    rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
    enough = cb.explore.solvers.Stopping(relative_gap=1e-3, max_steps=5000)
    found = {
        solver: cb.design_exploration(rounds, CANDIDATES, problem=PROBLEM, solver=solver, stopping=enough)
        for solver in ("average", "corrective")
    }
    assert found["average"].relative_gap <= 1e-3
    gaps = found["average"].gap + found["corrective"].gap
    assert abs(found["average"].value - found["corrective"].value) <= gaps


class Coin:
    """One of two items pays with probability 0.3, the other with 0.6; contexts mean nothing."""

    problem = cb.Problem(n_actions=2, list_size=1, sparsity=1)

    def sample(self, n: int, rng: np.random.Generator) -> cb.Batch:
        pays = rng.random(n)
        # At most one of them per round: the second where the first does not.
        rewards = np.column_stack([pays < 0.3, pays > 0.4])
        return cb.Batch(np.zeros((n, 1)), sp.csr_array(rewards.astype(float)), self.problem)

    def values(self, policies: cb.PolicySet) -> Any:
        shown = policies.predict(np.zeros((1, 1)))[0, :, 0]
        return np.array([0.3, 0.6])[shown]


def test_an_environment_of_ones_own() -> None:
    sides = cb.PolicySet([cb.ConstantPolicy([side], Coin.problem) for side in (0, 1)])

    class TestCoin(EnvironmentSuite):
        def environment(self) -> Coin:
            return Coin()

        def policies(self) -> cb.PolicySet:
            return sides

    check(TestCoin)
    learner = cb.AdaptiveComband(Coin.problem, sides, epsilon=0.1, seed=5)
    assert cb.run(learner, Coin(), batch_size=50, max_rounds=20_000).result.index == 1
