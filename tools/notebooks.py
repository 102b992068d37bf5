"""Executed notebooks of gallery pages, one per way in: `python tools/notebooks.py` writes docs/notebooks/*.ipynb.

The cells are those of the gallery's scripts, run in order in one namespace; printed text and pictures are kept as
outputs. No kernel is needed.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from base64 import b64encode
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
WAYS = {"log": "plot_log", "traffic": "plot_movies", "retriever": "plot_retriever"}  # way in -> page of the gallery


def cells_of(source: str) -> list[tuple[str, str]]:
    """(kind, text) of a gallery script's cells: its docstring and `# %%` headings are markdown, the rest is code."""
    title = ast.get_docstring(ast.parse(source)) or ""
    found = [("markdown", _markdown(title))]
    for block in re.split(r"^# %%\n", source.split('"""', 2)[2], flags=re.MULTILINE)[1:]:
        lines = block.splitlines()
        n = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        found.append(("markdown", _markdown("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:n]))))
        if code := "\n".join(lines[n:]).strip():
            found.append(("code", code))
    return found


def _markdown(text: str) -> str:
    """Headings underlined as in reStructuredText, as markdown has them."""
    text = re.sub(r"^(.+)\n=+$", r"# \1", text.strip(), flags=re.MULTILINE)
    return re.sub(r"^(.+)\n-+$", r"## \1", text, flags=re.MULTILINE).replace("``", "`")


def _run(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """A cell's outputs: what it prints, its last value, and the pictures that it has drawn."""
    from matplotlib import pyplot

    outputs: list[dict[str, Any]] = []
    tree = ast.parse(code)
    last = tree.body[-1]
    shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    if shown is not None:
        tree.body.pop()
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "notebook", "exec"), names)
        value: Any = None if shown is None else eval(compile(shown, "notebook", "eval"), names)
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if hasattr(value, "_repr_html_"):
        data = {"text/html": value._repr_html_(), "text/plain": str(value)}
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=80)
        data = {"image/png": b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    pyplot.close("all")
    return outputs


def notebook(source: str) -> dict[str, Any]:
    """The script as an executed notebook."""
    cells: list[dict[str, Any]] = []
    names: dict[str, Any] = {"__name__": "notebook"}
    for i, (kind, text) in enumerate(cells_of(source)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": text}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": _run(text, names)}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Write all of them, or those that are named."""
    import matplotlib

    matplotlib.use("Agg")
    for way in sys.argv[1:] or WAYS:
        source = (ROOT / "docs" / "gallery" / f"{WAYS[way]}.py").read_text(encoding="utf-8")
        path = ROOT / "docs" / "notebooks" / f"{way}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(notebook(source), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
