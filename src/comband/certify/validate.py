"""What evidence can be, by the events that are kept: what a file claims beyond that is refused."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband.certify.evidence import Evidence, levels_of
from comband.page.storage import require
from comband.statistics.betting import OFFSETS


def check_evidence(evidence: Evidence) -> None:
    """Refuse evidence that exceeds what the events that are kept allow."""
    problem, epochs = evidence.problem, evidence.epochs
    seen, front = evidence.seen, evidence.rounds
    events = seen.events
    events.check(problem, ids=(0, front), per_item=evidence.per_reward)
    require(len(events) % evidence.per_reward == 0, "each reward must have all of its events.")
    of_event = events.epochs[events.rows]
    require(
        np.array_equal(seen.columns, epochs[-1].candidates)
        and evidence.since <= int(of_event.min(initial=len(epochs) - 1))
        and int(of_event.max(initial=0)) < len(epochs)
        and float(events.rewards.sum()) <= evidence.reward * (1 + 1e-9) + 1e-9
        and evidence.reward <= front * problem.max_reward * (1 + 1e-9),
        "the events that are kept must be those of its rounds.",
    )
    counts: dict[float, NDArray[np.int64]] = {}
    for epoch, n_rounds in zip(epochs[evidence.since :], evidence.n_rounds[evidence.since :], strict=False):
        if n_rounds:
            of_bound = counts.setdefault(epoch.value_bound, np.zeros(len(evidence.log_wealth), dtype=np.int64))
            of_bound[epoch.candidates] += n_rounds
    require(
        list(counts) == list(evidence.values.rounds)
        and all(np.array_equal(counts[bound], evidence.values.rounds[bound]) for bound in counts)
        and bool((evidence.log_wealth[seen.columns] <= largest_possible(evidence)).all()),
        "evidence must not exceed what the events that are kept allow.",
    )


def largest_possible(evidence: Evidence) -> NDArray[np.float64]:
    """The most (S, J) that the log-wealth of any candidate that is left can have been, at any time, by the events
    that are kept: log(1 − λD) ≤ −λD, and −D is at most what the leader earned by events that do not count for the
    rival.
    """
    seen = evidence.seen
    events, rows = seen.events, seen.rows
    of_event, weights = events.epochs[events.rows], events.rewards / events.propensities
    largest = np.zeros((len(seen.columns), len(OFFSETS)))
    for k, epoch in enumerate(evidence.epochs):
        chosen = np.flatnonzero(of_event == k)
        if len(chosen) == 0:
            continue
        leader = int(np.searchsorted(seen.columns, epoch.leader)) if epoch.leader in seen.columns else None
        lost = np.maximum(rows[chosen].shortfall(leader, weights[chosen]), 0.0)
        largest += epoch.bets.grid[levels_of(epoch, seen.columns)] * lost[:, None]
    return np.asarray(largest * (1 + 1e-6) + 1e-6)
