"""How a page is read: one object says it, and no other module asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np
import pytest

import comband as cb
from comband.policies.placed import PlacedPolicies
from comband.policies.reading import reading_of
from tests.documents import ROOT

SOURCE = ROOT / "src" / "comband"

# Where a page is declared, and where it is read. `totals`, `places` and `lists` are what readings are made of.
BORDER = ("page/problem.py", "page/places.py", "page/totals.py", "page/lists.py", "policies/reading.py")

# What is left asks about a log's format or what a log is read with (8), says what a guard watches (4), or refuses what
# cannot be (2).
LEFT = 15


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.Assert):
            yield node.test


def _asks(condition: ast.expr) -> bool:
    """Whether it looks at how places or totals are stated, or at what lists are made of."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("places", "feedback"))
        or (isinstance(node, ast.Name) and node.id == "PlacedPolicies")
        for node in ast.walk(condition)
    )


def branches() -> list[str]:
    """All conditions outside the border that ask what kind of page it is."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name not in BORDER:
            conditions = _conditions(ast.parse(path.read_text(encoding="utf-8")))
            found += [f"{name}: {ast.unparse(one)}" for one in conditions if _asks(one)]
    return found


def test_hardly_a_module_asks_what_kind_of_page_it_is() -> None:
    found = branches()
    assert len(found) <= LEFT, "ask the reading (comband.policies.reading) instead:\n" + "\n".join(found)


def test_the_count_sees_a_branch() -> None:
    code = ast.parse(
        "x = 1 if problem.places is None else 2\nif spec.feedback == 'total':\n    pass\nwhile places:\n    pass"
    )
    assert sum(map(_asks, _conditions(code))) == 2


@pytest.mark.parametrize(
    ("stated", "kind", "lists", "events", "per_reward"),
    [
        ({}, "items", 6, 6, 1),
        ({"places": [1, 0.5], "order": "random"}, "factors", 6, 12, 2),
        ({"places": [1, 0.5]}, "factors", 6, 12, 2),
        ({"places": "pairs"}, "pairs", 12, 12, 1),
        ({"feedback": "total"}, "totals", 6, 6, 1),
    ],
)
def test_what_a_list_is_and_of_what_a_reward_speaks(
    stated: dict[str, object], kind: str, lists: int, events: int, per_reward: int
) -> None:
    reading = reading_of(cb.Problem(6, 2, 1, **stated))  # type: ignore[arg-type]
    assert (reading.KIND, reading.per_reward) == (kind, per_reward)
    assert (reading.lists.n_actions, reading.events.n_actions) == (lists, events)
    usual = {"natural order"} if kind == "factors" and "order" not in stated else set()
    assert reading.options == (set() if kind == "items" else {kind}) | usual
    policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 0]]], cb.Problem(6, 2))
    assert isinstance(reading.drawn(policies), PlacedPolicies) == (lists == 12)
    assert isinstance(reading.counted(policies), PlacedPolicies) == (events == 12)
    assert reading.plain(reading.drawn(policies)) is policies
    shown = np.array([[4, 1]], dtype=np.int32)
    np.testing.assert_array_equal(reading.items(reading.as_drawn(shown)), shown)


def test_rounds_as_they_were_drawn_and_as_they_count() -> None:
    log = cb.Rounds.from_log(
        [0], lists=[[4, 1]], rewards=[[0, 1]], propensities=[[0.5, 0.25]], problem=cb.Problem(6, 2, 1)
    )
    for places, drawn, counted, weights in (
        (None, [[4, 1]], [[4, 1]], [[0.0, 4.0]]),
        ("pairs", [[8, 3]], [[8, 3]], [[0.0, 4.0]]),
        ([1, 0.5], [[4, 1]], [[8, 9, 2, 3]], [[0.0, 0.0, 4 / 0.75, 2 / 0.75]]),
    ):
        one, other = reading_of(cb.Problem(6, 2, 1, places=places)).told(log)
        assert (one.decisions.lists.tolist(), other.decisions.lists.tolist()) == (drawn, counted)
        np.testing.assert_allclose(other.rewards / other.decisions.propensities, weights)
