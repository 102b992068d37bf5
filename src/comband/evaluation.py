"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.estimates.histograms import ValueHistograms
from comband.estimates.importance import ValueSums, round_values
from comband.learners.base import Candidate
from comband.logs.reading import LogReading
from comband.policies.policy_set import PolicySet
from comband.problem import InputError, check_fraction, check_positive
from comband.rounds import Events, Rounds

# A propensity check that fails by chance once in a million logs.
_ALARM = 1e-6

# For every report that shows intervals beside a certificate.
PAIRED = (
    "Candidates are compared on the same rounds, where what moves one estimate moves the others with it: differences "
    "are known better than values, so intervals may overlap without contradicting the certificate."
)


@dataclass(frozen=True, slots=True)
class EvaluatedCandidate(Candidate):
    """A candidate's value on a log.

    effective_rewards:
        (Σ X_t)² / Σ X_t²: how many equally weighted rewarded rounds the estimate is worth.
    gap_bound:
        An upper bound on how much better than the best one (by estimate) the candidate is. For any one candidate, named
        before the data, it holds with probability 1 − delta, at whatever number of rounds one looks. Not all of them
        hold at once; what does is the largest, `Evaluation.epsilon`.
    """

    effective_rewards: float
    gap_bound: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Candidates by estimated value, best first.

    Two statements, each with probability 1 − delta: all intervals hold at once, for all candidates; and no candidate's
    value exceeds the best one's by more than `epsilon`. Both hold at all numbers of rounds at once, so that one may
    look, log on and look again, if `min_propensity` was stated and not read off the log (`notes` say so).
    """

    candidates: tuple[EvaluatedCandidate, ...]
    epsilon: float
    delta: float
    rounds: int
    rewarded_rounds: int
    rewards: int
    max_reward: float
    min_propensity: float
    guarantee: str
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> EvaluatedCandidate:
        """The candidate of highest estimated value."""
        return self.candidates[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {"best": self.best.name, **asdict(self)}


@dataclass(frozen=True, slots=True)
class PropensityCheck:
    """Whether logged propensities fit the lists: the mean of Σ_{y∈π(x)∩a} 1/Q(x, y) must be the number of slots.

    candidate, mean, interval:
        The candidate that fits worst, its mean, and the interval that should hold `expected`.
    fits:
        False happens by chance once in a million logs.
    conclusive:
        Whether the interval is narrow enough to notice propensities that are off by a factor of two.
    """

    candidate: str
    mean: float
    interval: tuple[float, float]
    expected: float
    rounds: int
    fits: bool
    conclusive: bool

    def __str__(self) -> str:
        found = (
            f"on {self.rounds:,} rounds the items of {self.candidate!r} weigh {self.mean:.4g} a round (between "
            f"{self.interval[0]:.4g} and {self.interval[1]:.4g} in the long run) where {self.expected:g} is right"
        )
        if not self.fits:
            return (
                f"THE PROPENSITIES DO NOT FIT: {found}; the values cannot be trusted. Log the probability that the "
                "item is anywhere in the list, and give every candidate's items a chance to be shown"
            )
        if not self.conclusive:
            return f"too few rounds to tell whether the propensities fit: {found}"
        return f"the propensities fit: {found}"


def evaluate(
    rounds: Rounds | Events,
    policies: PolicySet,
    *,
    max_reward: float,
    min_propensity: float | None = None,
    delta: float = 0.05,
) -> Evaluation:
    """Estimate every candidate on the same rounds, by X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(x_t, y).

    Intervals and `epsilon` come from betting (`ValueHistograms`): 2P one-sided bounds for the values; for the best, one
    bound on E[X_t(π) − X_t(best)] for each rival π, at delta/(P − 1). That union is enough for `epsilon` although the
    best is chosen on the same rounds: whichever candidate is truly best, it is compared with at most P − 1 others, and
    no candidate exceeds the chosen one by more than the truly best does. The cost follows the number of positive
    rewards.

    Parameters
    ----------
    rounds:
        Rounds or their events; logs add (`events_a + events_b`).
    policies:
        The candidates.
    max_reward:
        ρ, the most that the shown items of one round can bring: `problem.max_reward`.
    min_propensity:
        A lower bound, known from how lists were drawn, on the propensity of every item that a candidate shows
        (γm/K for a mixture with floor γ). By default the smallest propensity in `rounds`, which is then an assumption;
        needed for events.
    delta:
        The probability allowed for a wrong statement.

    >>> from comband import Problem
    >>> problem = Problem(n_actions=3, list_size=1, sparsity=1)
    >>> policies = PolicySet.from_lists([[[0]], [[1]]], problem, names=["zero", "one"])
    >>> log = Rounds.from_log(np.zeros(300, dtype=int), lists=np.arange(300)[:, None] % 3, problem=problem,
    ...     rewards=np.arange(300)[:, None] % 3 == 1, propensities=np.full((300, 1), 1 / 3))
    >>> answer = evaluate(log, policies, max_reward=problem.max_reward, min_propensity=1 / 3)
    >>> answer.best.name, round(answer.best.value, 3), answer.epsilon
    ('one', 1.0, 0.0)
    """
    if isinstance(rounds, Events) and min_propensity is None:
        raise InputError(
            "events hold only what was rewarded, so they do not tell the smallest propensity of the log: state "
            "min_propensity, what your logging ensures for every candidate's items."
        )
    events = rounds.events() if isinstance(rounds, Rounds) else rounds
    return _evaluate(
        events,
        policies,
        smallest=_smallest(rounds),
        max_reward=max_reward,
        min_propensity=min_propensity,
        delta=delta,
    )


@dataclass(frozen=True, slots=True)
class LogEvaluation:
    """An evaluation of a file, with what was found about the file itself.

    meaning:
        How the propensities were read.
    skipped:
        Faulty rows that were left out, by kind; `skipped_examples` describe the first of each kind.
    """

    evaluation: Evaluation
    propensities: PropensityCheck | None
    format: str
    meaning: str
    skipped: dict[str, int]
    skipped_examples: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        """Whether the logged propensities can be right."""
        return self.propensities is None or self.propensities.fits

    @property
    def notes(self) -> tuple[str, ...]:
        """All that a reader must know besides the numbers; the first is the alarm, if propensities do not fit."""
        check = () if self.propensities is None else (str(self.propensities),)
        lines = (*self.evaluation.notes, *check) if self.trusted else (*check, *self.evaluation.notes)
        if not self.skipped:
            return lines
        total = sum(self.skipped.values())
        skipped = f"faulty rows skipped: {total:,}; if faults go with rewards, the values are off by an unknown amount"
        return (*lines, skipped)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            **self.evaluation.as_dict(),
            "notes": list(self.notes),
            "propensity_check": None if self.propensities is None else asdict(self.propensities),
            "format": self.format,
            "propensity_meaning": self.meaning,
            "skipped": self.skipped,
            "skipped_examples": list(self.skipped_examples),
        }


def evaluate_log(reading: LogReading, *, min_propensity: float | None = None, delta: float = 0.05) -> LogEvaluation:
    """`evaluate` on what `read_log` read, with a check of the propensities on a sample of its rounds."""
    evaluation = _evaluate(
        reading.events,
        reading.policies,
        smallest=reading.smallest_propensity,
        max_reward=reading.max_reward,
        min_propensity=min_propensity,
        delta=delta,
    )
    check = None
    if len(reading.sample.decisions) >= 2:
        check = check_logged_propensities(reading.sample, reading.policies, min_propensity=evaluation.min_propensity)
    return LogEvaluation(
        evaluation=evaluation,
        propensities=check,
        format=reading.format.name,
        meaning=reading.format.meaning,
        skipped=dict(reading.faults.counts),
        skipped_examples=tuple(reading.faults.describe()),
    )


def _evaluate(
    events: Events,
    policies: PolicySet,
    *,
    smallest: float,
    max_reward: float,
    min_propensity: float | None,
    delta: float,
) -> Evaluation:
    delta = check_fraction("delta", delta)
    max_reward = check_positive("max_reward", max_reward)
    if events.n_rounds == 0:
        raise InputError("there must be at least one round to evaluate, got none.")
    notes = []
    if min_propensity is None:
        min_propensity = smallest
        notes.append(
            f"the guarantees assume that no candidate's item was shown with a propensity below {smallest:.4g}, the "
            "smallest in the log; state what your logging ensures (min_propensity, --min-propensity) to drop this"
        )
    elif check_positive("min_propensity", min_propensity) > smallest * (1 + 1e-9):
        raise InputError(
            f"min_propensity must not exceed any propensity of the log, got {min_propensity:g} where the log has "
            f"{smallest:g}."
        )
    bound = max_reward / min_propensity
    values = ValueHistograms.zero(len(policies), bound=bound, n_rounds=events.n_rounds)
    total, squares = np.zeros(len(policies)), np.zeros(len(policies))
    for block in round_values(events, policies):
        values.add(block)
        total += block.sum(axis=0)
        squares += np.square(block).sum(axis=0)
    sums = ValueSums(events.n_rounds, total, squares)
    best = _leader(sums)
    gaps = _gap_bounds(events, policies, best, bound=bound, max_reward=max_reward, delta=delta)
    sides = 2 * len(policies) / delta
    low = np.minimum(values.lower_bounds(threshold=sides, largest=max_reward), sums.means)
    high = np.minimum(np.maximum(values.upper_bounds(threshold=sides, largest=max_reward), sums.means), max_reward)
    effective = np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)
    ranked = np.lexsort((np.arange(len(policies)) != best, -sums.means))
    return Evaluation(
        candidates=tuple(
            EvaluatedCandidate(
                index=int(i),
                name=policies.names[i],
                value=float(sums.means[i]),
                interval=(float(low[i]), float(max(high[i], low[i]))),
                effective_rewards=float(effective[i]),
                gap_bound=float(gaps[i]),
            )
            for i in ranked
        ),
        epsilon=float(gaps.max()),
        delta=delta,
        rounds=events.n_rounds,
        rewarded_rounds=events.n_rewarded,
        rewards=len(events),
        max_reward=max_reward,
        min_propensity=float(min_propensity),
        guarantee="betting bounds, valid at any number of rounds; epsilon from differences on the same rounds",
        notes=tuple(notes),
    )


def _smallest(rounds: Rounds | Events) -> float:
    propensities = rounds.decisions.propensities if isinstance(rounds, Rounds) else rounds.propensities
    return float(propensities.min()) if propensities.size else 1.0


def _leader(sums: ValueSums) -> int:
    # Ties are decided by a generator of their own: not by the candidates' order, and the same way each time.
    return int(np.random.default_rng(sums.n_rounds).choice(np.flatnonzero(sums.means == sums.means.max())))


def _gap_bounds(
    events: Events, policies: PolicySet, best: int, *, bound: float, max_reward: float, delta: float
) -> NDArray[np.float64]:
    """How much better than the best each candidate may be, (P,), zero for the best itself."""
    if len(policies) == 1:
        return np.zeros(1)
    differences = ValueHistograms.zero(len(policies), bound=bound, n_rounds=events.n_rounds)
    for block in round_values(events, policies):
        differences.add(block - block[:, [best]])
    gaps = differences.upper_bounds(threshold=(len(policies) - 1) / delta, largest=max_reward)
    gaps[best] = 0.0
    return gaps


def check_logged_propensities(rounds: Rounds, policies: PolicySet, *, min_propensity: float) -> PropensityCheck:
    """Compare the propensities with how often candidates' items were really shown, on all of `rounds`.

    An item y of π(x) is in the logged list with probability Q(x, y), so it is worth Q·(1/Q) = 1 on average, and each
    candidate's Σ_{y∈π(x)∩a} 1/Q has mean m. Propensities of another kind (of the item in its slot, of the whole list,
    of a softmax before sampling) miss that, as do candidates' items that could not be shown at all.
    """
    decisions = rounds.decisions
    n, m = decisions.lists.shape
    if n < 2:
        raise InputError(f"at least 2 rounds are needed to check propensities, got {n}.")
    ones = Rounds(decisions, np.ones(decisions.lists.shape)).events()
    largest = m / min_propensity
    weighed = ValueHistograms.zero(len(policies), bound=largest, n_rounds=n)
    total = np.zeros(len(policies))
    for block in round_values(ones, policies):
        weighed.add(block)
        total += block.sum(axis=0)
    sides = 2 * len(policies) / _ALARM
    low = weighed.lower_bounds(threshold=sides, largest=largest)
    high = weighed.upper_bounds(threshold=sides, largest=largest)
    off = np.maximum(low / m, m / np.maximum(high, np.finfo(float).tiny))
    worst = int(off.argmax())
    if off[worst] <= 1:  # all fit: show the candidate about which least is known
        worst = int(np.argmax(high / np.maximum(low, 1e-9)))
    return PropensityCheck(
        candidate=policies.names[worst],
        mean=float(total[worst] / n),
        interval=(float(low[worst]), float(high[worst])),
        expected=float(m),
        rounds=n,
        fits=bool((off <= 1).all()),
        conclusive=bool((low > m / 2).all() and (high < 2 * m).all()),
    )
