"""Where a mutant's pattern stands in the source, and the source with it changed: by syntax, not by text."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import Mutant

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "comband"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Found:
    """A pattern in a tree: in which function or class (qualified name; empty for the module), and where it hangs."""

    function: str
    parent: ast.AST
    field: str
    rows: slice | None  # of a list of nodes; None: a single node

    def replace(self, new: Sequence[ast.AST]) -> None:
        """Put other nodes in the pattern's place."""
        if self.rows is None:
            setattr(self.parent, self.field, new[0])
        else:
            getattr(self.parent, self.field)[self.rows] = new


def patterns(mutant: Mutant) -> tuple[list[ast.AST], list[ast.AST]]:
    """What is looked for and what takes its place: expressions, arguments by name, or statements."""
    for reading in (_expression, _arguments, _statements):
        try:
            return reading(mutant.old), reading(mutant.new)
        except SyntaxError:
            continue
    raise LookupError(
        f"{mutant.why}: {mutant.old!r} and {mutant.new!r} must both be an expression, arguments by name in "
        "parentheses, or whole statements."
    )


def _expression(text: str) -> list[ast.AST]:
    return [ast.parse(text.strip(), mode="eval").body]


def _arguments(text: str) -> list[ast.AST]:
    call = ast.parse(f"_{text.strip()}", mode="eval").body
    if not isinstance(call, ast.Call) or call.args:
        raise SyntaxError("these are not arguments by name")
    return [*call.keywords]


def _statements(text: str) -> list[ast.AST]:
    return [*ast.parse(textwrap.dedent(text).strip()).body]


def find(tree: ast.AST, pattern: Sequence[ast.AST], function: str = "") -> Iterator[Found]:
    """Everywhere in a tree that the pattern stands, as a node or as consecutive nodes of a list."""
    k = len(pattern)
    for field, value in ast.iter_fields(tree):
        nodes = value if isinstance(value, list) else [value]
        for i in range(len(nodes) - k + 1):
            if all(map(_same, nodes[i : i + k], pattern)):
                yield Found(function, tree, field, slice(i, i + k) if isinstance(value, list) else None)
        for node in nodes:
            if isinstance(node, _SCOPES):
                yield from find(node, pattern, f"{function}.{node.name}" if function else node.name)
            elif isinstance(node, ast.AST):
                yield from find(node, pattern, function)


def _same(one: Any, other: Any) -> bool:
    """Whether two nodes (or lists of nodes, or plain values) are the same syntax."""
    if type(one) is not type(other):
        return False
    if isinstance(one, ast.AST):
        return all(_same(getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def mutate(mutant: Mutant, package: Path = PACKAGE) -> str:
    """The source of the mutant's file with the one change made."""
    old, new = patterns(mutant)
    file, _, function = mutant.place.partition("::")
    tree = ast.parse((package / file).read_text(encoding="utf-8")) if (package / file).is_file() else ast.Module([], [])
    there = [found for found in find(tree, old) if found.function == function]
    if len(there) != 1:
        raise LookupError(
            f"{mutant.why}: {mutant.old!r} must stand once in {mutant.place}, but stands there {len(there)} times; "
            f"in the package: {', '.join(_everywhere(old, package)) or 'nowhere'}."
        )
    there[0].replace(new)
    return ast.unparse(tree)


def _everywhere(pattern: Sequence[ast.AST], package: Path) -> list[str]:
    return [
        f"{path.relative_to(package)}{'::' * bool(found.function)}{found.function}"
        for path in sorted(package.rglob("*.py"))
        for found in find(ast.parse(path.read_text(encoding="utf-8")), pattern)
    ]
