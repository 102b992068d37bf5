"""What learners and evaluations answer with: a selection, a standing, a receipt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from comband.page.frames import Tabular
from comband.page.text import rough, visible
from comband.policies.base import Policy
from comband.statistics.claims import Claim
from comband.statistics.verdicts import SMALL_SHARE, Standing, Verdict, judge

NO_PROMISE = "no promise"
WARNING = "Not valid"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate's estimated value with its interval.

    A weighted mean may come out where no value can be, above ρ say: the nearest point of the interval takes its place.

    Parameters
    ----------
    index:
        Its number among the candidates.
    name:
        What it is called.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> best = result.best
    >>> best.name == result.name, best.interval[0] <= best.value <= best.interval[1]
    (True, True)
    """

    index: int
    name: str
    value: float
    interval: tuple[float, float]

    def __post_init__(self) -> None:
        low, high = self.interval
        object.__setattr__(self, "value", min(max(self.value, low), high))

    def __str__(self) -> str:
        return f"{visible(self.name)}: {self.value:.4g} in [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"


@dataclass(frozen=True, slots=True)
class ComparedCandidate(Candidate):
    """A candidate beside the winner.

    difference:
        Its estimated value minus the winner's.
    bound:
        If it is the best of all, then its value exceeds the winner's by no more than this, with probability 1 − delta.
        What holds for all candidates at once is the largest, `Comparison.epsilon`.
    dropped:
        After how many rounds it was known not to be the best; None while it may be.
    unjudged:
        Empty, or why its value cannot be told.
    index:
        Its number among the candidates.
    name:
        What it is called.
    interval:
        Of its value.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> winner, rival, *_ = result.comparison().candidates
    >>> winner.difference, rival.name != winner.name, rival.bound <= result.epsilon
    (0.0, True, True)
    """

    difference: float
    bound: float
    dropped: int | None = None
    unjudged: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "name": self.name,
            "value": self.value,
            "low": self.interval[0],
            "high": self.interval[1],
            "difference": self.difference,
            "bound": self.bound,
            "dropped": self.dropped,
            "unjudged": self.unjudged,
        }


