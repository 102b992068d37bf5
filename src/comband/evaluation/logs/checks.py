"""What can be wrong with a logged round or a list, and how each fault is told."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.logs import list_faults, round_faults
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.id_memory import IdMemory
from comband.page.catalogue import Catalogue, Keys
from comband.page.problem import NO_SUCH_DRAW, SMALLEST_PROPENSITY, SMALLEST_REWARD, TOLERANCE, Problem

KINDS = {
    1: "unknown item",
    2: "missing propensity",
    3: "wrong propensity",
    4: "missing reward",
    5: "wrong reward",
    6: "repeated item",
    7: "too much reward",
}
_DESCRIBED = 3
_AGREE = 1e-6  # sums of probabilities that were written with few digits
EMPTY = 1 << 40  # and on: codes of places that a list does not have, while it is checked


def check_rounds(
    rows: NDArray[np.int64],
    codes: NDArray[np.int64],
    names: NDArray[Any],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    faults: Faults,
    *,
    max_reward: float,
    largest: float,
    repeats: bool,
) -> NDArray[np.bool_]:
    """Which rounds are good; the others are noted. `names` are the items as the file spells them, for messages."""
    found = round_faults(
        codes,
        rewards,
        propensities,
        SMALLEST_REWARD,
        max_reward + TOLERANCE,
        SMALLEST_PROPENSITY,
        largest + TOLERANCE,
        repeats,
    )
    for kind in np.unique(found[found > 0]):
        bad = np.flatnonzero(found == kind)
        described = []
        for i in bad[:_DESCRIBED]:
            text = _round_text(int(kind), codes[i], names[i], rewards[i], propensities[i], max_reward, largest)
            described.append((int(rows[i]), text))
        faults.add(KINDS[int(kind)], described, count=len(bad))
    return np.asarray(found == 0)


def _round_text(
    kind: int,
    codes: NDArray[np.int64],
    names: NDArray[Any],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    max_reward: float,
    largest: float,
) -> str:
    if kind == 1:
        return f"item {names[int(np.flatnonzero(codes < 0)[0])]} is not in the catalogue"
    if kind == 2:
        j = int(np.flatnonzero(np.isnan(propensities))[0])
        return f"item {names[j]} has no propensity"
    if kind == 3:
        j = int(np.flatnonzero(~((propensities >= SMALLEST_PROPENSITY) & (propensities <= largest + TOLERANCE)))[0])
        if 0 < propensities[j] < SMALLEST_PROPENSITY:
            return f"propensity {propensities[j]:g} of item {names[j]} is too small to be one: {NO_SUCH_DRAW}"
        percent = ": write a percentage as a fraction" if 1 < propensities[j] <= 100 else ""
        return f"propensity {propensities[j]:g} of item {names[j]} is outside (0, 1]{percent}"
    if kind == 4:
        return f"item {names[int(np.flatnonzero(np.isnan(rewards))[0])]} has no reward (write 0 for none)"
    if kind == 5:
        j = int(np.flatnonzero(~((rewards == 0) | ((rewards >= SMALLEST_REWARD) & (rewards <= 1))))[0])
        if 0 < rewards[j] < SMALLEST_REWARD:
            return f"reward {rewards[j]:g} of item {names[j]} is too small to be told from 0"
        return f"reward {rewards[j]:g} of item {names[j]} is outside [0, 1]: divide by the largest there can be"
    if kind == 6:
        return f"the list {names.tolist()} repeats an item"
    return f"the rewards sum to {rewards.sum():g}, more than the sparsity {max_reward:g}"


def possible_places(
    rows: NDArray[np.int64],
    names: NDArray[Any],
    placements: NDArray[np.float64],
    propensities: NDArray[np.float64],
    places: NDArray[np.int64],
    fine: NDArray[np.bool_],
    faults: Faults,
) -> NDArray[np.bool_]:
    """Which rounds have probabilities of places (n, m, m) that can be: of each item they sum to its propensity, or,
    where this is that of the item in its place, have it there; and its own place is possible. The others are noted.
    """
    own = np.take_along_axis(placements, np.maximum(places, 0)[:, :, None], axis=2)[:, :, 0]
    sums = placements.sum(axis=2)
    with np.errstate(invalid="ignore"):
        sound = (placements >= 0).all(axis=2) & (sums <= 1 + TOLERANCE) & (own >= SMALLEST_PROPENSITY)
        agree = (np.abs(sums - propensities) <= _AGREE) | (np.abs(own - propensities) <= _AGREE)
    good = (sound & (agree | np.isnan(propensities))).all(axis=1)
    bad = np.flatnonzero(~good & fine)
    described = []
    for i in bad[:_DESCRIBED]:
        j = int(np.flatnonzero(~(sound[i] & agree[i]))[0])
        text = (
            f"placements {placements[i, j].tolist()} of item {names[i, j]}, shown in place {places[i, j] + 1} with "
            f"propensity {propensities[i, j]:g}: they must be at least 0, sum to the propensity, and allow its place"
        )
        described.append((int(rows[i]), text))
    faults.add("wrong placement", described, count=len(bad))
    return np.asarray(good)


def check_total_rounds(
    rows: NDArray[np.int64],
    totals: NDArray[np.float64],
    given: NDArray[np.float64],
    shares: NDArray[np.float64],
    problem: Problem,
    faults: Faults,
    fine: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which rounds have a total and a law that can be; the others are noted, once, and not if they are not `fine`.

    `given` are probabilities of lists (n, 1) or of being the first item (n, m), of which `shares` (n,) were made.
    """
    rho = problem.max_reward
    least = SMALLEST_PROPENSITY * problem.list_size / (1 - problem.fill_share)
    outside = ~((totals == 0) | ((totals >= SMALLEST_REWARD) & (totals <= rho + TOLERANCE * min(rho, 1.0))))
    no_law, sums = np.isnan(given).any(axis=1), given.sum(axis=1)
    wrong = ~((given > 0) & (given <= 1 + TOLERANCE)).all(axis=1)
    wrong |= (sums > 1 + TOLERANCE) | ~((shares >= least) & (shares < np.inf))
    kinds = {
        "missing total": np.isnan(totals),
        "wrong total": outside,
        "missing propensity": no_law,
        "wrong propensity": wrong,
    }
    good = np.ones(len(rows), dtype=np.bool_)
    for kind, bad in kinds.items():
        found = np.flatnonzero(bad & good & fine)
        described = [(int(rows[i]), _total_text(kind, float(totals[i]), given[i], rho)) for i in found[:_DESCRIBED]]
        faults.add(kind, described, count=len(found))
        good &= ~bad
    return good


