"""Which requests are let in: by host, by origin, and by token.

A page of another site can send requests to any address that its visitor's browser reaches. It can neither send JSON
nor a token without asking the service first, which never agrees, and browsers say where a request comes from
(`Sec-Fetch-Site`, `Origin`): what changes state must be JSON and come from the service's own page or from no page. A
site that lets its own name point here is known by the `Host` that it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

from comband.serve.problems import RefusedError
from comband.serve.tokens import Token, bearer_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BY_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    is_open:
        Whether no tokens are asked for as long as there are none: on loopback only.
    hosts:
        Names by which the service may be asked for; None: any.
    """

    is_open: bool = False
    hosts: Sequence[str] | None = LOOPBACK

    def check(self, request: Request, role: str, tokens: Mapping[str, Token]) -> str:
        """Raises `RefusedError` unless the request may do what the role says; the id of its token, "" without one."""
        self._check_host(request)
        if request.method not in ("GET", "HEAD"):
            self._check_origin(request)
        if self.is_open and not tokens:
            if any(name in request.headers for name in _BY_PROXIES):
                raise RefusedError(
                    403, "A service without tokens answers no requests that came through a proxy; start without --open."
                )
            return ""
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        found = bearer_of(tokens, secret.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise RefusedError(
                401, "Send `Authorization: Bearer TOKEN`; `comband token create` makes one.", www_authenticate="Bearer"
            )
        if role not in found.may:
            raise RefusedError(403, f"This token may {', '.join(sorted(found.may))}; this needs the role {role}.")
        return found.id

    def _check_host(self, request: Request) -> None:
        asked = _host(request.headers.get("host", ""))
        if self.hosts is not None and asked not in self.hosts:
            raise RefusedError(
                421,
                f"The service answers as {', '.join(self.hosts)} only; the setting `hosts` names others by which it is "
                "reached.",
            )

    def _check_origin(self, request: Request) -> None:
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None:
            is_own = site in ("same-origin", "none")
        else:
            is_own = origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
        if not is_own:
            raise RefusedError(403, "Pages of other sites may change nothing here; send this from a program of yours.")


def _host(netloc: str) -> str:
    """The name without the port."""
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""
