"""Imports go one way: no circles, and each layer only from those above it in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.documents import ROOT

SOURCE = ROOT / "src" / "comband"
Graph = Mapping[str, set[str]]


def layers(text: str) -> dict[str, int]:
    """Each module or package named in the numbered list under "The layers", with the number of its line."""
    section = text.split("## The layers", 1)[1].split("\n## ", 1)[0]
    order: dict[str, int] = {}
    for number, names in re.findall(r"^(\d+)\. ((?:`\w+`(?:, )?)+):", section, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            assert name not in order, f"{name} stands in two layers"
            order[name] = int(number)
    return order


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
    """Imports that do not come from a layer above; those within a package are left to `circle`."""
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
    return layers((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def test_every_module_has_its_layer(graph: Graph, order: Mapping[str, int]) -> None:
    there = {part for name in graph if (part := _part(name)) is not None}
    assert there <= set(order), f"name the layer of {sorted(there - set(order))} in CONTRIBUTING.md"
    assert set(order) <= there, f"CONTRIBUTING.md names layers of {sorted(set(order) - there)}, which are not there"


def test_no_circles(graph: Graph) -> None:
    assert circle(graph) == []


def test_each_layer_imports_from_those_above_it_only(graph: Graph, order: Mapping[str, int]) -> None:
    assert upward(graph, order) == []


def test_numba_is_named_by_the_kernels_only() -> None:
    naming = re.compile(r"^\s*(?:import|from) (?:numba|llvmlite)\b", re.MULTILINE)
    named = {
        path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for path in SOURCE.rglob("*.py")
        if naming.search(path.read_text(encoding="utf-8"))
    }
    assert named == {"_kernels"}


LAYERS = "# House\n## The layers\nWords.\n\n1. `a`, `b`: first\n2. `c`: second\n\n## More\n\n3. `d`: none\n"


@pytest.fixture
def house(tmp_path: Path) -> Callable[..., Graph]:
    def build(**texts: str) -> Graph:
        for name in ("__init__", "a", "b", "c/__init__", "c/one", "c/two"):
            path = tmp_path / "house" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts.get(name.replace("/", "_"), ""), encoding="utf-8")
        return imports(tmp_path / "house")

    return build


def test_layers_are_read_from_their_section_alone() -> None:
    assert layers(LAYERS) == {"a": 1, "b": 1, "c": 2}


def test_downward_imports_are_fine(house: Callable[..., Graph]) -> None:
    graph = house(
        __init__="from house import a\nfrom house.c import one", c_one="import house.a", c_two="from house.c import one"
    )
    assert graph["house"] == {"house.a", "house.c.one"}
    assert graph["house.c.two"] == {"house.c.one"}
    assert circle(graph) == []
    assert upward(graph, layers(LAYERS)) == []


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
    assert len(upward(house(a=text), layers(LAYERS))) == 1


def test_circles_within_a_package_are_found(house: Callable[..., Graph]) -> None:
    assert set(circle(house(c_one="from house.c import two", c_two="def f():\n    import house.c.one"))) == {
        "house.c.one",
        "house.c.two",
    }
    assert circle(house(c___init__="from house.c.one import f", c_one="from house.c import g"))
