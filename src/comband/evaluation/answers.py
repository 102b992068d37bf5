"""What an evaluation answers with: candidates, a certificate, and whether the log can be believed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.forecast import rounds_to_decide
from comband.evaluation.ips import UsualEstimates
from comband.evaluation.normal import upper_quantile
from comband.page.frames import Tabular
from comband.page.problem import InputError, check_positive
from comband.page.text import rough, visible
from comband.statistics.claims import HOLDS, Claim, Kind, Premise, within_safe
from comband.statistics.importance import ValueSums
from comband.statistics.results import Candidate, ComparedCandidate, Comparison, Guarded, Lift
from comband.statistics.verdicts import NOT_VALID, SMALL_SHARE, Standing, Verdict, judge

Floats = NDArray[np.float64]

# For every report that shows intervals beside a certificate.
PAIRED = (
    "Intervals may overlap though the certificate holds: all candidates are estimated from the same rounds, so that "
    "differences between them are known better than their values."
)


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
    standard_error, approximate_interval:
        Of the mean of X_t, and the plain normal interval at 1 − delta: approximate, for this candidate alone and one
        look at a number of rounds fixed beforehand; not valid under peeking, and no part of the promise.
    index:
        Its number among the candidates.
    name:
        What it is called.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125)
    >>> best = answer.best
    >>> best.interval[0] <= best.value <= best.interval[1], best.gap_bound
    (True, 0.0)
    >>> best.effective_rewards <= answer.rewarded_rounds
    True
    >>> best.approximate_interval[0] > best.interval[0]  # the plain normal interval is narrower, and promises nothing
    True
    """

    effective_rewards: float
    gap_bound: float
    unjudged: str = ""
    standard_error: float = 0.0
    approximate_interval: tuple[float, float] = (0.0, 0.0)


def ranked_candidates(
    names: Sequence[str],
    sums: ValueSums,
    best: int,
    *,
    values: Floats,
    low: Floats,
    high: Floats,
    gaps: Floats,
    unjudged: Mapping[int, str],
    delta: float,
) -> tuple[EvaluatedCandidate, ...]:
    """All candidates with what is known of each, the best first, and then by the mean of X."""
    errors = np.sqrt(sums.variances / max(sums.n_rounds, 1))
    radius = upper_quantile(delta / 2) * errors
    effective = np.divide(sums.sums**2, sums.squares, out=np.zeros_like(values), where=sums.squares > 0)
    return tuple(
        EvaluatedCandidate(
            index=int(i),
            name=names[i],
            value=float(values[i]),
            interval=(float(low[i]), float(high[i])),
            effective_rewards=float(effective[i]),
            gap_bound=float(gaps[i]),
            unjudged=unjudged.get(int(i), ""),
            standard_error=float(errors[i]),
            approximate_interval=(float(sums.means[i] - radius[i]), float(sums.means[i] + radius[i])),
        )
        for i in np.lexsort((-sums.means, np.arange(len(names)) != best))
    )