def _total_text(kind: str, total: float, given: NDArray[np.float64], rho: float) -> str:
    if kind == "missing total":
        return "the list has no total"
    if kind == "wrong total":
        if 0 < total < SMALLEST_REWARD:
            return f"total {total:g} is too small to be told from 0"
        return f"total {total:g} is outside [0, {rho:g}], where {rho:g} is the smaller of sparsity and list size"
    if kind == "missing propensity":
        return "the probability of the list is missing"
    if not ((given > 0) & (given <= 1 + TOLERANCE)).all():
        return f"propensities must lie in (0, 1], got {', '.join(f'{p:g}' for p in given)}"
    if given.sum() > 1 + TOLERANCE:
        return f"only one item is drawn first, but the probabilities of the shown ones sum to {given.sum():g}"
    return f"a list of probability {given[0]:g} is too rare: {NO_SUCH_DRAW}"


def known_contexts(
    rows: NDArray[np.int64],
    contexts: Keys,
    places: NDArray[np.int64],
    fine: NDArray[np.bool_],
    faults: Faults,
    known: Catalogue,
) -> NDArray[np.bool_]:
    """Which rounds have a context that is `known` (a place of at least 0); fine ones that have not are noted."""
    unknown = np.flatnonzero((places < 0) & fine)
    described = [(int(rows[i]), f"no candidate has a list for context {contexts[i]}") for i in unknown[:_DESCRIBED]]
    if len(unknown) and not (places >= 0).any() and "unknown context" not in faults.counts:
        some = ", ".join(map(str, known.keys[:_DESCRIBED].tolist())) + (", …" if len(known) > _DESCRIBED else "")
        row, text = described[0]
        described[0] = row, f"{text} (lists are for {some}; --context names the log's column that has these)"
    faults.add("unknown context", described, count=len(unknown))
    return np.asarray(places >= 0)


def new_ids(
    memory: IdMemory, rows: NDArray[np.int64], ids: Keys, fine: NDArray[np.bool_], faults: Faults
) -> NDArray[np.bool_]:
    """Which rounds have an id that did not come before, in fine ones: a faulty row does not use up its id."""
    good = np.flatnonzero(fine)
    twice = good[memory.repeated(ids[good])]
    described = [(int(rows[i]), f"id {ids[i]} came before") for i in twice[:_DESCRIBED]]
    faults.add("duplicate id", described, count=len(twice))
    new = np.ones(len(rows), dtype=bool)
    new[twice] = False
    return new


def check_candidate_lists(
    rows: NDArray[np.int64], codes: NDArray[np.int64], names: NDArray[Any], faults: Faults, *, of: str = ""
) -> NDArray[np.bool_]:
    """Which lists are good; the others are noted."""
    found = list_faults(codes)
    for kind in np.unique(found[found > 0]):
        bad = np.flatnonzero(found == kind)
        described = []
        for i in bad[:_DESCRIBED]:
            if kind == 1:
                text = f"item {names[i][int(np.flatnonzero(codes[i] < 0)[0])]} is not in the catalogue"
            else:
                text = f"the list {names[i].tolist()} repeats an item"
            described.append((int(rows[i]), f"{text}{of}"))
        faults.add(KINDS[int(kind)], described, count=len(bad))
    return np.asarray(found == 0)
