"""Candidates that come and go: facts of the journal like any other.

A change takes effect after the decisions that are settled when it is made, and before all others: what the learner does
with it is a function of the journal. Decisions that were drawn by an older plan count with their epoch, in which the
newcomer was not there and the one that left still was.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from comband.page.problem import InputError
from comband.page.text import quoted
from comband.policies.fallback import NOTHING
from comband.serve.journal import LIVE, Journal, NotRunningError
from comband.serve.requests import most_candidates
from comband.serve.wire import FieldChange, Spec, as_json

_change = msgspec.json.Decoder(FieldChange).decode


@dataclass(frozen=True, slots=True)
class Change:
    """One change as the journal has it: its number, after how many settled decisions, and what it was."""

    number: int
    after: int
    what: FieldChange


def changes_of(journal: Journal, experiment: int, first: int = 0) -> list[Change]:
    """The changes from number `first` on, in order."""
    rows = journal.database.read(
        "SELECT change, after, what FROM field_changes WHERE experiment = ? AND change >= ? ORDER BY change",
        [experiment, first],
    )
    return [Change(row[0], row[1], _change(bytes(row[2]))) for row in rows]


def n_changes(journal: Journal) -> dict[int, int]:
    """How many changes each experiment has that has not ended, if any."""
    return dict(
        journal.database.read(
            "SELECT f.experiment, COUNT(*) FROM experiments e JOIN field_changes f ON f.experiment = e.id "
            f"WHERE e.{LIVE} GROUP BY f.experiment"
        )
    )


def names_of(spec: Spec, changes: Sequence[Change]) -> list[str]:
    """All candidates ever, in the order in which they came."""
    return [*spec.candidates, *(one.what.add for one in changes if one.what.add is not None)]


def digests_of(spec: Spec, changes: Sequence[Change]) -> dict[str, str | None]:
    """By which each candidate's model is known again, where that was said."""
    first = zip(spec.candidates, spec.digests or [None] * len(spec.candidates), strict=True)
    return {**dict(first), **{one.what.add: one.what.digest for one in changes if one.what.add is not None}}


def field_of(spec: Spec, changes: Sequence[Change]) -> list[str]:
    """Those that are in the field after these changes."""
    gone = {one.what.withdraw for one in changes}
    return [name for name in names_of(spec, changes) if name not in gone]


def check_name(name: str) -> None:
    """Refuse a name that looks like another one: with space around it, or with line breaks and the like in it."""
    if name != name.strip() or any(unicodedata.category(letter) == "Cc" for letter in name):
        raise InputError(f"names must have no space around them, and no line breaks in them, got {quoted(name)}.")


def record_change(journal: Journal, experiment: int, spec: Spec, what: FieldChange) -> Change:
    """Make a change durable, if it is possible. Inside a transaction."""
    run = journal.database.run
    # Settling decisions waits: the change is after those that are settled, and before all others.
    [(front,)] = run(f"SELECT front FROM fronts c WHERE experiment = ?{journal.database.FOR_UPDATE}", [experiment])
    state = run("SELECT state FROM experiments WHERE id = ?", [experiment])[0][0]
    if state not in ("running", "paused"):
        raise NotRunningError(state)
    rows = run("SELECT change, after, what FROM field_changes WHERE experiment = ? ORDER BY change", [experiment])
    before = [Change(row[0], row[1], _change(bytes(row[2]))) for row in rows]
    _check(spec, before, what)
    run(
        "INSERT INTO field_changes (experiment, change, after, time, what) VALUES (?, ?, ?, ?, ?)",
        [experiment, len(before), front, journal.wall(), as_json(what)],
    )
    journal.database.notify()
    return Change(len(before), front, what)


def _check(spec: Spec, before: Sequence[Change], what: FieldChange) -> None:
    names, field = names_of(spec, before), field_of(spec, before)
    if what.add is None and what.withdraw is None:
        raise InputError('say which candidates to "add", which to "withdraw", or both.')
    if not (what.planned or spec.open_field):
        raise InputError(
            "a candidate that comes or goes because of what was seen costs a part of delta, which is set aside from "
            'the start: create the experiment with "open_field": true; or say "planned": true, if the change was fixed '
            "without looking at the data."
        )
    if spec.metrics:
        raise InputError(
            "candidates cannot come or go where further metrics are guarded: who is safe is promised of those that "
            "were there at the start. Create another experiment with the candidates that there are now."
        )
    if spec.models is not None:
        raise InputError("the candidates of an experiment with models of the service are those of the models.")
    if what.digest is not None and what.add is None:
        raise InputError('a "digest" is that of a candidate to "add".')
    if what.add is not None:
        check_name(what.add)
        if what.add in names:
            raise InputError(f"there is, or was, a candidate {quoted(what.add)} already; choose another name.")
        if what.add == NOTHING and spec.fallback == NOTHING:
            raise InputError(f"no candidate may be called {NOTHING!r} where that is the fallback.")
        if len(names) == most_candidates(spec):
            raise InputError(f"this experiment can have {len(names)} candidates in all, with those that left.")
    if what.withdraw is not None:
        if what.withdraw not in field:
            raise InputError(f"there is no candidate {quoted(what.withdraw)} to withdraw.")
        if what.withdraw == spec.fallback:
            raise InputError(f"{quoted(what.withdraw)} is the fallback of this experiment, and must stay.")
        if what.withdraw == spec.production:
            raise InputError(
                f"{quoted(what.withdraw)} is in production, with which the others are compared, and must stay."
            )
        if len(field) + (what.add is not None) == 2:
            raise InputError(
                f"without {quoted(what.withdraw)} there is nothing left to compare: add another candidate first, or "
                "end the experiment."
            )
