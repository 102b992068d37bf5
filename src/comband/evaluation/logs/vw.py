"""Vowpal Wabbit's logs: dsjson, one JSON object per round.

*Conditional contextual bandits* (CCB): each of `_outcomes` is a slot; `_a[0]` is the action it showed, `_p[0]` the
probability of that *given the slots above*, `_label_cost` minus its reward. Rounds may have different numbers of slots:
a candidate's list is cut to as many.

*Contextual bandits* (CB): one slot. `_label_Action` is the action it showed, `_label_probability` its probability;
where these are missing, the first of `a` and of `p`. Here actions are counted from 1 (in CCB from 0).

An item is called by its `_tag` when all actions of its round have one, by its number in `c._multi`, from 0, otherwise.
The id is `EventId`; so is the context, unless a field is named for it. Rounds with `_skipLearn` were never shown, and
are left out.

The probability of an item *anywhere* in a list that was drawn slot by slot would need the lists that were not drawn. An
unbiased weight does not (`sequential_propensities`): an item y shown in slot k gets

    w = α_k/p_k + 1 − α_1 − … − α_k,

with shares α_j of y that are known before slot j is drawn and sum to 1: what is left of the 1 over the number of slots
from j on that may show y (`_inc`), and nothing where slot j gave y no chance. Then E[w·1[y shown]] = 1 for every y that
the last of its slots could show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from comband.evaluation.logs.columns import as_keys
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat, RawRounds
from comband.evaluation.logs.json_lines import json_records
from comband.evaluation.logs.tables import TableFile
from comband.page.text import quoted

# VW logs probabilities in single precision: they may pass 1 by so much.
_SLACK = 1e-6
_SINGLE = ("_label_Action", "_label_probability", "_labelIndex")
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
        found: list[_Slots] = []
        for row, record in zip(rows, records, strict=True):
            if record.get("_skipLearn") is True:
                continue
            try:
                found.append(_read_slots(record, list_size))
                key = [_field(record, name) for name in context] or [record.get("EventId", int(row) - 1)]
            except _UnusableError as fault:
                del found[len(kept) :]
                faults.add(fault.kind, [(int(row), str(fault))])
                continue
            kept.append(int(row))
            ids.append(record.get("EventId", f"row {row}"))
            contexts.append(key[0] if len(key) == 1 else "|".join(str(part) for part in key))
        if not kept:
            continue
        lengths = np.array([len(slots.items) for slots in found])
        flat = as_keys([_padded(slots.items, list_size)[k] for slots in found for k in range(list_size)])
        names, keys = as_keys(ids), as_keys(contexts)
        unnamed = names.bad | keys.bad
        what = "the id and the context must be whole numbers or text"
        faults.add("missing value", [(kept[i], what) for i in np.flatnonzero(unnamed)])
        fine = ~unnamed
        rewards = np.array([_padded(slots.rewards, list_size) for slots in found])
        yield RawRounds(
            rows=np.array(kept, dtype=np.int64)[fine],
            ids=names.values[fine],
            contexts=keys.values[fine],
            items=flat.values.reshape(len(kept), list_size)[fine],
            rewards=rewards[fine] + 0.0,  # VW writes −0.0 for nothing
            propensities=np.array([_padded(slots.propensities, list_size) for slots in found])[fine],
            lengths=lengths[fine] if (lengths < list_size).any() else None,
        )


def _padded(values: list[Any], size: int) -> list[Any]:
    return values + values[-1:] * (size - len(values))


def _look(table: TableFile, records: list[dict[str, Any]], context: Sequence[str]) -> None:
    """Refuse a file where no record of the first batch has a field that all need: misspelt, or not VW's."""
    outcomes = [record["_outcomes"] for record in records if isinstance(record.get("_outcomes"), list)]
    single = [record for record in records if _is_single(record)]
    if not outcomes and not single:
        raise table.lacks("_outcomes", why="and so is _label_Action; it is read as Vowpal Wabbit's dsjson")
    if single and all("_label_cost" not in record for record in single):
        raise table.lacks("_label_cost", names=list(single[0]), used=("_label_Action", "_label_probability"))
    inside = list(dict.fromkeys(key for slots in outcomes for slot in slots for key in _mapping(slot)))
    for name in ("_a", "_p", "_label_cost") if outcomes else ():
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


