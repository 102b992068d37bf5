"""The page: files that the service gives out as they are, without data; scripts ask the API for that.

Charts and style are those of reports (`comband.show`), the chart library the script that plotly's wheel carries.
Nothing in the page is inline. Plotly adds two style elements, one empty and one that is part of its script: their
hashes are in the policy.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

MEDIA = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_SHARED = ("charts.js", "style.css")
_SCRIPT = "plotly.min.js"
_STYLE = re.compile(r"""createElement\("style"\).{0,200}?textContent=(["'`])(.*?)(?<!\\)\1""", re.DOTALL)


@cache
def policy() -> str:
    """What the page may load and run: its own files, and the two styles that plotly adds."""
    styles = " ".join(f"'sha256-{_hash(text)}'" for text in ("", *_plotly_styles()))
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' {styles}; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _plotly_styles() -> list[str]:
    from comband.show.charts import plotly_script  # which loads much: a service starts without it

    path = plotly_script()
    return [] if path is None else [found[2] for found in _STYLE.finditer(path.read_text(encoding="utf-8"))]


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


@dataclass(frozen=True, slots=True)
class File:
    """A file as it goes out."""

    data: bytes
    media: str
    headers: dict[str, str] = field(default_factory=lambda: {"content-security-policy": policy()})


@cache
def file(name: str) -> File | None:
    """The file of this name; None if there is none."""
    from comband.show.charts import STATIC, plotly_script

    if name == _SCRIPT:
        script = plotly_script()
        if script is None:
            return None
        made = File(script.read_bytes(), MEDIA["js"])
        made.headers["cache-control"] = "max-age=86400"  # 4.8 MB that do not change
        return made
    folder = STATIC if name in _SHARED else Path(__file__).parent
    kind = name.rpartition(".")[2]
    found = next((one for one in folder.iterdir() if one.name == name), None)
    return None if found is None or kind not in MEDIA else File(found.read_bytes(), MEDIA[kind])
