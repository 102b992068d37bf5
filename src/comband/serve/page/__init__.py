"""The page: files that the service gives out as they are, without data; scripts ask the API for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it goes out."""

    data: bytes
    media: str
    headers: dict[str, str] = field(default_factory=lambda: {"content-security-policy": POLICY})


@cache
def file(name: str) -> File | None:
    """The file of this name; None if there is none."""
    kind = name.rpartition(".")[2]
    found = next((one for one in files(__name__).iterdir() if one.name == name), None)
    return None if found is None or kind not in MEDIA else File(found.read_bytes(), MEDIA[kind])