@dataclass(frozen=True, slots=True)
class _Slots:
    """What a round showed, and the inverse weights of its items."""

    items: list[Any]
    rewards: list[float]
    propensities: list[float]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One slot: its action, reward and probability; what else it could have shown, None where that is not told."""

    action: int
    reward: float
    probability: float
    possible: frozenset[int] | None
    included: frozenset[int] | None = None


def _is_single(record: dict[str, Any]) -> bool:
    """Whether a record is a round of one slot, of a plain contextual bandit."""
    return any(name in record for name in _SINGLE) or ("a" in record and "p" in record)


def _read_slots(record: dict[str, Any], list_size: int) -> _Slots:
    outcomes = record.get("_outcomes")
    if record.get("pdrop"):
        raise _UnusableError("thinned log", f"pdrop is {quoted(record['pdrop'])}: dropped rounds cannot be counted")
    if isinstance(outcomes, list):
        if not 0 < len(outcomes) <= list_size:
            raise _UnusableError(
                "list length",
                f"{len(outcomes)} slot{'s' * (len(outcomes) != 1)}, but candidates' lists have {list_size}",
            )
        slots = _mapping(record.get("c")).get("_slots")
        known = slots if isinstance(slots, list) and len(slots) == len(outcomes) else [None] * len(outcomes)
        shown = [_outcome(_mapping(one), _mapping(slot)) for one, slot in zip(outcomes, known, strict=True)]
    elif _is_single(record):
        shown = [_single(record)]
    else:
        reward = " (a reward whose decision is elsewhere?)" if "RewardValue" in record or "_dangling" in record else ""
        raise _UnusableError("missing value", f"no _outcomes and no _label_Action{reward}")
    actions = _mapping(record.get("c")).get("_multi")
    tags = [_mapping(action).get("_tag") for action in actions] if isinstance(actions, list) else []
    named = bool(tags) and all(isinstance(tag, str) for tag in tags)
    for one in shown:
        if one.action < 0 or (tags and one.action >= len(tags)):
            raise _UnusableError("unknown item", f"action {one.action} is not among the {len(tags)} of _multi")
    return _Slots(
        [tags[one.action] if named else one.action for one in shown],
        [one.reward for one in shown],
        [_anywhere(shown, k) for k in range(len(shown))],
    )


def _outcome(outcome: dict[str, Any], slot: dict[str, Any]) -> _Outcome:
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
    _check_probability(probability, action)
    included = slot.get("_inc") or outcome.get("_inc")
    return _Outcome(
        action,
        -float(cost),
        float(probability),
        _possible(chosen, probabilities),
        frozenset(included) if isinstance(included, list) and all(isinstance(a, int) for a in included) else None,
    )


def _possible(actions: Any, probabilities: Any) -> frozenset[int] | None:
    """The actions that a slot could show, if it says so of more than the one it did."""
    if not (isinstance(actions, list) and isinstance(probabilities, list) and len(actions) == len(probabilities) > 1):
        return None
    pairs = zip(actions, probabilities, strict=True)
    return frozenset(a for a, p in pairs if isinstance(a, int) and _is_number(p) and p > 0)


def _single(record: dict[str, Any]) -> _Outcome:
    """The slot of a plain contextual bandit, whose actions count from 1."""
    actions, probabilities = record.get("a"), record.get("p")
    action = record.get("_label_Action", actions[0] if isinstance(actions, list) and actions else None)
    listed = probabilities[0] if isinstance(probabilities, list) and probabilities else None
    probability, cost = record.get("_label_probability", listed), record.get("_label_cost")
    if isinstance(action, bool) or not isinstance(action, int):
        raise _UnusableError("wrong type", f"_label_Action must be the number of an action, got {quoted(action)}")
    if probability is None:
        raise _UnusableError("missing propensity", f"action {action} has no _label_probability")
    if not (_is_number(probability) and _is_number(cost)):
        text = f"_label_probability and _label_cost must be numbers, got {quoted(probability)} and {quoted(cost)}"
        raise _UnusableError("wrong type", text)
    _check_probability(probability, action)
    if action < 1:
        raise _UnusableError("unknown item", f"_label_Action counts from 1, got {action}")
    return _Outcome(action - 1, -float(cost), float(probability), None)


def _check_probability(probability: float, action: int) -> None:
    if not 0 < probability <= 1 + _SLACK:
        raise _UnusableError(
            "wrong propensity", f"probability {quoted(probability)} of action {action} is outside (0, 1]"
        )


def _anywhere(shown: list[_Outcome], k: int) -> float:
    """1/w of the item in slot k, by the shares of this module's first lines."""
    item, left, share = shown[k].action, 1.0, 0.0
    mine = [one.included is None or item in one.included for one in shown]
    mine[k] = True
    for j in range(k + 1):
        could = mine[j] and (j == k or shown[j].possible is None or item in (shown[j].possible or ()))
        share = left / sum(mine[j:]) if could else 0.0
        left -= share
    return 1 / (share / shown[k].probability + left)


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
    title="CCB and CB dsjson",
    rounds=rounds,
    columns=("_outcomes",),
    marker=("_outcomes", *_SINGLE),
    largest=np.inf,
    meaning="propensities come from the slots' conditional probabilities, and an item counts anywhere in the list",
)
