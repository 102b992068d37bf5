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
    """One run: its setting, its seed, and what it measured."""

    setting: Setting
    seed: int
    values: Values

    def __getitem__(self, name: str) -> Any:
        """A measured value, or a part of the setting."""
        return self.values[name] if name in self.values else self.setting[name]


def select(records: Sequence[Record], **where: Any) -> list[Record]:
    """The records whose settings or values equal all of `where`."""
    return [record for record in records if all(record[name] == value for name, value in where.items())]


def group_by(records: Sequence[Record], *names: str) -> dict[Any, list[Record]]:
    """Records by the values of `names` (a bare value for one name, a tuple for several), in order of appearance."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        key = record[names[0]] if len(names) == 1 else tuple(record[name] for name in names)
        groups.setdefault(key, []).append(record)
    return groups
