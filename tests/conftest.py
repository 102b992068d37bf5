"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import launched
from tests.certify.claiming import unwatched

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as COLUMNS says, and where tests run somebody may have set it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(name="unwatched")
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """For long suites, in which what guards say is not counted."""
    unwatched(monkeypatch)


@pytest.fixture(scope="module")  # not longer: as long as it runs, asyncio.run is refused in this thread
def browser() -> Iterator[Browser]:
    """A Chromium; tests that ask for it are skipped where there is none."""
    with launched() as one:
        yield one
