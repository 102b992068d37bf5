"""The service from Python: the same calls as over HTTP, typed.

>>> from comband.serve.client import Client
>>> with Client("http://127.0.0.1:8300", token="cb_…") as client:  # doctest: +SKIP
...     client.create(name="search", candidates=["current", "recency"], list_size=2, epsilon=.01, sparsity=1)
...     decision = client.decide("search", {"current": ["a", "b"], "recency": ["c", "a"]}, request="9f4c")
...     client.reward("search", decision.decision, {decision.items[0]: 1.0})

`AsyncClient` has the same calls, to be awaited. What a call sends and makes of the answer is a `Call`, made by the
methods of `_Calls`: both clients make the same ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from comband.serve import wire

Lists = Mapping[str, Sequence[str | int]] | Sequence[Sequence[str | int] | None]
Rewards = Mapping[str | int, float]
Many = Mapping[int, Rewards] | Mapping[str, Rewards] | Mapping[int | str, Rewards]
_PAUSE = 0.2  # seconds before a call is made again
_Message = TypeVar("_Message")


class ServiceError(Exception):
    """The service refused; `problem` says why and what to do."""

    def __init__(self, problem: wire.Problem) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Call(Generic[_Message]):
    """One call: what is sent, what is made of the answer, and whether it may be made again."""

    method: str
    path: str
    read: Callable[[bytes], _Message]
    body: bytes | None = None
    again: bool = True


def _call(method: str, path: str, kind: type[_Message], body: Any = None, *, again: bool = True) -> Call[_Message]:
    return Call(method, path, msgspec.json.Decoder(kind).decode, None if body is None else wire.as_json(body), again)


def _of(name: str, more: str = "") -> str:
    return f"/v1/experiments/{quote(name, safe='')}{more}"


class _Calls:
    """What each call sends and makes of the answer."""

    def create(self, spec: Mapping[str, Any]) -> Call[wire.ExperimentCreated]:
        made = msgspec.convert(spec, wire.Spec)
        return _call("POST", "/v1/experiments", wire.ExperimentCreated, made, again=False)

    def experiments(self, after: int) -> Call[wire.Summaries]:
        return _call("GET", f"/v1/experiments?after={after}", wire.Summaries)

    def decide_many(
        self, name: str, requests: Sequence[tuple[Lists, str | None]]
    ) -> Call[list[wire.Decision | wire.RefusedRequest]]:
        body = [{"lists": lists, "request": _new_id() if request is None else request} for lists, request in requests]

        def read(data: bytes) -> list[wire.Decision | wire.RefusedRequest]:
            answer = msgspec.json.decode(data, type=wire.Decisions)
            refused = {one.index: one for one in answer.refused}
            return [made if made is not None else refused[i] for i, made in enumerate(answer.decisions)]

        return Call("POST", _of(name, "/decisions"), read, wire.as_json(body))

    def reward_many(
        self, name: str, rewards: Many, metrics: Mapping[str, Many] | None = None
    ) -> Call[wire.RewardReceipt]:
        posts: dict[int | str, dict[str, Any]] = {number: {"decision": number} for number in rewards}
        for number, items in rewards.items():
            posts[number]["rewards"] = list(items.items())
        for metric, of_decisions in (metrics or {}).items():
            for number, items in of_decisions.items():
                post = posts.setdefault(number, {"decision": number})
                post.setdefault("metrics", {})[metric] = list(items.items())
        body = list(posts.values())
        return _call("POST", _of(name, "/rewards"), wire.RewardReceipt, body)

    def history(self, name: str, since: int | None) -> Call[wire.History]:
        return _call("GET", _of(name, "/history" if since is None else f"/history?since={since}"), wire.History)

    def audit(self, name: str | None, before: int | None) -> Call[wire.Audit]:
        given = {"experiment": name, "before": before}
        more = urlencode({key: value for key, value in given.items() if value is not None})
        return _call("GET", f"/v1/audit?{more}", wire.Audit)

    def change_field(self, name: str, change: wire.FieldChange) -> Call[wire.FieldChanged]:
        return _call("POST", _of(name, "/candidates"), wire.FieldChanged, change, again=False)

    def clone(self, name: str, what: wire.Clone) -> Call[wire.ExperimentCreated]:
        return _call("POST", _of(name, "/clone"), wire.ExperimentCreated, what, again=False)

    def certificate(self, name: str) -> Call[bytes]:
        return Call("GET", _of(name, "/certificate"), bytes)

    def export(self, name: str, what: str) -> Call[bytes]:
        return Call("GET", _of(name, f"/export/{what}.parquet"), bytes)


_CALLS = _Calls()


class _Attempts:
    """How often a call is made, and what its answers mean; for the parameters see `Client`."""

    def __init__(self, token: str | None, retries: int) -> None:
        self.headers = {"content-type": "application/json"}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self._retries = retries

    def left(self, call: Call[Any]) -> range:
        """How many attempts are left, at each attempt."""
        return range(self._retries if call.again else 0, -1, -1)

    def read(self, call: Call[_Message], response: httpx.Response, left: int) -> list[_Message]:
        """The answer; none if the call is to be made again."""
        if response.is_success:
            return [call.read(response.content)]
        if response.status_code not in (429, 503) or left == 0:
            raise ServiceError(_problem(response))
        return []


class Client:
    """Calls of one service.

    Parameters
    ----------
    address:
        Where it listens, `http://127.0.0.1:8300`.
    token:
        As the service's first start shows it, or `comband token create`; none is needed by a service that is open.
    timeout:
        Seconds for one call.
    retries:
        How often a call is made again when the service cannot be reached, or says "not now" (503) or "too many" (429):
        decisions carry a request id and rewards are counted once, so that nothing happens twice.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        timeout: float = 5.0,
        retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._attempts = _Attempts(token, retries)
        self._http = httpx.Client(
            base_url=address, headers=self._attempts.headers, timeout=timeout, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def experiments(self) -> list[wire.Summary]:
        """All experiments but for archived ones."""
        found: list[wire.Summary] = []
        after: int | None = 0
        while after is not None:
            page = self._run(_CALLS.experiments(after))
            found += page.experiments
            after = page.next
        return found

    def decide(self, name: str, lists: Lists, *, request: str | None = None) -> wire.Decision:
        """What to show for one request."""
        [made] = self.decide_many(name, [(lists, request)])
        return _decided(made)

    def create(self, **spec: Any) -> wire.ExperimentCreated:
        """A new experiment; the fields are those of `comband.serve.wire.Spec`."""
        return self._run(_CALLS.create(spec))

    def decide_many(
        self, name: str, requests: Sequence[tuple[Lists, str | None]]
    ) -> list[wire.Decision | wire.RefusedRequest]:
        """What to show for each of several requests: lists, and an id or None. Some may be refused: show lists of your
        own there.
        """
        return self._run(_CALLS.decide_many(name, requests))

    def reward(
        self, name: str, decision: int | str, rewards: Rewards | None = None, **metrics: Rewards
    ) -> wire.RewardReceipt:
        """What came back for some of the items of a decision, by its number or its ticket: rewards, or values of
        further metrics by their names, or both.
        """
        further = {metric: {decision: values} for metric, values in metrics.items()}
        return self._run(_CALLS.reward_many(name, {} if rewards is None else {decision: rewards}, further))

    def reward_many(self, name: str, rewards: Many, **metrics: Many) -> wire.RewardReceipt:
        """The same for several decisions."""
        return self._run(_CALLS.reward_many(name, rewards, metrics))

    def status(self, name: str) -> wire.Status:
        """Where it stands, in full."""
        return self._run(_call("GET", _of(name, "/status"), wire.Status))

    def result(self, name: str) -> wire.Result:
        """The answer."""
        return self._run(_call("GET", _of(name, "/result"), wire.Result))

    def head(self, name: str) -> wire.Head:
        """The hash of all that is recorded so far, to be published elsewhere."""
        return self._run(_call("GET", _of(name, "/head"), wire.Head))

    def certificate(self, name: str) -> bytes:
        """The file that others check, when all is over; see docs/howto_check.md."""
        return self._run(_CALLS.certificate(name))

    def history(self, name: str, *, since: int | None = None) -> wire.History:
        """How it went, or what has been added since the point after so many decisions."""
        return self._run(_CALLS.history(name, since))

    def decision(self, name: str, number: int) -> wire.Shown:
        """A decision as the journal has it."""
        return self._run(_call("GET", _of(name, f"/decisions/{number}"), wire.Shown))

    def pause(self, name: str) -> wire.StateChanged:
        """Decide nothing for a while."""
        return self._run(_call("POST", _of(name, "/pause"), wire.StateChanged))

    def resume(self, name: str) -> wire.StateChanged:
        """Go on deciding."""
        return self._run(_call("POST", _of(name, "/resume"), wire.StateChanged))

    def end(self, name: str) -> wire.StateChanged:
        """Decide nothing any more."""
        return self._run(_call("POST", _of(name, "/end"), wire.StateChanged))

    def archive(self, name: str) -> wire.Archived:
        """Put an experiment that has ended out of the way."""
        return self._run(_call("POST", _of(name, "/archive"), wire.Archived))

    def unarchive(self, name: str) -> wire.Archived:
        """Put it back among the others."""
        return self._run(_call("POST", _of(name, "/unarchive"), wire.Archived))

    def clone(self, name: str, new: str, *, note: str | None = None) -> wire.ExperimentCreated:
        """A new experiment with the settings of another one, and the candidates that are in its field now."""
        return self._run(_CALLS.clone(name, wire.Clone(name=new, note=note)))

    def delete(self, name: str) -> wire.Deleted:
        """Delete an experiment that has ended, for good."""
        return self._run(_call("DELETE", _of(name), wire.Deleted, again=False))

    def audit(self, name: str | None = None, *, before: int | None = None) -> wire.Audit:
        """Who changed what and when, the newest first; of one experiment, or of all."""
        return self._run(_CALLS.audit(name, before))

    def change_field(
        self,
        name: str,
        *,
        add: str | None = None,
        withdraw: str | None = None,
        planned: bool = False,
        digest: str | None = None,
    ) -> wire.FieldChanged:
        """A candidate joins, one is withdrawn, or both; see `comband.serve.wire.FieldChange`."""
        return self._run(
            _CALLS.change_field(name, wire.FieldChange(add=add, withdraw=withdraw, planned=planned, digest=digest))
        )

    def export(self, name: str, what: str) -> bytes:
        """What is asked for, "rounds" or "candidates" as Parquet, for `comband evaluate`."""
        return self._run(_CALLS.export(name, what))

    def _run(self, call: Call[_Message]) -> _Message:
        for left in self._attempts.left(call):
            try:
                response = self._http.request(call.method, call.path, content=call.body)
            except httpx.TransportError:
                if left == 0:
                    raise
            else:
                for answer in self._attempts.read(call, response, left):
                    return answer
            time.sleep(_PAUSE)
        raise AssertionError("unreachable")


class AsyncClient:
    """Calls of one service, to be awaited; the same as those of `Client`.

    Parameters
    ----------
    address, token, timeout, retries:
        As for `Client`.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        timeout: float = 5.0,
        retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._attempts = _Attempts(token, retries)
        self._http = httpx.AsyncClient(
            base_url=address, headers=self._attempts.headers, timeout=timeout, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def experiments(self) -> list[wire.Summary]:
        """All experiments but for archived ones."""
        found: list[wire.Summary] = []
        after: int | None = 0
        while after is not None:
            page = await self._run(_CALLS.experiments(after))
            found += page.experiments
            after = page.next
        return found

    async def decide(self, name: str, lists: Lists, *, request: str | None = None) -> wire.Decision:
        """What to show for one request."""
        [made] = await self.decide_many(name, [(lists, request)])
        return _decided(made)

    async def create(self, **spec: Any) -> wire.ExperimentCreated:
        """A new experiment; the fields are those of `comband.serve.wire.Spec`."""
        return await self._run(_CALLS.create(spec))

    async def decide_many(
        self, name: str, requests: Sequence[tuple[Lists, str | None]]
    ) -> list[wire.Decision | wire.RefusedRequest]:
        """What to show for each of several requests: lists, and an id or None. Some may be refused: show lists of your
        own there.
        """
        return await self._run(_CALLS.decide_many(name, requests))

    async def reward(
        self, name: str, decision: int | str, rewards: Rewards | None = None, **metrics: Rewards
    ) -> wire.RewardReceipt:
        """What came back for some of the items of a decision, by its number or its ticket: rewards, or values of
        further metrics by their names, or both.
        """
        further = {metric: {decision: values} for metric, values in metrics.items()}
        return await self._run(_CALLS.reward_many(name, {} if rewards is None else {decision: rewards}, further))

    async def reward_many(self, name: str, rewards: Many, **metrics: Many) -> wire.RewardReceipt:
        """The same for several decisions."""
        return await self._run(_CALLS.reward_many(name, rewards, metrics))

    async def status(self, name: str) -> wire.Status:
        """Where it stands, in full."""
        return await self._run(_call("GET", _of(name, "/status"), wire.Status))

    async def result(self, name: str) -> wire.Result:
        """The answer."""
        return await self._run(_call("GET", _of(name, "/result"), wire.Result))

    async def head(self, name: str) -> wire.Head:
        """The hash of all that is recorded so far, to be published elsewhere."""
        return await self._run(_call("GET", _of(name, "/head"), wire.Head))

    async def certificate(self, name: str) -> bytes:
        """The file that others check, when all is over; see docs/howto_check.md."""
        return await self._run(_CALLS.certificate(name))

    async def history(self, name: str, *, since: int | None = None) -> wire.History:
        """How it went, or what has been added since the point after so many decisions."""
        return await self._run(_CALLS.history(name, since))

    async def decision(self, name: str, number: int) -> wire.Shown:
        """A decision as the journal has it."""
        return await self._run(_call("GET", _of(name, f"/decisions/{number}"), wire.Shown))

    async def pause(self, name: str) -> wire.StateChanged:
        """Decide nothing for a while."""
        return await self._run(_call("POST", _of(name, "/pause"), wire.StateChanged))

    async def resume(self, name: str) -> wire.StateChanged:
        """Go on deciding."""
        return await self._run(_call("POST", _of(name, "/resume"), wire.StateChanged))

    async def end(self, name: str) -> wire.StateChanged:
        """Decide nothing any more."""
        return await self._run(_call("POST", _of(name, "/end"), wire.StateChanged))

    async def archive(self, name: str) -> wire.Archived:
        """Put an experiment that has ended out of the way."""
        return await self._run(_call("POST", _of(name, "/archive"), wire.Archived))

    async def unarchive(self, name: str) -> wire.Archived:
        """Put it back among the others."""
        return await self._run(_call("POST", _of(name, "/unarchive"), wire.Archived))

    async def clone(self, name: str, new: str, *, note: str | None = None) -> wire.ExperimentCreated:
        """A new experiment with the settings of another one, and the candidates that are in its field now."""
        return await self._run(_CALLS.clone(name, wire.Clone(name=new, note=note)))

    async def delete(self, name: str) -> wire.Deleted:
        """Delete an experiment that has ended, for good."""
        return await self._run(_call("DELETE", _of(name), wire.Deleted, again=False))

    async def audit(self, name: str | None = None, *, before: int | None = None) -> wire.Audit:
        """Who changed what and when, the newest first; of one experiment, or of all."""
        return await self._run(_CALLS.audit(name, before))

    async def change_field(
        self,
        name: str,
        *,
        add: str | None = None,
        withdraw: str | None = None,
        planned: bool = False,
        digest: str | None = None,
    ) -> wire.FieldChanged:
        """A candidate joins, one is withdrawn, or both; see `comband.serve.wire.FieldChange`."""
        return await self._run(
            _CALLS.change_field(name, wire.FieldChange(add=add, withdraw=withdraw, planned=planned, digest=digest))
        )

    async def export(self, name: str, what: str) -> bytes:
        """What is asked for, "rounds" or "candidates" as Parquet, for `comband evaluate`."""
        return await self._run(_CALLS.export(name, what))

    async def _run(self, call: Call[_Message]) -> _Message:
        for left in self._attempts.left(call):
            try:
                response = await self._http.request(call.method, call.path, content=call.body)
            except httpx.TransportError:
                if left == 0:
                    raise
            else:
                for answer in self._attempts.read(call, response, left):
                    return answer
            await asyncio.sleep(_PAUSE)
        raise AssertionError("unreachable")


def _decided(made: wire.Decision | wire.RefusedRequest) -> wire.Decision:
    if isinstance(made, wire.RefusedRequest):
        raise ServiceError(wire.Problem(made.title, made.status, made.detail))
    return made


def _problem(response: httpx.Response) -> wire.Problem:
    try:
        return msgspec.json.decode(response.content, type=wire.Problem)
    except msgspec.MsgspecError:
        return wire.Problem("Not an answer of comband", response.status_code, response.text[:200])


def _new_id() -> str:
    import uuid

    return uuid.uuid4().hex