@dataclass(frozen=True, slots=True)
class Comparison(Tabular):
    """Differences to the winner and their bounds: what pictures of a selection draw.

    candidates:
        The winner first, then by difference, those that were dropped last.
    epsilon, delta:
        With probability 1 − delta, no candidate's value exceeds the winner's by more than epsilon.
    target:
        The ε that was asked for; None where none was.
    claim:
        That promise with what it rests on; None where nothing is promised.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> comparison = learner.comparison()
    >>> comparison.winner.name == result.name, comparison.target
    (True, 0.2)
    >>> len(comparison.to_frame("pandas"))
    4
    """

    candidates: tuple[ComparedCandidate, ...]
    epsilon: float
    delta: float
    target: float | None = None
    claim: Claim | None = None

    @property
    def winner(self) -> ComparedCandidate:
        """The selected candidate."""
        return self.candidates[0]

    @property
    def decided(self) -> bool:
        """Whether that one may be marked as the winner: see `comband.statistics.verdicts`."""
        first = Standing(self.winner.name, self.winner.value)
        return judge(first, self.claim, epsilon=self.epsilon, rounds=0, target=self.target).decided

    @classmethod
    def of(cls, candidates: Sequence[ComparedCandidate], **promise: Any) -> Comparison:
        """In order: `candidates` begin with the winner; `promise` are the other fields."""
        winner, *others = candidates
        others.sort(key=lambda one: (one.dropped is not None, -one.difference, -one.bound))
        return cls((winner, *others), **promise)

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate, the winner first."""
        rows = [candidate.as_dict() for candidate in self.candidates]
        return {"candidate" if name == "name" else name: [row[name] for row in rows] for name in rows[0]}

    def headline(self) -> str:
        """The promise in words."""
        return f"{self.winner.name}: {NO_PROMISE if self.claim is None else self.claim}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "target": self.target,
            "promise": None if self.claim is None else self.claim.as_dict(),
            "candidates": [candidate.as_dict() for candidate in self.candidates],
        }


@dataclass(frozen=True, slots=True)
class Guess:
    """Who looks best, whatever can be proved by now: the candidate of highest estimate, where estimates are shrunk
    towards what is known beforehand and towards each other. `value` is its own estimate, and `error` the standard error
    of that one; nothing is promised.

    Parameters
    ----------
    index:
        Its number among the candidates.
    name:
        What it is called.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.guess.name in policies.names, result.guess.error > 0
    (True, True)
    """

    index: int
    name: str
    value: float
    error: float

    def __str__(self) -> str:
        if math.isinf(self.error):
            return f"{visible(self.name)}: no reward so far"
        return f"{visible(self.name)}: {self.value:.4g} ± {self.error:.2g}"


@dataclass(frozen=True, slots=True)
class Lift:
    """How much more than production a candidate collects per round, at any time with probability 1 − delta; and, with a
    delta of its own, that as a share of production's value (None while it may be more than three times that).

    >>> str(Lift("new", 0.01, 0.05, 0.05, (0.1, 0.6)))
    'new collects 0.01 to 0.05 rewards per round more than production, which is 10% to 60% of its value'
    >>> str(Lift("new", -0.01, 0.05, 0.05, None))
    'new collects −0.01 to 0.05 rewards per round more than production'
    """

    name: str
    low: float
    high: float
    delta: float
    relative: tuple[float, float] | None = None

    @property
    def ends(self) -> str:
        """The interval, as text."""
        return _between(self.low, self.high)

    def __str__(self) -> str:
        ends = f"{self.low:.3g} to {self.high:.3g}".replace("-", "−")
        share = ""
        if self.relative is not None:
            low, high = (f"{100 * end:.3g}%".replace("-", "−") for end in self.relative)
            share = f", which is {low} to {high} of its value"
        return f"{visible(self.name)} collects {ends} rewards per round more than production{share}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "candidate": self.name,
            "low": self.low,
            "high": self.high,
            "delta": self.delta,
            "relative": None if self.relative is None else list(self.relative),
        }


@dataclass(frozen=True, slots=True)
class Guarded:
    """A candidate beside production by one metric.

    difference, error:
        Estimates, in the metric's own unit: how much more of it there is per round than with production, and the
        standard error of that.
    margin:
        As it was declared, in words.
    standing:
        "safe" or "harmful" where that is certified, by all metrics together, and "not shown" else.
    interval, value, value_interval:
        Of that difference, and how much of it there is per round, with an interval; None where none is known.

    >>> str(Guarded("new", "purchases", -0.01, 0.02, "at most 0.03 below production", "not shown"))
    'new: purchases −0.01 ± 0.02 beside production (at most 0.03 below production): not shown'
    """

    candidate: str
    metric: str
    difference: float
    error: float
    margin: str
    standing: str
    interval: tuple[float, float] | None = None
    value: float | None = None
    value_interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        beside = f"{self.difference:.3g} ± {self.error:.2g}".replace("-", "−")
        return f"{visible(self.candidate)}: {self.metric} {beside} beside production ({self.margin}): {self.standing}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return asdict(self)


def beside_table(
    names: Sequence[str], lifts: Sequence[Lift], guarded: Sequence[Guarded]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Candidates × metrics, how much more than with production: columns, and a row for each of these candidates, as
    text. Differences have their intervals, or standard errors where there are none.

    >>> lifts = [Lift("new", 0.01, 0.05, 0.05)]
    >>> sold = [Guarded("new", "sold", -0.01, 0.02, "at most 0.03 below production", "safe", (-0.02, 0.01))]
    >>> columns, rows = beside_table(["new"], lifts, sold)
    >>> columns
    ('candidate', 'by its metrics', 'rewards', 'sold')
    >>> rows[0][1:]
    ('safe', '+0.01 to +0.05', '−0.01 (−0.02 to +0.01)')
    """
    metrics = list(dict.fromkeys(row.metric for row in guarded))
    of_lift, of_metric = {one.name: one for one in lifts}, {(one.candidate, one.metric): one for one in guarded}
    columns = {"candidate": [visible(name) for name in names]}
    if metrics:
        standing = {one.candidate: one.standing for one in guarded}
        columns["by its metrics"] = [standing.get(name, "") for name in names]
    if lifts:
        ends = [of_lift.get(name) for name in names]
        columns["rewards"] = ["" if one is None else _between(one.low, one.high) for one in ends]
    for metric in metrics:
        rows = [of_metric.get((name, metric)) for name in names]
        columns[metric] = ["" if one is None else _with_ends(one) for one in rows]
    return tuple(columns), list(zip(*columns.values(), strict=True))


def _with_ends(one: Guarded) -> str:
    if one.interval is None:
        return f"{_signed(one.difference)} ± {one.error:.2g}"
    ends = _between(*one.interval)
    return ends if ends == "0" else f"{_signed(one.difference)} ({ends})"


def _between(low: float, high: float) -> str:
    return "0" if low == high == 0 else f"{_signed(low)} to {_signed(high)}"


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "−") if value else "0"


