"""Exploration where the candidates that are left disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.explore.explorers.base import Explorer, Standing
from comband.explore.explorers.blocks import attention_shares
from comband.explore.explorers.disagreement import DisagreementExplorer
from comband.explore.explorers.mixture import least_floor, mixture_explorer
from comband.explore.explorers.natural import FittedExamination, NaturalExamination, NaturalExplorer
from comband.explore.explorers.placed import ExaminationExplorer, PairExplorer
from comband.page.problem import InputError, check_count

_SHARE = 0.65  # of the largest smallest propensity that is possible; the rest goes where the variance is
_LOWER_SHARES = (0.5, 0.35)  # with places, where few candidates are left: stakes are far below what that allows
_FEW = 16  # candidates for which these are weighed; among more the bound on the stakes decides
_NATURAL_SHARE, _OWN_SHARE = 0.75, 0.85  # in natural order, without and with own lists
# The share of lists in random order, by which it is seen what places do: more of them at first.
_SHUFFLED_AT_FIRST, _SHUFFLED_ROUNDS, _SHUFFLED = 0.2, 2000, 0.05
_UNCOVERED_COST = 0.05  # uncovered contexts may cost this share of epsilon
_FRONT_RUNNERS = 64  # candidates whose lists are mixed in while there are too many to ask them all
_LISTS_AT_FIRST = 0.5  # share of uniform lists in that time
_OWN_LISTS = 0.85  # share of rounds with a candidate's own list where reward is the objective


@dataclass(frozen=True, slots=True)
class DisagreementExploration:
    """Show actions on which the candidates that are left disagree, with the more attention on a rival the closer its
    value is to the leader's and the more evidence it still lacks.

    The smallest propensity, which bounds the importance weights and so the stakes, is set from how much the candidates
    disagreed on recent contexts. While more than `max_evaluated` candidates are left they are not all asked on every
    context: uniform lists are mixed with the lists of the front runners.

    Where reward is the objective, most rounds show a candidate's own list, drawn by how likely each is to be the best
    (Thompson sampling), and the others the actions in dispute. What own lists bring speaks for all who share actions,
    and they cost little where they are shown most; those others keep every importance weight bounded. Where only a
    share of the visitors takes part, the others see the own list of the candidate in production, which is one more
    part of the same distribution.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.DisagreementExploration(max_evaluated=500)
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    max_evaluated: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_evaluated", check_count("max_evaluated", self.max_evaluated))

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        candidates, problem = standing.candidates, standing.problem
        if len(candidates) > self.max_evaluated and not standing.reading.FITTED:
            front = np.argsort(standing.gaps, kind="stable")[:_FRONT_RUNNERS]
            weights = np.zeros(len(standing.policies))
            weights[candidates[front]] = standing.exposure * (1 - _LISTS_AT_FIRST) / len(front)
            if standing.production is not None:
                weights[candidates[standing.production]] += 1 - standing.exposure
            floor = standing.exposure * _LISTS_AT_FIRST
            weights /= 1 - floor
            return mixture_explorer(
                standing.policies,
                candidates,
                weights=weights,
                floor=floor,
                problem=problem,
                as_they_are=standing.exposure < 1 and not standing.reading.PLACED,
            )
        if len(candidates) > self.max_evaluated:
            raise InputError(
                f'places="fit" needs the lists of all candidates in every context: let max_evaluated be at least '
                f"{len(candidates)}, got {self.max_evaluated}, or state factors."
            )
        own, kind = _own_lists(standing) if standing.reading.OWN_LISTS else None, standing.reading.KIND
        if standing.policies.by_chance:
            return _of_probabilities(standing, np.zeros(len(candidates)) if own is None else own)
        if own is not None and standing.reading.natural:
            return _natural(standing, _NATURAL[kind], own, standing.shuffled)
        if own is not None and own.any() and kind == "factors":  # random order, but for own lists
            return _natural(standing, NaturalExamination, own, 1.0)
        reading = _EXPLORERS.get(kind, DisagreementExplorer)
        more = {"page": standing.production} if standing.exposure < 1 and kind == "items" else {}
        room, needed = reading.room(standing)[0], room_needed(standing, reading)

        def explorer(share: float) -> DisagreementExplorer:
            return reading(
                standing.policies,
                candidates,
                leader=standing.leader,
                attention=standing.need / (standing.epsilon + standing.gaps) ** 2,
                smallest_disputed=smallest_disputed(room, needed, share),
                problem=problem,
                own=own,
                memory=standing.recent.events,
                **more,
            )

        return _best(standing, explorer, _SHARE)


