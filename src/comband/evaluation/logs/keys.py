"""From the items that files name (whole numbers or text) to codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.raw_files import check_file
from comband.page.catalogue import Catalogue, Keys, check_catalogue, spelt_numbers
from comband.page.problem import InputError, check_count

_WHOLE = re.compile(r"^(-?\d+)\.0+$")


class ItemIndex:
    """Items as codes: whole numbers are their own codes, texts are numbered as they come.

    Parameters
    ----------
    n_actions:
        If given, items are the whole numbers 0 … n_actions − 1 and anything else is unknown.
    catalogue:
        If given, the items there are; anything else is unknown. Codes are positions in it.
    """

    def __init__(self, *, n_actions: int | None = None, catalogue: Catalogue | None = None) -> None:
        if n_actions is not None and catalogue is not None:
            raise LogError("give either the number of items or a catalogue of them, not both.")
        self.n_actions = None if n_actions is None else check_count("n_actions", n_actions)
        self._catalogue = check_catalogue(catalogue)
        self._texts: dict[str, int] | None = None
        self._largest = -1

    @property
    def numeric(self) -> bool:
        """Whether codes are the items themselves."""
        return self._texts is None and self._catalogue is None

    @property
    def closed(self) -> bool:
        """Whether it was said which items there are."""
        return self._catalogue is not None or self.n_actions is not None

    @property
    def size(self) -> int:
        """How many codes there are, at least: enough for all that candidates show."""
        if self._catalogue is not None:
            return len(self._catalogue)
        if self.n_actions is not None:
            return self.n_actions
        return len(self._texts) if self._texts is not None else self._largest + 1

    @property
    def catalogue(self) -> Catalogue | None:
        """What the codes stand for; None where items are whole numbers that are their own codes."""
        return Catalogue(list(self._texts)) if self._texts is not None else self._catalogue

    def learn(self, keys: Keys) -> NDArray[np.int64]:
        """Codes of items that candidates show; the first batch settles whether items are numbers or texts."""
        if self.n_actions is not None and keys.dtype == object and len(keys) and not spelt_numbers(keys)[1].any():
            raise LogError(
                f"the items are text, such as {keys[0]!r}, but n_actions says that they are the whole numbers "
                f"0 … {self.n_actions - 1}; give a file with all items, one per line, instead (--items, catalogue)."
            )
        if self.numeric and self.n_actions is None and keys.dtype == object:
            if self._largest >= 0:
                raise LogError("items must all be whole numbers or all be text, got some of both.")
            self._texts = {}
        codes = self.codes(keys)
        if self.numeric and len(codes):
            self._largest = max(self._largest, int(codes.max()))
        return codes

    def codes(self, keys: Keys) -> NDArray[np.int64]:
        """Codes of items; −1 for unknown ones."""
        if self._catalogue is not None:
            return self._catalogue.find(keys)
        if self._texts is not None:
            table = self._texts
            texts = keys if keys.dtype == object else keys.astype(str).astype(object)
            return np.fromiter((table.setdefault(text, len(table)) for text in texts), np.int64, count=len(texts))
        if keys.dtype == object:
            numbers, known = spelt_numbers(without_decimals(keys))
            keys = np.where(known, numbers, -1)
        limit = 2**31 - 1 if self.n_actions is None else self.n_actions
        if len(keys) and (keys.min() < 0 or keys.max() >= limit):
            return np.where((keys >= 0) & (keys < limit), keys, -1)
        return np.asarray(keys, dtype=np.int64)


def without_decimals(keys: Keys) -> Keys:
    """Texts of whole numbers as they are without ".0", which a column of numbers has once one of them was missing.

    >>> without_decimals(np.array(["14.0", "7", "7.5", "a.0"], dtype=object)).tolist()
    ['14', '7', '7.5', 'a.0']
    """
    return np.array([_WHOLE.sub(r"\1", key) if isinstance(key, str) else key for key in keys], dtype=object)


def read_catalogue(path: str | Path) -> Catalogue:
    """Items from a text file, one per line."""
    path = check_file(path)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start:,}).") from None
    keys = [line for line in lines if line]
    if len(keys) == 0:
        raise LogError(f"{path} names no item; all items are needed, one per line.")
    try:
        return Catalogue(keys)
    except InputError as error:
        raise LogError(f"{path}: {error}") from None


def unify_keys(parts: Sequence[Keys]) -> Keys:
    """Batches of keys as one array: numbers if all are, otherwise text."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return np.empty(0, dtype=np.int64)
    if all(part.dtype != object for part in parts):
        return np.concatenate(parts)
    joined = np.concatenate([part if part.dtype == object else part.astype(str).astype(object) for part in parts])
    numbers, known = spelt_numbers(joined)
    return numbers if known.all() else joined
