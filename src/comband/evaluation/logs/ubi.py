"""OpenSearch User Behavior Insights (UBI): queries and events, as bulk lines (NDJSON) or Parquet, or in a data frame.

A round is a query (`query_id`). It shows the items (`event_attributes.object.object_id`) of its events with
`action_name` "impression"; an item brings 1 if an event "click" of the same query names it. Lists may have different
lengths: a candidate's list is cut to as many items as the query showed. Queries without an impression are left out.

UBI has no place for propensities, so this is the convention: every impression says

    "event_attributes": {
      "object": {"object_id": "B07"}, "position": {"ordinal": 0, "propensity": 0.2}, "propensity": 0.5
    }

`propensity` is the probability that the item was anywhere in the list, given the query; `position.propensity` (needed
with places="pairs" only) that it was in this place. An answer of the decision service has both numbers for each item.

The context is `user_query`, or `query_id` in a file that has no texts of queries; any other field of a query, or of its
events, can be named instead ("client_id", "query_attributes.segment"). A query and its events must be in one file, in
any order: what is needed of them is held in memory until its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from comband.evaluation.logs.columns import as_keys, plain
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat, RawRounds
from comband.evaluation.logs.json_lines import json_records
from comband.evaluation.logs.no_propensities import no_propensities
from comband.evaluation.logs.tables import TableFile
from comband.page.problem import InputError, check_number
from comband.page.text import quoted

_BULK = ("index", "create", "update", "delete")  # lines that say where the next one goes
_NEEDED = ("query_id", "action_name", "event_attributes")
_ITEM = "event_attributes.object.object_id"
_PROPENSITIES = ("propensity", "propensity_score", "probability")  # the first is the convention
_BATCH = 1 << 16


@dataclass(slots=True)
class _Query:
    """What is known of a query."""

    row: int
    record: dict[str, Any] | None = None
    event: dict[str, Any] | None = None
    items: list[Any] = field(default_factory=list)
    positions: list[Any] = field(default_factory=list)
    propensities: list[Any] = field(default_factory=list)
    rewards: dict[Any, float] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """A field of the query, or of its first impression."""
        found = [_at(record, name) for record in (self.record, self.event) if record is not None]
        return next((value for value in found if value is not None), None)


def ubi_format(rewards: Mapping[str, float], *, name: str = "ubi") -> LogFormat:
    """UBI with other rewards: what an item brings by the actions that name it, the largest if there are several.

    Parameters
    ----------
    rewards:
        {action_name: reward in [0, 1]}.
    name:
        What the report calls it.

    >>> from comband.evaluation.logs import ubi_format
    >>> ubi_format({"click": 0.1, "purchase": 1.0}, name="shop").name
    'shop'
    """
    worth = {str(action): check_number(f"the reward of {action!r}", value) for action, value in rewards.items()}
    if not worth or not all(0 < value <= 1 for value in worth.values()) or "impression" in worth:
        raise InputError(
            f"rewards must map actions other than impressions to numbers in (0, 1], got {dict(rewards)!r}."
        )
    said = ", ".join(f"{action} {value:g}" for action, value in worth.items())
    plainly = LogFormat(
        name=name,
        title=f"OpenSearch UBI, {said}",
        rounds=partial(_rounds, worth=worth, placed=False),
        columns=_NEEDED,
        marker=(
            "event_attributes",
            "query_attributes",
            "query_response_id",
            "query_response_hit_ids",
            _ITEM,
            "_source",
        ),
        meaning=f"a round is a query with impressions, an item brings {said}; propensities are the probability that "
        "the item is anywhere in the list",
    )
    placed = replace(
        plainly,
        rounds=partial(_rounds, worth=worth, placed=True),
        positional=True,
        meaning=f"a round is a query with impressions, an item brings {said}; propensities are those of the item in "
        "its place, where alone it counts",
    )
    return replace(plainly, placed=placed)


def _rounds(
    table: TableFile,
    list_size: int,
    context: Sequence[str],
    faults: Faults,
    *,
    worth: Mapping[str, float],
    placed: bool,
) -> Iterator[RawRounds]:
    if table.kind == "csv":
        raise LogError(f"{table.path} should be JSON lines or Parquet to be read as UBI: events have nested fields.")
    queries: dict[Any, _Query] = {}
    actions: dict[str, None] = {}
    for row, record in _records(table, context, faults):
        if record.get("action_name") is not None:
            actions[str(record["action_name"])] = None
        _take(queries, row, record, worth, placed, faults)
    shown = {key: query for key, query in queries.items() if query.items}
    if not shown:
        raise LogError(
            f'{table.path} is read as UBI, but no event has the action_name "impression" and an item ({_ITEM}), which '
            f"tells what was shown; the action_names are {', '.join(list(actions)[:8]) or 'missing'}."
        )
    if all(value is None for query in shown.values() for value in query.propensities):
        where = "event_attributes.position.propensity" if placed else "event_attributes.propensity"
        missing = f"no impression has {where}"
        raise no_propensities(str(table.path), _ITEM, ", ".join(worth), missing, renamed=False)
    keys = _contexts(table, shown, context)
    good = [
        (query_id, query, key)
        for (query_id, query), key in zip(shown.items(), keys, strict=True)
        if _is_whole(query_id, query, key, list_size, placed, faults)
    ]
    for start in range(0, len(good), _BATCH):
        yield _batch(good[start : start + _BATCH], list_size, placed, faults)


def _records(table: TableFile, context: Sequence[str], faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    if table.kind == "jsonl":
        for rows, records in json_records(table.path, faults):
            yield from zip(rows.tolist(), map(_stored, records), strict=True)
        return
    more = ["user_query", *(name.split(".")[0] for name in context)]
    flat = [name for name in table.names if name.startswith("event_attributes.")]
    names = [name for name in dict.fromkeys([*_NEEDED, *more, *flat]) if name in table.names]
    if not {"query_id", "action_name"} <= set(names):
        return
    for piece in table.pieces(names, faults):
        columns = [[plain(value) for value in piece.columns[name]] for name in names]
        for row, *values in zip(piece.rows.tolist(), *columns, strict=True):
            yield row, dict(zip(names, values, strict=True))


def _take(
    queries: dict[Any, _Query],
    row: int,
    record: dict[str, Any],
    worth: Mapping[str, float],
    placed: bool,
    faults: Faults,
) -> None:
    action, query_id = record.get("action_name"), record.get("query_id")
    if action is None:
        if query_id is not None and not (len(record) == 1 and next(iter(record)) in _BULK):
            queries.setdefault(query_id, _Query(row)).record = record
        return
    if isinstance(action, str) and action not in worth:
        action = action.lower()
    if action != "impression" and action not in worth:
        return
    item = _at(record, _ITEM)
    if query_id is None or item is None:
        missing = "query_id" if query_id is None else _ITEM
        faults.add("missing value", [(row, f"the event {action} has no {missing}")])
        return
    query = queries.setdefault(query_id, _Query(row))
    if action in worth:
        query.rewards[item] = max(query.rewards.get(item, 0.0), worth[action])
        return
    if not query.items:
        query.row, query.event = row, record
    if item in query.items:  # shown again, as when a page is drawn anew
        return
    query.items.append(item)
    query.positions.append(_at(record, "event_attributes.position.ordinal"))
    where = "event_attributes.position" if placed else "event_attributes"
    told = (_at(record, f"{where}.{name}") for name in _PROPENSITIES)
    query.propensities.append(next((value for value in told if value is not None), None))


def _contexts(table: TableFile, shown: dict[Any, _Query], context: Sequence[str]) -> list[Any]:
    """The key of each query's context; None where it has none."""
    if not context:
        texts = [query.value("user_query") for query in shown.values()]
        return list(shown) if all(text is None for text in texts) else texts
    for name in context:
        if all(query.value(name) is None for query in shown.values()):
            some = next(iter(shown.values()))
            raise table.lacks(name, names=list({**(some.event or {}), **(some.record or {})}))
    parts = [[query.value(name) for name in context] for query in shown.values()]
    if len(context) == 1:
        return [part[0] for part in parts]
    return [None if None in part else "|".join(map(str, part)) for part in parts]


