"""The HTTP interface. `GET /openapi.json` describes it in full; `comband.serve.wire` has the messages.

| address | role | what |
|---|---|---|
| `GET /v1/experiments` | read | experiments but for archived ones, `Summaries`; `?state=…`, `?after=…&limit=…` |
| `POST /v1/experiments` | admin | a new one, `Spec` |
| `GET /v1/experiments/NAME` | read | `Summary`, its `Spec` as `spec`, and that in words as `declared` |
| `GET /v1/experiments/NAME/status` | read | `Status`: the answer, values, gaps, guards, for each candidate |
| `GET /v1/experiments/NAME/history` | read | `History`: points and the last minutes; `?since=…` for what is new |
| `GET /v1/experiments/NAME/result` | read | `Result` |
| `GET /v1/experiments/NAME/head` | read | `Head`: the hash of all that is recorded, to be published elsewhere |
| `GET /v1/experiments/NAME/certificate` | read | the file that others check, when all is over |
| `POST /v1/experiments/NAME/pause`, `/resume`, `/end` | admin | `Nothing` → `StateChanged` |
| `POST /v1/experiments/NAME/archive`, `/unarchive` | admin | `Nothing` → `Archived`: one that has ended |
| `POST /v1/experiments/NAME/clone` | admin | `Clone`: a new one like it → `ExperimentCreated` |
| `DELETE /v1/experiments/NAME` | admin | one that has ended, for good → `Deleted` |
| `GET /v1/audit` | read | `Audit`: who changed what and when; `?experiment=NAME`, `?before=…&limit=…` |
| `POST /v1/experiments/NAME/candidates` | admin | `FieldChange`: who joins, who is withdrawn → `FieldChanged` |
| `POST /v1/experiments/NAME/decisions` | decide | one `DecisionRequest` → `Decision`, or a list of them → `Decisions` |
| `GET /v1/experiments/NAME/decisions/ID` | read | `Shown` |
| `POST /v1/experiments/NAME/rewards` | reward | one `RewardPost` or a list of them → `RewardReceipt` |
| `GET /v1/experiments/NAME/export/rounds.parquet`, `/candidates.parquet` | read | for `comband evaluate` |
| `GET /healthz`, `/readyz`, `/openapi.json` | | |
| `GET /metrics` | read | Prometheus |
| `GET /`, `/page/FILE` | | the page; it has no data of its own |

Every `POST` and `DELETE` must be JSON, and must not come from a page of another site (`comband.serve.access`).
"""

from __future__ import annotations

import os
import tempfile
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route as Address
from starlette.types import Receive, Scope, Send

from comband.serve import page, wire
from comband.serve.access import Access
from comband.serve.admission import Admission
from comband.serve.audit import Actor
from comband.serve.audit import before as entries_before
from comband.serve.certificates import UnfinishedError
from comband.serve.exporting import export
from comband.serve.journal import NotRunningError
from comband.serve.metrics import Latencies, metrics_text
from comband.serve.problems import RefusedError, problem_of
from comband.serve.reading import Readers
from comband.serve.requests import check_elements
from comband.serve.service import Service
from comband.serve.views import declared_rows
from comband.serve.wire import as_json

_JSON = "application/json"
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


