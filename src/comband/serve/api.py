"""The HTTP interface. `GET /openapi.json` describes it in full; `comband.serve.wire` has the messages.

| address | role | what |
|---|---|---|
| `GET /v1/experiments` | read | experiments, `Summaries`; `?state=live`, `?after=…&limit=…` for some of them |
| `POST /v1/experiments` | admin | a new one, `Spec` |
| `GET /v1/experiments/NAME` | read | `Summary`, and its `Spec` as `spec` |
| `GET /v1/experiments/NAME/status` | read | `Status`: the answer, values, gaps, guards, for each candidate |
| `GET /v1/experiments/NAME/history` | read | `History`: points and the last minutes; `?since=…` for what is new |
| `GET /v1/experiments/NAME/result` | read | `Result` |
| `POST /v1/experiments/NAME/pause`, `/resume`, `/end` | admin | `Nothing` → `StateChanged` |
| `POST /v1/experiments/NAME/candidates` | admin | `FieldChange`: who joins, who is withdrawn → `FieldChanged` |
| `POST /v1/experiments/NAME/decisions` | decide | one `DecisionRequest` → `Decision`, or a list of them → `Decisions` |
| `GET /v1/experiments/NAME/decisions/ID` | read | `Shown` |
| `POST /v1/experiments/NAME/rewards` | reward | one `RewardPost` or a list of them → `RewardReceipt` |
| `GET /v1/experiments/NAME/export/rounds.parquet`, `/candidates.parquet` | read | for `comband evaluate` |
| `GET /healthz`, `/readyz`, `/openapi.json` | | |
| `GET /metrics` | read | Prometheus |
| `GET /`, `/page/FILE` | | the page; it has no data of its own |

Every `POST` must be JSON, and must not come from a page of another site (`comband.serve.access`).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from comband.serve import page, wire
from comband.serve.access import Access
from comband.serve.admission import Admission
from comband.serve.exporting import export
from comband.serve.metrics import Latencies, metrics_text
from comband.serve.problems import RefusedError, problem_of
from comband.serve.reading import Readers
from comband.serve.requests import check_elements
from comband.serve.service import Service
from comband.serve.wire import as_json

_JSON = "application/json"
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


@dataclass(frozen=True, eq=False, slots=True)
class Route:
    """One address: what it needs, what it takes, and what it answers with (status → message)."""

    method: str
    path: str
    role: str | None
    call: Callable[[Api, Request], Awaitable[Response]]
    summary: str
    takes: Any = None
    answers: Any = None
    status: int = 200
    may: tuple[int, ...] = ()
    media: str = _JSON
    query: tuple[tuple[str, dict[str, Any]], ...] = ()


class Api:
    """The handlers.

    Parameters
    ----------
    service:
        What they ask.
    access:
        Who may ask them.
    """

    def __init__(self, service: Service, access: Access) -> None:
        self.service, self.access, self.latencies = service, access, Latencies()
        self.bounds, self.admission = service.bounds, Admission(service.bounds)
        self._exports = Readers("exports", threads=1, waiting=self.bounds.max_exports, timeout=None)

    @asynccontextmanager
    async def body(self, request: Request, most: int | None = None) -> AsyncIterator[bytes]:
        """The body, if it is JSON and not too large, as long as it is used: its bytes count among those of all."""
        _check_json(request)
        most = min(most or self.bounds.max_body, self.bounds.max_body)
        large = RefusedError(
            413, f"A body may have at most {most:,} bytes here; send smaller batches.", connection="close"
        )
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise large
        with ExitStack() as held:
            parts, size = [], 0
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise large
                held.enter_context(self.admission.body(len(part)))
                parts.append(part)
            yield b"".join(parts)

    # ---- experiments -------------------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """A new experiment."""
        async with self.body(request, wire.MAX_SPEC_BODY) as body:
            check_elements(body, len(wire.Spec.__struct_fields__), wire.MAX_CANDIDATES)
            spec = wire.spec_of(body)
        await self.service.create(spec)
        base = f"/v1/experiments/{spec.name}"
        return _answer(wire.ExperimentCreated(spec.name, "running", f"{base}/decisions", f"{base}/rewards"), 201)

    async def all(self, request: Request) -> Response:
        """All experiments, or those that are live, or have ended; so many at a time."""
        state, experiments = request.query_params.get("state", "all"), self.service.experiments
        if state not in _STATES:
            raise RefusedError(422, f"`state` must be one of {', '.join(_STATES)}.")
        after, limit = _whole(request, "after", 0), _whole(request, "limit", 100)
        live = experiments.live()
        chosen = live if state == "live" else experiments.all()
        if state == "ended":
            chosen = [one for one in chosen if one.experiment.state == "ended"]
        first = bisect_right(chosen, after, key=lambda one: one.experiment.id)
        chosen, rest = chosen[first : first + limit], chosen[first + limit :]
        rows = await self.service.readers.run(self.service.telling.summaries, chosen)
        n = experiments.count
        return _answer(
            {
                "experiments": rows,
                "live": len(live),
                "ended": n - len(live),
                "next": chosen[-1].experiment.id if rest and chosen else None,
            }
        )

    async def one(self, request: Request) -> Response:
        """One experiment."""
        running = self.service.experiments.find(request.path_params["name"])
        summary = await self.service.readers.run(self.service.telling.summary, running)
        return _answer({**summary, "spec": running.experiment.spec})

    async def status(self, request: Request) -> Response:
        """Where it stands."""
        return _answer(await self.service.readers.run(self.service.telling.status, request.path_params["name"]))

    async def history(self, request: Request) -> Response:
        """How it went."""
        since = _whole(request, "since", -1)
        history = partial(self.service.telling.history, since=None if since < 0 else since)
        return _answer(await self.service.readers.run(history, request.path_params["name"]))

    async def result(self, request: Request) -> Response:
        """The answer."""
        found = await self.service.readers.run(self.service.telling.result, request.path_params["name"])
        if found is None:
            raise RefusedError(
                409, "No decision is settled yet; a decision is when all its items are answered, or its window is over."
            )
        return _answer(found)

    async def change(self, request: Request) -> Response:
        """Pause, resume or end."""
        name, verb = request.path_params["name"], request.url.path.rsplit("/", 1)[1]
        async with self.body(request, wire.MAX_SMALL_BODY) as body:
            wire.nothing_of(body or b"{}")
        state = {"pause": "paused", "resume": "running", "end": "ended"}[verb]
        before = await self.service.set_state(name, state)  # type: ignore[arg-type]
        if before is None:
            raise RefusedError(409, "The experiment has ended for good; create another one.")
        return _answer(wire.StateChanged(name, state, before))

    async def change_field(self, request: Request) -> Response:
        """Somebody joins, somebody leaves."""
        async with self.body(request, wire.MAX_SMALL_BODY) as body:
            what = wire.field_change_of(body)
        return _answer(await self.service.change_field(request.path_params["name"], what))

    # ---- decisions and rewards ---------------------------------------------------------------------------------------

    async def decide(self, request: Request) -> Response:
        """What to show."""
        async with self.body(request) as body:
            return _answer(await self.service.decide_body(request.path_params["name"], body))

    async def shown(self, request: Request) -> Response:
        """A decision as the journal has it."""
        number = request.path_params["number"]
        found = None
        if number.isascii() and number.isdigit() and len(number) < 13:
            found = await self.service.readers.run(self.service.telling.shown, request.path_params["name"], int(number))
        else:
            self.service.experiments.find(request.path_params["name"])
        if found is None:
            raise RefusedError(404, "There is no such decision in this experiment.")
        return _answer(found)

    async def reward(self, request: Request) -> Response:
        """What came back."""
        async with self.body(request) as body:
            posts = await self.service.off_the_loop(len(body), _posts_of, body)
        return _answer(await self.service.reward(request.path_params["name"], posts))

    async def export(self, request: Request) -> Response:
        """All rounds, or the candidates' lists in them, as Parquet."""
        running = self.service.experiments.find(request.path_params["name"])
        what = request.url.path.rsplit("/", 1)[1].removesuffix(".parquet")
        name = running.experiment.name
        path, clean_up = await self._exports.run(export, self.service, name, what)
        kind, called = "application/vnd.apache.parquet", f"{name}-{what}.parquet"
        return FileResponse(path, 200, _HEADERS, kind, clean_up, filename=called)

    # ---- operations --------------------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """The process answers."""
        return _answer({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """The store can be read, and nothing is left to compile."""
        await self.service.is_ready()
        stopped = len(self.service.experiments.failures)  # 200 all the same: no list is left unshown for that
        return _answer(wire.Ready("degraded" if stopped else "ready", stopped))

    async def metrics(self, request: Request) -> Response:
        """Figures for Prometheus."""
        text = await self.service.readers.run(metrics_text, self.service, self.latencies)
        return Response(text, 200, _HEADERS, "text/plain; version=0.0.4")

    async def page(self, request: Request) -> Response:
        """A file of the page."""
        found = page.file(request.path_params.get("file", "index.html"))
        if found is None:
            raise HTTPException(404)
        return Response(found.data, 200, {**_HEADERS, **found.headers}, found.media)


def _check_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise RefusedError(415, "Send JSON, with `Content-Type: application/json`.")


def _posts_of(body: bytes) -> list[wire.RewardPost]:
    check_elements(body, wire.MAX_REWARDS, wire.MAX_LIST)
    posts = wire.reward_posts_of(body)
    return posts if isinstance(posts, list) else [posts]


def _whole(request: Request, name: str, default: int) -> int:
    """A whole number of the query, within what the description says."""
    text = request.query_params.get(name)
    if text is None:
        return default
    least, most = _WHOLE[name]
    if not (text.isascii() and text.isdigit() and len(text) < 17 and least <= int(text) <= most):
        raise RefusedError(422, f"`{name}` must be a whole number in {least} … {most}.")
    return int(text)


def _answer(message: Any, status: int = 200) -> Response:
    return Response(as_json(message), status, _HEADERS, _JSON)


_STATES = ("all", "live", "ended")
_WHOLE = {"after": (0, wire.LARGEST_KEY), "limit": (1, wire.MAX_PAGE), "since": (0, wire.LARGEST_KEY)}
_QUERY = {name: (name, {"type": "integer", "minimum": low, "maximum": high}) for name, (low, high) in _WHOLE.items()}
_ONE = "/v1/experiments/{name}"
_OF_BODIES = (400, 413, 415, 422)
ROUTES = (
    Route(
        "GET",
        "/v1/experiments",
        "read",
        Api.all,
        "All experiments",
        answers=wire.Summaries,
        may=(422,),
        query=(("state", {"enum": list(_STATES)}), _QUERY["after"], _QUERY["limit"]),
    ),
    Route(
        "POST",
        "/v1/experiments",
        "admin",
        Api.create,
        "Create an experiment",
        wire.Spec,
        wire.ExperimentCreated,
        201,
        (*_OF_BODIES, 409),
    ),
    Route("GET", _ONE, "read", Api.one, "One experiment", answers=wire.Summary, may=(404,)),
    Route("GET", f"{_ONE}/status", "read", Api.status, "Where it stands, in full", answers=wire.Status, may=(404,)),
    Route(
        "GET",
        f"{_ONE}/history",
        "read",
        Api.history,
        "How it went",
        answers=wire.History,
        may=(404, 422),
        query=(_QUERY["since"],),
    ),
    Route("GET", f"{_ONE}/result", "read", Api.result, "The answer", answers=wire.Result, may=(404, 409)),
    *(
        Route(
            "POST",
            f"{_ONE}/{verb}",
            "admin",
            Api.change,
            text,
            wire.Nothing,
            wire.StateChanged,
            200,
            (*_OF_BODIES, 404, 409),
        )
        for verb, text in (
            ("pause", "Decide nothing for a while"),
            ("resume", "Go on deciding"),
            ("end", "Decide nothing any more; open decisions still wait for their rewards"),
        )
    ),
    Route(
        "POST",
        f"{_ONE}/candidates",
        "admin",
        Api.change_field,
        "A candidate joins, one is withdrawn, or both",
        wire.FieldChange,
        wire.FieldChanged,
        200,
        (*_OF_BODIES, 404, 409),
    ),
    Route(
        "POST",
        f"{_ONE}/decisions",
        "decide",
        Api.decide,
        "What to show, for one request or a list of them",
        wire.DecisionRequests,
        (wire.Decision, wire.Decisions),
        200,
        (*_OF_BODIES, 404, 409),
    ),
    Route("GET", f"{_ONE}/decisions/{{number}}", "read", Api.shown, "A decision", answers=wire.Shown, may=(404,)),
    Route(
        "POST",
        f"{_ONE}/rewards",
        "reward",
        Api.reward,
        "What came back, for one decision or a list of them",
        wire.RewardPosts,
        wire.RewardReceipt,
        200,
        (*_OF_BODIES, 404),
    ),
    *(
        Route(
            "GET",
            f"{_ONE}/export/{what}.parquet",
            "read",
            Api.export,
            text,
            may=(404, 409),
            media="application/vnd.apache.parquet",
        )
        for what, text in (("rounds", "All settled rounds"), ("candidates", "What each candidate would have shown"))
    ),
    Route("GET", "/healthz", None, Api.health, "Whether the process answers", answers=dict[str, str]),
    Route(
        "GET",
        "/readyz",
        None,
        Api.ready,
        "Whether it can decide at once, and learns",
        answers=wire.Ready,
    ),
    Route("GET", "/metrics", "read", Api.metrics, "Figures for Prometheus", media="text/plain"),
)


def make_app(service: Service, access: Access) -> FastAPI:
    """The application over a service, for those who may."""
    from comband.serve.openapi import describe

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    api = Api(service, access)
    for route in sorted(ROUTES, key=lambda one: one.role not in ("decide", "reward")):  # routes are tried in turn
        app.add_route(route.path, _guarded(api, route), [route.method], name=f"{route.method} {route.path}")
    description = as_json(describe(ROUTES))

    async def openapi(request: Request) -> Response:
        return Response(description, 200, _HEADERS, _JSON)

    app.add_route("/openapi.json", openapi, ["GET"])
    for path in ("/", "/page/{file}"):
        app.add_route(path, _guarded(api, Route("GET", path, None, Api.page, "The page")), ["GET"])

    async def refused(request: Request, error: Exception) -> Response:
        return problem_of(error)

    app.add_exception_handler(HTTPException, refused)
    app.state.api = api
    return app


def _guarded(api: Api, route: Route) -> Callable[[Request], Awaitable[Response]]:
    label = f"{route.method} {route.path}"

    async def endpoint(request: Request) -> Response:
        began = time.perf_counter()
        try:
            if route.role is None:
                response = await route.call(api, request)
            else:
                token = api.access.check(request, route.role, api.service.experiments.tokens)
                with api.admission.request(token):
                    response = await route.call(api, request)
        except Exception as error:
            response = problem_of(error)
        api.latencies.add(label, response.status_code, time.perf_counter() - began)
        return response

    return endpoint