_ASSUMED = {
    "min_propensity": "every item that a candidate shows had a propensity of at least",
    "sparsity": "no round can bring more than",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """An assumption that makes the promise tighter: which option, which value, and the ε that is promised with it.

    It must be known from how lists were drawn and rewards arise. The value is read off the log: that the log does not
    contradict it is no proof, and without that knowledge the ε is no promise.

    Parameters
    ----------
    epsilon:
        What `evaluate` promises if it is told.
    min_propensity:
        What must be stated besides; None if nothing must.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> answer = cb.evaluate(rounds, policies, max_reward=1)
    >>> hint = answer.hints[0]
    >>> hint.option, hint.epsilon < answer.epsilon
    ('min_propensity', True)
    """

    option: str
    value: float
    epsilon: float
    min_propensity: float | None = None

    def __str__(self) -> str:
        known = {"min_propensity": self.min_propensity, self.option: self.value}
        told = [f"{_ASSUMED[option]} {value:.4g}" for option, value in known.items() if value is not None]
        names = {"sparsity": "sparsity, max_reward"}
        options = [f"{names.get(option, option)}, --{option.replace('_', '-')}" for option in known if known[option]]
        return (
            f"if you know from elsewhere that {' and that '.join(told)}, say so ({'; '.join(options)}): epsilon would "
            f"then be {self.epsilon:.4g}"
        )


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
    advice:
        What to do if they are not.
    rounds:
        How many rounds were looked at.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> check = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125).propensity_check
    >>> check.fits, check.expected, check.rounds
    (True, 3.0, 2000)
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
    advice: str = (
        "Log the probability that the item is anywhere in the list, and give every candidate's items a chance to be "
        "shown"
    )

    def __str__(self) -> str:
        found = (
            f"on {self.rounds:,} rounds the weights of {self.candidate!r} (1/propensity of what was shown of it) sum "
            f"to {self.mean:.4g} per round, and {self.expected:g} is right (their true mean is between "
            f"{self.interval[0]:.4g} and {self.interval[1]:.4g})"
        )
        if not self.usable:
            return f"THE PROPENSITIES DO NOT FIT: {found}; the values cannot be trusted. {self.advice}"
        if not self.fits:
            return f"the propensities do not fit for {len(self.uncovered):,} of the candidates: {found}"
        if not self.conclusive:
            return f"too few rounds to tell whether the propensities fit: {found}"
        return f"the propensities fit: {found}"


