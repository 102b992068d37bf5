"""Claim of comband: AdaptiveComband certifies a winner in fewer rounds than the usual ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from comband.certify import CertifyingLearner
from comband.certify.ab_test import ABTest
from comband.certify.adaptive import AdaptiveComband
from comband.certify.uniform_lists import UniformLists
from comband.certify.uniform_mixture import UniformMixture
from comband.page.problem import Problem
from comband.paper.checks import LargestFrequency, Ratio
from comband.paper.claim import Claim, Plan, grid
from comband.paper.figures import COLOURS, MARKERS, panel
from comband.paper.records import Record, Setting, Values
from comband.worlds.running import run
from comband.worlds.synthetic import SyntheticRecommender

LEARNERS: dict[str, type[CertifyingLearner]] = {
    "AdaptiveComband": AdaptiveComband,
    "uniform mixture": UniformMixture,
    "uniform lists": UniformLists,
    "A/B/n test": ABTest,
}


def measure(setting: Setting, seed: int) -> Values:
    """Rounds until each learner certifies, and whether what it certified is true."""
    problem = Problem(setting["K"], 5, 1)
    world = SyntheticRecommender(problem, click_rate=0.3, n_users=500, seed=seed)
    policies = world.candidates(setting["P"], kind=setting["kind"], seed=seed + 1000)
    truth = world.values(policies)
    values: dict[str, Any] = {"trials": 0, "wrong": 0}
    for name, kind in LEARNERS.items():
        learner = kind(problem, policies, epsilon=setting["epsilon"], delta=0.05, max_rounds=setting["most"], seed=seed)
        result = run(learner, world, batch_size=200, seed=seed + 2000).result
        values[name] = result.rounds
        certified = result.epsilon <= setting["epsilon"]
        values["trials"] += certified
        values["wrong"] += certified and truth.max() - truth[result.index] > setting["epsilon"]
    return values


def draw(records: Sequence[Record], figure: Any) -> None:
    """Rounds of every run by learner."""
    groups = sorted({(r["K"], r["kind"]) for r in records})
    for axes, (K, kind) in zip(np.atleast_1d(figure.subplots(1, len(groups))), groups, strict=True):
        panel(axes, f"K={K}, {kind} candidates", "", "rounds to a certified winner", log="y")
        chosen = [r for r in records if (r["K"], r["kind"]) == (K, kind)]
        for number, name in enumerate(LEARNERS):
            rounds = [r[name] for r in chosen]
            axes.plot(
                np.linspace(number - 0.2, number + 0.2, len(rounds)), rounds, MARKERS[number], color=COLOURS[number]
            )
            axes.hlines(np.mean(rounds), number - 0.35, number + 0.35, color=COLOURS[number], linewidth=2.5)
        axes.set_xticks(
            range(len(LEARNERS)), [name.replace(" ", "\n").replace("Adaptive", "Adaptive\n") for name in LEARNERS]
        )
        axes.tick_params(axis="x", labelsize=10)


def _ratio(name: str) -> Ratio:
    return Ratio(f"Rounds of AdaptiveComband over those of: {name}", "AdaptiveComband", name, (0, 0.9))


CLAIM = Claim(
    name="certification",
    title="AdaptiveComband certifies a winner in fewer rounds than the usual ways",
    source="comband's own claim; the paper's s·m/ε² in practice",
    statement="With probability 95% the certified policy is within ε of the best candidate, and getting there takes "
    "fewer rounds than an A/B/n test, uniform lists or a uniform mixture of the candidates.",
    method="A synthetic shop with lists of m = 5, one click per round at most, and 40 candidate rankers. All four "
    "learners use the same betting evidence and stopping rule and differ only in what they show. Runs stop at a limit "
    "of rounds, and then count as that limit.",
    checks=(
        *(_ratio(name) for name in LEARNERS if name != "AdaptiveComband"),
        LargestFrequency(
            "Share of certificates that are wrong (promised: at most 5%)", "wrong", "trials", ("K",), (0, 0.2)
        ),
    ),
    quick=Plan(grid(K=[100], P=[40], kind=["clustered", "needle"], epsilon=[0.06], most=[40_000]), 10),
    full=Plan(grid(K=[100, 400], P=[40], kind=["clustered", "needle"], epsilon=[0.04], most=[200_000]), 10),
    measure=measure,
    draw=draw,
    remarks="Runs that hit the limit understate the cost of the baseline that hit it. The last check accepts up to "
    "20%, because a handful of runs cannot tell 5% from 10%; the guarantee itself is tested elsewhere.",
)