@dataclass(frozen=True, eq=False, slots=True)
class Route:
    """One address: what it needs, what it takes, and what it answers with (status → message); without `call` it is one
    of the two that `Hot` handles.
    """

    method: str
    path: str
    role: str | None
    call: Callable[[Api, Request], Awaitable[Response]] | None
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
        found = await self.received(request.headers, request.receive, most)
        try:
            yield found
        finally:
            self.admission.give_back(len(found))

    async def received(self, headers: Mapping[str, str], receive: Receive, most: int | None = None) -> bytes:
        """The same, to be given back to `admission` when it is used."""
        if headers.get("content-type") != _JSON:
            _check_json(headers)
        most = min(most or self.bounds.max_body, self.bounds.max_body)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        body, more = b"", True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part, more = message.get("body", b""), message.get("more_body", False)
                if len(body) + len(part) > most:
                    raise _too_large(most)
                self.admission.take(len(part))
                body = body + part if body else part
        except BaseException:
            self.admission.give_back(len(body))
            raise
        return body

    # ---- experiments -------------------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """A new experiment."""
        async with self.body(request, wire.MAX_SPEC_BODY) as body:
            check_elements(body, len(wire.Spec.__struct_fields__), wire.MAX_CANDIDATES)
            spec = wire.spec_of(body)
        await self.service.create(spec, by=_actor(request))
        return _created(spec.name)

    async def clone(self, request: Request) -> Response:
        """A new experiment like another one."""
        async with self.body(request, wire.MAX_SMALL_BODY) as body:
            what = wire.clone_of(body)
        await self.service.clone(request.path_params["name"], what, by=_actor(request))
        return _created(what.name)

    async def delete(self, request: Request) -> Response:
        """One that has ended, for good."""
        _check_json(request.headers)
        name = request.path_params["name"]
        if not await self.service.delete(name, by=_actor(request)):
            raise RefusedError(409, "Only an experiment that has ended can be deleted; end it first.")
        return _answer(wire.Deleted(name, True))

    async def archive(self, request: Request) -> Response:
        """One that has ended, out of the way or back."""
        name, verb = request.path_params["name"], request.url.path.rsplit("/", 1)[1]
        async with self.body(request, wire.MAX_SMALL_BODY) as body:
            wire.nothing_of(body or b"{}")
        try:
            since = await self.service.archive(name, verb == "archive", by=_actor(request))
        except NotRunningError as error:
            raise RefusedError(
                409, f"Only an experiment that has ended can be archived, and it is {error}; end it first."
            ) from None
        return _answer(wire.Archived(name, since))

    async def audit(self, request: Request) -> Response:
        """Who changed what and when."""
        before, limit = _whole(request, "before", wire.LARGEST_KEY), _whole(request, "limit", 100)
        name = request.query_params.get("experiment")
        found = await self.service.readers.run(entries_before, self.service.journal, before, limit + 1, name)
        rows = [
            wire.Change(one.id, one.time, one.name or None, one.actor, one.token or None, one.action, one.detail)
            for one in found[:limit]
        ]
        return _answer(wire.Audit(rows, rows[-1].id if len(found) > limit else None))

    async def all(self, request: Request) -> Response:
        """All experiments but for archived ones, or those in a state; so many at a time."""
        state, experiments = request.query_params.get("state", "current"), self.service.experiments
        if state not in _STATES:
            raise RefusedError(422, f"`state` must be one of {', '.join(_STATES)}.")
        after, limit = _whole(request, "after", 0), _whole(request, "limit", 100)
        live = experiments.live()
        chosen = live if state == "live" else experiments.all()
        if state in ("current", "ended"):
            chosen = [one for one in chosen if one.experiment.archived is None]
        if state == "ended":
            chosen = [one for one in chosen if one.experiment.state == "ended"]
        if state == "archived":
            chosen = [one for one in chosen if one.experiment.archived is not None]
        n_archived = experiments.n_archived
        first = bisect_right(chosen, after, key=lambda one: one.experiment.id)
        chosen, rest = chosen[first : first + limit], chosen[first + limit :]
        rows = await self.service.readers.run(self.service.queries.summaries, chosen)
        return _answer(
            {
                "experiments": rows,
                "live": len(live),
                "ended": experiments.count - len(live) - n_archived,
                "archived": n_archived,
                "next": chosen[-1].experiment.id if rest and chosen else None,
            }
        )

    async def one(self, request: Request) -> Response:
        """One experiment."""
        running = self.service.experiments.find(request.path_params["name"])
        summary = await self.service.readers.run(self.service.queries.summary, running)
        spec = running.experiment.spec
        return _answer({**summary, "spec": spec, "declared": declared_rows(spec)})

    async def status(self, request: Request) -> Response:
        """Where it stands."""
        return _answer(await self.service.readers.run(self.service.queries.status, request.path_params["name"]))

    async def history(self, request: Request) -> Response:
        """How it went."""
        since = _whole(request, "since", -1)
        history = partial(self.service.queries.history, since=None if since < 0 else since)
        return _answer(await self.service.readers.run(history, request.path_params["name"]))

    async def result(self, request: Request) -> Response:
        """The answer."""
        found = await self.service.readers.run(self.service.queries.result, request.path_params["name"])
        if found is None:
            raise RefusedError(
                409, "No decision is complete yet; one is when all its items are answered, or when its window is over."
            )
        return _answer(found)

    async def head(self, request: Request) -> Response:
        """The hash of all that is recorded."""
        return _answer(await self.service.readers.run(self.service.head, request.path_params["name"]))

    async def certificate(self, request: Request) -> Response:
        """The file that others check."""
        name = request.path_params["name"]
        self.service.experiments.find(name)
        try:
            path, clean_up = await self._exports.run(_certificate, self.service, name)
        except UnfinishedError:
            raise RefusedError(
                409,
                "The certificate reveals the secret seed, so it is made when nothing can come in any more: end the "
                "experiment, and wait until the window of its last decisions is over.",
            ) from None
        return FileResponse(path, 200, _HEADERS, "application/zip", clean_up, filename=f"{name}-certificate.zip")

    async def change(self, request: Request) -> Response:
        """Pause, resume or end."""
        name, verb = request.path_params["name"], request.url.path.rsplit("/", 1)[1]
        async with self.body(request, wire.MAX_SMALL_BODY) as body:
            wire.nothing_of(body or b"{}")
        state = {"pause": "paused", "resume": "running", "end": "ended"}[verb]
        before = await self.service.set_state(name, state, by=_actor(request))  # type: ignore[arg-type]
        if before is None:
            raise RefusedError(409, "The experiment has ended for good; create another one.")
        return _answer(wire.StateChanged(name, state, before))

    async def change_field(self, request: Request) -> Response:
        """Candidates join or leave."""
        async with self.body(request, wire.MAX_SMALL_BODY) as body:
            what = wire.field_change_of(body)
        return _answer(await self.service.change_field(request.path_params["name"], what, by=_actor(request)))

    # ---- decisions and rewards ---------------------------------------------------------------------------------------

    async def shown(self, request: Request) -> Response:
        """A decision as the journal has it."""
        number = request.path_params["number"]
        found = None
        if number.isascii() and number.isdigit() and len(number) < 13:
            found = await self.service.readers.run(self.service.queries.shown, request.path_params["name"], int(number))
        else:
            self.service.experiments.find(request.path_params["name"])
        if found is None:
            raise RefusedError(404, "There is no such decision in this experiment.")
        return _answer(found)

    async def decide(self, name: str, body: bytes) -> Any:
        """What to show."""
        return await self.service.decide_body(name, body)

    async def reward(self, name: str, body: bytes) -> Any:
        """What came back."""
        posts = await self.service.off_the_loop(len(body), _posts_of, body)
        return await self.service.reward(name, posts)

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