@dataclass(frozen=True, slots=True)
class Evaluation(Tabular):
    """Candidates by estimated value, best first.

    Two statements, each with probability 1 − delta: all intervals hold at once, for all candidates; and no candidate's
    value exceeds the best one's by more than `epsilon`. Both hold at all numbers of rounds at once, so that one may
    look, log on and look again.

    epsilon:
        For all candidates. If `min_propensity` was stated it rests on that, except for candidates that the log shows to
        break it (`unjudged`); if not, nothing is assumed about items that the log does not show.
    covered_epsilon:
        For the candidates all of whose items had a propensity of at least `min_propensity` on every context, whichever
        these are; `unjudged` ones are not among them. A third statement with probability 1 − delta, smaller than
        epsilon where min_propensity was not stated but read off the log, or where a candidate is unjudged. What is read
        off the log is rounded down to a power of two for the stakes, whose weights do not depend on which it is.
    propensity_check:
        Whether the log agrees; None for events, which do not tell.
    approximate_epsilon:
        What plain normal intervals of the differences say: approximate, for each rival alone and one look at a number
        of rounds fixed beforehand; not valid under peeking, and no promise.
    hints:
        Which assumptions would make epsilon smaller, and by how much.
    usual:
        IPS, SNIPS, DM and DR with plain normal intervals, where a reward model was given; no part of the promise.
    rewarded_rounds:
        Rounds with any reward.
    rewards:
        Positive rewards.
    max_reward:
        The most that one round can bring.
    guarantee, notes, explained:
        Which bounds the promise rests on, in a sentence; whatever else a reader should know; and what only a reader
        wants who asks how.
    target, rounds_per_day:
        The ε that would be small enough, and how many rounds a day has; for the verdict, None where nothing was said.
    production, lifts:
        The candidate that all are compared with, None where none was named; and how much more than it each collects, in
        the order of the candidates' numbers. A further statement with probability 1 − delta: all of these intervals
        hold at once.
    segmented:
        The same by segments, where these were declared.
    guarded:
        All candidates by each further metric, beside production. Where there are metrics, the best one is the best of
        those that are declared safe, and `epsilon` is about safe candidates; see `comband.evaluation.beside`.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125)
    >>> answer.best.name == answer.candidates[0].name, answer.rounds
    (True, 2000)
    >>> answer.approximate_epsilon < answer.epsilon  # what plain normal intervals say, and what is sure
    True
    >>> answer.to_frame("pandas")["candidate"].tolist() == [each.name for each in answer.candidates]
    True
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
    approximate_epsilon: float = 0.0
    hints: tuple[Hint, ...] = ()
    usual: UsualEstimates | None = field(default=None, compare=False)
    explained: tuple[str, ...] = ()
    target: float | None = None
    rounds_per_day: float | None = None
    production: str | None = None
    lifts: tuple[Lift, ...] = ()
    guarded: tuple[Guarded, ...] = ()
    segmented: Segmented | None = None

    @property
    def verdict(self) -> Verdict:
        """What is known, in one of four kinds: see `comband.statistics.verdicts`."""
        first = self.candidates[0]
        obstacles = [f"{visible(first.name)} has the highest estimate, but {first.unjudged}"] if first.unjudged else []
        check = self.propensity_check
        verdict = judge(
            Standing(first.name, first.value, first.standard_error, first.effective_rewards),
            self.claim,
            epsilon=self.epsilon,
            rounds=self.rounds,
            most=self.max_reward,
            target=self.target,
            more_rounds=self._rounds_to_decide(),
            rounds_per_day=self.rounds_per_day,
            warnings=() if self.trusted or check is None else (str(check),),
            obstacles=obstacles,
            metrics=self.metrics,
        )
        if verdict.kind == NOT_VALID:
            return verdict
        more = [] if verdict.decided else self._helpful(verdict)
        return replace(verdict, sentences=(*verdict.sentences, *self._beside_production(verdict), *more))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The further metrics' names."""
        return tuple(dict.fromkeys(row.metric for row in self.guarded))

    def lift(self, name: str) -> Lift | None:
        """Of a candidate over production; None where none was named."""
        return next((lift for lift in self.lifts if lift.name == name), None)

    def standing(self, name: str) -> str:
        """Whether a candidate is "safe" or "harmful" by all metrics, or "not shown" to be either; empty without any."""
        return next((row.standing for row in self.guarded if row.candidate == name), "")

    def _beside_production(self, verdict: Verdict) -> list[str]:
        """How the one that is named compares with production, and which others look better and are not shown safe."""
        found, first = [], self.candidates[0]
        lift = self.lift(verdict.name) if verdict.name else None
        if lift is not None and verdict.name != self.production:
            found.append(f"{lift}.")
        ahead = [one for one in self.candidates[1:] if self.guarded and one.value > first.value]
        for standing, text in (("not shown", "not shown to be safe"), ("harmful", "harmful")):
            some = [one for one in ahead if self.standing(one.name) == standing]
            if some:
                verb = "has a higher estimate and is" if len(some) == 1 else "have higher estimates and are"
                found.append(f"{_some(some)} {verb} {text} by {', '.join(self.metrics)}.")
        return found

    def _rounds_to_decide(self, known: Hint | None = None) -> float:
        """Rounds still needed, an estimate; with `known`, if what this hint says were known."""
        if known is None and any(hint.option == "min_propensity" for hint in self.hints):
            return math.inf  # of items that are not shown, more rounds like these tell nothing
        first, *others = self.candidates
        others = [one for one in others if self.standing(one.name) != "harmful"]
        most = math.inf if known is None else known.epsilon
        enough = self.target if self.target is not None else SMALL_SHARE * first.value
        if not self.has_best or first.unjudged:
            return math.inf
        rivals = [one for one in others if not one.unjudged]
        if len(rivals) < len(others) and max(one.gap_bound for one in others if one.unjudged) > enough:
            return math.inf
        return rounds_to_decide(
            np.array([one.value - first.value for one in rivals]),
            np.array([min(one.gap_bound, most) for one in rivals]),
            np.array([math.hypot(one.standard_error, first.standard_error) for one in rivals]),
            rounds=self.rounds,
            enough=enough,
            threshold=max(len(others), 1) / self.delta,
        )

    def _helpful(self, verdict: Verdict) -> list[str]:
        """What would bring a decision nearer, other than rounds: which candidates stand in its way, and which facts."""
        found = []
        if self.unjudged:
            found.append(f"{_some(self.unjudged)} cannot be judged: the log could not show all of their items.")
        hint, enough = min(self.hints, key=lambda one: one.epsilon, default=None), verdict.enough
        if hint is not None and enough is not None and (hint.epsilon <= enough or hint.epsilon < self.epsilon / 2):
            more = self._rounds_to_decide(hint)
            then = f"; then about {rough(more)} rounds more would decide" if 0 < more < math.inf else ""
            found.append(f"{str(hint)[0].upper()}{str(hint)[1:]}{then}.")
        return found

    def with_gaps(self, gaps: NDArray[np.float64], guarantee: str) -> Evaluation:
        """The same with other bounds (P,) on what candidates are better by than the best; `guarantee` says whence."""
        candidates = tuple(replace(one, gap_bound=float(gaps[one.index])) for one in self.candidates)
        epsilon = float(gaps.max())
        return replace(
            self,
            candidates=candidates,
            epsilon=epsilon,
            covered_epsilon=epsilon,
            guarantee=guarantee,
            hints=tuple(hint for hint in self.hints if hint.epsilon < epsilon),
        )

    @property
    def has_best(self) -> bool:
        """Whether any candidate is ahead: without a reward none is."""
        return self.rewarded_rounds > 0

    @property
    def best(self) -> EvaluatedCandidate:
        """The candidate of highest estimated value; refused where the log has no reward (`has_best`)."""
        if not self.has_best:
            raise InputError(f"none of the {self.rounds:,} rounds brought a reward, so that no candidate is best.")
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
    def claim(self) -> Claim:
        """What is certified of the best, with what that rests on."""
        sentence = f"no candidate is better by more than {self.epsilon:.5g}"
        if self.metrics:
            sentence = f"the one named is {within_safe(self.epsilon, self.metrics)}"
        used = {"metrics"} if self.metrics else set()
        return CERTIFICATE.claim(sentence, self, options=used, delta=self.delta, basis=self.guarantee)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All that is promised; the certificate first."""
        found = [self.claim]
        if self.production is not None:
            sentence = f"all lifts over {visible(self.production)} lie in their intervals"
            used = {"metrics"} if self.metrics else set()
            found.append(LIFTS.claim(sentence, self, options=used, delta=self.delta))
        if self.segmented is not None:
            found += self.segmented.claims(self)
        return tuple(found)

    @property
    def promise(self) -> str:
        """What is certain about the best, in a sentence or two; which candidates cannot be judged comes first."""
        if not self.has_best:
            return f"None of the {self.rounds:,} rounds brought a reward: no candidate is best, nothing is promised."
        known = f"With probability {1 - self.delta:g} {self.claim.sentence}"
        unit = "rewards per round"
        if not self.claim.holds:
            known = f"{self.claim.text.capitalize()}."
        elif self.covered_epsilon < self.epsilon:
            known += (
                f" ({unit}); and, with the same probability, none all of whose items had a propensity of at least "
                f"{self.min_propensity:.4g} by more than {self.covered_epsilon:.5g}."
            )
        else:
            known += f" ({unit})."
        if not self.unjudged:
            return known
        return f"Cannot be judged, since the log could not show all of their items: {_some(self.unjudged)}. {known}"

    def comparison(self) -> Comparison:
        """The best one beside all others: differences and their bounds."""
        compared = [
            ComparedCandidate(
                one.index,
                one.name,
                one.value,
                one.interval,
                one.value - self.candidates[0].value,
                one.gap_bound,
                None,
                one.unjudged,
            )
            for one in self.candidates
        ]
        return Comparison.of(compared, epsilon=self.epsilon, delta=self.delta, claim=self.claim)

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate, best first."""
        rows = self.candidates
        return {
            "candidate": [row.name for row in rows],
            "value": [row.value for row in rows],
            "low": [row.interval[0] for row in rows],
            "high": [row.interval[1] for row in rows],
            "gap_bound": [row.gap_bound for row in rows],
            "standard_error": [row.standard_error for row in rows],
            "approximate_low": [row.approximate_interval[0] for row in rows],
            "approximate_high": [row.approximate_interval[1] for row in rows],
            "effective_rewards": [row.effective_rewards for row in rows],
            "unjudged": [row.unjudged for row in rows],
            **self._columns_beside(rows),
        }

    def _columns_beside(self, rows: Sequence[EvaluatedCandidate]) -> dict[str, list[Any]]:
        """Lifts and, by each metric, differences to production with their intervals."""
        if self.production is None:
            return {}
        of = {lift.name: lift for lift in self.lifts}
        found: dict[str, list[Any]] = {
            "lift_low": [of[row.name].low for row in rows],
            "lift_high": [of[row.name].high for row in rows],
        }
        if self.metrics:
            found["standing"] = [self.standing(row.name) for row in rows]
        for metric in self.metrics:
            by = {row.candidate: row for row in self.guarded if row.metric == metric}
            ends = [by[row.name].interval or (-math.inf, math.inf) for row in rows]
            found[metric] = [by[row.name].value for row in rows]
            found[f"{metric}_lift"] = [by[row.name].difference for row in rows]
            found[f"{metric}_lift_low"] = [low for low, _ in ends]
            found[f"{metric}_lift_high"] = [high for _, high in ends]
        return found

    def headline(self) -> str:
        """The answer in words, the verdict first."""
        return "\n".join((str(self.verdict), *self.notes))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        told = asdict(replace(self, usual=None, segmented=None))
        told["segmented"] = None if self.segmented is None else self.segmented.as_dict()
        told["usual"] = None if self.usual is None else self.usual.columns()
        first = self.candidates[0].name if self.has_best else None
        claims = [claim.as_dict() for claim in self.claims]
        return {"verdict": self.verdict.as_dict(), "best": first, "claims": claims, **told}


