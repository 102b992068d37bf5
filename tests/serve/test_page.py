"""The page in a real browser: live, with and without tokens, narrow and dark, and whatever candidates are called."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from comband.certify.verify import verify
from comband.serve import page as files
from comband.serve import views
from comband.serve.learners import Timing
from comband.serve.service import Service
from comband.serve.tokens import create_token
from comband.statistics import order_guard, place_guard
from comband.statistics.place_guard import PlaceGuard
from tests.browser import fits, opened
from tests.serve.worlds import listening, service
from tests.waiting import LIMIT, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<script>alert(1)</script>"
NAMES = ["now", HOSTILE, "new", "newest"]
RATES = (0.2, 0.7, 0.1, 0.05)  # of a click on the first item of each one's list


@dataclass
class Served:
    """A service that listens, and somebody who uses it."""

    address: str
    service: Service
    token: str = ""

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.address,
            headers={"authorization": f"Bearer {self.token}"} if self.token else {},
            timeout=LIMIT,
        )

    def create(self, name: str = "home", **more: Any) -> None:
        spec = {
            "name": name,
            "candidates": NAMES,
            "list_size": 2,
            "sparsity": 1,
            "epsilon": 0.1,
            "note": HOSTILE,
            **more,
        }
        with self._client() as client:
            assert client.post("/v1/experiments", json=spec).status_code == 201

    def visit(self, n: int, name: str = "home", seed: int = 0) -> None:
        """n visitors, each of whom clicks or does not at once."""
        rng = np.random.default_rng(seed)
        lists = {called: [f"{i}a", f"{i}b"] for i, called in enumerate(NAMES)}
        with self._client() as client:
            for _ in range(0, n, 50):
                asked = client.post(f"/v1/experiments/{name}/decisions", json=[{"lists": lists}] * 50)
                assert asked.status_code == 200, asked.text
                posts = []
                for one in asked.json()["decisions"]:
                    chances = [RATES[int(item[0])] if item[1] == "a" else 0.0 for item in one["items"]]
                    clicked = np.searchsorted(np.cumsum(chances), rng.random())
                    rewards = [[item, float(i == clicked)] for i, item in enumerate(one["items"])]
                    posts.append({"decision": one["decision"], "rewards": rewards})
                assert client.post(f"/v1/experiments/{name}/rewards", json=posts).status_code == 200

    def wait(self, name: str, field: str, value: object) -> None:
        """Until the status says so."""
        with self._client() as client:
            path = f"/v1/experiments/{name}/status"
            wait_for(lambda: client.get(path).json()[field] == value, f"{field} is {value!r}")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with service(tmp_path, timing=Timing()) as made, listening(made) as address:
        yield Served(address, made)


def give_token(served: Served, *roles: str) -> str:
    with served.service.journal.database.transaction():
        token = create_token(served.service.journal, "page", roles)

    def is_known() -> bool:
        path, headers = f"{served.address}/v1/experiments", {"authorization": f"Bearer {token}"}
        known, without = httpx.get(path, headers=headers, timeout=LIMIT), httpx.get(path, timeout=LIMIT)
        return (known.status_code, without.status_code) == (200, 401)

    wait_for(is_known, "the service knows the token")
    return token


def text(page: Page, selector: str) -> str:
    return page.locator(selector).text_content() or ""


def one(served: Served, name: str = "home") -> str:
    return f"{served.address}/#/experiments/{name}"


def tile(page: Page, name: str) -> str:
    """What the tile of this name says."""
    found = page.locator("#numbers > div").filter(has=page.locator(f"dt:text-is({name!r})"))
    return found.locator("dd").text_content() or ""


def until(page: Page, selector: str, words: str) -> None:
    page.wait_for_function(
        "([where, words]) => document.querySelector(where).textContent.includes(words)", arg=[selector, words]
    )


def as_told(served: Served) -> dict[str, list[float]]:
    """What the API says, as the charts should draw it."""
    status = httpx.get(f"{served.address}/v1/experiments/home/status", timeout=LIMIT).json()
    history = httpx.get(f"{served.address}/v1/experiments/home/history", timeout=LIMIT).json()
    order = {"leader": 0, "candidate": 1, "dropped": 2}
    rows = sorted(status["candidates"], key=lambda row: (order[row["state"]], -row["difference"]))
    found = {name: [row[name] for row in rows] for name in ("difference", "value")}
    shares = sorted(row["share"] for row in rows if row["share"] is not None)
    found |= {"bound": [row["bound"] for row in rows[1:]], "share": shares}
    points, minutes = history["points"], history["minutes"]
    found |= {name: [point[name] for point in points] for name in ("survivors", "certified", "reward_lost")}
    return found | {
        name: [minute[name] for minute in minutes] for name in ("decisions", "rewards", "mean_delay_seconds")
    }


def as_drawn(page: Page) -> dict[str, list[float]]:
    """What the charts draw."""

    def trace(chart: str, number: int, axis: str) -> list[float]:
        column = "([id, i, axis]) => [...document.getElementById(id).data.at(i)[axis]]"
        return list(page.evaluate(column, [chart, number, axis]))

    return {
        "difference": trace("differences", -1, "x"),
        "bound": trace("differences", -2, "x"),
        "value": trace("values", -1, "x"),
        "share": sorted(trace("shares", 0, "x")),
        "survivors": trace("field", 0, "y"),
        "certified": trace("certificate", 0, "y"),
        "reward_lost": trace("lost", 0, "y"),
        "decisions": trace("rates", 0, "y"),
        "rewards": trace("rates", 1, "y"),
        "mean_delay_seconds": trace("delays", 0, "y"),
    }


def test_the_list_leads_to_an_experiment(browser: Browser, served: Served) -> None:
    with opened(browser, f"{served.address}/") as page:
        page.wait_for_selector("#none:not([hidden])")
        served.create("home")
        served.create("search")
        page.wait_for_selector(".card:nth-child(2)")  # without a reload
        assert [words.split()[0] for words in page.locator(".card h2").all_text_contents()] == ["home", "search"]
        page.click(".card >> nth=1")
        page.wait_for_selector("#one:not([hidden])")
        assert text(page, "#name") == "search"
        assert text(page, "#state") == "running"
        page.click(".home")
        page.wait_for_selector("#list:not([hidden])")


def test_an_experiment_reaches_its_winner_live(browser: Browser, served: Served) -> None:
    served.create(production="now")
    with opened(browser, one(served)) as page:
        until(page, "#answer", "No decision has been settled yet")
        page.evaluate("window.same = true")
        served.visit(50)
        until(page, "#answer", "Cannot tell")
        until(page, "#kind", "cannot tell")
        served.visit(1950, seed=1)
        served.wait("home", "done", True)
        until(page, "#answer", f"Decided: {HOSTILE}. With probability 0.95 no candidate is better")
        until(page, "#kind", "decided")
        assert page.evaluate("getComputedStyle(document.querySelector('#kind')).color") == "rgb(27, 127, 77)"
        assert page.evaluate("window.same")
        end = time.monotonic() + LIMIT
        while (told := as_told(served)) != (drawn := as_drawn(page)) and time.monotonic() < end:
            page.wait_for_timeout(100)  # points may still be added
        assert drawn == told
        assert sum(told["decisions"]) == 2000
        assert told["share"] == [1.0]  # the winner's lists are all that is shown
        until(page, "#numbers", "2,000")
        assert "candidates not ruled out" not in text(page, "#numbers")
        assert tile(page, "winner").startswith(HOSTILE[:10])
        until(page, "#next", "let your pages show its lists themselves")
        until(page, "#lift", "beside now, which is in production; with probability 0.9 the difference lies between ")
        assert page.locator("#guards li").count() == 6
        page.click("#json summary")
        page.click("#addresses button >> nth=1")
        page.wait_for_selector("#raw:not([hidden])")
        assert '"is_certified": true' in text(page, "#raw")
        # Every chart is inside its place, and none is empty.
        for place in page.locator(".chart").all():
            box, inner = place.bounding_box(), place.locator(".main-svg").first.bounding_box()
            assert box is not None
            assert inner is not None
            assert inner["width"] <= box["width"] + 1
            assert inner["height"] > 100


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_names_are_text_and_a_phone_has_room(browser: Browser, served: Served, dark: bool) -> None:
    served.create()
    served.visit(400)
    with opened(browser, one(served), width=400, dark=dark) as page:
        page.wait_for_selector("#values .ytick text")
        page.wait_for_selector("#rates .bars path")
        assert fits(page)
        assert text(page, "#note") == HOSTILE
        page.click("details >> nth=0 >> summary")
        assert HOSTILE in page.locator("#rows td:first-child").all_text_contents()
        ticks = [words.strip() for words in page.locator("#values .ytick text").all_text_contents()]
        assert HOSTILE[:13] + "…" in ticks
        assert fits(page)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 24, 31)" if dark else "rgb(255, 255, 255)")
        ink = page.evaluate("getComputedStyle(document.querySelector('#values .xtick text')).fill")
        assert ink == ("rgb(230, 233, 239)" if dark else "rgb(28, 35, 48)")


def test_pause_resume_and_end(browser: Browser, served: Served) -> None:
    served.create()
    served.visit(50)
    with opened(browser, one(served)) as page:
        page.wait_for_selector("#one:not([hidden])")
        page.click("#pause")
        until(page, "#state", "paused")
        until(page, "#pause", "Resume")
        page.click("#pause")
        until(page, "#state", "running")
        assert page.locator("#consequence").is_hidden()
        page.click("#end")
        assert "cannot be resumed" in page.locator("#consequence").inner_text()
        page.click("#keep")
        assert page.locator("#consequence").is_hidden()
        served.wait("home", "state", "running")
        page.click("#end")
        page.click("#sure")
        until(page, "#state", "ended")
        page.wait_for_function(
            "() => document.getElementById('pause').disabled && document.getElementById('end').disabled"
        )
        served.wait("home", "state", "ended")


def test_the_head_and_the_certificate(browser: Browser, served: Served) -> None:
    served.create()
    served.visit(50)
    with opened(browser, one(served)) as page:
        page.wait_for_selector("#one:not([hidden])")
        page.click("#checking summary")
        page.wait_for_function("() => document.getElementById('head').textContent.startsWith('Head ')")
        assert page.locator("#certify").is_hidden()
        page.click("#end")
        page.click("#sure")
        page.wait_for_selector("#certify:not([hidden])")
        with page.expect_download(timeout=1000 * LIMIT) as found:
            page.click("#certify")
        assert verify(str(found.value.path())).verified


def test_tokens(browser: Browser, served: Served) -> None:
    served.create()
    reading, served.token = give_token(served, "read"), give_token(served, "admin")
    refused = ("the server responded with a status of 401", "the server responded with a status of 403")
    with opened(browser, one(served), expected=refused) as page:
        page.wait_for_selector("#refusal:not([hidden])")  # nothing is shown without one
        assert "Authorization: Bearer" in text(page, "#refusal")
        assert page.locator("#one").is_hidden()
        page.fill("#token", "cb_0000000000000000_" + "x" * 43)
        page.click("#access button >> nth=0")
        until(page, "#refusal", "The token was refused")
        page.fill("#token", reading)
        page.click("#access button >> nth=0")
        page.wait_for_selector("#one:not([hidden])")
        assert page.locator("#refusal").is_hidden()
        page.click("#pause")  # may read, and no more
        until(page, "#refusal", "needs the role admin")
        assert text(page, "#state") == "running"
        page.fill("#token", served.token)
        page.click("#access button >> nth=0")
        page.wait_for_selector("#refusal", state="hidden")
        page.click("#pause")
        until(page, "#state", "paused")
        assert page.evaluate("localStorage.length") == 0
        page.click("#sign")
        page.click("#forget")
        page.wait_for_selector("#refusal:not([hidden])")
        assert page.evaluate("sessionStorage.length") == 0


def test_what_may_run_is_said_and_nothing_is_inline(served: Served) -> None:
    answer = httpx.get(served.address, timeout=LIMIT)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|https?://", answer.text)
    for name in re.findall(r'(?:src|href)="/page/([^"]+)"', answer.text):
        got = httpx.get(f"{served.address}/page/{name}", timeout=LIMIT)
        assert got.status_code == 200
        assert got.headers["x-content-type-options"] == "nosniff"
    assert files.file("__init__.py") is None
    assert files.file("../journal.py") is None
    assert httpx.get(f"{served.address}/page/%2e%2e/api.py", timeout=LIMIT).status_code == 404


def test_figures_are_of_the_last_full_minute_though_traffic_has_stopped(browser: Browser, served: Served) -> None:
    journal = served.service.journal
    now, right = journal.wall() - 46 * 60_000, journal.wall
    journal.wall = lambda: now  # type: ignore[method-assign]
    served.create(window_seconds=7200, fallback="now")
    served.visit(50)
    journal.wall = right  # type: ignore[method-assign]
    with opened(browser, one(served)) as page:
        until(page, "#numbers", "none for 4")
        assert re.match("0none for 4[5-9] min", tile(page, "decisions per minute"))
        assert tile(page, "rewards per minute").startswith("0last full minute")
        until(page, "#next", "see whether your pages still ask")
        page.click("#spec summary")
        said = text(page, "#declared")
        for words in ("window seconds7,200", "delta0.05", "sparsity1 reward per round", "fallbacknow", "placesnot set"):
            assert words in said


def test_advice_is_for_those_who_use_the_service() -> None:
    """What the library says to programs has its counterpart, and no guard speaks Python here."""
    guard = PlaceGuard(None, list_size=2, max_reward=1.0)
    for _ in range(400):
        guard.update(np.array([[1.0, 0.0]]))
    assert "Problem(places" in guard.message
    said = views._advised([guard.message])[0]
    assert "Problem(" not in said
    assert '"places": "pairs"' in said
    for of_library in views.ADVICE:
        assert any(of_library == found.ADVICE for found in (place_guard, order_guard))
