"""Draws lists as visitors see them where places matter or not: `python tools/lists.py` writes docs/figures/lists-*.svg.

Six candidates have lists of five of twelve items for one visitor, A before B before C, nearly. On the left are those of
three candidates, on the right what eight visitors are shown when a learner begins. The darker an item, the higher
candidates show it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
PAGES: dict[str, dict[str, Any]] = {
    "random": {},
    "natural": {"places": [1, 0.6, 0.45, 0.35, 0.3]},
    "pairs": {"places": "pairs"},
}
_K, _M, _CANDIDATES, _SHOWN, _VISITORS = 12, 5, 6, 3, 8
_BOX, _GAP, _TOP, _LEFT = 40, 10, 44, 14


def candidates() -> NDArray[np.int64]:
    """Lists (P, m) of items that come nearly in the order of their numbers."""
    scores = np.arange(_K) + 1.8 * np.random.default_rng(4).standard_normal((_CANDIDATES, _K))
    return np.argsort(scores, axis=1)[:, :_M]


def shown(page: dict[str, Any]) -> NDArray[np.int32]:
    """What visitors are shown on a page (n, m)."""
    problem = cb.Problem(_K, _M, sparsity=1, **page)
    policies = cb.PolicySet.from_lists(candidates()[:, None, :], problem)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.05, seed=3)
    return learner.ask(np.zeros(_VISITORS, dtype=np.int64)).lists


def drawing(lists: NDArray[Any]) -> str:
    """The picture."""
    own = candidates()
    there = own[:, :, None] == np.arange(_K)
    ranks = np.where(there.any(axis=1), there.argmax(axis=1), _M).mean(axis=0)
    columns = [*own[:_SHOWN], None, *lists]
    width = 2 * _LEFT + len(columns) * (_BOX + _GAP) - _GAP
    height = _TOP + _M * _BOX + _LEFT
    beyond = _LEFT + (_SHOWN + 1) * (_BOX + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="15">',
        "<title>Lists of three candidates, and lists as visitors see them</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="26" fill="#555">three candidates</text>',
        f'<text x="{beyond}" y="26" fill="#555">what eight visitors see</text>',
    ]
    for i, column in enumerate(columns):
        for k, y in enumerate([] if column is None else column.tolist()):
            light = int(58 + 37 * ranks[y] / _M)
            x, top = _LEFT + i * (_BOX + _GAP), _TOP + k * _BOX
            lines.append(
                f'<rect x="{x}" y="{top}" width="{_BOX}" height="{_BOX - 4}" rx="4" fill="hsl(214 60% {light}%)"/>'
                f'<text x="{x + _BOX / 2:g}" y="{top + 23}" text-anchor="middle">{chr(65 + y)}</text>'
            )
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write the figures."""
    for name, page in PAGES.items():
        path = FIGURES / f"lists-{name}.svg"
        path.write_text(drawing(shown(page)), encoding="utf-8")
        print(f"wrote docs/figures/{path.name}")


if __name__ == "__main__":
    main()
