"""The charts of a report, as a browser draws them: offline, narrow or wide, light or dark, and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from comband.show import Needed, selection_page
from tests.browser import fits, opened
from tests.show.test_pages import HOSTILE, PROBLEM, played

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DRAWN = "document.documentElement.dataset.drawn === 'yes'"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    learner, outcome = played()
    page = selection_page(
        outcome.result,
        outcome.history,
        problem=PROBLEM,
        n_candidates=5,
        comparison=learner.comparison(),
        dropped=learner.status().dropped,
        needed=[Needed("ours", 100, True, 0.1), Needed(HOSTILE, 500, False, None)],
    )
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


def ticks(page: Page, kind: str) -> list[str]:
    return [text.strip() for text in page.locator(f'[data-chart="{kind}"] .ytick text').all_text_contents()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_report_draws_all_its_charts(browser: Browser, report: str, width: int, dark: bool) -> None:
    learner, _ = played()
    compared = learner.comparison()
    with opened(browser, report, width=width, dark=dark) as page:
        page.wait_for_function(DRAWN)
        assert page.locator(".chart .cartesianlayer .subplot.xy").count() == page.locator(".chart").count() == 6
        dots = page.evaluate("document.querySelector('[data-chart=differences]').data.at(-1)")
        assert list(dots["x"]) == pytest.approx([one.difference for one in compared.candidates])
        ends = page.evaluate("document.querySelector('[data-chart=differences]').data.at(-2)")
        assert list(ends["x"]) == pytest.approx([one.bound for one in compared.candidates[1:]])
        line = page.evaluate("document.querySelector('[data-chart=differences]').layout.shapes[1].x0")
        assert line == pytest.approx(compared.epsilon)
        shown = HOSTILE if width == 1280 else HOSTILE[:13] + "…"
        for kind in ("differences", "values", "needed"):
            assert shown in ticks(page, kind)
        assert fits(page)
        ink, paper = (
            page.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")
            for where, what in ((".chart .xtick text", "fill"), ("body", "backgroundColor"))
        )
        assert (ink, paper) == (
            ("rgb(230, 233, 239)", "rgb(20, 24, 31)") if dark else ("rgb(28, 35, 48)", "rgb(255, 255, 255)")
        )


def test_hover_zoom_and_paper(browser: Browser, report: str) -> None:
    learner, _ = played()
    place = [one.name for one in learner.comparison().candidates].index(HOSTILE)
    with opened(browser, report, dark=True) as page:
        page.wait_for_function(DRAWN)
        chart = page.locator("[data-chart=values]")
        chart.locator(".point").nth(place).hover(force=True)
        said = page.locator("[data-chart=values] .hoverlayer").text_content() or ""
        assert said.startswith(HOSTILE)
        before = page.evaluate("document.querySelector('[data-chart=values]').layout.xaxis.range")
        page.evaluate("document.querySelector('[data-chart=values] [data-title=\"Zoom in\"]').click()")
        page.wait_for_function(
            "was => JSON.stringify(document.querySelector('[data-chart=values]').layout.xaxis.range) !== was",
            arg=str(before).replace(" ", ""),
        )
        page.emulate_media(media="print")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("document.querySelector('[data-chart=values]').layout.width") == 680
        ink = page.evaluate("getComputedStyle(document.querySelector('.chart .xtick text')).fill")
        assert ink == "rgb(28, 35, 48)"  # also from a dark page
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.querySelector('[data-chart=values]').layout.autosize")
