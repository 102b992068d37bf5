"""Scores of candidates that are known beforehand, from a file, with their error and their unit."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.registry import FORMATS
from comband.page.problem import InputError

_ERRORS = ("standard_error", "error", "se")


@dataclass(frozen=True, eq=False, slots=True)
class KnownScores:
    """Scores (P,), never below 0, and their standard errors, if the file has them; per slot or per round."""

    values: NDArray[np.float64]
    errors: NDArray[np.float64] | None
    per_slot: bool

    def per_round(self, slots: int) -> KnownScores:
        """The same per round of so many slots, each of which is worth as much."""
        if not self.per_slot:
            return self
        errors = None if self.errors is None else self.errors * slots
        return replace(self, values=self.values * slots, errors=errors, per_slot=False)

    @property
    def error(self) -> float | None:
        """The standard error of one score: the root of the mean square."""
        return None if self.errors is None else float(np.sqrt(np.square(self.errors).mean()))

    @property
    def share(self) -> float:
        """How much of their variance is no luck: 1 − (mean square of errors)/(variance of scores), at least 0."""
        if self.errors is None or len(self.values) < 2:
            return 1.0
        spread = float(self.values.var(ddof=1))
        return max(0.0, 1 - float(np.square(self.errors).mean()) / spread) if spread > 0 else 1.0

    def shrunk(self) -> NDArray[np.float64]:
        """Scores whose differences are cut to that share: what candidates probably differ by."""
        middle = self.values.mean()
        return np.asarray(np.maximum(middle + self.share * (self.values - middle), 0.0))

    def remarks(self, epsilon: float | None) -> list[str]:
        """What the error of the scores does to a forecast, in sentences."""
        error = self.error
        if error is None:
            return [
                "The scores come without an error (a column standard_error), so they were taken as they are: if they "
                "rest on few clicks, candidates differ less than they say, and it takes longer."
            ]
        told = [
            f"The scores have a standard error of {error:.3g} per round. Simulated candidates differ by "
            f"{self.share:.0%} of what the scores differ by: the rest is probably luck."
        ]
        if epsilon is not None and error > epsilon:
            told.append(
                f"That error exceeds epsilon = {epsilon:.3g}: the scores do not tell which candidate is best, and the "
                "forecast is for candidates that may be nearly equal. Evaluate more rounds first, or plan with a "
                "larger epsilon."
            )
        return told


def read_scores(path: Path) -> KnownScores:
    """Scores of candidates: a column "score" (or "value") of a CSV file, or the answer of `comband evaluate --json`."""
    errors: list[object] = []
    per_slot = False
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            document = json.loads(text)
            found = [one["value"] for one in document["candidates"]]
            errors = [one["standard_error"] for one in document["candidates"] if "standard_error" in one]
            kind = FORMATS.get(document.get("format", ""))
            per_slot = kind is not None and kind.slots == 1
        else:
            table = csv.DictReader(text.splitlines())
            names = [name for name in ("score", "value") if name in (table.fieldnames or ())]
            named = [name for name in _ERRORS if name in (table.fieldnames or ())]
            rows = list(table)
            found = [row[names[0]] for row in rows] if names else []
            errors = [row[named[0]] for row in rows] if named else []
        values = np.array(found, dtype=np.float64)
        known = np.array(errors, dtype=np.float64) if errors else None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        values, known = np.empty(0), None
    if len(values) == 0 or not np.isfinite(values).all():
        raise InputError(
            f"{path} should hold a finite number for each candidate: a .csv with a column score, or the .json that "
            "comband evaluate --json prints."
        )
    if known is not None and not (len(known) == len(values) and np.isfinite(known).all() and (known >= 0).all()):
        raise InputError(f"{path}: the standard errors of scores must be numbers of at least 0, one for each.")
    return KnownScores(np.maximum(values, 0.0), known, per_slot)  # estimates may be below
