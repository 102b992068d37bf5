"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is.

What a log can show of a candidate π are the rewards of shared items, X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(y), and
their losses, L_t(π) = Σ_{y∈π(x_t)∩a_t} (κ − r_t(y))/Q_t(y), where κ = min(1, ρ) is the most that one item can bring. An
item that could not be shown is in neither, so for every candidate and whatever was possible

    E X_t(π)  ≤  V(π)  ≤  κ·m − E L_t(π),

with equality on both sides if all of π's items could be shown. Both X and L are nonnegative, so lower confidence
bounds on their means need no bound on 1/Q: a value's interval, and V(π) − V(b) ≤ κ·m − E[L_t(π) + X_t(b)], rest on
nothing but right propensities of what was shown. They also hold where logged propensities are too large; too small
ones are what the check notices, since E Σ_{y∈π(x)∩a} 1/Q(y) can never exceed m.

The price is the variance of L, that of items rather than of clicks. Whoever knows that every candidate's items had at
least a propensity q (`min_propensity`) has E X_t(π) = V(π), and X_t(π) − X_t(b) ≤ ρ/q makes much narrower bounds. The
log may contradict that: where Σ 1/Q has a mean below m, a candidate's items were not all possible, it *cannot be
judged*, and the bounds that need no overlap take the place of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.estimates.histograms import ValueHistograms
from comband.estimates.importance import ValueSums, round_values
from comband.logs.reading import LogReading
from comband.logs.sampling import in_sample
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import InputError, check_fraction, check_positive
from comband.results import Candidate
from comband.rounds import Events, Rounds, check_rounds

# A propensity check that fails by chance once in a million logs.
_ALARM = 1e-6

