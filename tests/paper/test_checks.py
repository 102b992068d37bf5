"""The verdict rule: right on synthetic results of known slope, undecided on noise."""

from __future__ import annotations

import numpy as np
import pytest

from comband.paper.checks import Bound, Largest, LargestFrequency, Mean, Ratio, Slope, decide, judge, overall
from comband.paper.records import Record
from comband.paper.statistics import Estimate

LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0)


def results(slope: float, noise: float, seed: int, seeds: int = 5) -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        Record({"x": x, "kind": "a"}, k, {"y": float(x**slope * np.exp(noise * rng.standard_normal()))})
        for x in LEVELS
        for k in range(seeds)
    ]


def verdict(records: list[Record], accepted: tuple[float, float]) -> str:
    return judge([Slope("slope", "x", "y", accepted)], records)[0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, -2.0])
def test_known_slopes_are_judged_rightly(slope: float, seed: int) -> None:
    # The standard error is about 0.05/√5/2.2 = 0.01; ±0.2 is some twenty of them, so no seed may go wrong.
    records = results(slope, 0.05, seed)
    assert verdict(records, (slope - 0.2, slope + 0.2)) == "supported"
    assert verdict(records, (slope + 0.4, slope + 0.8)) == "not supported"
    assert verdict(records, (-np.inf, slope - 0.4)) == "not supported"


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_undecided(seed: int) -> None:
    # Noise of e^±3 has a standard error of some 0.7 in the slope and interval ends 3 apart: it can be neither inside a
    # range of width 0.4 nor, unless three standard errors off, outside of it.
    assert verdict(results(0.0, 3.0, seed), (-0.2, 0.2)) == "undecided"


def test_supported_only_as_a_whole() -> None:
    assert decide(Estimate(1, 0.8, 1.2), (0.8, 1.2)) == "supported"
    assert decide(Estimate(1, 0.79, 1.2), (0.8, 1.2)) == "undecided"
    assert decide(Estimate(1.5, 1.21, 1.8), (0.8, 1.2)) == "not supported"
    assert decide(Estimate(1, np.nan, np.nan), (0.8, 1.2)) == "undecided"
    assert overall(["supported", "undecided", "not supported"]) == "not supported"
    assert overall(["supported", "undecided"]) == "undecided"
    assert overall(["supported", "supported"]) == "supported"


def test_every_kind_of_check() -> None:
    records = [
        Record({"learner": name, "x": 1}, seed, {"hits": hits, "of": 100, "cost": 2.0 + seed, "base": 4.0 + 2 * seed})
        for name, hits in (("good", 60), ("bad", 10))
        for seed in range(4)
    ]
    share = LargestFrequency("share", "hits", "of", ("learner",), (0, 0.75))
    assert share.estimate(records).value == 0.6
    assert judge([share], records)[0] == "supported"
    low = LargestFrequency("share", "hits", "of", ("learner",), (0, 0.3), {"learner": "bad"})
    assert judge([low], records)[0] == "supported"
    assert judge([LargestFrequency("share", "hits", "of", ("learner",), (0, 0.5))], records)[0] == "not supported"
    assert Ratio("ratio", "cost", "base", (0, 1)).estimate(records).value == pytest.approx(0.5)
    assert Mean("mean", "cost", (0, 1), {"learner": "good"}).estimate(records).value == pytest.approx(3.5)
    assert Largest("largest", "cost", (0, 5)).estimate(records) == Estimate(5, 5, 5)


def test_a_bound_that_anything_keeps_is_consistent_at_most() -> None:
    records = [
        Record({"x": 1.0}, k, {"y": 0.1 + 0.01 * k, "idle": 0.9 + 0.01 * k, "bad": 3.0 + k / 10}) for k in range(4)
    ]
    kept = Largest("largest y", "y", (0, 1))

    def answer(check: Bound) -> tuple[str, Estimate | None]:
        found, (one,) = judge([check], records)
        assert found == one.verdict
        return one.verdict, one.contrast

    assert answer(Bound(kept)) == ("consistent", None)
    assert answer(Bound(kept, Largest("idle", "idle", (0, 1))))[0] == "consistent"
    assert answer(Bound(kept, Largest("bad", "bad", (0, 1)))) == ("supported", Estimate(3.3, 3.3, 3.3))
    broken = Bound(Largest("largest bad", "bad", (0, 1)), Largest("bad", "bad", (0, 1)))
    assert answer(broken)[0] == "not supported"
    assert overall(["supported", "consistent"]) == "consistent"
    assert overall(["consistent", "undecided"]) == "undecided"