def _certificate(service: Service, name: str) -> tuple[str, BackgroundTask]:
    """A certificate in a file, and a task that removes it."""
    handle, path = tempfile.mkstemp(suffix=".zip")
    os.close(handle)
    try:
        service.certificate(name, path)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    return path, BackgroundTask(os.unlink, path)


def _too_large(most: int) -> RefusedError:
    return RefusedError(413, f"A body may have at most {most:,} bytes here; send smaller batches.", connection="close")


def _check_json(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
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


def _actor(request: Request) -> Actor:
    """Whose token the request has."""
    return request.scope["comband.actor"]  # type: ignore[no-any-return]


def _created(name: str) -> Response:
    base = f"/v1/experiments/{name}"
    return _answer(wire.ExperimentCreated(name, "running", f"{base}/decisions", f"{base}/rewards"), 201)


def _answer(message: Any, status: int = 200) -> Response:
    return Response(as_json(message), status, _HEADERS, _JSON)


_STATES = ("current", "live", "ended", "archived", "all")
_WHOLE = {
    "after": (0, wire.LARGEST_KEY),
    "limit": (1, wire.MAX_PAGE),
    "since": (0, wire.LARGEST_KEY),
    "before": (0, wire.LARGEST_KEY),
}
_QUERY = {name: (name, {"type": "integer", "minimum": low, "maximum": high}) for name, (low, high) in _WHOLE.items()}
_ALL = "/v1/experiments/"
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
    Route("GET", _ONE, "read", Api.one, "One experiment", answers=wire.Created, may=(404,)),
    Route(
        "DELETE",
        _ONE,
        "admin",
        Api.delete,
        "Delete an experiment that has ended",
        answers=wire.Deleted,
        may=(404, 409, 415),
    ),
    Route(
        "POST",
        f"{_ONE}/clone",
        "admin",
        Api.clone,
        "A new experiment like this one",
        wire.Clone,
        wire.ExperimentCreated,
        201,
        (*_OF_BODIES, 404, 409),
    ),
    *(
        Route(
            "POST",
            f"{_ONE}/{verb}",
            "admin",
            Api.archive,
            text,
            wire.Nothing,
            wire.Archived,
            200,
            (*_OF_BODIES, 404, 409),
        )
        for verb, text in (
            ("archive", "Put an experiment that has ended out of the way"),
            ("unarchive", "Put it back among the others"),
        )
    ),
    Route(
        "GET",
        "/v1/audit",
        "read",
        Api.audit,
        "Who changed what and when",
        answers=wire.Audit,
        may=(422,),
        query=(("experiment", {"type": "string"}), _QUERY["before"], _QUERY["limit"]),
    ),
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
    Route(
        "GET", f"{_ONE}/head", "read", Api.head, "The hash of all that is recorded", answers=wire.Head, may=(404, 422)
    ),
    Route(
        "GET",
        f"{_ONE}/certificate",
        "read",
        Api.certificate,
        "The file that others check, when all is over",
        may=(404, 409, 422),
        media="application/zip",
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
        None,
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
        None,
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


class Hot:
    """The application: decisions and rewards straight from the server's messages, everything else by Starlette.

    Parameters
    ----------
    api:
        The handlers.
    others:
        The application for all other addresses.
    """

    def __init__(self, api: Api, others: Starlette) -> None:
        self.api, self._others = api, others
        self._calls = {
            route.path.rpartition("/")[2]: (f"{route.method} {route.path}", str(route.role), call)
            for route, call in ((_route("decisions"), api.decide), (_route("rewards"), api.reward))
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].startswith(_ALL):
            name, _, what = scope["path"][len(_ALL) :].partition("/")
            if name and what in self._calls:
                await self._answer(name, *self._calls[what], scope, receive, send)
                return
        await self._others(scope, receive, send)

    async def _answer(
        self,
        name: str,
        label: str,
        role: str,
        call: Callable[[str, bytes], Awaitable[Any]],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        api, began = self.api, time.perf_counter()
        status, headers = 200, _HOT_HEADERS
        try:
            given = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
            token = api.access.check("POST", given, role, api.service.experiments.tokens).token
            api.admission.enter(token)
            try:
                body = await api.received(given, receive)
                try:
                    answer = as_json(await call(name, body))
                finally:
                    api.admission.give_back(len(body))
            finally:
                api.admission.leave(token)
        except Exception as error:
            refused = problem_of(error)
            status, answer = refused.status_code, bytes(refused.body)
            headers = [pair for pair in refused.raw_headers if pair[0] != b"content-length"]
        length = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": answer})
        api.latencies.add(label, status, time.perf_counter() - began)


_HOT_HEADERS = [(b"content-type", _JSON.encode()), *((name.encode(), text.encode()) for name, text in _HEADERS.items())]


def _route(what: str) -> Route:
    [found] = [route for route in ROUTES if route.call is None and route.path.endswith(f"/{what}")]
    return found


def make_app(service: Service, access: Access) -> Hot:
    """The application over a service, for those who may."""
    from comband.serve.openapi import describe

    api = Api(service, access)
    description = as_json(describe(ROUTES))

    async def openapi(request: Request) -> Response:
        return Response(description, 200, _HEADERS, _JSON)

    async def refused(request: Request, error: Exception) -> Response:
        return problem_of(error)

    pages = [Route("GET", path, None, Api.page, "The page") for path in ("/", "/page/{file}")]
    others = Starlette(
        routes=[
            *(
                Address(one.path, _guarded(api, one, one.call), methods=[one.method])
                for one in (*ROUTES, *pages)
                if one.call
            ),
            *(Address(one.path, _wrong_method, methods=["POST"]) for one in ROUTES if one.call is None),
            Address("/openapi.json", openapi, methods=["GET"]),
        ],
        exception_handlers={HTTPException: refused},
    )
    return Hot(api, others)


async def _wrong_method(request: Request) -> Response:
    """Where `Hot` answers: only there so that other methods are refused with 405."""
    raise HTTPException(404)


def _guarded(
    api: Api, route: Route, call: Callable[[Api, Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    label = f"{route.method} {route.path}"

    async def endpoint(request: Request) -> Response:
        began = time.perf_counter()
        try:
            if route.role is None:
                response = await call(api, request)
            else:
                actor = api.access.check(request.method, request.headers, route.role, api.service.experiments.tokens)
                request.scope["comband.actor"] = actor
                with api.admission.request(actor.token):
                    response = await call(api, request)
        except Exception as error:
            response = problem_of(error)
        api.latencies.add(label, response.status_code, time.perf_counter() - began)
        return response

    return endpoint
