"""After how many rounds it is noticed that the two best candidates have changed places, and what that needs.

    python -m benchmarks.drift [--runs N] [--before N] [--after N] [--gaps G ...] [--clicks C] [--first-seed S]

Eight candidates of lists of five, three items of which all of them show; at most one click per round, in `clicks` of
the rounds with the list of the best candidate, in a gap less with that of the second, and in 1.5% at most with all
others. A learner runs for `before` rounds, past its certificate, and for `after` more when the two best have changed
places. The last line is of runs in which nothing changes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.certify.orders import OrdersGuard
from comband.certify.watch import ChangeGuard

CONTEXTS, ITEMS, P, M, SHARED, BATCH = 20, 60, 8, 5, 3, 100
OTHERS = 0.015  # clicks per round of the other candidates
OF_SHARED = 0.01  # clicks per round on items that all show
EPSILON = 0.002
PROBLEM = cb.Problem(ITEMS, M, 1)


@dataclass(frozen=True, eq=False, slots=True)
class World:
    """The candidates' lists, and the chances (contexts, items) of a click before and after the two best swap."""

    lists: NDArray[np.int32]
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @classmethod
    def drawn(cls, gap: float, clicks: float, seed: int) -> World:
        """Items have other names in each context."""
        names = np.argsort(np.random.default_rng([seed, 1]).random((CONTEXTS, ITEMS)), axis=1).astype(np.int32)
        own = M - SHARED
        mine = [np.arange(SHARED + own * p, SHARED + own * (p + 1)) for p in range(P)]
        lists = np.stack([names[:, [*range(SHARED), *places]] for places in mine])
        values = np.array([clicks, clicks - gap, *[min(OTHERS, clicks - gap)] * (P - 2)])
        chances = []
        for each in (values, values[[1, 0, *range(2, P)]]):
            by_place = np.zeros(ITEMS)
            by_place[:SHARED] = OF_SHARED / SHARED
            for places, value in zip(mine, each, strict=True):
                by_place[places] = (value - OF_SHARED) / own
            table = np.zeros((CONTEXTS, ITEMS))
            np.put_along_axis(table, names.astype(np.int64), np.broadcast_to(by_place, table.shape), axis=1)
            chances.append(table)
        return cls(lists, *chances)


def play(gap: float, seed: int, *, before: int, after: int, clicks: float = 0.05) -> tuple[int | None, str]:
    """The round of the first warning that something changed, and the warning."""
    world = World.drawn(gap, clicks, seed)
    learner = cb.AdaptiveComband(PROBLEM, cb.PolicySet.from_lists(world.lists, PROBLEM), epsilon=EPSILON, seed=seed)
    rng = np.random.default_rng([seed, 2])
    for played in range(0, before + after, BATCH):
        X = rng.integers(CONTEXTS, size=BATCH)
        decisions = learner.ask(X)
        edges = np.cumsum((world.before if played < before else world.after)[X], axis=1)
        clicked = (rng.random(BATCH)[:, None] >= edges).sum(axis=1)
        learner.tell(decisions, (decisions.lists == clicked[:, None]).astype(np.float64))
        for guard in (learner.watch[OrdersGuard], learner.watch[ChangeGuard]):
            if guard.warning:
                return played + BATCH, guard.warning
    return None, ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--before", type=int, default=10_000)
    parser.add_argument("--after", type=int, default=5_000)
    parser.add_argument("--gaps", type=float, nargs="+", default=[0.02, 0.025, 0.03])
    parser.add_argument("--clicks", type=float, default=0.05)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few runs of one gap")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs, arguments.gaps = 5, [0.03]
    before, after, seeds = arguments.before, arguments.after, arguments.first_seed + np.arange(arguments.runs)
    print("gap       noticed of runs   rounds after the swap: median, 95%   before it   by the order of candidates")
    for gap in arguments.gaps:
        found = [play(gap, int(seed), before=before, after=after, clicks=arguments.clicks) for seed in seeds]
        late = np.array([np.inf if t is None else t - before for t, _ in found])
        median, most = np.quantile(late, [0.5, 0.95], method="higher")
        of_order = sum("order of candidates" in text for _, text in found)
        print(
            f"{gap:<8g} {int(np.isfinite(late).sum()):5d} of {len(found):5d} {median:20,.0f}, {most:,.0f} "
            f"{int((late <= 0).sum()):15d} {of_order:14d}",
            flush=True,
        )
    none = [play(arguments.gaps[0], int(s), before=before + after, after=0, clicks=arguments.clicks)[0] for s in seeds]
    print(f"nothing changes: {sum(t is not None for t in none)} of {len(none)} gave alarm")


if __name__ == "__main__":
    main()
