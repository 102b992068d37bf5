"""Vowpal Wabbit's conditional contextual bandits: dsjson, one JSON object per round.

Each of `_outcomes` is a slot: `_a[0]` the action it showed, `_p[0]` the probability of that *given the slots above*,
`_label_cost` minus its reward. Propensities follow by `sequential_propensities`. An item is called by its `_tag` when
all actions of its round have one, by its number in `c._multi` otherwise. The id is `EventId`; so is the context, unless
a field is named for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np

from comband.logs.columns import as_keys
from comband.logs.faults import Faults, LogError
from comband.logs.formats import LogFormat, RawRounds
from comband.logs.json_lines import json_records
from comband.logs.sequential import sequential_propensities
from comband.logs.tables import TableFile
from comband.text import quoted

# VW logs probabilities in single precision: they may pass 1 by so much.
_SLACK = 1e-6
_DEPTH = 6  # of the fields that a message lists


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds."""
    if table.kind != "jsonl":
        raise LogError(f"{table.path} should be JSON lines (.json, .jsonl or .dsjson) to be read as VW's.")
    looked = False
    for rows, records in json_records(table.path, faults):
        if not looked:
            _look(table, records, context)
            looked = True
        kept: list[int] = []
        ids: list[Any] = []
        contexts: list[Any] = []
        items: list[list[Any]] = []
        rewards: list[list[float]] = []
        probabilities: list[list[float]] = []
        for row, record in zip(rows, records, strict=True):
            try:
                shown, gained, probability = _slots(record, list_size)
                key = [_field(record, name) for name in context] or [record.get("EventId", int(row) - 1)]
            except _UnusableError as fault:
                faults.add(fault.kind, [(int(row), str(fault))])
                continue
            kept.append(int(row))
            ids.append(record.get("EventId", f"row {row}"))
            contexts.append(key[0] if len(key) == 1 else "|".join(str(part) for part in key))
            items.append(shown)
            rewards.append(gained)
            probabilities.append(probability)
        if not kept:
            continue
        flat = as_keys([item for shown in items for item in shown])
        names, keys = as_keys(ids), as_keys(contexts)
        unnamed = names.bad | keys.bad
        what = "the id and the context must be whole numbers or text"
        faults.add("missing value", [(kept[i], what) for i in np.flatnonzero(unnamed)])
        fine = ~unnamed
        yield RawRounds(
            rows=np.array(kept, dtype=np.int64)[fine],
            ids=names.values[fine],
            contexts=keys.values[fine],
            items=flat.values.reshape(len(kept), list_size)[fine],
            rewards=np.array(rewards)[fine] + 0.0,  # VW writes −0.0 for nothing
            propensities=sequential_propensities(probabilities)[fine],
        )


def _look(table: TableFile, records: list[dict[str, Any]], context: Sequence[str]) -> None:
    """Refuse a file where no record of the first batch has a field that all need: misspelt, or not VW's."""
    outcomes = [record["_outcomes"] for record in records if isinstance(record.get("_outcomes"), list)]
    if not outcomes:
        raise table.lacks("_outcomes", why="it is read as Vowpal Wabbit's CCB dsjson")
    inside = list(dict.fromkeys(key for slots in outcomes for slot in slots for key in _mapping(slot)))
    for name in ("_a", "_p", "_label_cost"):
        if name not in inside:
            raise table.lacks(name, why="in every slot of _outcomes", names=inside, used=("_id", "_a", "_p", "_o"))
    for name in context:
        if all(_value(record, name) is None for record in records):
            raise table.lacks(name, names=[path for path in _paths(records[0]) if not path.startswith("_")])


def _paths(record: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, dict) and prefix.count(".") < _DEPTH:
            yield from _paths(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield prefix + name


class _UnusableError(ValueError):
    """A record that cannot be read as a round, and which kind of fault that is."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _slots(record: dict[str, Any], list_size: int) -> tuple[list[Any], list[float], list[float]]:
    outcomes = record.get("_outcomes")
    if not isinstance(outcomes, list):
        raise _UnusableError("missing value", "no _outcomes")
    if len(outcomes) != list_size:
        raise _UnusableError("list length", f"{len(outcomes)} slots, {list_size} expected")
    if record.get("pdrop"):
        raise _UnusableError("thinned log", f"pdrop is {quoted(record['pdrop'])}: dropped rounds cannot be counted")
    actions = _mapping(record.get("c")).get("_multi")
    tags = [_mapping(action).get("_tag") for action in actions] if isinstance(actions, list) else []
    named = bool(tags) and all(isinstance(tag, str) for tag in tags)
    shown: list[Any] = []
    gained: list[float] = []
    drawn_with: list[float] = []
    for outcome in map(_mapping, outcomes):
        chosen, probabilities, cost = outcome.get("_a"), outcome.get("_p"), outcome.get("_label_cost")
        action = chosen[0] if isinstance(chosen, list) and chosen else chosen
        probability = probabilities[0] if isinstance(probabilities, list) and probabilities else probabilities
        if isinstance(action, bool) or not isinstance(action, int):
            raise _UnusableError("wrong type", f"_a must start with the shown action, got {quoted(chosen)}")
        if probability is None:
            raise _UnusableError("missing propensity", f"action {action} has no _p")
        if not (_is_number(probability) and _is_number(cost)):
            raise _UnusableError(
                "wrong type", f"_p and _label_cost must be numbers, got {quoted(probability)} and {quoted(cost)}"
            )
        if not 0 < probability <= 1 + _SLACK:
            raise _UnusableError(
                "wrong propensity", f"probability {quoted(probability)} of action {action} is outside (0, 1]"
            )
        if named and not 0 <= action < len(tags):
            raise _UnusableError("unknown item", f"action {action} is not among the {len(tags)} of _multi")
        shown.append(tags[action] if named else action)
        gained.append(-float(cost))
        drawn_with.append(float(probability))
    return shown, gained, drawn_with


def _field(record: dict[str, Any], name: str) -> Any:
    value = _value(record, name)
    if value is None:
        raise _UnusableError("missing value", f"no {name}")
    return value


def _value(record: dict[str, Any], name: str) -> Any:
    """What stands at a path such as "c.GUser.id", if it is no list or object."""
    value: Any = record
    for step in name.split("."):
        value = _mapping(value).get(step)
    return None if isinstance(value, (dict, list)) else value


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


VOWPAL_WABBIT = LogFormat(
    name="vw",
    title="CCB dsjson",
    rounds=rounds,
    columns=("_outcomes",),
    marker="_outcomes",
    largest=np.inf,
    meaning="propensities come from the slots' conditional probabilities, and an item counts anywhere in the list",
)
