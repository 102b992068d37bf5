"""End to end over HTTP: the winner is the library's own on the same stream of contexts and clicks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.certify import made_world
from benchmarks.serve_winner import by_the_library, over_http

from tests.serve.worlds import listening, service


def test_the_winner_is_the_librarys_own(tmp_path: Path) -> None:
    """`python -m benchmarks.serve_winner` does the same with the rankers of real sets."""
    world = made_world("needle", 12, seed=1)
    mine = by_the_library(world, 3, 12_800)
    with service(tmp_path) as made, listening(made) as address:
        theirs, _ = over_http(world, address, 3, 12_800)
    assert theirs.final
    assert (theirs.best, theirs.rounds, theirs.epsilon) == (mine.best.name, mine.rounds, mine.epsilon)
    assert mine.best.index == world.values(world.policies).argmax()
