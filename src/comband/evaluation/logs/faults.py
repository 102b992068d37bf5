"""Faults in a file: named by row, counted by kind, and never silently dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, cast

from comband.page.problem import InputError, check_choice
from comband.page.text import shorten, visible

OnError = Literal["refuse", "skip"]

_EXAMPLES = 3


class LogError(InputError):
    """A file was refused; the message says which, which rows and why.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": [1, 1], "candidate": ["old", "new"], "item_0": ["tea", None]})
    >>> try:
    ...     cb.read_candidates(lists)
    ... except cb.LogError as error:
    ...     print(str(error).split(" | ")[0])
    the data frame has 2 faults: missing value (1): row 2: one of the items is missing
    """


@dataclass(slots=True)
class Faults:
    """What was wrong with the rows of one file; rows are counted from 1, a header line not among them.

    Parameters
    ----------
    source:
        What the file is called.
    counts:
        Faulty rows by kind.
    examples:
        Some of them, described.

    >>> from comband.evaluation.logs import Faults
    >>> faults = Faults("clicks.csv")
    >>> faults.add("reward out of range", [(3, "a reward of 7")])
    >>> faults.total, faults.describe()
    (1, ['reward out of range (1): row 3: a reward of 7'])
    """

    source: str
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, rows: Iterable[tuple[int, str]], *, count: int | None = None) -> None:
        """Note faults of one kind as (row, what is wrong); `count` when only the first few rows are described."""
        described = [f"row {row:,}: {text}" for row, text in rows]
        self.note(kind, described, count=len(described) if count is None else count)

    def note(self, kind: str, described: list[str], *, count: int) -> None:
        """Note `count` faults of one kind, of which some are described."""
        if count == 0:
            return
        self.counts[kind] = self.counts.get(kind, 0) + count
        shown = self.examples.setdefault(kind, [])
        shown += [shorten(visible(text)) for text in described[: _EXAMPLES - len(shown)]]

    @property
    def total(self) -> int:
        """How many faults there were."""
        return sum(self.counts.values())

    def describe(self) -> list[str]:
        """One line a kind: how many rows, and the first of them."""
        lines = []
        for kind, count in self.counts.items():
            examples = "; ".join(self.examples[kind])
            more = f"; and {count - len(self.examples[kind]):,} more" if count > len(self.examples[kind]) else ""
            lines.append(f"{kind} ({count:,}): {examples}{more}")
        return lines

    def settle(self, on_error: OnError) -> None:
        """Raise if there are faults and they are to be refused."""
        if self.total and on_error == "refuse":
            rows = "1 fault" if self.total == 1 else f"{self.total:,} faults"
            raise LogError(
                f"{self.source} has {rows}: {' | '.join(self.describe())}. "
                "Mend them, or leave them out with --on-error skip (on_error='skip')."
            )


def check_on_error(value: str) -> OnError:
    """Return `value` if it is one of the two ways to treat faulty rows."""
    return cast(OnError, check_choice("on_error", value, ("refuse", "skip")))