def _is_whole(query_id: Any, query: _Query, key: Any, list_size: int, placed: bool, faults: Faults) -> bool:
    """Whether a query can be a round; what is wrong with it is noted otherwise."""
    unseen = [item for item in query.rewards if item not in query.items]
    wrong = [value for value in query.propensities if not (value is None or _is_number(value))]
    n = len(query.items)
    if key is None:
        faults.add("missing value", [(query.row, f"query {query_id} has no context")])
    elif unseen:
        text = f"query {query_id} has a reward of {unseen[0]}, but no impression of it"
        faults.add("reward without impression", [(query.row, text)])
    elif n > list_size or (placed and n < list_size):
        expected = f"{list_size}" if placed else f"1 to {list_size}"
        faults.add("list length", [(query.row, f"query {query_id} shows {n} items, {expected} expected")])
    elif wrong:
        faults.add("wrong type", [(query.row, f"propensities must be numbers, got {quoted(wrong[0])}")])
    elif placed and _slots(query.positions) is None:
        text = f"the positions of query {query_id} are {query.positions}, 0 … {list_size - 1} expected"
        faults.add("wrong position", [(query.row, text)])
    else:
        return True
    return False


def _slots(places: list[Any]) -> list[int] | None:
    """Places from 0 on, each once; they may be counted from 0 or from 1."""
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in places):
        return None
    first = min(places)
    found = [place - first for place in places]
    return found if first in (0, 1) and sorted(found) == list(range(len(places))) else None


