"""The documentation as people see it: built without a warning, its gallery run, links that lead somewhere."""

from __future__ import annotations

import fcntl
import html.parser
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import comband
from tests.documents import ROOT
from tests.test_docs import PUBLIC

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Scheme: TypeAlias = 'Literal["light", "dark"]'
pytest.importorskip("sphinx_gallery")
pytestmark = pytest.mark.slow  # a minute for the pages alone: `make test-pages`, which CI runs beside `make test`
join = runpy.run_path(str(ROOT / "tools" / "doc_versions.py"))["join"]
GALLERY = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))


class Page(html.parser.HTMLParser):
    """Where a page leads, and where one can be led in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        links = [given[name] or "" for name in ("href", "src") if given.get(name) is not None]
        self.links += links
        self.loaded += links if tag != "a" else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, in a folder of their version. Made once for all workers: building writes beside the sources, too."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, built = shared / "site", shared / "site-is-built"
    with (shared / "site-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            build(folder)
            built.touch()
    return folder


def build(folder: Path) -> None:
    """With Sphinx, warnings as errors."""
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / comband.__version__)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    join(folder)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    root = site / comband.__version__
    return {path: Page(path) for path in sorted(root.rglob("*.html")) if "_static" not in path.parts}


def test_every_link_of_its_own_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 50
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(link)
            if urlsplit(link).scheme:
                continue
            where = (path.parent / unquote(target.split("?")[0])).resolve() if target else path
            if not where.exists() or (anchor and where in pages and unquote(anchor) not in pages[where].anchors):
                broken.append((path.name, link))
    assert broken == []


def test_pages_load_nothing_of_others(site: Path, pages: dict[Path, Page]) -> None:
    """No script, style or picture of another site: they can be read without a network, formulas too."""
    for path, page in pages.items():
        assert [link for link in page.loaded if urlsplit(link).netloc] == [], path.name
    text = (site / comband.__version__ / "regret.html").read_text(encoding="utf-8")
    assert text.count("<math") > 50


def test_the_gallery_has_run_and_has_pictures(site: Path) -> None:
    assert len(GALLERY) >= 5
    folder = site / comband.__version__
    for path in GALLERY:
        assert (folder / "auto_gallery" / f"{path.stem}.html").is_file()
        assert list((folder / "_images").glob(f"sphx_glr_{path.stem}_0*.png"))


def test_the_front_page_has_a_picture_the_promise_and_three_ways_in(site: Path) -> None:
    text = (site / comband.__version__ / "index.html").read_text(encoding="utf-8")
    assert text.count("sphx_glr_plot_movies_001.png") >= 1
    for words in ("The promise.", "As a library.", "As a command.", "As a service."):
        assert words in text


def test_every_public_name_stands_on_one_page(pages: dict[Path, Page]) -> None:
    anchors = [anchor for page in pages.values() for anchor in page.anchors if anchor.startswith("comband.")]
    paths: dict[int, list[str]] = {}
    for name, what in PUBLIC.items():
        paths.setdefault(id(what), []).append(name)
    wrong = {
        tuple(names): found for names in paths.values() if (found := sum(anchors.count(name) for name in names)) != 1
    }
    assert wrong == {}


def test_every_page_says_its_version_and_the_folder_leads_to_the_newest(site: Path, pages: dict[Path, Page]) -> None:
    for path in pages:
        assert f"<option selected>{comband.__version__}</option>" in path.read_text(encoding="utf-8"), path.name
    assert f"{comband.__version__}/index.html" in (site / "index.html").read_text(encoding="utf-8")
    assert comband.__version__ in (site / "versions.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_narrow_screen_and_pictures_go_with_the_light(
    pages: dict[Path, Page], browser: Browser, scheme: Scheme
) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    pictured = [path for path in pages if path.stem == "index" or path.parent.name == "auto_gallery"]
    for path in pages if scheme == "light" else pictured:  # the width does not depend on the light
        name = path.name
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        filters = page.evaluate("[...document.querySelectorAll('.content img')].map(e => getComputedStyle(e).filter)")
        assert all((each == "none") == (scheme == "light") for each in filters), name
    context.close()


def test_versions_go_by_their_numbers(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.10.0-rc1"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").touch()
    assert join(tmp_path)[-1] == "0.9.0"
    assert "url=0.10.0" in (tmp_path / "index.html").read_text(encoding="utf-8")
