"""The rule of every verdict: an interval against a range that was accepted before the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from comband.paper.records import Record, group_by, select
from comband.paper.statistics import LEVEL, Estimate, frequency, log_log_slope, mean_ratio, mean_value, worst

Verdict = Literal["supported", "consistent", "not supported", "undecided"]


def decide(estimate: Estimate, accepted: tuple[float, float]) -> Verdict:
    """Supported if the whole interval is accepted, not supported if none of it is, undecided otherwise.

    (An answer that could not have failed is "consistent" instead: see `Bound`.)

    >>> decide(Estimate(1.0, 0.9, 1.1), (0.8, 1.2)), decide(Estimate(0.1, 0.0, 0.2), (0.8, 1.2))
    ('supported', 'not supported')
    >>> decide(Estimate(1.0, -3.0, 5.0), (0.8, 1.2))
    'undecided'
    """
    low, high = accepted
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return "undecided"
    if low <= estimate.low and estimate.high <= high:
        return "supported"
    if estimate.high < low or estimate.low > high:
        return "not supported"
    return "undecided"


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several checks: one that fails decides, then one that is open, then one that could not have failed."""
    order: tuple[Verdict, ...] = ("not supported", "undecided", "consistent", "supported")
    return min(verdicts, key=order.index)


class Check(Protocol):
    """A question put to the records.

    >>> from comband.paper import Check, Mean
    >>> check: Check = Mean("rounds", "rounds", accepted=(0, 2000))
    >>> check.text, check.accepted
    ('rounds', (0, 2000))
    """

    @property
    def text(self) -> str:
        """The question in words."""
        ...

    @property
    def accepted(self) -> tuple[float, float]:
        """The range in which the estimate must lie."""
        ...

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """The answer with its uncertainty."""
        ...


@dataclass(frozen=True, slots=True)
class Slope:
    """How y grows with x: the slope of log(mean y) on log x over the records that match `where`.

    Parameters
    ----------
    text:
        The question in words.
    accepted:
        The range in which the estimate must lie.

    >>> from comband.paper import Record, Slope
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> check = Slope("rounds grow with K", "K", "rounds", accepted=(0.8, 1.2))
    >>> round(check.estimate(records).value, 1)
    1.0
    """

    text: str
    x: str
    y: str
    accepted: tuple[float, float]
    where: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """Least squares with a bootstrap interval."""
        groups = group_by(select(records, **self.where), self.x)
        return log_log_slope({x: [r[self.y] for r in group] for x, group in groups.items()})


@dataclass(frozen=True, slots=True)
class Ratio:
    """mean of y over mean of `over`, paired run by run, over the records that match `where`.

    Parameters
    ----------
    text:
        The question in words.
    accepted:
        The range in which the estimate must lie.

    >>> from comband.paper import Ratio, Record
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> check = Ratio("rounds over the limit", "rounds", "limit", accepted=(0, 1))
    >>> check.estimate(records).high < 1
    True
    """

    text: str
    y: str
    over: str
    accepted: tuple[float, float]
    where: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """Bootstrap over runs."""
        chosen = select(records, **self.where)
        return mean_ratio([r[self.y] for r in chosen], [r[self.over] for r in chosen])


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of y over the records that match `where`.

    Parameters
    ----------
    text:
        The question in words.
    accepted:
        The range in which the estimate must lie.

    >>> from comband.paper import Mean, Record
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> check = Mean("rounds at K = 10", "rounds", accepted=(90, 110), where={"K": 10})
    >>> round(check.estimate(records).value, 6)
    101.0
    """

    text: str
    y: str
    accepted: tuple[float, float]
    where: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """Student's interval over runs."""
        return mean_value([r[self.y] for r in select(records, **self.where)])


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest y of all runs, for claims that admit no exception: what was seen is the estimate, without margin.

    Parameters
    ----------
    text:
        The question in words.
    accepted:
        The range in which the estimate must lie.
    where:
        Which records are looked at: settings or values by name.

    >>> from comband.paper import Largest, Record
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> Largest("no run needs more", "rounds", accepted=(0, 2000)).estimate(records).value
    1002.0
    """

    text: str
    y: str
    accepted: tuple[float, float]
    where: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """The maximum."""
        top = float(np.max([r[self.y] for r in select(records, **self.where)]))
        return Estimate(top, top, top)


@dataclass(frozen=True, slots=True)
class LargestFrequency:
    """The largest probability over the groups `by`, from counts of successes and trials in each run.

    Exact intervals, at a level shared out over the groups, so that all hold at once.

    Parameters
    ----------
    text:
        The question in words.
    accepted:
        The range in which the estimate must lie.
    where:
        Which records are looked at: settings or values by name.

    >>> from comband.paper import LargestFrequency, Record
    >>> records = [Record({"K": 10}, seed, {"wrong": 0, "runs": 100}) for seed in range(3)]
    >>> check = LargestFrequency("how often it is wrong", "wrong", "runs", ("K",), accepted=(0, 0.05))
    >>> estimate = check.estimate(records)
    >>> estimate.value, estimate.high < 0.05
    (0.0, True)
    """

    text: str
    successes: str
    trials: str
    by: tuple[str, ...]
    accepted: tuple[float, float]
    where: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """Clopper-Pearson in each group, the largest of all."""
        groups = group_by(select(records, **self.where), *self.by).values()
        level = 1 - (1 - LEVEL) / len(groups)
        return worst(
            [
                frequency(sum(r[self.successes] for r in group), sum(r[self.trials] for r in group), level=level)
                for group in groups
            ]
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A claim of the kind "at most", which wide enough a bound makes true of anything.

    An accepted answer counts as support only if the test can fail: if `contrast`, a question with the same range about
    something that must not pass (an algorithm that learns nothing), is not supported by the same runs. Otherwise, or
    without contrast, the answer is "consistent" with the claim and no more.

    Parameters
    ----------
    check:
        The question.

    >>> from comband.paper import Bound, Mean, Record
    >>> runs = [(K, seed) for K in (10, 100) for seed in range(3)]
    >>> records = [Record({"K": K}, seed, {"rounds": 10.0 * K + seed, "limit": 20.0 * K}) for K, seed in runs]
    >>> rounds, limit = (Mean(name, name, accepted=(0, 2000)) for name in ("rounds", "limit"))
    >>> Bound(rounds, contrast=limit).accepted
    (0, 2000)
    """

    check: Check
    contrast: Check | None = None

    @property
    def text(self) -> str:
        """The question in words."""
        return self.check.text

    @property
    def accepted(self) -> tuple[float, float]:
        """The range in which the estimate must lie."""
        return self.check.accepted

    def estimate(self, records: Sequence[Record]) -> Estimate:
        """The answer with its uncertainty."""
        return self.check.estimate(records)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check came to, and what its contrast came to, if it has one."""

    check: Check
    estimate: Estimate
    verdict: Verdict
    contrast: Estimate | None = None


def judge(checks: Sequence[Check], records: Sequence[Record]) -> tuple[Verdict, list[Answer]]:
    """The verdict of a claim, and the answers it rests on."""
    answers = [_answer(check, records) for check in checks]
    return overall([answer.verdict for answer in answers]), answers


def _answer(check: Check, records: Sequence[Record]) -> Answer:
    estimate = check.estimate(records)
    verdict = decide(estimate, check.accepted)
    if not isinstance(check, Bound):
        return Answer(check, estimate, verdict)
    contrast = None if check.contrast is None else check.contrast.estimate(records)
    fails = contrast is not None and decide(contrast, check.accepted) == "not supported"
    return Answer(check, estimate, verdict if verdict != "supported" or fails else "consistent", contrast)
