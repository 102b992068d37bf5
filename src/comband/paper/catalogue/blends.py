"""Claim: a few representatives, chosen on contexts without rewards, stand for all blends of two scorers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from comband.page.problem import Problem
from comband.paper.checks import Largest, Slope
from comband.paper.claim import Claim, Plan, grid
from comband.paper.figures import limit, panel, trend
from comband.paper.records import Record, Setting, Values, group_by
from comband.policies.blended import BlendedPolicy, top_of_blends
from comband.policies.covers import cover_blends

PROBLEM, POOL, DELTA = Problem(20, 3, 1), 1500, 1e-6


def measure(setting: Setting, seed: int) -> Values:
    """η against the true largest disagreement, and what the best blend gains over the best representative."""
    rng = np.random.default_rng([seed, setting["contexts"]])
    a, b = rng.normal(size=(2, POOL, PROBLEM.n_actions))
    mixed = (1 - 0.4) * a + 0.4 * b + 0.7 * rng.normal(size=a.shape)
    label = mixed.argmax(axis=1)  # one paying action each: neither scorer alone is best
    policies = cover_blends(
        lambda X: a[np.asarray(X)],
        lambda X: b[np.asarray(X)],
        rng.integers(POOL, size=setting["contexts"]),
        problem=PROBLEM,
        disagreement=setting["share"],
        delta=DELTA,
        seed=seed,
    )
    cover, member = policies.cover, policies[0]
    assert cover is not None
    assert isinstance(member, BlendedPolicy)

    def lists(shares: Sequence[float]) -> Any:
        return np.sort(top_of_blends(a, b, np.array(shares), member.first.rank, PROBLEM.list_size), axis=2)

    chosen = lists(cover.shares)
    worst = 0.0
    for t in np.linspace(0, 1, 41):  # blends between the cells' ends and their representatives
        cell = next(k for k, (_, high) in enumerate(cover.edges) if t <= high)
        worst = max(worst, float((lists([t])[:, 0] != chosen[:, cell]).any(axis=1).mean()))
    for cell, (low, high) in enumerate(cover.edges):  # and at the ends, where they disagree most
        worst = max(worst, *(float((lists([t])[:, 0] != chosen[:, cell]).any(axis=1).mean()) for t in (low, high)))
    every = (lists(np.linspace(0, 1, 101).tolist()) == label[:, None, None]).any(axis=2).mean(axis=0)
    ours = (chosen == label[:, None, None]).any(axis=2).mean(axis=0)
    return {
        "representatives": len(policies),
        "disagreement": worst,
        "eta": cover.eta,
        "wrong": worst / cover.eta,
        "lost": (every.max() - ours.max()) / cover.eta,
    }


def draw(records: Sequence[Record], figure: Any) -> None:
    """Disagreement and its bound against the share; representatives against the share."""
    left, right = figure.subplots(1, 2)
    panel(left, "blends and their representatives", "share asked for", "probability of another list")
    for number, (n, group) in enumerate(group_by(records, "contexts").items()):
        trend(left, group, "share", "eta", label=f"bound η, {n:,} contexts", number=number)
        trend(left, group, "share", "disagreement", label=f"true, {n:,} contexts", number=3 + number)
    left.legend(fontsize=10)
    panel(
        right,
        "what the representatives lose",
        "share asked for",
        "in multiples of ρη",
        log="x",
    )
    trend(right, records, "share", "lost", label="measured", number=0)
    limit(right, 1.0, "the promise")
    right.legend()


CLAIM = Claim(
    name="blends",
    title="A few representatives stand for infinitely many blends, with a known price",
    source="comband's own; the paper asks for infinite classes",
    statement="All blends (1−t)·a + t·b of two scorers are covered by representatives chosen on contexts without "
    "rewards: every blend shows the list of its representative but with probability η, so that none is worth more "
    "than ρη above it.",
    method="1,500 contexts with 20 actions, lists of 3 and one paying action that a blend predicts better than either "
    "scorer. Covers are made from contexts drawn from these, and compared with all blends on all of them.",
    checks=(
        Largest("Largest true disagreement in multiples of η", "wrong", (0, 1)),
        Largest("Largest gain of any blend over the best representative in multiples of ρη", "lost", (-1, 1)),
        Slope(
            "Slope of the number of representatives in the share asked for (theory: −1)",
            "share",
            "representatives",
            (-1.2, -0.8),
        ),
    ),
    quick=Plan(grid(share=[0.05, 0.1, 0.2], contexts=[2000]), 3),
    full=Plan(grid(share=[0.025, 0.05, 0.1, 0.2], contexts=[2000, 16000]), 10),
    measure=measure,
    draw=draw,
    remarks="η may be wrong with probability 1e-6 in each run, so that no exception is expected.",
)
