"""Prints how large the tree is: a page to look at, not a test to please.

Lines of code are those that are neither blank nor a comment nor part of a docstring. `python tools/figures.py` reads
`src/comband` of the checkout it stands in.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "comband"
_LONGEST = 8
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """How many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def main() -> None:
    """One line per room, then the longest files and classes."""
    rooms: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    files: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE)
        room = place.parts[0] if len(place.parts) > 1 else "(top)"
        rooms[room] += code_lines(text)
        modules[room] += 1
        files[place.as_posix()] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                classes[f"{place.as_posix()}: {node.name}"] = (node.end_lineno or 0) - node.lineno + 1
    print(f"{'room':14} {'modules':>7} {'lines of code':>13}")
    for room, n in rooms.most_common():
        print(f"{room:14} {modules[room]:7,} {n:13,}")
    print(f"{'all':14} {modules.total():7,} {rooms.total():13,}")
    for what, found in (("files", files), ("classes", classes)):
        print(f"\nThe longest {what}, documentation included:")
        for name, n in found.most_common(_LONGEST):
            print(f"{n:6,}  {name}")


if __name__ == "__main__":
    main()
