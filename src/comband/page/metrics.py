"""Further metrics beside the reward: what each is, and how much worse than production a candidate may be by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.declaring import Checked, Range, Setting, declared
from comband.page.lists import check_rewards
from comband.page.problem import COUNT, FLAG, POSITIVE, InputError, Problem, as_floats, check_number, check_text, one_of

TAKEN = ("decisions", "rewards", "self")  # what `tell` calls its own arguments


def _check_name(name: str, value: Any) -> str:
    text = check_text(name, value)
    if not text.isidentifier() or text in TAKEN:
        raise InputError(
            f"a metric's name must be a word of letters, digits and underscores other than {', '.join(TAKEN)}, for it "
            f"is told under this name (tell(decisions, rewards, purchases=…)), got {value!r}."
        )
    return text


def _check_margin(name: str, value: Any) -> float:
    margin = check_number(name, value)
    if margin < 0:
        raise InputError(f"{name} must be 0 or more, got {value}: it is how much worse than production is allowed.")
    return margin


@dataclass(frozen=True, kw_only=True)
class Metric(Checked):
    """A metric that must not get worse.

    Every shown item has a value in [0, largest] besides its reward: what was paid for it, say (a benefit), or whether
    it was reported (a cost). A candidate is *safe* by it if its values, summed over a round's items and averaged over
    rounds, are not worse than production's by more than the margin.

    Parameters
    ----------
    name:
        Under which it is told.
    margin, relative:
        How much worse than production a safe candidate may be: per round, or as a share of production's value.
    direction:
        "benefit" if more of it is better, "cost" if more is worse.
    largest, per_round:
        The largest value of a shown item, and the most that the values of one round sum to: as many times the largest
        as rewards may, if nothing is said.
    patience:
        How many later decisions a decision waits for its values, if longer or shorter than for rewards.

    >>> purchases = Metric(name="purchases", margin=0.1, relative=True)
    >>> str(purchases)
    'purchases: at most 10% below production'
    >>> str(Metric(name="reports", margin=0.002, direction="cost"))
    'reports: at most 0.002 above production'
    """

    name: Annotated[str, Setting("The name under which it is told.", Range(str, _check_name))]
    margin: Annotated[
        float,
        Setting(
            "How much worse than production a safe candidate may be: per round, or as a share of production's value.",
            Range(float, _check_margin, least=0),
        ),
    ]
    relative: Annotated[bool, Setting("Whether the margin is a share of production's value.", FLAG)] = False
    direction: Annotated[
        str, Setting('Whether more of it is better, "benefit", or worse, "cost".', one_of("benefit", "cost"))
    ] = "benefit"
    largest: Annotated[float, Setting("The largest value of a shown item.", POSITIVE)] = 1.0
    per_round: Annotated[
        float | None,
        Setting(
            "The most that the values of one round sum to; if not set, as many times the largest as rewards may.",
            POSITIVE,
        ),
    ] = None
    patience: Annotated[
        int | None,
        Setting(
            "How many later decisions a decision waits for its values, before they count as zeros; if not set, as many "
            "as for rewards.",
            COUNT,
            "decisions",
        ),
    ] = None

    def check_together(self) -> None:
        """A share that may be lost is less than all."""
        if self.relative and self.direction == "benefit" and self.margin >= 1:
            raise InputError(
                f"a relative margin is a share of production's value, below 1 for a benefit, got {self.margin:g} for "
                f"{self.name}; 0.1 allows a tenth less."
            )

    def __str__(self) -> str:
        way = "below" if self.direction == "benefit" else "above"
        margin = f"{100 * self.margin:g}%" if self.relative else f"{self.margin:g}"
        return f"{self.name}: at most {margin} {way} production"

    def problem(self, problem: Problem) -> Problem:
        """The setting in which its values, divided by the largest, are rewards."""
        if self.per_round is None:
            return problem
        return replace(problem, sparsity=min(self.per_round / self.largest, float(problem.list_size)))

    def most(self, max_reward: float) -> float:
        """The most that a round's values sum to, in units of the largest, where its rewards sum to so much at most."""
        return max_reward if self.per_round is None else self.per_round / self.largest

    def values(self, told: ArrayLike, problem: Problem, *, n: int) -> NDArray[np.float64]:
        """What was told, checked, in units of the largest (n, m)."""
        floats = as_floats(self.name, told)
        if floats.shape == (n,) and problem.list_size > 1:
            raise InputError(
                f"{self.name} has one number per round, and a metric is a value of each shown item, shape ({n}, "
                f"{problem.list_size}): what belongs to a round as a whole (latency, say) says nothing of lists that "
                "were not shown. Compare the winner with production by it in whole lists (comband.Confirmation)."
            )
        try:
            return check_rewards(floats / self.largest, self.problem(problem), n=n)
        except InputError as error:
            raise InputError(
                f"{self.name} (in units of its largest value, {self.largest:g}, as rewards of items): {error}"
            ) from None


def check_metrics(name: str, value: Any) -> tuple[Metric, ...]:
    """Metrics of different names: objects, or their settings by name."""
    if isinstance(value, (str, Metric, Mapping)) or not hasattr(value, "__iter__"):
        raise InputError(f"{name} must be a list of metrics (comband.Metric, or its settings by name), got {value!r}.")
    found = tuple(_metric(one) for one in value)
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise InputError(f"metrics must have different names, got {', '.join(names)}.")
    return found


def _metric(value: Any) -> Metric:
    if isinstance(value, Metric):
        return value
    known = declared(Metric)
    given: dict[str, Any] = (
        dict(value) if isinstance(value, Mapping) else {name: getattr(value, name, None) for name in known}
    )
    unknown, lacking = given.keys() - known.keys(), [name for name in ("name", "margin") if given.get(name) is None]
    if unknown or lacking:
        problem = f"lacks {' and '.join(lacking)}" if lacking else f"has {', '.join(sorted(map(str, unknown)))} too"
        raise InputError(f"a metric has the settings {', '.join(known)}, and this one {problem}: {value!r}.")
    return Metric(**given)


METRICS = Range(dict, check_metrics, of=Metric)
