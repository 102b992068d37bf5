"""Certificates of honest runs under every reading and with every learner that can certify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import comband as cb
from comband.certify import CertifyingLearner

READINGS: dict[str, dict[str, Any]] = {
    "items": {},
    "factors": {"places": (1.0, 0.6, 0.3), "order": "random"},
    "pairs": {"places": "pairs"},
    "total": {"feedback": "total"},
}
LEARNERS: dict[str, tuple[type[CertifyingLearner], dict[str, Any]]] = {
    "adaptive": (cb.AdaptiveComband, {}),
    "lists": (cb.UniformLists, {}),
    "mixture": (cb.UniformMixture, {}),
    "pseudo-inverse": (cb.UniformMixture, {"weighting": "pseudo-inverse"}),
    "ab-test": (cb.ABTest, {"eliminate": True}),
    "two-phase": (cb.TwoPhaseComband, {}),
}


def learner_of(reading: str, learner: str, seed: int, **settings: Any) -> tuple[CertifyingLearner, Any]:
    """A learner with its shop; `InputError` where the two do not go together."""
    problem = cb.Problem(n_actions=15, list_size=3, sparsity=1, **READINGS[reading])
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=seed)
    kind, more = LEARNERS[learner]
    given = {"epsilon": 0.1, "first_epoch": 100, "audited": 0.05, **more, **settings}
    return kind(problem, shop.candidates(5, seed=seed + 1), seed=seed, **given), shop


def certificate(path: Path, reading: str, learner: str, seed: int, *, rounds: int = 1200, **settings: Any) -> str:
    """Run a learner, write its certificate, and return its head."""
    made, shop = learner_of(reading, learner, seed, **settings)
    cb.run(made, shop, batch_size=50, max_rounds=rounds)
    made.certificate(path)
    return made.head
