"""Mixtures travel by file, their policies by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import comband as cb

PROBLEM = cb.Problem(n_actions=5, list_size=2, sparsity=1)


def _policies(order: list[int]) -> cb.PolicySet:
    lists = np.array([[[0, 1]], [[1, 2]], [[3, 4]]])
    return cb.PolicySet.from_lists(lists[order], PROBLEM, names=[f"ranker {i}" for i in order])


def test_saved_weights_find_their_policies_in_any_order(tmp_path: Path) -> None:
    mixture = cb.Mixture(_policies([0, 1, 2]), [0.25, 0.75, 0.0], problem=PROBLEM, floor=0.3)
    mixture.save(tmp_path / "mixture.npz")
    again = cb.Mixture.load(tmp_path / "mixture.npz", _policies([1, 0]))
    assert again.weights.tolist() == [0.75, 0.25]
    assert (again.problem, again.floor) == (PROBLEM, 0.3)
    np.testing.assert_array_equal(again.propensities([0]), mixture.propensities([0]))


def test_names_of_items_travel_along(tmp_path: Path) -> None:
    for names in (["tea", "milk", "7", "salt", "rye"], [10, 20, 30, 40, 50]):
        mixture = cb.Mixture(_policies([0, 1]), [0.5, 0.5], problem=PROBLEM, floor=0.3, items=names)
        mixture.save(tmp_path / "mixture.npz")
        again = cb.Mixture.load(tmp_path / "mixture.npz", _policies([0, 1]))
        assert again.items is not None
        assert again.items[[[0, 4]]].tolist() == [[names[0], names[4]]]
    with pytest.raises(cb.InputError, match="one name for each of the 5 actions"):
        cb.Mixture(_policies([0, 1]), [0.5, 0.5], problem=PROBLEM, floor=0.3, items=["tea"])


def test_a_missing_policy_and_another_file_are_refused(tmp_path: Path) -> None:
    mixture = cb.Mixture(_policies([0, 1, 2]), [0.25, 0.75, 0.0], problem=PROBLEM, floor=0.3)
    mixture.save(tmp_path / "mixture.npz")
    with pytest.raises(cb.InputError, match="needs a policy named 'ranker 0'"):
        cb.Mixture.load(tmp_path / "mixture.npz", _policies([1, 2]))
    cb.Events.none().save(tmp_path / "events.npz")
    with pytest.raises(cb.InputError, match="should hold mixture, but it holds events"):
        cb.Mixture.load(tmp_path / "events.npz", _policies([0, 1, 2]))
