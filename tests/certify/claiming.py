"""Counting runs in which something wrong was claimed: what the suites of validity share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from comband.certify.certifier import Certifier
from comband.certify.watch import Watch

DELTA = 0.05


def most_allowed(runs: int, delta: float = DELTA) -> int:
    """More wrong runs than this would happen with probability below 1e-6 if each were wrong with probability δ."""
    return int(binom.isf(1e-6, runs, delta))


def claims_wrongly(verdict: Certifier, values: NDArray[np.float64]) -> bool:
    """Whether a candidate exceeds the one that is claimed by more than the certified ε, or the best is dropped.

    What is claimed of a leader that is the best cannot be wrong, so it is not computed: it would take a third of a run.
    """
    best = values.max()
    said = [one for one in (verdict.certified, verdict.best_before) if one is not None]
    if verdict.certified is None and values[verdict.leader] < best - 1e-12:
        said.append(verdict.claim())
    if any(values[one.leader] < best - one.epsilon - 1e-12 for one in said):
        return True
    return not verdict.alive[int(np.argmax(values >= best - 1e-12))]


def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learners without guards, which take a third of a run and change no claim (`test_guards_change_no_claim`)."""
    monkeypatch.setattr(Watch, "observe", lambda watch, moment: None)


def check_counts(
    what: str, kinds: Sequence[str], ever_wrong: Callable[[str, int], bool | None], *, runs: int
) -> dict[str, list[bool | None]]:
    """So many runs in each kind of world: neither those of a kind nor all of them are wrong more often than they may
    be. What came of each.
    """
    found = {kind: [ever_wrong(kind, seed) for seed in range(runs)] for kind in kinds}
    wrong = {kind: outcomes.count(True) for kind, outcomes in found.items()}
    print(f"{what}: of {runs} runs each were ever wrong: {wrong}")
    assert all(count <= most_allowed(runs) for count in wrong.values()), wrong
    assert sum(wrong.values()) <= most_allowed(runs * len(kinds)), wrong
    return found
