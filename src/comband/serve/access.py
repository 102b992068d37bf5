"""Which requests are let in: by host, by origin, and by token.

A page of another site can send requests to any address that its visitor's browser reaches. It can neither send JSON
nor a token without asking the service first, which never agrees, and browsers say where a request comes from
(`Sec-Fetch-Site`, `Origin`): what changes state must be JSON and come from the service's own page or from no page. A
site that lets its own name point here is known by the `Host` that it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from comband.serve.audit import OPEN, Actor
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

    def check(self, method: str, headers: Mapping[str, str], role: str, tokens: Mapping[str, Token]) -> Actor:
        """Raises `RefusedError` unless a request may do what the role says; whose token it has."""
        self._check_host(headers)
        if method not in ("GET", "HEAD"):
            self._check_origin(headers)
        if self.is_open and not tokens:
            if any(name in headers for name in _BY_PROXIES):
                raise RefusedError(
                    403, "A service without tokens answers no requests that came through a proxy; start without --open."
                )
            return OPEN
        kind, _, secret = headers.get("authorization", "").partition(" ")
        found = bearer_of(tokens, secret.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise RefusedError(
                401, "Send `Authorization: Bearer TOKEN`; `comband token create` makes one.", www_authenticate="Bearer"
            )
        if role not in found.may:
            raise RefusedError(403, f"This token may {', '.join(sorted(found.may))}; this needs the role {role}.")
        return Actor(found.id, found.name)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        asked = _host(headers.get("host", ""))
        if self.hosts is not None and asked not in self.hosts:
            raise RefusedError(
                421,
                f"The service answers as {', '.join(self.hosts)} only; the setting `hosts` names others by which it is "
                "reached.",
            )

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            is_own = site in ("same-origin", "none")
        else:
            is_own = origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
        if not is_own:
            raise RefusedError(403, "Pages of other sites may change nothing here; send this from a program of yours.")


@lru_cache(maxsize=256)
def _host(netloc: str) -> str:
    """The name without the port."""
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""
