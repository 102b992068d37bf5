"""What pages draw with: plotly's script, the charts and the style that reports and the service's page share.

The script is the one that plotly's wheel carries (4.8 MB); nothing of plotly is imported. A report holds it packed, so
that it is one file of some 2 MB that needs no network.
"""

from __future__ import annotations

import gzip
import json
import math
from base64 import b64encode
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from comband.page.text import missing_extra, visible

STATIC = Path(__file__).with_name("static")
MISSING = f"{missing_extra('a picture', 'plotly', 'reports').capitalize()}. The tables have all numbers"


def plotly_script() -> Path | None:
    """Where plotly's script is; None if plotly is not installed."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "package_data" / "plotly.min.js"
    return path if path.is_file() else None


@lru_cache(maxsize=1)
def _packed(path: Path) -> str:
    return b64encode(gzip.compress(path.read_bytes(), mtime=0)).decode("ascii")


def chart(kind: str, *, of: str) -> str:
    """The place of a chart in a page: its kind, and the part of the page's data that it draws."""
    return f'<div class="chart" data-chart="{kind}" data-from="{of}"></div>'


def scripts(data: dict[str, Any]) -> str:
    """All that a page needs to draw its charts, of `data`; empty if plotly is not installed."""
    path = plotly_script()
    if path is None:
        return ""
    code = "".join(
        f"<script>{(STATIC / name).read_text(encoding='utf-8')}</script>\n" for name in ("charts.js", "report.js")
    )
    return (
        f'<script type="application/json" id="data">{as_json(data)}</script>\n'
        f'<script type="text/plain" id="plotly">{_packed(path)}</script>\n{code}'
    )


def as_json(value: Any) -> str:
    r"""Strict JSON that may stand in a script element: text is visible, numbers that are none are null.

    >>> as_json({"name": "</script>", "forecast": float("inf")})
    '{"name":"\\u003c/script>","forecast":null}'
    """
    document = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return document.replace("<", "\\u003c")


def plain(value: Any) -> Any:
    """`value` of dicts, lists, arrays, numbers and text as JSON has them; texts as they may be shown."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # of numpy
        return plain(value.tolist())
    if isinstance(value, str):
        return visible(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
