"""Make folders of several versions of the documentation one site: a list for the switch of each, and a way in.

Run as `python tools/doc_versions.py FOLDER`; every folder in it that has an index.html is a version.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>comband</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">comband {newest}</a>
</html>
"""


def order(version: str) -> tuple[tuple[int, int, str], ...]:
    """By numbers where there are numbers: 0.10 comes after 0.9."""
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"[.\-+]", version))


def versions(folder: Path) -> list[str]:
    """The newest first."""
    return sorted((path.parent.name for path in folder.glob("*/index.html")), key=order, reverse=True)


def join(folder: Path) -> list[str]:
    """Write versions.js, which pages of every version read, and index.html, which leads to the newest."""
    found = versions(folder)
    (folder / "versions.js").write_text(f"window.COMBAND_VERSIONS = {json.dumps(found)};\n", encoding="utf-8")
    (folder / "index.html").write_text(PAGE.format(newest=found[0]), encoding="utf-8")
    return found


if __name__ == "__main__":
    join(Path(sys.argv[1]))
