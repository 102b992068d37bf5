"""Policies that answer in keys of a catalogue."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.catalogue import Catalogue, key_array
from comband.page.contexts import Contexts, n_contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError

_OWN = __name__.split(".", 1)[0] + "."


class KeyedPolicy:
    """A policy of the user's own whose lists of keys become lists of numbers; None stands for an empty place."""

    def __init__(self, policy: Any, catalogue: Catalogue) -> None:
        self.policy, self.catalogue = policy, catalogue

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m) of numbers, −1 in empty places."""
        try:
            keys = key_array(self.policy.predict(X))
            if keys.dtype != object:
                return check_lists(self.catalogue.numbers(keys), n=n_contexts(X))
            there = np.fromiter((key is not None for key in keys.ravel()), dtype=bool, count=keys.size)
            numbers = np.full(keys.size, -1, dtype=np.int64)
            numbers[there] = self.catalogue.numbers(keys.ravel()[there])
            return check_lists(numbers.reshape(keys.shape), n=n_contexts(X), gaps=True)
        except InputError as error:
            raise InputError(f"{type(self.policy).__name__}.predict: {error}") from None


def in_numbers(policy: Any, catalogue: Catalogue | None) -> Any:
    """The policy as it answers in numbers: comband's own do, others answer in keys where there is a catalogue."""
    if catalogue is None or type(policy).__module__.startswith(_OWN) or not hasattr(policy, "predict"):
        return policy
    return KeyedPolicy(policy, catalogue)
