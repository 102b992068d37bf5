"""What `warm_up` compiled is all that ask and tell need; whoever waits for it is told."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband._kernels import announcing

LIFE = """
import numpy as np
import comband as cb
from tests.compiled import compiled

rng = np.random.default_rng(1)
problem = cb.Problem(n_actions={n_actions}, list_size=4, sparsity=1)
lists = rng.permuted(np.tile(np.arange(30, dtype=np.int32), (9, 20, 1)), axis=2)[:, :, :4]
weights = rng.standard_normal((9, 6, {n_actions}))
sets = [cb.PolicySet.from_lists(lists, problem), cb.PolicySet.linear(weights, problem)]
learners = [cb.{name}(problem, policies, {arguments}) for policies in sets]
cb.warm_up({given})
before = compiled()
for linear, learner in enumerate(learners):
    for n in [1] * 30 + [100] * 12:
        X = rng.standard_normal((n, 6)) if linear else rng.integers(20, size=n)
        decisions = learner.ask(X)
        rewards = np.zeros((n, 4))
        rewards[rng.random(n) < 0.2, 1] = 1.0
        learner.tell(decisions, rewards)
print(len(before), sorted(compiled() - before))
"""


ARGUMENTS = {
    "AdaptiveComband": "epsilon=0.01",
    "UniformMixture": "epsilon=0.01",
    "PacComband": "n_explore=300, n_estimate=1000",
    "Exp4CombSparse": "horizon=2000",
}


@pytest.mark.parametrize(
    ("name", "given", "n_actions"),
    [
        *[(name, "learners[0]", 30) for name in ARGUMENTS],
        ("AdaptiveComband", "cb.AdaptiveComband", 30),
        ("AdaptiveComband", "learners[0]", 9000),
        *[pytest.param(name, f"cb.{name}", 30, marks=pytest.mark.slow) for name in list(ARGUMENTS)[1:]],
        *[
            pytest.param(name, "learners[0]", 9000, marks=pytest.mark.slow)
            for name in ("UniformMixture", "Exp4CombSparse")
        ],
    ],
)
def test_nothing_is_left_to_compile(name: str, given: str, n_actions: int) -> None:
    code = LIFE.format(name=name, arguments=ARGUMENTS[name], given=given, n_actions=n_actions)
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    count, rest = shown.stdout.split(maxsplit=1)
    assert int(count) > 5
    assert rest.strip() == "[]"
    assert announcing.TEXT not in shown.stderr  # nobody sits there


def test_learners_of_all_kinds_are_warmed_up_and_left_alone() -> None:
    problem = cb.Problem(n_actions=9, list_size=2, sparsity=1, feedback="total")
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]], [[4, 5]]], problem)
    learner = cb.PacComband(problem, policies, n_explore=50, n_estimate=50)
    assert cb.warm_up(learner, cb.SparseMSets, cb.SingleLabelComband, cb.ExploreThenCommit, cb.ABTest) > 0
    assert learner.rounds == 0
    for wrong in (problem, cb.PolicySet, "AdaptiveComband"):
        with pytest.raises(cb.InputError, match="warm_up takes learners"):
            cb.warm_up(wrong)


class Terminal(io.StringIO):
    def __init__(self, *, seen: bool) -> None:
        super().__init__()
        self._seen = seen

    def isatty(self) -> bool:
        return self._seen


def compile_some(listener: Any, module: str, clock: list[float], seconds: float) -> None:
    told = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})
    listener.on_start(told)
    listener.on_start(told)  # a loop that it calls
    clock[0] += seconds
    listener.on_end(told)
    listener.on_end(told)


@pytest.mark.parametrize(
    ("seen", "module", "seconds", "said"),
    [
        (True, "comband._kernels.lists", 0.7, 1),
        (False, "comband._kernels.lists", 0.7, 0),
        (True, "comband._kernels.lists", 0.1, 0),
        (True, "somebody.else", 0.7, 0),
    ],
)
def test_long_compilation_is_announced_on_a_terminal_once(
    seen: bool, module: str, seconds: float, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, terminal = [0.0], Terminal(seen=seen)
    monkeypatch.setattr("comband._kernels.announcing.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(sys, "stderr", terminal)
    listener = announcing.Announcer()
    for _ in range(2):
        compile_some(listener, module, clock, seconds)
    assert terminal.getvalue() == ""  # 1.4 seconds are over, and there may be nothing more to come
    for _ in range(4):
        compile_some(listener, module, clock, seconds)
    assert terminal.getvalue().count(announcing.TEXT) == said


def test_lists_longer_than_a_few_are_checked_for_repeats() -> None:
    rng = np.random.default_rng(3)
    problem = cb.Problem(n_actions=1000, list_size=40)
    lists = rng.permuted(np.tile(np.arange(1000, dtype=np.int32), (50, 1)), axis=1)[:, :40]
    assert (cb.TabulatedPolicy(lists, problem).lists == lists).all()
    for _ in range(20):
        spoilt = lists.copy()
        i, (j, k) = rng.integers(50), rng.choice(40, 2, replace=False)
        spoilt[i, j] = spoilt[i, k]
        with pytest.raises(cb.InputError, match=f"must not repeat an action.* in row {i}"):
            cb.TabulatedPolicy(spoilt, problem)
