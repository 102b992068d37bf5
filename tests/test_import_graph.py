"""Imports go one way: no circles, and each room only from those above it in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tools.rooms import FIGURE, flows, handed_out, rooms

from tests.documents import ROOT

SOURCE = ROOT / "src" / "comband"
Graph = Mapping[str, set[str]]


BESIDE = {"_lazy": 0, "warming": 98, "__main__": 99}
PRODUCTS = {"certify", "evaluation", "regret", "classify"}


def lines_of(text: str) -> dict[str, int]:
    """Each room with the number of its line."""
    return {name: number for number, name in enumerate(rooms(text), 1)}


def imports(folder: Path) -> dict[str, set[str]]:
    """Module → modules of the same package that it imports anywhere: in functions, for types and in stubs too."""
    root = folder.name
    paths = {
        path: ".".join((root, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        for suffix in ("py", "pyi")
        for path in folder.rglob(f"*.{suffix}")
    }
    modules = set(paths.values())
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for path, name in paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} has a relative import"
                whole = str(node.module)
                found = [inner if (inner := f"{whole}.{alias.name}") in modules else whole for alias in node.names]
            else:
                continue
            graph[name].update(target for target in found if target in modules)
    return graph


def circle(graph: Graph) -> list[str]:
    """Modules that import one another in a circle; empty if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upward(graph: Graph, order: Mapping[str, int]) -> list[str]:
    """Imports that do not come from a room above; those within a room are left to `circle`."""
    wrong = []
    for name, targets in graph.items():
        part = _part(name)
        if part is None:
            continue
        for target in targets:
            other = _part(target)
            if other is None:
                wrong.append(f"{name} imports the package itself")
            elif other != part and order[other] >= order[part]:
                wrong.append(f"{name} (line {order[part]}) imports {target} (line {order[other]})")
    return sorted(wrong)


def _part(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


@pytest.fixture(scope="module")
def graph() -> Graph:
    return imports(SOURCE)


@pytest.fixture(scope="module")
def order() -> dict[str, int]:
    return lines_of((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) | BESIDE


def test_every_room_has_its_line(graph: Graph, order: Mapping[str, int]) -> None:
    there = {part for name in graph if (part := _part(name)) is not None}
    assert there <= set(order), f"name the rooms {sorted(there - set(order))} in CONTRIBUTING.md"
    assert set(order) <= there, f"CONTRIBUTING.md names {sorted(set(order) - there)}, which are not there"


@pytest.mark.parametrize("room", sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")))
def test_every_room_has_a_front_page(room: str) -> None:
    """It says what may be imported and which two files to read first; what it names is there."""
    page = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert "May be imported: " in page, f"{room}/__init__.py does not say what may be imported"
    first = re.search(r"^Read first: `([\w/.]+)`.*, then `([\w/.]+)`", page, re.MULTILINE)
    assert first is not None, f"{room}/__init__.py does not name the two files to read first"
    for name in re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", page):
        assert (SOURCE / room / name).exists(), f"{room}/{name} is named by its front page, and is not there"


def test_products_can_be_read_without_one_another(graph: Graph) -> None:
    across = [
        f"{name} imports {target}"
        for name, targets in graph.items()
        for target in targets
        if _part(name) != _part(target) and {_part(name), _part(target)} <= PRODUCTS
    ]
    assert across == []


def test_no_circles(graph: Graph) -> None:
    assert circle(graph) == []


def test_each_room_imports_from_those_above_it_only(graph: Graph, order: Mapping[str, int]) -> None:
    assert upward(graph, order) == []


def test_the_drawing_of_the_rooms_shows_what_is_imported() -> None:
    """Every dot and no other; and what is said to be handed out is. `python tools/rooms.py` draws it anew."""
    text, found = FIGURE.read_text(encoding="utf-8"), flows()
    assert set(re.findall(r'<circle class="(\w+)-(\w+)"', text)) == set(found), "run python tools/rooms.py"
    shown = re.findall(r'<tspan dx="10" class="(\w+)"[^>]*>([^<]*)</tspan>', text)
    assert [room for room, _ in shown] == [*rooms((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))]
    for room, names in shown:
        assert set(filter(None, names.split(", "))) <= set(handed_out(room, found)), (
            f"{room}: run python tools/rooms.py"
        )


def test_numba_is_named_by_the_kernels_only() -> None:
    naming = re.compile(r"^\s*(?:import|from) (?:numba|llvmlite)\b", re.MULTILINE)
    named = {
        path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for path in SOURCE.rglob("*.py")
        if naming.search(path.read_text(encoding="utf-8"))
    }
    assert named == {"_kernels"}


ROOMS = "# House\n## The rooms\nWords.\n\n1. `a`: first\n2. `b`: second\n3. `c`: third\n\n## More\n\n4. `d`: none\n"


@pytest.fixture
def house(tmp_path: Path) -> Callable[..., Graph]:
    def build(**texts: str) -> Graph:
        for name in ("__init__", "a", "b", "c/__init__", "c/one", "c/two"):
            path = tmp_path / "house" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts.get(name.replace("/", "_"), ""), encoding="utf-8")
        return imports(tmp_path / "house")

    return build


def test_rooms_are_read_from_their_section_alone() -> None:
    assert lines_of(ROOMS) == {"a": 1, "b": 2, "c": 3}


def test_downward_imports_are_fine(house: Callable[..., Graph]) -> None:
    graph = house(
        __init__="from house import a\nfrom house.c import one", c_one="import house.a", c_two="from house.c import one"
    )
    assert graph["house"] == {"house.a", "house.c.one"}
    assert graph["house.c.two"] == {"house.c.one"}
    assert circle(graph) == []
    assert upward(graph, lines_of(ROOMS)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from house.c import one",
        "import house.c.one",
        "from house.c.one import name",
        "def f():\n    from house import c",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.c",
        "from house import b",
        "from house import __version__",
    ],
)
def test_upward_imports_are_found_wherever_they_stand(house: Callable[..., Graph], text: str) -> None:
    assert len(upward(house(a=text), lines_of(ROOMS))) == 1


def test_circles_within_a_package_are_found(house: Callable[..., Graph]) -> None:
    assert set(circle(house(c_one="from house.c import two", c_two="def f():\n    import house.c.one"))) == {
        "house.c.one",
        "house.c.two",
    }
    assert circle(house(c___init__="from house.c.one import f", c_one="from house.c import g"))