def _batch(good: list[tuple[Any, _Query, Any]], list_size: int, placed: bool, faults: Faults) -> RawRounds:
    names, keys = as_keys([query_id for query_id, _, _ in good]), as_keys([key for _, _, key in good])
    flat = as_keys([item for _, query, _ in good for item in _padded(query.items, list_size)])
    items_bad = flat.bad.reshape(len(good), list_size).any(axis=1)
    unnamed = names.bad | keys.bad | items_bad
    what = "query_id, context and object_id must be whole numbers or text"
    faults.add("wrong type", [(good[i][1].row, what) for i in np.flatnonzero(unnamed)])
    fine = ~unnamed
    lengths = np.array([len(query.items) for _, query, _ in good])
    rewards = [_padded([query.rewards.get(item, 0.0) for item in query.items], list_size) for _, query, _ in good]
    given = [[np.nan if q is None else float(q) for q in query.propensities] for _, query, _ in good]
    slots = [_slots(query.positions) for _, query, _ in good] if placed else None
    return RawRounds(
        rows=np.array([query.row for _, query, _ in good])[fine],
        ids=names.values[fine],
        contexts=keys.values[fine],
        items=flat.values.reshape(len(good), list_size)[fine],
        rewards=np.array(rewards)[fine],
        propensities=np.array([_padded(some, list_size) for some in given])[fine],
        positions=None if slots is None else np.array(slots)[fine],
        lengths=lengths[fine] if (lengths < list_size).any() else None,
    )


def _padded(values: list[Any], size: int) -> list[Any]:
    return values + values[-1:] * (size - len(values))


def _stored(record: dict[str, Any]) -> dict[str, Any]:
    """The document of a search hit or of a dump, which has it as `_source`; anything else as it is."""
    inner = record.get("_source")
    return inner if isinstance(inner, dict) else record


def _at(record: Mapping[str, Any], path: str) -> Any:
    """What stands at a path such as "event_attributes.object.object_id", or under that very name."""
    if path in record:
        return record[path]
    value: Any = record
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return None if isinstance(value, (Mapping, list)) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


UBI = ubi_format({"click": 1.0})
UBI_CARTS = ubi_format({"add_to_cart": 1.0}, name="ubi-add-to-cart")
UBI_PURCHASES = ubi_format({"purchase": 1.0}, name="ubi-purchase")
