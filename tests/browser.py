"""A real Chromium for tests of pages: whatever it writes to its console as an error fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.waiting import LIMIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """Where a Chromium is; the test is skipped where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium on this machine: install the package chromium to run tests of pages")


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    path = chromium()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=1000 * LIMIT)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, address: str, *, width: int = 1280, dark: bool = False, expected: tuple[str, ...] = ()
) -> Iterator[Page]:
    """A page at `address`; errors on its console, but those that hold one of the `expected` texts, fail the test, and
    so does a dialogue or a request to anywhere else.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(1000 * LIMIT)
    page = context.new_page()
    wrong: list[str] = []
    origin = address.split("/", 3)[:3]

    def elsewhere(url: str) -> bool:
        return url.split("/", 3)[:3] != origin and not url.startswith(("blob:", "data:"))

    def refuse(dialog: Dialog) -> None:
        wrong.append(f"a dialogue: {dialog.message}")
        dialog.dismiss()

    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", refuse)
    page.on("request", lambda request: wrong.append(request.url) if elsewhere(request.url) else None)
    try:
        page.goto(address)
        yield page
        left = [text for text in wrong if not any(part in text for part in expected)]
        assert not left, f"the page says {left}"
    finally:
        context.close()


def fits(page: Page) -> bool:
    """Whether nothing reaches beyond the window's width."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))
