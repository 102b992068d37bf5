"""The service from Python: the same calls as over HTTP, typed.

>>> from comband.serve.client import Client
>>> with Client("http://127.0.0.1:8300", token="cb_…") as client:  # doctest: +SKIP
...     client.create(name="search", candidates=["current", "recency"], list_size=2, epsilon=.01, sparsity=1)
...     decision = client.decide("search", {"current": ["a", "b"], "recency": ["c", "a"]}, request="9f4c")
...     client.reward("search", decision.decision, {decision.items[0]: 1.0})
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import httpx
import msgspec

from comband.serve import wire

Lists = Mapping[str, Sequence[str | int]] | Sequence[Sequence[str | int] | None]
Rewards = Mapping[str | int, float]
_Message = TypeVar("_Message")


class ServiceError(Exception):
    """The service refused; `problem` says why and what to do."""

    def __init__(self, problem: wire.Problem) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem


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
        headers = {"content-type": "application/json"} | ({} if token is None else {"authorization": f"Bearer {token}"})
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, transport=transport)
        self._retries = retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create(self, **spec: Any) -> wire.ExperimentCreated:
        """A new experiment; the fields are those of `comband.serve.wire.Spec`."""
        made = msgspec.convert(spec, wire.Spec)
        return self._call("POST", "/v1/experiments", wire.ExperimentCreated, wire.as_json(made), again=False)

    def experiments(self) -> list[wire.Summary]:
        """All experiments."""
        found: list[wire.Summary] = []
        after: int | None = 0
        while after is not None:
            page = self._call("GET", f"/v1/experiments?after={after}", wire.Summaries)
            found += page.experiments
            after = page.next
        return found

    def decide(self, name: str, lists: Lists, *, request: str | None = None) -> wire.Decision:
        """What to show for one request."""
        [made] = self.decide_many(name, [(lists, request)])
        if isinstance(made, wire.RefusedRequest):
            raise ServiceError(wire.Problem(made.title, made.status, made.detail))
        return made

    def decide_many(
        self, name: str, requests: Sequence[tuple[Lists, str | None]]
    ) -> list[wire.Decision | wire.RefusedRequest]:
        """What to show for each of several requests: lists, and an id or None. Some may be refused: show lists of your
        own there.
        """
        body = [
            {"lists": lists, "request": request if request is not None else _new_id()} for lists, request in requests
        ]
        answer = self._call("POST", f"/v1/experiments/{name}/decisions", wire.Decisions, wire.as_json(body))
        refused = {one.index: one for one in answer.refused}
        return [made if made is not None else refused[i] for i, made in enumerate(answer.decisions)]

    def reward(self, name: str, decision: int | str, rewards: Rewards) -> wire.RewardReceipt:
        """What came back for some of the items of a decision, by its number or its ticket."""
        return self.reward_many(name, {decision: rewards})

    def reward_many(
        self, name: str, rewards: Mapping[int, Rewards] | Mapping[str, Rewards] | Mapping[int | str, Rewards]
    ) -> wire.RewardReceipt:
        """The same for several decisions."""
        body = [{"decision": number, "rewards": list(items.items())} for number, items in rewards.items()]
        return self._call("POST", f"/v1/experiments/{name}/rewards", wire.RewardReceipt, wire.as_json(body))

    def status(self, name: str) -> wire.Status:
        """Where it stands, in full."""
        return self._call("GET", f"/v1/experiments/{name}/status", wire.Status)

    def result(self, name: str) -> wire.Result:
        """The answer."""
        return self._call("GET", f"/v1/experiments/{name}/result", wire.Result)

    def history(self, name: str, *, since: int | None = None) -> wire.History:
        """How it went, or what has been added since the point after so many decisions."""
        more = "" if since is None else f"?since={since}"
        return self._call("GET", f"/v1/experiments/{name}/history{more}", wire.History)

    def decision(self, name: str, number: int) -> wire.Shown:
        """A decision as the journal has it."""
        return self._call("GET", f"/v1/experiments/{name}/decisions/{number}", wire.Shown)

    def pause(self, name: str) -> wire.StateChanged:
        """Decide nothing for a while."""
        return self._call("POST", f"/v1/experiments/{name}/pause", wire.StateChanged)

    def resume(self, name: str) -> wire.StateChanged:
        """Go on deciding."""
        return self._call("POST", f"/v1/experiments/{name}/resume", wire.StateChanged)

    def end(self, name: str) -> wire.StateChanged:
        """Decide nothing any more."""
        return self._call("POST", f"/v1/experiments/{name}/end", wire.StateChanged)

    def change_field(
        self, name: str, *, add: str | None = None, withdraw: str | None = None, planned: bool = False
    ) -> wire.FieldChanged:
        """A candidate joins, one is withdrawn, or both; see `comband.serve.wire.FieldChange`."""
        body = wire.as_json(wire.FieldChange(add=add, withdraw=withdraw, planned=planned))
        return self._call("POST", f"/v1/experiments/{name}/candidates", wire.FieldChanged, body, again=False)

    def export(self, name: str, what: str) -> bytes:
        """What is asked for, "rounds" or "candidates" as Parquet, for `comband evaluate`."""
        return self._answer(lambda: self._http.get(f"/v1/experiments/{name}/export/{what}.parquet")).content

    def _call(
        self, method: str, path: str, kind: type[_Message], body: bytes | None = None, *, again: bool = True
    ) -> _Message:
        response = self._answer(lambda: self._http.request(method, path, content=body), again=again)
        return msgspec.json.decode(response.content, type=kind)

    def _answer(self, call: Callable[[], httpx.Response], *, again: bool = True) -> httpx.Response:
        for attempt in range(self._retries if again else 0, -1, -1):
            try:
                response = call()
            except httpx.TransportError:
                if attempt == 0:
                    raise
            else:
                if response.is_success:
                    return response
                if response.status_code not in (429, 503) or attempt == 0:
                    raise ServiceError(_problem(response))
            time.sleep(0.2)
        raise AssertionError("unreachable")


def _problem(response: httpx.Response) -> wire.Problem:
    try:
        return msgspec.json.decode(response.content, type=wire.Problem)
    except msgspec.MsgspecError:
        return wire.Problem("Not an answer of comband", response.status_code, response.text[:200])


def _new_id() -> str:
    import uuid

    return uuid.uuid4().hex
