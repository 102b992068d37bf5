"""Notebooks hold what the gallery has, executed: `python tools/notebooks.py` makes them anew."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.documents import ROOT

_SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
assert _SPEC is not None
assert _SPEC.loader is not None
notebooks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(notebooks)


@pytest.mark.parametrize("way", notebooks.WAYS)
def test_a_notebook_is_its_gallery_page_executed(way: str) -> None:
    source = (ROOT / "docs" / "gallery" / f"{notebooks.WAYS[way]}.py").read_text(encoding="utf-8")
    found = json.loads((ROOT / "docs" / "notebooks" / f"{way}.ipynb").read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert [(cell["cell_type"], cell["source"]) for cell in found["cells"]] == notebooks.cells_of(source)
    outputs = [output for cell in found["cells"] if cell["cell_type"] == "code" for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any(output["output_type"] == "stream" for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.slow
def test_a_notebook_runs_again_to_the_same_words() -> None:
    source = (ROOT / "docs" / "gallery" / "plot_retriever.py").read_text(encoding="utf-8")
    found = json.loads((ROOT / "docs" / "notebooks" / "retriever.ipynb").read_text(encoding="utf-8"))
    words = [
        [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
        for book in (notebooks.notebook(source), found)
        for cell in book["cells"]
        if cell["cell_type"] == "code"
    ]
    assert words[: len(words) // 2] == words[len(words) // 2 :]