@dataclass(frozen=True, slots=True)
class Selection(Tabular):
    """The answer: a policy, and what is promised about it.

    With probability 1 − delta, no candidate's value exceeds the selected one's by more than `epsilon`, if `claim`
    holds: it is the first of `claims`, which say what each sentence rests on and whether that was so
    (`comband.statistics.claims`). What that amounts to is the `verdict`, which is said first. `notes` hold whatever a
    reader should know, and `explained` what only a reader wants who asks how. `warnings` are signs that what the
    promise rests on does not hold.

    Certifying learners also say who looks best, `guess`. Before ε is reached, the one selected is the one about which
    most is certified if that says something (`says_something`), and the best guess otherwise. `declared` is what was
    said beforehand: rows of name, value and what it is (`comband.page.declaring.table`).

    Parameters
    ----------
    rounds:
        How many count: see `Learner.rounds`.
    runners_up:
        The next best candidates by estimate.
    error:
        The standard error of the selected one's value; None where none is known.
    target:
        The ε that was asked for; None where none was.
    forecast:
        An estimate of the rounds still needed; infinity where none can be made.
    rounds_per_day:
        To say that in days; None where it is not known.
    max_reward:
        The most that one round can bring.
    lift:
        Over the candidate in production; None where there is none.
    guarded:
        By each further metric, the selected one and the runners-up.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> result = cb.run(cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3), shop, batch_size=500).result
    >>> result.verdict.kind
    'decided'
    >>> result.name == policies.names[result.index]
    True
    >>> result.interval[0] <= result.value <= result.interval[1]
    True
    >>> result.epsilon <= 0.2, result.delta
    (True, 0.05)
    >>> result.to_frame("pandas").columns.tolist()
    ['candidate', 'value', 'low', 'high', 'selected']
    """

    policy: Policy
    best: Candidate
    epsilon: float
    delta: float
    rounds: int
    runners_up: tuple[Candidate, ...]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    guess: Guess | None = None
    declared: tuple[tuple[str, str, str], ...] = ()
    explained: tuple[str, ...] = ()
    error: float | None = None
    target: float | None = None
    forecast: float = math.inf
    rounds_per_day: float | None = None
    max_reward: float = math.inf
    lift: Lift | None = None
    guarded: tuple[Guarded, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """What is known, in one of four kinds: see `comband.statistics.verdicts`."""
        guess = None if self.guess is None else Standing(self.guess.name, self.guess.value, self.guess.error)
        first = max(self.runners_up, key=lambda one: one.value, default=None)
        return judge(
            Standing(self.name, self.value, self.error),
            self.claim,
            epsilon=self.epsilon,
            rounds=self.rounds,
            most=self.max_reward,
            target=self.target,
            more_rounds=self.forecast,
            rounds_per_day=self.rounds_per_day,
            guess=guess,
            higher=None if first is None else Standing(first.name, first.value),
            warnings=self.warnings,
            metrics=list(dict.fromkeys(one.metric for one in self.guarded)),
        )

    @property
    def claim(self) -> Claim | None:
        """What is promised of the selected candidate; None where nothing is."""
        return self.claims[0] if self.claims else None

    @property
    def guarantee(self) -> str:
        """Which bound the promise comes from, or why there is none."""
        if self.claim is None:
            return NO_PROMISE
        return self.claim.basis if self.claim.holds else self.claim.text

    @property
    def name(self) -> str:
        """The selected candidate's name."""
        return self.best.name

    @property
    def index(self) -> int:
        """The selected candidate's number."""
        return self.best.index

    @property
    def value(self) -> float:
        """The selected candidate's estimated value: expected reward per round."""
        return self.best.value

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of that value."""
        return self.best.interval

    def comparison(self) -> Comparison:
        """The selected one beside the runners-up, of each of which no more is known than `epsilon`; certifying learners
        know more, and say it of all candidates.
        """
        compared = [
            ComparedCandidate(one.index, one.name, one.value, one.interval, one.value - self.value, bound)
            for one, bound in ((self.best, 0.0), *((other, self.epsilon) for other in self.runners_up))
        ]
        return Comparison.of(compared, epsilon=self.epsilon, delta=self.delta, claim=self.claim)

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate: the selected one, and the runners-up."""
        rows = (self.best, *self.runners_up)
        return {
            "candidate": [row.name for row in rows],
            "value": [row.value for row in rows],
            "low": [row.interval[0] for row in rows],
            "high": [row.interval[1] for row in rows],
            "selected": [row is self.best for row in rows],
        }

    def headline(self) -> str:
        """The answer in words."""
        return str(self)

    def __str__(self) -> str:
        lines = [
            str(self.verdict),
            f"  {self.best}",
            f"  {NO_PROMISE if self.claim is None else self.claim}, after {self.rounds:,} rounds",
        ]
        if self.guess is not None and not says_something(self.epsilon, self.value):
            lines.append(f"  best guess: {self.guess} (standard error; no promise)")
        lines += [f"  next: {candidate}" for candidate in self.runners_up]
        lines += [] if self.lift is None else [f"  lift: {self.lift}"]
        lines += [f"  metric: {one}" for one in self.guarded if one.candidate == self.name]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


# What learners of small regret say about the policy they name.
REGRET_INSTEAD = (
    "this learner bounds the regret of its whole run instead, where each answer comes before the next decision"
)
NO_REGRET = "this is a baseline, whose regret no theorem bounds in a world that changes"
# What learners say while it is not too late to give others.
NOT_SAVED = (
    "`save` will refuse this learner, because no file can hold its contexts: give numbers or text, such as ids that "
    "the candidates look up"
)
# What learners say in whose rounds no guard looks for broken assumptions.
UNWATCHED = (
    "nothing watched whether propensities were right, answers were lost selectively or the world changed; the "
    "certifying learners (AdaptiveComband) do"
)
# What learners that take rounds as they are answered say while older decisions are open: those that are answered may be
# no sample of all (clicks are often told first), so nothing can be promised.
OUT_OF_ORDER = "older decisions are still without answer, and those answered first may be no fair sample"
# What learners with bounds for one look say before the planned rounds are in.
TOO_EARLY = "the planned rounds are not in yet, and the bounds are for one look at their end"
ANSWER_THEM = "tell the open decisions too (zeros for those that stay without answer) to have a guarantee"


@dataclass(frozen=True, slots=True)
class Status(Tabular):
    """Where a learner stands: for progress bars and histories; as text, for a person at a terminal.

    What is known and what is guessed are told apart.

    Parameters
    ----------
    rounds:
        How many count so far: see `Learner.rounds`.
    leader:
        The candidate that looks best; empty if none does yet.
    survivors:
        How many candidates may still be selected.
    certified:
        An ε that holds now, with probability 1 − delta: no candidate is better than the leader by more. None where
        nothing is promised, or nothing that the range of the rewards does not; and where `result` alone computes it.
    expected:
        The ε that is expected of `result` at the end of the budget, if nothing unusual happens; None if none is.
    forecast:
        A rough guess of the rounds still needed; infinity when there is no sign of an end.
    verdict:
        What is known, as `result` says it; None before the first answers, where `result` alone computes it, and in the
        quick form (`Learner.progress`).

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> status = learner.status()
    >>> status.rounds, status.survivors, status.certified
    (0, 4, None)
    """

    rounds: int
    leader: str
    survivors: int
    certified: float | None = None
    expected: float | None = None
    forecast: float = math.inf
    verdict: Verdict | None = None

    def columns(self) -> dict[str, list[Any]]:
        """One row: where the learner stands; of the verdict its kind, of those that were dropped how many."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        told["verdict"] = None if self.verdict is None else self.verdict.kind
        return {name: [len(value) if isinstance(value, tuple) else value] for name, value in told.items()}

    def headline(self) -> str:
        """The same in words."""
        return str(self)

    def __str__(self) -> str:
        return f"{self._first()} after {self.rounds:,} rounds, {self.survivors:,} candidates\n  {self._known()}"

    def _first(self) -> str:
        """The verdict, where there is one; otherwise who leads."""
        if self.verdict is not None:
            return self.verdict.title
        return f"{visible(self.leader)} leads" if self.leader else "no leader yet"

    def _known(self) -> str:
        parts = [
            "nothing is certified yet"
            if self.certified is None
            else f"certified: no candidate is better by more than {self.certified:.3g}"
        ]
        if self.expected is not None:
            parts.append(f"an epsilon of {self.expected:.3g} is expected")
        if 0 < self.forecast < math.inf:
            parts.append(f"roughly {rough(self.forecast)} rounds to go")
        return ", ".join(parts)


def telling(epsilon: float, max_reward: float) -> float | None:
    """An ε that says more than the range of the rewards does; None if it does not.

    >>> from comband.statistics.results import telling
    >>> telling(0.1, 1.0), telling(1.0, 1.0)
    (0.1, None)
    """
    return epsilon if epsilon < max_reward else None


def says_something(epsilon: float, value: float) -> bool:
    """Whether a certified ε is small beside the value of the candidate that it is about: a quarter of it at most.

    >>> says_something(0.05, 0.3), says_something(0.2, 0.3)
    (True, False)
    """
    return epsilon <= SMALL_SHARE * value


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that cannot be the best: when it was dropped, against which leader, and with what log-evidence.

    Parameters
    ----------
    index:
        Its number among the candidates.
    name:
        What it is called.
    round:
        After how many rounds.
    log_evidence:
        At that time.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> learner = cb.AdaptiveComband(problem, shop.candidates(10, seed=2), epsilon=0.05, seed=3)
    >>> _ = cb.run(learner, shop, batch_size=500, max_rounds=20_000)
    >>> first, *_ = learner.status().dropped
    >>> first.round > 0, first.log_evidence > 0, first.leader != first.name
    (True, True, True)
    """

    index: int
    name: str
    round: int
    leader: str
    log_evidence: float

    def __str__(self) -> str:
        return (
            f"{visible(self.name)} was dropped after {self.round:,} rounds: it does not beat {visible(self.leader)} "
            f"(evidence {math.exp(min(self.log_evidence, 50)):,.0f} to 1 against its being the best)"
        )


@dataclass(frozen=True, slots=True)
class CertificationStatus(Status):
    """Where a certifying learner stands.

    Parameters
    ----------
    dropped:
        Who was dropped, in order.
    reward_lost:
        What exploration cost so far: the leader's estimated value times the rounds since it came, minus the rewards
        seen in them.
    to_lose:
        What it will cost further, if it loses as much per round until the certificate as it did so far.
    loss, loss_error:
        What it cost so far beside the candidate in production, where one was named, with the standard error.
    waiting, missing, late:
        Decisions not answered yet; decisions that were never answered in time and count as without reward; answers
        that came after that.
    warnings:
        Signs that what the promise rests on does not hold.
    lift_low, lift_high:
        How much more than production the leader collects per round; None where no candidate is in production.
    safe:
        Whether the leader is certified safe by all further metrics; None where there are none.
    survivors:
        How many candidates may still be selected.
    certified:
        An ε that holds now; None where none says anything.
    expected:
        The ε that is expected at the end of the budget.
    forecast:
        A rough guess of the rounds still needed.
    verdict:
        What is known, as `result` says it.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> status = learner.status()
    >>> status.survivors + len(status.dropped), status.waiting, status.warnings
    (4, 0, ())
    >>> status.verdict == result.verdict
    True
    """

    dropped: tuple[Dropped, ...] = ()
    reward_lost: float = 0.0
    to_lose: float = 0.0
    loss: float | None = None
    loss_error: float | None = None
    waiting: int = 0
    missing: int = 0
    late: int = 0
    warnings: tuple[str, ...] = ()
    lift_low: float | None = None
    lift_high: float | None = None
    safe: bool | None = None

    def _known(self) -> str:
        known = Status._known(self)
        if self.safe is None:
            return known
        if self.safe:
            return known.replace("no candidate is better", "it is safe, and no safe candidate is better")
        return f"{known}, and its safety is not shown"

    def __str__(self) -> str:
        total = self.survivors + len(self.dropped)
        lines = [
            *(f"{WARNING}: {text}" for text in self.warnings),
            f"{self._first()} after {self.rounds:,} rounds; {self.survivors:,} of {total:,} candidates may be best",
            f"  {self._known()}",
        ]
        if self.reward_lost >= 1:
            to_come = f", {rough(self.to_lose)} to come" if 1 <= self.to_lose < math.inf else ""
            lines.append(f"  lost to exploration: about {rough(self.reward_lost)} rewards so far{to_come}")
        if self.loss is not None and self.loss_error is not None:
            lines.append(f"  lost beside production: {self.loss:,.0f} ± {self.loss_error:,.0f} rewards")
        if self.lift_low is not None and self.lift_high is not None:
            lines.append(
                f"  over production: {self.lift_low:.3g} to {self.lift_high:.3g} rewards per round".replace("-", "−")
            )
        answers = {"waiting": self.waiting, "missing": self.missing, "late": self.late}
        if any(answers.values()):
            lines.append(f"  answers {', '.join(f'{name}: {count:,}' for name, count in answers.items() if count)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one `tell`.

    accepted: how many decisions were answered for the first time.
    duplicates: how many had been answered before, the same way; nothing changed.
    conflicts: ids that had been answered before in another way; the first answer counts.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> visitors = shop.sample(3, np.random.default_rng(4))
    >>> decisions = learner.ask(visitors.contexts)
    >>> clicks = visitors.answer(decisions.lists)
    >>> learner.tell(decisions, clicks).accepted
    3
    >>> learner.tell(decisions, clicks).duplicates  # told again: nothing changes
    3
    """

    accepted: int
    duplicates: int
    conflicts: tuple[int, ...]
