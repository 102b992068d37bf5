"""From claims to a page: self-contained, escaped, and the same after an interruption."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import comband as cb
from comband.paper.checks import Bound, Check, Slope
from comband.paper.reproducing import LinePerMinute, reproduce
from tests.paper.toy import toy
from tests.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_report_is_one_self_contained_page(tmp_path: Path) -> None:
    findings = reproduce([toy()], tmp_path, workers=1)
    assert [f.verdict for f in findings] == ["supported"]
    page = (tmp_path / "report.html").read_text()
    assert "y grows like x² &amp; &lt;no&gt; faster" in page
    assert "✓ supported" in page
    assert "1.9 to 2.1" in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "http://" not in page
    assert "https://" not in page
    assert (tmp_path / "figures" / "toy.png").stat().st_size > 5000
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert verdicts[0]["checks"][0]["value"] == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_page_fits_a_narrow_screen_and_its_pictures_stay_legible(
    tmp_path: Path, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    reproduce([toy()], tmp_path, workers=1, quick=True)
    context = browser.new_context(viewport={"width": 400, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate("document.querySelector('figure img').getBoundingClientRect().width") >= 600
    shown = page.evaluate("getComputedStyle(document.querySelector('figure img')).filter")
    assert (shown == "none") == (scheme == "light")
    context.close()


@pytest.mark.slow
def test_interrupted_and_resumed_gives_the_same_page(tmp_path: Path) -> None:
    reproduce([toy()], tmp_path / "whole", workers=1)
    results = (tmp_path / "whole" / "results" / "toy.jsonl").read_bytes()
    half = tmp_path / "half" / "results" / "toy.jsonl"
    half.parent.mkdir(parents=True)
    half.write_bytes(results[: len(results) // 2])
    reproduce([toy()], tmp_path / "half", workers=1, progress=True)
    for name in ("report.html", "verdicts.json", "figures/toy.svg"):
        assert (tmp_path / "half" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_verdicts_are_strict_json_and_keep_their_ranges(tmp_path: Path) -> None:
    """Open ends and what has no interval are null; contrasts stand beside what they are a contrast to."""
    checks: tuple[Check, ...] = (
        Bound(Slope("at most 2.1", "x", "y", (-math.inf, 2.1)), Slope("cubes", "x", "cube", (-math.inf, 2.1))),
        Bound(Slope("at most 9", "x", "y", (-math.inf, 9))),
        Slope("at least 1", "x", "y", (1, math.inf)),
    )
    reproduce([replace(toy(), checks=checks)], tmp_path, workers=1)

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not JSON")

    (found,) = json.loads((tmp_path / "verdicts.json").read_text(), parse_constant=refuse)
    assert found["verdict"] == "consistent"
    assert [c["verdict"] for c in found["checks"]] == ["supported", "consistent", "supported"]
    for check, written in zip(checks, found["checks"], strict=True):
        low, high = written["accepted"]
        assert (-math.inf if low is None else low, math.inf if high is None else high) == check.accepted
    assert found["checks"][0]["contrast"]["value"] == pytest.approx(3, abs=0.1)
    assert found["checks"][1]["contrast"] is None
    page = (tmp_path / "report.html").read_text()
    assert "for contrast: cubes" in page
    assert "fails, as it must" in page
    assert "≈ consistent" in page


def test_names_must_differ(tmp_path: Path) -> None:
    with pytest.raises(cb.InputError, match="distinct names"):
        reproduce([toy(), toy()], tmp_path)


@pytest.mark.slow
def test_a_limit_leaves_claims_out_and_the_next_call_goes_on(tmp_path: Path) -> None:
    first, second = toy(), replace(toy(), name="other")
    none = reproduce([first, second], tmp_path, quick=True, workers=1, seconds=0.0)
    assert none == []
    assert not any(path.stat().st_size for path in (tmp_path / "results").glob("*.jsonl"))
    reproduce([first], tmp_path, quick=True, workers=1)
    limited = reproduce([first, second], tmp_path, quick=True, workers=1, seconds=0.0)
    assert [finding.claim.name for finding in limited] == ["toy"]
    whole = reproduce([first, second], tmp_path, quick=True, workers=1, seconds=1e9)
    assert [finding.claim.name for finding in whole] == ["toy", "other"]
    at_once = reproduce([first, second], tmp_path / "at once", quick=True)
    assert [finding.verdict for finding in whole] == [finding.verdict for finding in at_once]


def test_without_a_terminal_it_tells_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce([toy()], tmp_path, quick=True, workers=1, progress=True)
    last = capsys.readouterr().err.splitlines()[-1]
    runs = len(toy().tasks(quick=True))
    assert re.fullmatch(rf"{runs} of {runs} runs done after [\d.]+ minutes \(toy\)", last)
    with LinePerMinute(3, every=1e-3):
        wait_for(lambda: "0 of 3 runs done" in capsys.readouterr().err, "a line")