def _of_probabilities(standing: Standing, own: NDArray[np.float64]) -> Explorer:
    """Candidates that are given by probabilities draw their lists; the leader and all rivals together equally often,
    and none more seldom than half of an equal share, which bounds the weights: an item that π shows with probability
    π(y|x) is shown with probability p_π·π(y|x) at least, so that π(y|x)/Q ≤ 1/p_π.
    """
    S, share = len(standing.candidates), float(own.sum())
    attention = attention_shares(standing.need / (standing.epsilon + standing.gaps) ** 2, standing.leader)
    wanted = (1 + attention) / 2
    wanted[standing.leader] = 1.0
    p = (0.5 / S + 0.5 * wanted / wanted.sum()) * (1 - share) + own
    weights, problem = np.zeros(len(standing.policies)), standing.problem
    weights[standing.candidates] = p / p.sum()
    floor = least_floor(problem)
    return mixture_explorer(standing.policies, standing.candidates, weights=weights, floor=floor, problem=problem)


def _best(standing: Standing, explorer: Callable[[float], DisagreementExplorer], usual: float) -> DisagreementExplorer:
    """The explorer with the usual share of the largest floor, or, where few candidates are left and places matter, with
    the one that is forecast to take the fewest rounds.
    """
    first = explorer(usual)
    if standing.forecast is None or standing.reading.SETS or len(standing.candidates) > _FEW:
        return first
    return min([first, *(explorer(share) for share in _LOWER_SHARES)], key=standing.forecast)


def _natural(
    standing: Standing, kind: type[NaturalExplorer], own: NDArray[np.float64], shuffled: float | None
) -> DisagreementExplorer:
    """Lists in natural order, but for a share in random order."""
    if standing.fitting:
        shuffled = 1.0
    elif shuffled is None:
        shuffled = _SHUFFLED_AT_FIRST if standing.rounds < _SHUFFLED_ROUNDS else _SHUFFLED
    more = {"fitting": standing.fitting} if standing.reading.FITTED else {}
    needed = room_needed(
        standing,
        kind,
        lambda lists: kind.needed_with(lists, standing.leader, standing.problem, own=own, shuffled=shuffled),
        drawn=1 - float(own.sum()),
    )

    def explorer(share: float) -> DisagreementExplorer:
        return kind(
            standing.policies,
            standing.candidates,
            leader=standing.leader,
            attention=standing.need / (standing.epsilon + standing.gaps) ** 2,
            smallest_disputed=smallest_disputed(1.0, needed, share),
            problem=standing.problem,
            own=own,
            shuffled=shuffled,
            key=standing.rounds,
            memory=standing.recent.events,
            **more,
        )

    return _best(standing, explorer, _SHARE if standing.reading.SETS else (_OWN_SHARE if own.any() else _NATURAL_SHARE))


_NATURAL: dict[str, type[NaturalExplorer]] = {
    "items": NaturalExplorer,
    "factors": NaturalExamination,
    "fitted factors": FittedExamination,
}

_EXPLORERS: dict[str, type[DisagreementExplorer]] = {
    "factors": ExaminationExplorer,
    "pairs": PairExplorer,
}


def _own_lists(standing: Standing) -> NDArray[np.float64]:
    """The share of rounds in which each candidate's own list is shown."""
    own = np.zeros(len(standing.candidates))
    if standing.hopes is not None and not standing.fitting:
        own += standing.exposure * _OWN_LISTS * standing.hopes
    if standing.production is not None:
        own[standing.production] += 1 - standing.exposure
    return own


def smallest_disputed(room: float, needed: float, share: float = _SHARE) -> float:
    """The smallest propensity for rivals' actions, where a context has that much room and rivals need so much of it.

    Of one rival or two no more than leaves the leader's own actions as much: a comparison is as variable as its rarer
    side, and stakes are far below what the smallest propensity allows by then.
    """
    return min(share * room / needed, room / (needed + min(needed, room)), 1.0)


def room_needed(
    standing: Standing,
    reading: type[DisagreementExplorer] = DisagreementExplorer,
    needed: Callable[[NDArray[np.int32]], NDArray[np.float64]] | None = None,
    *,
    drawn: float = 1.0,
) -> float:
    """For how much a context must have room, so that nearly all have; `drawn` is the share of rounds that have any."""
    least, certain = reading.room(standing)
    certain /= drawn
    if needed is None:

        def needed(lists: NDArray[np.int32]) -> NDArray[np.float64]:
            return reading.needed(lists, standing.leader, standing.problem)

    if len(standing.recent) == 0 or certain <= 0:
        return max(certain, least)
    counts = standing.recent.counts(standing.candidates, needed)
    # An uncovered round counts as if the rival had earned ρ.
    share = _UNCOVERED_COST * standing.epsilon / standing.problem.max_reward
    if len(counts) * share > 1:
        enough = float(np.quantile(counts, 1 - share))
    else:
        enough = float(counts.max() + 0.25 * (counts.max() - np.median(counts)))
    return float(min(max(enough, least), max(certain, least)))
