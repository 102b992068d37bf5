"""Draws the rooms and what flows between them, from the imports: `python tools/rooms.py` writes docs/figures/rooms.svg.

A row is a room, in the order of CONTRIBUTING.md; a dot in it says from which rooms it takes. All dots lie left of the
rooms' names: nothing flows upward. At the end of a row stands what most modules of other rooms take from it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "comband"
FIGURE = ROOT / "docs" / "figures" / "rooms.svg"
_STEP, _TOP, _LEFT, _NAMES = 26, 30, 20, 4


def rooms(text: str) -> dict[str, str]:
    """The rooms in the numbered list under "The rooms", in order, each with its one job."""
    section = text.split("## The rooms", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\d+\. `(\w+)`: (.*)$", section, re.MULTILINE)
    assert len({name for name, _ in found}) == len(found), "a room stands on two lines"
    return dict(found)


def flows(source: Path = SOURCE) -> dict[tuple[str, str], Counter[str]]:
    """(from, to) → the names that modules of the second room import from the first, and how many modules do."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for path in sorted(source.rglob("*.py")):
        here = path.relative_to(source).parts[0]
        taken: set[tuple[str, str]] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == source.name:
                for alias in node.names:
                    parts = [*str(node.module).split(".")[1:], alias.name]
                    taken.add((parts[0], parts[-1]))
        for room, name in taken:
            if name != room != here and (source / room).is_dir() and (source / here).is_dir():
                found.setdefault((room, here), Counter())[name] += 1
    return found


def handed_out(room: str, found: dict[tuple[str, str], Counter[str]]) -> list[str]:
    """What most modules of other rooms take from this one, most first."""
    total: Counter[str] = Counter()
    for (giver, _), names in found.items():
        if giver == room:
            total += names
    return sorted(total, key=lambda name: (-total[name], name))


def drawing(order: dict[str, str], found: dict[tuple[str, str], Counter[str]]) -> str:
    """The figure as SVG."""
    n = len(order)
    width, height = _LEFT + n * _STEP + 500, _TOP + n * _STEP + 14
    names = list(order)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        "<title>The rooms of comband, and what each takes from those above it</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" fill="#555">A dot: the room of this row takes from the room of this column. Beside '
        "a name: what it hands out most.</text>",
    ]
    for i in range(0, n, 2):
        y = _TOP + i * _STEP
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="{width - 2 * _LEFT}" height="{_STEP}" fill="#f3f5f8"/>')
    for i in range(n):
        begins = f"M{_LEFT + (i + 0.5) * _STEP} {_TOP + (i + 0.75) * _STEP}"
        lines.append(f'<path d="{begins}V{_TOP + n * _STEP}" stroke="#cdd5df"/>')
    for i, room in enumerate(names):
        x, y = _LEFT + i * _STEP, _TOP + i * _STEP
        middle = y + _STEP / 2
        for j, other in enumerate(names):
            if (other, room) in found:
                first = ", ".join(sorted(found[other, room], key=lambda name: (-found[other, room][name], name))[:8])
                lines.append(
                    f'<circle class="{other}-{room}" cx="{_LEFT + j * _STEP + _STEP / 2}" cy="{middle}" r="6" '
                    f'fill="#2f6db3"><title>{room} takes from {other}: {escape(first)}</title></circle>'
                )
        out = ", ".join(handed_out(room, found)[:_NAMES])
        lines.append(
            f'<text x="{x + 6}" y="{middle + 4.5}"><title>{escape(order[room])}</title>'
            f'<tspan font-weight="bold">{room}</tspan>'
            f'<tspan dx="10" class="{room}" fill="#666" font-size="12">{escape(out)}</tspan></text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write the figure."""
    order = rooms((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    FIGURE.write_text(drawing(order, flows()), encoding="utf-8")
    print(f"wrote {FIGURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
