"""What a claim is: a statement of the paper, how it is measured, and the rule that decides, all as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from comband.page.problem import InputError, check_count
from comband.paper.checks import Check
from comband.paper.records import Record, Setting, Values


@dataclass(frozen=True, slots=True)
class Plan:
    """Which settings to run, each with seeds 0 … n_seeds − 1.

    >>> from comband.paper import Plan
    >>> plan = Plan([{"K": 10}, {"K": 100}], n_seeds=3)
    >>> len(plan.settings) * plan.n_seeds
    6
    """

    settings: Sequence[Setting]
    n_seeds: int

    def __post_init__(self) -> None:
        check_count("n_seeds", self.n_seeds)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper as a running experiment.

    Parameters
    ----------
    name:
        A short name, fit for a file.
    title, source, statement:
        What is claimed, where in the paper, and in words that need no paper at hand.
    method:
        What is run and measured.
    checks:
        The rule, written before the run: each check turns records into an estimate with an interval and compares it
        with a range accepted beforehand. The claim is supported if all its checks are, not supported if one is not,
        and consistent with the runs if none fails but one could hardly have failed (`Bound`).
    quick, full:
        What to run for `--quick` and otherwise.
    measure:
        (setting, seed) -> values. A function of a module, so that other processes can find it, and of nothing else:
        the same setting and seed give the same values.
    draw:
        (records, figure) -> None: the evidence as a matplotlib figure.
    remarks:
        What a reader should know about the evidence, besides the verdict.
    version:
        Raise it when `measure` changes its meaning: results of other versions are not reused.

    >>> from comband.paper import Claim, Mean, Plan
    >>> plan = Plan([{"K": 10}, {"K": 100}], n_seeds=3)
    >>> claim = Claim(
    ...     name="small",
    ...     title="Small numbers",
    ...     source="nowhere",
    ...     statement="K stays below 1000",
    ...     method="look",
    ...     checks=(Mean("K", "size", accepted=(0, 1000)),),
    ...     quick=plan,
    ...     full=plan,
    ...     measure=lambda setting, seed: {"size": setting["K"]},
    ...     draw=lambda records, figure: None,
    ... )
    >>> len(claim.tasks(quick=True))
    6
    """

    name: str
    title: str
    source: str
    statement: str
    method: str
    checks: tuple[Check, ...]
    quick: Plan
    full: Plan
    measure: Callable[[Setting, int], Values]
    draw: Callable[[Sequence[Record], Any], None]
    remarks: str = ""
    version: int = 1

    def tasks(self, *, quick: bool) -> list[Task]:
        """All runs of a plan, in order."""
        plan = self.quick if quick else self.full
        return [Task(self, setting, seed) for setting in plan.settings for seed in range(plan.n_seeds)]


@dataclass(frozen=True, slots=True)
class Task:
    """One run still to be made; `key` names it for ever.

    Parameters
    ----------
    claim:
        What is claimed.
    setting:
        Of this run.
    seed:
        Of this run.

    >>> from comband.paper import Task, all_claims
    >>> claim = all_claims()[0]
    >>> task = claim.tasks(quick=True)[0]
    >>> isinstance(task, Task), task.seed, task.key == claim.tasks(quick=True)[0].key
    (True, 0, True)
    """

    claim: Claim
    setting: Setting
    seed: int

    @property
    def key(self) -> str:
        """A hash of claim, version, setting and seed."""
        content = [self.claim.name, self.claim.version, dict(self.setting), self.seed]
        try:
            text = json.dumps(content, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"settings must be made of JSON values, but one of {self.claim.name!r} is not: {error}."
            ) from None
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def grid(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    """All combinations, the last name varying fastest.

    >>> grid(K=[10, 20], m=[1])
    [{'K': 10, 'm': 1}, {'K': 20, 'm': 1}]
    """
    settings: list[dict[str, Any]] = [{}]
    for name, values in choices.items():
        fixed = list(values)
        settings = [{**setting, name: value} for setting in settings for value in fixed]
    return settings