# For every report that shows intervals beside a certificate.
PAIRED = (
    "Candidates are compared on the same rounds, where what moves one estimate moves the others with it: differences "
    "are known better than values, so intervals may overlap without contradicting the certificate."
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EvaluatedCandidate(Candidate):
    """A candidate's value on a log.

    value:
        The mean of X_t, or max_reward if that is less: weights 1/Q can make it any size.
    effective_rewards:
        (Σ X_t)² / Σ X_t²: how many equally weighted rewarded rounds the estimate is worth.
    gap_bound:
        An upper bound on how much better than the best one (by estimate) the candidate is. For any one candidate, named
        before the data, it holds with probability 1 − delta, at whatever number of rounds one looks. Not all of them
        hold at once; what does is the largest, `Evaluation.epsilon`.
    unjudged:
        Empty, or why the log cannot tell the candidate's value: some of its items could not be shown. The estimate is
        then of the other items only; interval and gap_bound allow for that.
    """

    effective_rewards: float
    gap_bound: float
    unjudged: str = ""


@dataclass(frozen=True, slots=True)
class PropensityCheck:
    """Whether logged propensities fit the lists: the mean of Σ_{y∈π(x)∩a} 1/Q(x, y) must be the number of slots.

    candidate, mean, interval:
        The candidate that fits worst, its mean, and the interval that should hold `expected`.
    fits:
        False happens by chance once in a million logs.
    conclusive:
        Whether all intervals are narrow enough to notice propensities that are off by a factor of two.
    uncovered:
        Candidates whose items weigh too little: not all of them could be shown (or their propensities are too large).
    usable:
        Whether anything can be said: no candidate weighs too much (which no lack of overlap explains: propensities
        are wrong), and not all weigh too little.
    """

    candidate: str
    mean: float
    interval: tuple[float, float]
    expected: float
    rounds: int
    fits: bool
    conclusive: bool
    uncovered: tuple[str, ...] = ()
    usable: bool = True

    def __str__(self) -> str:
        found = (
            f"on {self.rounds:,} rounds the items of {self.candidate!r} weigh {self.mean:.4g} per round (between "
            f"{self.interval[0]:.4g} and {self.interval[1]:.4g} in the long run) where {self.expected:g} is right"
        )
        if not self.usable:
            return (
                f"THE PROPENSITIES DO NOT FIT: {found}; the values cannot be trusted. Log the probability that the "
                "item is anywhere in the list, and give every candidate's items a chance to be shown"
            )
        if not self.fits:
            return f"the propensities do not fit for {len(self.uncovered):,} of the candidates: {found}"
        if not self.conclusive:
            return f"too few rounds to tell whether the propensities fit: {found}"
        return f"the propensities fit: {found}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Candidates by estimated value, best first.

    Two statements, each with probability 1 − delta: all intervals hold at once, for all candidates; and no candidate's
    value exceeds the best one's by more than `epsilon`. Both hold at all numbers of rounds at once, so that one may
    look, log on and look again.

    epsilon:
        For all candidates. If `min_propensity` was stated it rests on that, except for candidates that the log shows to
        break it (`unjudged`); if not, nothing is assumed about items that the log does not show.
    covered_epsilon:
        For the candidates all of whose items had a propensity of at least `min_propensity` on every context, whichever
        these are; `unjudged` ones are not among them. Smaller than epsilon where min_propensity was not stated but read
        off the log, or where a candidate is unjudged.
    propensity_check:
        Whether the log agrees; None for events, which do not tell.
    """

    candidates: tuple[EvaluatedCandidate, ...]
    epsilon: float
    covered_epsilon: float
    delta: float
    rounds: int
    rewarded_rounds: int
    rewards: int
    max_reward: float
    min_propensity: float
    guarantee: str
    propensity_check: PropensityCheck | None = None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> EvaluatedCandidate:
        """The candidate of highest estimated value."""
        return self.candidates[0]

    @property
    def unjudged(self) -> tuple[EvaluatedCandidate, ...]:
        """Candidates whose value the log cannot tell."""
        return tuple(candidate for candidate in self.candidates if candidate.unjudged)

    @property
    def trusted(self) -> bool:
        """Whether the logged propensities can be right, for at least one candidate."""
        return self.propensity_check is None or self.propensity_check.usable

    @property
    def promise(self) -> str:
        """What is certain about the best, in a sentence or two; which candidates cannot be judged comes first."""
        known = f"With probability {1 - self.delta:g} no candidate is better by more than {self.epsilon:.5g}"
        unit = "rewards per round"
        if self.covered_epsilon < self.epsilon:
            known += (
                f" ({unit}), and none all of whose items had a propensity of at least {self.min_propensity:.4g} by "
                f"more than {self.covered_epsilon:.5g}."
            )
        else:
            known += f" ({unit})."
        if not self.unjudged:
            return known
        names = ", ".join(candidate.name for candidate in self.unjudged[:3])
        more = f" and {len(self.unjudged) - 3:,} more" if len(self.unjudged) > 3 else ""
        return f"Cannot be judged, since the log could not show all of their items: {names}{more}. {known}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {"best": self.best.name, **asdict(self)}


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
    bound on V(π) − V(best) for each rival π, at delta/(P − 1). That union is enough for `epsilon` although the best is
    chosen on the same rounds: whichever candidate is truly best, it is compared with at most P − 1 others, and no
    candidate exceeds the chosen one by more than the truly best does. The cost follows the number of positive rewards;
    what could be shown is looked at on all of the first 10,000 rounds and a falling share of the others.

    Parameters
    ----------
    rounds:
        Rounds or their events; logs add (`events_a + events_b`).
    policies:
        The candidates.
    max_reward:
        ρ, the most that the shown items of one round can bring: `problem.max_reward`.
    min_propensity:
        A lower bound, known from how lists were drawn, on the propensity of every item that any candidate shows on any
        context (γm/K for a mixture with floor γ). Not stated, nothing is assumed about items that the log does not
        show, and `epsilon` is larger, often by much; `covered_epsilon` then takes the smallest propensity in `rounds`.
        Events do not tell what could be shown, and need it.
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
    check_policies(policies)
    if not isinstance(rounds, (Rounds, Events)):
        raise InputError(f"rounds must be Rounds or Events, got {type(rounds).__name__}.")
    if isinstance(rounds, Rounds):
        sample = rounds if len(rounds) == 0 else rounds[np.flatnonzero(in_sample(np.arange(len(rounds))))]
        events = rounds.events()
    elif min_propensity is None:
        raise InputError(
            "events hold only what was rewarded, so they do not tell the smallest propensity of the log: state "
            "min_propensity, what your logging ensures for every candidate's items."
        )
    else:
        sample, events = None, rounds
    return _evaluate(
        events,
        policies,
        sample,
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
    format: str
    meaning: str
    skipped: dict[str, int]
    skipped_examples: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        """Whether the logged propensities can be right."""
        return self.evaluation.trusted

    @property
    def notes(self) -> tuple[str, ...]:
        """All that a reader must know besides the numbers; the first is the alarm, if propensities do not fit."""
        if not self.skipped:
            return self.evaluation.notes
        total = sum(self.skipped.values())
        skipped = f"faulty rows skipped: {total:,}; if faults go with rewards, the values are off by an unknown amount"
        return (*self.evaluation.notes, skipped)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            **self.evaluation.as_dict(),
            "notes": list(self.notes),
            "format": self.format,
            "propensity_meaning": self.meaning,
            "skipped": self.skipped,
            "skipped_examples": list(self.skipped_examples),
        }


def evaluate_log(reading: LogReading, *, min_propensity: float | None = None, delta: float = 0.05) -> LogEvaluation:
    """`evaluate` on what `read_log` read."""
    if not isinstance(reading, LogReading):
        raise InputError(f"reading must be what read_log gave, got {type(reading).__name__}.")
    evaluation = _evaluate(
        reading.events,
        reading.policies,
        reading.sample,
        smallest=reading.smallest_propensity,
        max_reward=reading.max_reward,
        min_propensity=min_propensity,
        delta=delta,
    )
    return LogEvaluation(
        evaluation=evaluation,
        format=reading.format.name,
        meaning=reading.format.meaning,
        skipped=dict(reading.faults.counts),
        skipped_examples=tuple(reading.faults.describe()),
    )


def _evaluate(
    events: Events,
    policies: PolicySet,
    sample: Rounds | None,
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
    _check_rewards(events, max_reward)
    stated = min_propensity is not None
    if min_propensity is None:
        min_propensity = smallest
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
    # A candidate that is called unjudged though it is not, by chance, takes its part of delta.
    alarm = min(_ALARM, delta / 100)
    weights = None if sample is None else _Weights.of(sample, policies, min_propensity=min_propensity, alarm=alarm)
    uncovered = np.zeros(len(policies), dtype=bool) if weights is None else weights.uncovered
    sides, rivals = 2 * len(policies) / (delta - alarm), max(len(policies) - 1, 1) / (delta - alarm)
    gaps = _gap_bounds(events, policies, best, bound=bound, max_reward=max_reward, threshold=rivals)
    covered = float(gaps[~uncovered].max(initial=0.0))
    low = values.lower_bounds(threshold=sides, largest=max_reward)
    high = values.upper_bounds(threshold=sides, largest=max_reward)
    doubted = uncovered if stated else np.ones(len(policies), dtype=bool)
    if sample is not None and doubted.any():
        most, lead = _bounds_without_overlap(
            sample, policies, best, max_reward=max_reward, value_threshold=sides, gap_threshold=rivals
        )
        high, gaps = np.where(doubted, most, high), np.where(doubted, lead, gaps)
    epsilon = float(gaps.max())
    means = np.minimum(sums.means, max_reward)
    low, high = np.minimum(low, means), np.maximum(high, means)
    effective = np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)
    ranked = np.lexsort((np.arange(len(policies)) != best, -sums.means))
    check = None if weights is None else weights.summary(policies)
    result = Evaluation(
        candidates=tuple(
            EvaluatedCandidate(
                index=int(i),
                name=policies.names[i],
                value=float(means[i]),
                interval=(float(low[i]), float(high[i])),
                effective_rewards=float(effective[i]),
                gap_bound=float(gaps[i]),
                unjudged=weights.reason(int(i)) if weights is not None and uncovered[i] else "",
            )
            for i in ranked
        ),
        epsilon=epsilon,
        covered_epsilon=epsilon if uncovered.all() else covered,
        delta=delta,
        rounds=events.n_rounds,
        rewarded_rounds=events.n_rewarded,
        rewards=len(events),
        max_reward=max_reward,
        min_propensity=float(min_propensity),
        guarantee="betting bounds, valid at any number of rounds; "
        + (
            "epsilon from differences on the same rounds"
            if stated
            else "of items that are not shown nothing is assumed"
        ),
        propensity_check=check,
    )
    return replace(result, notes=_notes(result, stated=stated))


def _notes(result: Evaluation, *, stated: bool) -> tuple[str, ...]:
    notes = [f"{candidate.name!r} cannot be judged: {candidate.unjudged}" for candidate in result.unjudged]
    if not stated:
        notes.append(
            "epsilon and intervals assume nothing about items that the log does not show; if every candidate's items "
            f"had a propensity of at least {result.min_propensity:.4g}, the smallest in the log, epsilon is "
            f"{result.covered_epsilon:.4g}: state what your logging ensures (min_propensity, --min-propensity)"
        )
    check = result.propensity_check
    if check is None:
        return (*notes, "events hold only what was rewarded, so that propensities could not be checked")
    return (*notes, str(check)) if result.trusted else (str(check), *notes)


def _check_rewards(events: Events, max_reward: float) -> None:
    if len(events) == 0:
        return
    most, item = float(np.bincount(events.rows, events.rewards).max()), float(events.rewards.max())
    if most > max_reward * (1 + 1e-9):
        raise InputError(f"a round brought {most:.4g} where at most {max_reward:.4g} can be: raise max_reward.")
    if item > 1 + 1e-9:
        raise InputError(f"rewards must lie in [0, 1], got {item:.4g}: divide all by the largest there can be.")


def _smallest(rounds: Rounds | Events) -> float:
    propensities = rounds.decisions.propensities if isinstance(rounds, Rounds) else rounds.propensities
    return float(propensities.min()) if propensities.size else 1.0


def _leader(sums: ValueSums) -> int:
    # Ties are decided by a generator of their own: not by the candidates' order, and the same way each time.
    return int(np.random.default_rng(sums.n_rounds).choice(np.flatnonzero(sums.means == sums.means.max())))


def _gap_bounds(
    events: Events, policies: PolicySet, best: int, *, bound: float, max_reward: float, threshold: float
) -> Floats:
    """How much better than the best each candidate may be, (P,), zero for the best, if all items could be shown."""
    if len(policies) == 1:
        return np.zeros(1)
    differences = ValueHistograms.zero(len(policies), bound=bound, n_rounds=events.n_rounds)
    for block in round_values(events, policies):
        differences.add(block - block[:, [best]])
    gaps = differences.upper_bounds(threshold=threshold, largest=max_reward)
    gaps[best] = 0.0
    return gaps


def _bounds_without_overlap(
    sample: Rounds,
    policies: PolicySet,
    best: int,
    *,
    max_reward: float,
    value_threshold: float,
    gap_threshold: float,
) -> tuple[Floats, Floats]:
    """Upper bounds (P,) on values and on how much better than the best, whatever could be shown: from losses."""
    decisions = sample.decisions
    n, m = decisions.lists.shape
    largest = min(1.0, max_reward)
    chances = decisions.propensities
    lost, won = np.maximum(largest - sample.rewards, 0.0) / chances, sample.rewards / chances
    # The grid of a histogram may depend on the data: its error is on the safe side whatever the grid.
    bound = float((lost + won).sum(axis=1).max(initial=largest))
    losses = ValueHistograms.zero(len(policies), bound=bound, n_rounds=n)
    both = ValueHistograms.zero(len(policies), bound=bound, n_rounds=n)
    for lost_block, won_block in _shared_weights(sample, policies, (lost, won)):
        losses.add(lost_block)
        both.add(lost_block + won_block[:, [best]])
    most = largest * m - losses.lower_bounds(threshold=value_threshold, largest=largest * m)
    gaps = largest * m - both.lower_bounds(threshold=gap_threshold, largest=largest * m)
    gaps[best] = 0.0
    return np.clip(most, 0.0, max_reward), np.clip(gaps, 0.0, max_reward)


def _shared_weights(
    rounds: Rounds, policies: PolicySet, weights: Sequence[Floats]
) -> Iterator[list[NDArray[np.float64]]]:
    """Σ_{y∈π(x_t)∩a_t} w_t(y) of all rounds and candidates for several w (n, m), in blocks (rounds, P)."""
    n, m = rounds.decisions.lists.shape
    rows = np.repeat(np.arange(n), m)
    for chosen, inside in policies.incidence(rounds.decisions.contexts, rows, rounds.decisions.lists.ravel()):
        _, row = np.unique(rows[chosen], return_inverse=True)
        hits = inside.astype(np.float64)
        yield [sp.csr_array((w.ravel()[chosen], (row, np.arange(len(chosen))))) @ hits for w in weights]


def check_logged_propensities(rounds: Rounds, policies: PolicySet, *, min_propensity: float) -> PropensityCheck:
    """Compare the propensities with how often candidates' items were really shown, on all of `rounds`.

    An item y of π(x) is in the logged list with probability Q(x, y), so it is worth Q·(1/Q) = 1 on average, and each
    candidate's Σ_{y∈π(x)∩a} 1/Q has mean m. Propensities of another kind (of the item in its slot, of the whole list,
    of a softmax before sampling) miss that, as do candidates' items that could not be shown at all. The bounds hold at
    all numbers of rounds at once.
    """
    check_policies(policies)
    if len(check_rounds(rounds)) < 2:
        raise InputError(f"at least 2 rounds are needed to check propensities, got {len(rounds)}.")
    min_propensity = check_positive("min_propensity", min_propensity)
    return _Weights.of(rounds, policies, min_propensity=min_propensity, alarm=_ALARM).summary(policies)


@dataclass(frozen=True, eq=False, slots=True)
class _Weights:
    """Σ_{y∈π(x)∩a} 1/Q(x, y) of every candidate: mean and bounds (P,) that all hold but once in a million logs."""

    means: Floats
    low: Floats
    high: Floats
    expected: float
    rounds: int
    min_propensity: float

    @classmethod
    def of(cls, rounds: Rounds, policies: PolicySet, *, min_propensity: float, alarm: float) -> _Weights:
        n, m = rounds.decisions.lists.shape
        largest = m / min_propensity
        weighed = ValueHistograms.zero(len(policies), bound=largest, n_rounds=n)
        total = np.zeros(len(policies))
        for (block,) in _shared_weights(rounds, policies, (1 / rounds.decisions.propensities,)):
            weighed.add(block)
            total += block.sum(axis=0)
        sides = 2 * len(policies) / alarm
        low = weighed.lower_bounds(threshold=sides, largest=largest)
        high = weighed.upper_bounds(threshold=sides, largest=largest)
        return cls(total / max(n, 1), low, high, float(m), n, min_propensity)

    @property
    def uncovered(self) -> NDArray[np.bool_]:
        """Candidates whose items weigh too little."""
        return np.asarray(self.high < self.expected)

    def reason(self, i: int) -> str:
        """Why candidate i cannot be judged."""
        return (
            f"its items weigh {self.means[i]:.4g} per round (at most {self.high[i]:.4g} in the long run) where "
            f"{self.expected:g} is right, so they cannot all have been shown with a propensity of at least "
            f"{self.min_propensity:.4g} (or logged propensities are too large); what the others bring is unknown"
        )

    def summary(self, policies: PolicySet) -> PropensityCheck:
        """The candidate that fits worst, and what follows."""
        m = self.expected
        off = np.maximum(self.low / m, m / np.maximum(self.high, np.finfo(float).tiny))
        worst = int(np.where(self.low > m, np.inf, off).argmax())
        if off[worst] <= 1:  # all fit: show the candidate about which least is known
            worst = int(np.argmax(self.high / np.maximum(self.low, 1e-9)))
        return PropensityCheck(
            candidate=policies.names[worst],
            mean=float(self.means[worst]),
            interval=(float(self.low[worst]), float(self.high[worst])),
            expected=m,
            rounds=self.rounds,
            fits=bool((off <= 1).all()),
            conclusive=bool((self.low > m / 2).all() and (self.high < 2 * m).all()),
            uncovered=tuple(policies.names[i] for i in np.flatnonzero(self.uncovered)),
            usable=bool((self.low <= m).all() and not self.uncovered.all()),
        )
