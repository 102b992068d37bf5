"""Vowpal Wabbit's conditional contextual bandits: dsjson, one JSON object a round.

Each of `_outcomes` is a slot: `_a[0]` the action it showed, `_p[0]` the probability of that *given the slots above*,
`_label_cost` minus its reward. Propensities follow by `sequential_propensities`. An item is called by its `_tag` when
all actions of its round have one, by its number in `c._multi` otherwise. The id is `EventId`; so is the context, unless
a field is named for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from comband.logs.columns import as_keys
from comband.logs.faults import Faults
from comband.logs.formats import LogFormat, RawRounds
from comband.logs.sequential import sequential_propensities
from comband.logs.tables import TableFile, json_records

# VW logs probabilities in single precision: they may pass 1 by so much.
_SLACK = 1e-6


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds."""
    for rows, records in json_records(table.path, faults):
        kept: list[int] = []
        ids: list[Any] = []
        contexts: list[Any] = []
        items: list[list[Any]] = []
        rewards: list[list[float]] = []
        chances: list[list[float]] = []
        for row, record in zip(rows, records, strict=True):
            try:
                shown, gained, chance = _slots(record, list_size)
                key = [_field(record, name) for name in context] or [record.get("EventId", int(row) - 1)]
            except _UnusableError as fault:
                faults.add(fault.kind, [(int(row), str(fault))])
                continue
            kept.append(int(row))
            ids.append(record.get("EventId", f"row {row}"))
            contexts.append(key[0] if len(key) == 1 else "|".join(str(part) for part in key))
            items.append(shown)
            rewards.append(gained)
            chances.append(chance)
        if not kept:
            continue
        flat = as_keys([item for shown in items for item in shown])
        yield RawRounds(
            rows=np.array(kept, dtype=np.int64),
            ids=as_keys(ids).values,
            contexts=as_keys(contexts).values,
            items=flat.values.reshape(len(kept), list_size),
            rewards=np.array(rewards) + 0.0,  # VW writes −0.0 for nothing
            propensities=sequential_propensities(chances),
        )


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
        raise _UnusableError("thinned log", f"pdrop is {record['pdrop']}: dropped rounds cannot be counted")
    actions = _mapping(record.get("c")).get("_multi")
    tags = [_mapping(action).get("_tag") for action in actions] if isinstance(actions, list) else []
    named = bool(tags) and all(isinstance(tag, str) for tag in tags)
    shown: list[Any] = []
    gained: list[float] = []
    chance: list[float] = []
    for outcome in map(_mapping, outcomes):
        chosen, probabilities, cost = outcome.get("_a"), outcome.get("_p"), outcome.get("_label_cost")
        action = chosen[0] if isinstance(chosen, list) and chosen else chosen
        probability = probabilities[0] if isinstance(probabilities, list) and probabilities else probabilities
        if isinstance(action, bool) or not isinstance(action, int):
            raise _UnusableError("wrong type", f"_a must start with the shown action, got {chosen!r}")
        if probability is None:
            raise _UnusableError("missing propensity", f"action {action} has no _p")
        if not isinstance(probability, (int, float)) or not isinstance(cost, (int, float)):
            raise _UnusableError("wrong type", f"_p and _label_cost must be numbers, got {probability!r} and {cost!r}")
        if not 0 < probability <= 1 + _SLACK:
            raise _UnusableError("wrong propensity", f"probability {probability} of action {action} is outside (0, 1]")
        if named and not 0 <= action < len(tags):
            raise _UnusableError("unknown item", f"action {action} is not among the {len(tags)} of _multi")
        shown.append(tags[action] if named else action)
        gained.append(-float(cost))
        chance.append(float(probability))
    return shown, gained, chance


def _field(record: dict[str, Any], name: str) -> Any:
    """A field by its path, as in "c.GUser.id"."""
    value: Any = record
    for step in name.split("."):
        value = _mapping(value).get(step)
    if value is None or isinstance(value, (dict, list)):
        raise _UnusableError("missing value", f"no {name}")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


VOWPAL_WABBIT = LogFormat(
    name="vw",
    rounds=rounds,
    positional=False,
    largest=np.inf,
    meaning="propensities come from the slots' conditional probabilities, and an item counts anywhere in the list",
)
