"""Claim: lists of labels can be learnt from the confirmation of shown labels only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comband.classify.classifier import BanditListClassifier
from comband.page.problem import InputError
from comband.paper.checks import Ratio, Slope
from comband.paper.claim import Claim, Plan
from comband.paper.figures import limit, panel, trend
from comband.paper.records import Record, Setting, Values, group_by
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.scored import ScoredPolicy
from comband.worlds.multilabel import MultilabelData, MultilabelWorld

LIST_SIZE = 3


def measure(setting: Setting, seed: int) -> Values:
    """Hits per list on held-out rows, after so many rounds of uniform lists, and with all labels known."""
    name = setting["data"]
    data = (
        MultilabelData.from_sklearn("digits")
        if setting["folder"] is None
        else MultilabelData.from_npz(setting["folder"], name)
    )
    learn, test = data.split(held_out=0.3, seed=seed)
    rng = np.random.default_rng(seed)
    world = MultilabelWorld(learn, list_size=LIST_SIZE)
    blank = ScoredPolicy(np.zeros((data.features.shape[1], data.n_actions)), world.problem)
    uniform = Mixture(PolicySet([blank]), [1.0], problem=world.problem, floor=1.0)
    batch = world.sample(setting["rounds"], rng)
    shown = uniform.draw(batch.contexts, rng)
    rewards = batch.answer(shown.lists)
    bandit = BanditListClassifier(list_size=LIST_SIZE, n_actions=data.n_actions)
    bandit.fit(batch.contexts, lists=shown.lists, rewards=rewards, propensities=shown.propensities)
    skyline = BanditListClassifier(list_size=LIST_SIZE, n_actions=data.n_actions).fit(learn.features, learn.labels)
    popular = np.argsort(-np.asarray(learn.labels.sum(axis=0)).ravel(), kind="stable")[:LIST_SIZE]
    hits = {
        "bandit": test.hits(bandit.predict(test.features)),
        "skyline": test.hits(skyline.predict(test.features)),
        "popular": test.hits(np.tile(popular, (len(test), 1))),
    }
    return {**hits, "short": max(hits["skyline"] - hits["bandit"], 1e-4)}


def draw(records: Sequence[Record], figure: Any) -> None:
    """Hits against rounds, one panel a data set."""
    groups = group_by(records, "data")
    for axes, (name, group) in zip(np.atleast_1d(figure.subplots(1, len(groups))), groups.items(), strict=True):
        panel(axes, name, "rounds of bandit feedback", f"confirmed labels in a list of {LIST_SIZE}", log="x")
        limit(axes, np.mean([r["skyline"] for r in group]), "all labels known")
        trend(axes, group, "rounds", "bandit", label="shown labels only", number=0)
        trend(axes, group, "rounds", "popular", label="most frequent labels", number=1)
        axes.set_ylim(bottom=0)
        axes.legend()


def claim(data: Path | None = None) -> Claim:
    """The claim on the data sets NAME_X.npz, NAME_Y.npz of a folder, or on scikit-learn's digits."""
    if data is None:
        names, folder = ["digits"], None
    else:
        folder = str(data.resolve())
        names = sorted(path.name.removesuffix("_X.npz") for path in data.glob("*_X.npz"))
        if not names:
            raise InputError(f"{data} holds no data set; a data set is a pair NAME_X.npz and NAME_Y.npz.")
    quick, full = (50, 200, 800, 3_200), (50, 200, 800, 3_200, 12_800, 51_200)

    def plan(rounds: Sequence[int], n_seeds: int) -> Plan:
        return Plan([{"data": n, "folder": folder, "rounds": r} for n in names for r in rounds], n_seeds)

    return Claim(
        name="list-classification",
        title="Lists of labels are learnt from the confirmation of shown labels only",
        source="Section 1, bandit list classification as a special case",
        statement="A learner that shows a list of labels and is told which of them are right, never the ones it did "
        "not show, can learn to list labels as well as one that is told all of them.",
        method=f"Data: {', '.join(names)}. Uniform lists of {LIST_SIZE} labels are shown for rows drawn at random; a "
        "linear model is learnt from the answers (BanditListClassifier) and scored on held-out rows, beside the same "
        "model with all labels known and the most frequent labels.",
        checks=tuple(
            check
            for name in names
            for check in (
                Slope(
                    f"{name}: slope of the shortfall in rounds (claimed: falls)",
                    "rounds",
                    "short",
                    (-np.inf, -0.2),
                    {"data": name},
                ),
                Ratio(
                    f"{name}: hits over full information, after {quick[-1]:,} rounds",
                    "bandit",
                    "skyline",
                    (0.9, 1.1),
                    {"data": name, "rounds": quick[-1]},
                ),
            )
        ),
        quick=plan(quick, 5),
        full=plan(full, 10),
        measure=measure,
        draw=draw,
        remarks="Uniform lists are the crudest way to explore; they suffice here because K is small."
        if data is None
        else "Uniform lists are the crudest way to explore; with hundreds of labels most lists confirm nothing.",
    )


CLAIM = claim()
