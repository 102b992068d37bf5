"""What runs were told and what they measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Setting = Mapping[str, Any]
"""What one run is told, besides its seed: names and JSON values."""

Values = Mapping[str, Any]
"""What one run measured: names and numbers, strings or lists of numbers; NaN for what could not be measured."""


@dataclass(frozen=True, slots=True)
class Record:
    """One run: its setting, its seed, and what it measured.

    Parameters
    ----------
    values:
        Numbers by name.

    >>> from comband.paper import Record
    >>> Record({"K": 10}, 0, {"rounds": 120.0}).values["rounds"]
    120.0
    """

    setting: Setting
    seed: int
    values: Values

    def __getitem__(self, name: str) -> Any:
        """A measured value, or a part of the setting."""
        return self.values[name] if name in self.values else self.setting[name]


def select(records: Sequence[Record], **where: Any) -> list[Record]:
    """The records whose settings or values equal all of `where`.

    >>> from comband.paper import Record, select
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> len(select(records, K=10))
    3
    """
    return [record for record in records if all(record[name] == value for name, value in where.items())]


def group_by(records: Sequence[Record], *names: str) -> dict[Any, list[Record]]:
    """Records by the values of `names` (a bare value for one name, a tuple for several), in order of appearance.

    Parameters
    ----------
    *names:
        Of settings or values.
    records:
        Any.

    >>> from comband.paper import Record, group_by
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> {K: len(group) for K, group in group_by(records, "K").items()}
    {10: 3, 100: 3}
    """
    groups: dict[Any, list[Record]] = {}
    for record in records:
        key = record[names[0]] if len(names) == 1 else tuple(record[name] for name in names)
        groups.setdefault(key, []).append(record)
    return groups