@dataclass(frozen=True, slots=True)
class Segment:
    """One kind of visitors.

    name:
        What it is called.
    evaluation:
        Of its rounds alone, at its part of δ.
    share:
        Of all rounds.
    everywhere:
        By how much the one that is named for all segments can be exceeded here at most.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> sides = cb.Segments(["north", "south"], lambda X: np.where(X[:, 0] > 0, "north", "south"))
    >>> answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125, segments=sides)
    >>> north, south = answer.segmented.segments
    >>> north.name, north.share + south.share, north.evaluation.delta
    ('north', 1.0, 0.025)
    >>> north.everywhere <= answer.segmented.epsilon
    True
    """

    name: str
    evaluation: Evaluation
    share: float
    everywhere: float

    @property
    def more_rounds(self) -> float:
        """Rounds of the whole log that are still needed to decide here, an estimate; infinity: none can be made."""
        verdict = self.evaluation.verdict
        if verdict.decided:
            return 0.0
        return math.inf if verdict.more_rounds is None else verdict.more_rounds / self.share

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        more = self.more_rounds
        return {
            "segment": self.name,
            "share": self.share,
            "everywhere": self.everywhere,
            "more_rounds": more if math.isfinite(more) else None,
            **self.evaluation.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Segmented:
    """A log by segments; see `comband.evaluation.segments`.

    name, epsilon:
        The one named for all, within epsilon of the best in every segment; None where no candidate is safe in each.
    delta:
        Of all segments together.
    target, declared:
        Where it was asked for, the segments that are declared with the one named in each, by e-BH.
    segments:
        Each by itself.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> sides = cb.Segments(["north", "south"], lambda X: np.where(X[:, 0] > 0, "north", "south"))
    >>> answer = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.125, segments=sides)
    >>> found = answer.segmented
    >>> found.epsilon == max(segment.everywhere for segment in found.segments)
    True
    """

    segments: tuple[Segment, ...]
    name: str | None
    epsilon: float
    delta: float
    target: float | None = None
    declared: tuple[tuple[str, str], ...] | None = None

    def compared(self, whole: Evaluation) -> str | None:
        """Whose lift is told of every segment: the one named for all or, if that is production, another one that looks
        good; None without production.
        """
        others = [one.name for one in whole.candidates if one.name != whole.production]
        if whole.production is None or not others:
            return None
        return self.name if self.name in others else others[0]

    @property
    def more_rounds(self) -> float:
        """Rounds until all segments are decided, an estimate: those that the slowest needs."""
        return max(one.more_rounds for one in self.segments)

    def claims(self, whole: Evaluation) -> list[Claim]:
        """What is promised of the segments."""
        used = {"metrics", "segments"} if whole.metrics else {"segments"}
        of = "the best safe candidate" if whole.metrics else "the best candidate"
        named = "; ".join(
            f"{visible(one.name)}: {visible(one.evaluation.candidates[0].name)}, {one.evaluation.epsilon:.4g}"
            for one in self.segments
        )
        sentence = f"in every segment the one named there is within its epsilon of {of} there ({named})"
        found = [SEGMENTS.claim(sentence, whole, options=used, delta=self.delta)]
        if self.name is not None:
            sentence = f"{visible(self.name)} is within {self.epsilon:.4g} of {of} in every segment"
            found.append(SEGMENTS.claim(sentence, whole, options=used, delta=self.delta))
        if whole.production is not None:
            sentence = f"in every segment all lifts over {visible(whole.production)} lie in their intervals"
            found.append(SEGMENTS.claim(sentence, whole, options=used, delta=self.delta))
        if self.declared:
            listed = "; ".join(f"{visible(name)}: {visible(best)}" for name, best in self.declared)
            sentence = (
                f"of the {len(self.declared)} segments declared ({listed}) the expected share in which a candidate is "
                f"better by more than {self.target:.4g} is {self.delta:g} at most"
            )
            found.append(DECLARED.claim(sentence, whole, options=used, delta=None))
        return found

    def forest(self, whole: Evaluation) -> dict[str, Any] | None:
        """The lift of one candidate in all rounds and in each segment, to be drawn; None without production."""
        compared = self.compared(whole)
        if compared is None:
            return None
        rows = []
        for name, one in (("all rounds", whole), *((each.name, each.evaluation) for each in self.segments)):
            lift, values = one.lift(compared), {each.name: each.value for each in one.candidates}
            assert lift is not None
            difference = values[compared] - values[str(whole.production)]
            rows.append({"name": name, "difference": difference, "low": lift.low, "high": lift.high})
        return {"name": compared, "rows": rows}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        more = self.more_rounds
        return {
            "everywhere": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "more_rounds": more if math.isfinite(more) else None,
            "segments": [one.as_dict() for one in self.segments],
            "declared": None if self.declared is None else [list(one) for one in self.declared],
        }

    def table(self, whole: Evaluation) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Columns, and a row for each segment, as text."""
        rows, compared = [], self.compared(whole)
        for one in self.segments:
            first = one.evaluation.candidates[0]
            row = [visible(one.name), f"{100 * one.share:.3g}%", visible(first.name)]
            row += [f"{first.value:.4g}", f"{one.evaluation.epsilon:.3g}"]
            if self.name is not None:
                row.append(f"{one.everywhere:.3g}")
            lift = None if compared is None else one.evaluation.lift(compared)
            row += [] if lift is None else [lift.ends]
            row.append(_more(one.more_rounds))
            rows.append(tuple(row))
        columns = ["segment", "rounds", "named", "value", "exceeded by at most"]
        if self.name is not None:
            columns.append(f"{visible(self.name)} exceeded by at most")
        columns += [] if compared is None else [f"{visible(compared)} over production"]
        return (*columns, "more rounds"), rows


def _more(rounds: float) -> str:
    return "decided" if rounds == 0 else "cannot be said" if math.isinf(rounds) else f"about {rough(rounds)}"


def _some(candidates: Sequence[Candidate]) -> str:
    """The first three by name, and how many more."""
    names = ", ".join(visible(candidate.name) for candidate in candidates[:3])
    return f"{names} and {len(candidates) - 3:,} more" if len(candidates) > 3 else names


REWARDED: Premise[Evaluation] = Premise(
    "rewards",
    "some round brought a reward",
    lambda run: HOLDS if run.has_best else "no round brought a reward",
    pending=True,
)
PROPENSITIES: Premise[Evaluation] = Premise(
    "propensities",
    "logged propensities can be right",
    lambda run: HOLDS if run.trusted else "for no candidate do the propensities fit",
)
CERTIFICATE: Kind[Evaluation] = Kind(
    "certificate of a log", (REWARDED, PROPENSITIES), knows=frozenset({"metrics", "segments"})
)
"""No candidate exceeds the best one by more than ε, whatever the log's rule, if propensities are what they are said to
be and rounds were not left out by their rewards. With further metrics: no safe candidate, and the best one is safe.
"""
SEGMENTS: Kind[Evaluation] = Kind(
    "segments of a log", (REWARDED, PROPENSITIES), knows=frozenset({"metrics", "segments"})
)
"""Who is best in each segment, or nearly so in all, where segments were declared and depend on the context alone."""
DECLARED: Kind[Evaluation] = Kind("share of segments of a log", (REWARDED, PROPENSITIES), knows=frozenset({"segments"}))
"""Which segments' winners are right, but for a share of δ of those that are declared."""
LIFTS: Kind[Evaluation] = Kind("lifts of a log", (REWARDED, PROPENSITIES), knows=frozenset({"metrics", "segments"}))
"""How much more than production each candidate collects, for all of them at once."""


@dataclass(frozen=True, slots=True)
class LogEvaluation(Tabular):
    """An evaluation of a file, with what was found about the file itself.

    meaning:
        How the propensities were read.
    skipped:
        Faulty rows that were left out, by kind; `skipped_examples` describe the first of each kind.
    repeated:
        Rewarded rounds without an id that have the same context, items, rewards and propensities as an earlier one.
    format:
        The name of the format that was read.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> cb.write_rounds(rounds, folder / "log.csv")
    >>> cb.write_candidates(policies, visitors.contexts, folder / "lists.csv")
    >>> answer = cb.evaluate_log(folder / "log.csv", folder / "lists.csv", sparsity=1)
    >>> answer.trusted, answer.skipped, answer.format
    (True, {}, 'comband')
    """

    evaluation: Evaluation
    format: str
    meaning: str
    skipped: dict[str, int]
    skipped_examples: tuple[str, ...]
    repeated: int = 0

    @property
    def trusted(self) -> bool:
        """Whether the logged propensities can be right."""
        return self.evaluation.trusted

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate, best first."""
        return self.evaluation.columns()

    def headline(self) -> str:
        """The answer in words."""
        return replace(self.evaluation, notes=self.notes).headline()

    @property
    def verdict(self) -> Verdict:
        """What is known, in one of four kinds: see `comband.statistics.verdicts`."""
        return self.evaluation.verdict

    @property
    def explained(self) -> tuple[str, ...]:
        """What only a reader wants who asks how."""
        alike = (self._repetition,) if self.repeated and self._look_alike else ()
        return (self.meaning, *self.evaluation.explained, *alike)

    def asked(self, *, epsilon: float | None = None, rounds_per_day: float | None = None) -> LogEvaluation:
        """The same with the ε that would be small enough, and how many rounds a day has: the verdict minds both."""
        target = None if epsilon is None else check_positive("epsilon", epsilon)
        rate = None if rounds_per_day is None else check_positive("rounds_per_day", rounds_per_day)
        return replace(self, evaluation=replace(self.evaluation, target=target, rounds_per_day=rate))

    @property
    def _look_alike(self) -> bool:
        """Whether most rewarded rounds are like an earlier one: then contexts say too little to tell any apart."""
        return 2 * self.repeated > self.evaluation.rewarded_rounds

    @property
    def _repetition(self) -> str:
        return (
            f"{self.repeated:,} rewarded rounds have the same context, items, rewards and propensities as an earlier "
            "one, and without an id nothing tells whether they were logged twice: log an id"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """All that a reader must know besides the numbers; the first is the alarm, if propensities do not fit."""
        notes = list(self.evaluation.notes)
        if self.repeated and not self._look_alike:
            notes.append(self._repetition)
        if self.skipped:
            total = sum(self.skipped.values())
            notes.append(
                f"faulty rows skipped: {total:,}; if faults go with rewards, the values are off by an unknown amount"
            )
        return tuple(notes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            **self.evaluation.as_dict(),
            "notes": list(self.notes),
            "format": self.format,
            "propensity_meaning": self.meaning,
            "skipped": self.skipped,
            "skipped_examples": list(self.skipped_examples),
            "repeated": self.repeated,
        }
