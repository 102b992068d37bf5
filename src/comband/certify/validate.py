"""What evidence can be, by the events that are kept: what a file claims beyond that is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comband.certify.evidence import Evidence, levels_of
from comband.certify.guardrails import Guardrails, stakes_of
from comband.page.bits import RealRows
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
    if evidence.guardrails is not None:
        check_guardrails(evidence.guardrails, evidence.n_rounds)


def check_guardrails(guardrails: Guardrails, n_rounds: Sequence[int]) -> None:
    """Refuse what is known of further metrics where it exceeds what the values that are kept allow."""
    harm, safe, purse = (1e-6 + (1 + 1e-6) * one for one in _largest_sums(guardrails))
    require(
        bool((guardrails.harm <= harm).all() and (guardrails.safe <= safe).all() and (guardrails.gains <= purse).all())
        and bool((np.logaddexp.reduce(guardrails.accounts, axis=2) <= _largest_accounts(guardrails, n_rounds)).all()),
        "what is known of metrics must not exceed what the values that are kept allow.",
    )


def may_be_safe(guardrails: Guardrails, one: int, n_rounds: Sequence[int], threshold: float) -> bool:
    """Whether the values that are kept allow that a policy was ever declared safe."""
    if one == guardrails.production:
        return True
    _, safe, _ = _largest_sums(guardrails)
    which, n_policies = np.array([one]), guardrails.harm.shape[1]
    union = guardrails.wealths_of(safe, which, n_rounds, safety=True)[:, 0] - np.log(max(n_policies - 1, 1))
    account = _largest_accounts(guardrails, n_rounds)[:, one]
    return bool((np.logaddexp(union, account) - np.log(2) >= threshold - 1e-6 * (1 + abs(threshold))).all())


def _largest_accounts(guardrails: Guardrails, n_rounds: Sequence[int]) -> NDArray[np.float64]:
    """(J, P) logarithms of the most that accounts can hold: no more than 1 is ever paid in beyond what moved along, and
    that grows as bets do.
    """
    _, _, purse = _largest_sums(guardrails)
    for k, n in enumerate(n_rounds):
        epoch = guardrails.epochs[k]
        if n and epoch.leader != guardrails.production:
            one = np.array([epoch.leader])
            for j, rail in enumerate(guardrails.rails):
                staked = stakes_of(epoch, epoch.rails[1 + j].purse, one)
                purse[j, epoch.leader] += n * rail.credit(staked, safety=True)[0]
    return np.asarray(1e-6 + (1 + 1e-6) * purse.max(axis=2))


def _largest_sums(guardrails: Guardrails) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The most (J, P, stakes) that bets on harm, on safety, and out of accounts can have brought at any time, without
    what each round adds: log(1 + x) ≤ x, and x is at most what the events bring that speak for it. Of those of whom
    nothing is kept any event may.
    """
    shape = guardrails.harm.shape
    harm, safe, purse = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    all_of_them = np.arange(shape[1])
    for j, (rail, seen) in enumerate(zip(guardrails.rails, guardrails.seen, strict=True)):
        events, rows, place = seen.events, seen.rows, int(np.searchsorted(seen.columns, guardrails.production))
        of_event = events.epochs[events.rows]
        for k in np.unique(of_event).tolist():
            chosen = of_event == k
            weights = np.where(chosen, events.rewards / events.propensities, 0.0)
            with_it = np.asarray(weights * rows.column(place), dtype=np.float64)
            whole, of_production = float(weights.sum()), float(with_it.sum())
            disjoint = isinstance(rows, RealRows)  # then of shares of events nothing is said but that they are shares
            alone, both, lacking = np.zeros((3, shape[1]))
            alone += whole if disjoint else whole - of_production
            both += 0.0 if disjoint else of_production
            lacking += of_production
            known = seen.columns[seen.since <= k]
            at = np.searchsorted(seen.columns, known)
            inside, shared = rows.weighted_sum(weights)[at], rows.weighted_sum(with_it)[at]
            if disjoint:
                alone[known] = inside
            else:
                alone[known], both[known], lacking[known] = inside - shared, shared, of_production - shared
            gained = alone + max(1 - rail.share, 0.0) * both
            lost = rail.share * lacking + max(rail.share - 1, 0.0) * both
            of_harm, of_safety = (lost, gained) if rail.sign > 0 else (gained, lost)
            bets = guardrails.epochs[k].rails[1 + j]
            for total, one, most in (
                (harm, bets.harm, of_harm),
                (safe, bets.safe, of_safety),
                (purse, bets.purse, of_safety),
            ):
                total[j] += stakes_of(guardrails.epochs[k], one, all_of_them) * np.maximum(most, 0.0)[:, None]
    return harm, safe, purse


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
