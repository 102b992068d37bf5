"""Errors as problem+json (RFC 9457), each with a sentence on what to do."""

from __future__ import annotations

import logging

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from comband.page.problem import InputError
from comband.serve.database import LateError, StoreError
from comband.serve.experiments import UnknownExperimentError
from comband.serve.journal import GoneError, NotRunningError, TakenError
from comband.serve.service import FieldClosedError, NotReadyError, RepeatedRequestError, WarmingError, refusal_of
from comband.serve.wire import Problem, as_json

_log = logging.getLogger("comband.serve")

TITLES = {
    400: "This is not JSON",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "This address does not do that",
    406: "Not acceptable",
    408: "Too slow",
    409: "Not possible in this state",
    411: "The length is missing",
    413: "Too large",
    415: "Not JSON",
    421: "Another host was asked for",
    422: "The request is not as it should be",
    429: "Too many requests",
    431: "Too many headers",
    500: "Something is wrong with the service",
    503: "Not now",
}


class RefusedError(Exception):
    """A request that is answered with a problem."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The answer to what cannot be done."""
    body = as_json(Problem(TITLES.get(status, "Refused"), status, detail))
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/problem+json")


def problem_of(error: Exception) -> Response:
    """What an exception says to the caller."""
    if isinstance(error, RefusedError):
        return problem(error.status, error.detail, {name.replace("_", "-"): v for name, v in error.headers.items()})
    if isinstance(error, ClientDisconnect):  # not read
        return problem(408, "The request was not complete when its connection ended.")
    if isinstance(error, msgspec.ValidationError):
        return problem(422, f"{error}; see /openapi.json for what is expected.")
    if isinstance(error, (msgspec.DecodeError, UnicodeDecodeError)):
        return problem(400, f"The body must be JSON in UTF-8 ({error}).")
    if isinstance(error, InputError):
        return problem(422, str(error))
    if isinstance(error, (UnknownExperimentError, GoneError)):
        return problem(404, f"There is no experiment {str(error)[:80]!r}; GET /v1/experiments lists them.")
    if isinstance(error, TakenError):
        return problem(409, f"There is an experiment {str(error)!r} already; choose another name.")
    if isinstance(error, (NotRunningError, RepeatedRequestError)):
        status, _, detail = refusal_of(error)
        return problem(status, detail)
    if isinstance(error, FieldClosedError):
        return problem(
            409, f"{str(error)[:200]!r} is the winner, and no candidate can join any more; create another experiment."
        )
    if isinstance(error, NotReadyError):
        return problem(503, "The experiment has no plan yet; try again in a second.", {"retry-after": "1"})
    if isinstance(error, WarmingError):
        return problem(503, "Loops are being compiled, for some seconds after an installation.", {"retry-after": "1"})
    if isinstance(error, LateError):
        again = "send it again with the same request id, which is answered as if it had come once"
        return problem(503, f"There is no answer in time ({error}): {again}.", {"retry-after": "1"})
    if isinstance(error, StoreError):
        _log.error("the store failed", extra={"facts": {"error": str(error)}})
        return problem(
            503,
            "Nothing was stored: the store failed (the log says why). Show a list of your own, and try again.",
            {"retry-after": "1"},
        )
    if isinstance(error, HTTPException):
        detail = "Nothing is at this address; see /openapi.json." if error.status_code == 404 else str(error.detail)
        return problem(error.status_code, detail, dict(error.headers or {}))
    _log.exception("a request failed", exc_info=error)
    return problem(500, "This is a fault of the service, and is in its log; trying again may help.")
