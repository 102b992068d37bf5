"""Bearer tokens with roles, kept as hashes.

A token is `cb_ID_SECRET`: the id finds the row, the secret (256 random bits) is compared as a SHA-256 hash in constant
time. Roles: decide, reward, read; admin may do everything.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comband.page.problem import InputError
from comband.page.text import quoted
from comband.serve.audit import COMMAND, PROCESS, Actor, record
from comband.serve.journal import Journal
from comband.serve.wire import NAME, ROLES

EVERY = "*"
_FORM = re.compile(r"cb_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the journal has it; for one environment, or for all (`EVERY`)."""

    id: str
    environment: str
    name: str
    roles: frozenset[str]
    hash: bytes
    created: int
    revoked: int | None

    @property
    def may(self) -> frozenset[str]:
        """The roles that it has, with those that admin includes."""
        return frozenset(ROLES) if "admin" in self.roles else self.roles


def create_token(
    journal: Journal, name: str, roles: Sequence[str], *, environment: str | None = None, by: Actor = COMMAND
) -> str:
    """A new token, which is shown this once, for the journal's environment unless another is given; inside a
    transaction.
    """
    where = journal.environment if environment is None else environment
    if where != EVERY:
        check_environment(where)
    unknown = [role for role in roles if role not in ROLES]
    if unknown or not roles:
        raise InputError(f"roles must be some of {', '.join(ROLES)}, got {', '.join(map(quoted, roles)) or 'none'}.")
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise InputError("a token's name must have 1 … 200 printable characters.")
    number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    journal.database.run(
        "INSERT INTO tokens (id, environment, name, roles, hash, created, revoked) VALUES (?, ?, ?, ?, ?, ?, NULL)",
        [number, where, name, " ".join(sorted(set(roles))), _hash(secret), journal.wall()],
    )
    detail = {"token": number, "name": name, "roles": sorted(set(roles)), "environment": where}
    record(journal, by, "token created", detail=detail)
    return f"cb_{number}_{secret}"


def revoke_token(journal: Journal, number: str, *, by: Actor = COMMAND) -> None:
    """Let it open nothing any more; inside a transaction."""
    found = journal.database.run("SELECT revoked, name FROM tokens WHERE id = ?", [number])
    if not found:
        raise InputError(f"there is no token {quoted(number)}; `comband token list` shows the ids.")
    if found[0][0] is None:
        journal.database.run("UPDATE tokens SET revoked = ? WHERE id = ?", [journal.wall(), number])
        record(journal, by, "token revoked", detail={"token": number, "name": found[0][1]})


def all_tokens(journal: Journal) -> dict[str, Token]:
    """All tokens of the store by id, revoked ones too."""
    rows = journal.database.read(
        "SELECT id, environment, name, roles, hash, created, revoked FROM tokens ORDER BY created, id"
    )
    return {
        row[0]: Token(row[0], row[1], row[2], frozenset(row[3].split()), bytes(row[4]), row[5], row[6]) for row in rows
    }


def own_tokens(journal: Journal) -> dict[str, Token]:
    """Those of the journal's environment."""
    return {k: one for k, one in all_tokens(journal).items() if one.environment in (EVERY, journal.environment)}


def check_environment(name: str) -> None:
    """Raises `InputError` if an environment cannot be called so."""
    if re.fullmatch(NAME, name) is None or name.endswith("\n"):
        raise InputError(
            f"an environment's name must have letters, digits, dots, dashes and underscores, got {quoted(name)}."
        )


def first_token(journal: Journal) -> str | None:
    """A token that may do everything in this environment, if it has never had any; inside a transaction."""
    journal.database.lock_schema()  # of processes that start at once, one makes it
    if journal.database.run("SELECT id FROM tokens WHERE environment IN (?, ?)", [EVERY, journal.environment]):
        return None
    return create_token(journal, "made at the first start", ["admin"], by=PROCESS)


def bearer_of(tokens: Mapping[str, Token], presented: str) -> Token | None:
    """The token that was presented; None if it is none, or revoked."""
    parts = _FORM.fullmatch(presented)
    found = tokens.get(parts[1]) if parts else None
    # The comparison is made in any case: how long it takes says nothing.
    same = hmac.compare_digest(_hash(parts[2] if parts else ""), found.hash if found else bytes(32))
    if found is None or not same or found.revoked is not None:
        return None
    return found


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
