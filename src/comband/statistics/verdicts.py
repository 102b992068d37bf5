"""The verdict: what is known, in one of four kinds, made here alone and said first wherever a result is shown.

| kind | when | what it says |
|---|---|---|
| decided | a certificate holds, and its ε is small enough | which candidate to take |
| leading | a certificate holds, but ε is larger than that | the best guess with its error, and how many rounds more |
| cannot tell | rewards, overlap or rounds are missing | what is missing |
| not valid | something that the promise rests on has failed | what failed |

Small enough is the ε that was asked for. Where none was, it is a quarter of the leader's value: the leader then earns
at least 1/(1 + 1/4) = 80% of what the best one earns. An ε above the leader's value says nothing: the best one could
earn twice as much. And the leader's value must be known to be compared with: from ten effective rewards on, its
standard error is below a third of it (1/√10). These three figures are `SMALL_SHARE`, 1 and `LEAST_REWARDS`.

How many rounds are missing is an estimate, never a promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from comband.page.text import rough, visible
from comband.statistics.claims import Claim

DECIDED, LEADING, CANNOT_TELL, NOT_VALID = "decided", "leading", "cannot tell", "not valid"
KINDS = (DECIDED, LEADING, CANNOT_TELL, NOT_VALID)
SMALL_SHARE = 0.25  # of the leader's value: an epsilon that decides where none was asked for
LEAST_REWARDS = 10  # of equal weight, for a leader to be named


@dataclass(frozen=True, slots=True)
class Standing:
    """A candidate with its estimated value; `error` is the standard error, None where none is known, and `rewards` how
    many rewards of equal weight the estimate is worth, where that was counted.

    >>> Standing("new", 0.12, 0.03).effective_rewards
    16.0
    """

    name: str
    value: float
    error: float | None = None
    rewards: float | None = None

    @property
    def effective_rewards(self) -> float:
        """How many rewards of equal weight the estimate is worth: counted, or (value / error)²."""
        if self.rewards is not None:
            return self.rewards
        if self.error is None:
            return math.inf
        return round((self.value / self.error) ** 2, 9) if self.error > 0 else 0.0

    def __str__(self) -> str:
        if self.error is not None and math.isinf(self.error):
            return f"{visible(self.name)}, without a reward so far"
        error = "" if self.error is None else f" ± {self.error:.2g}"
        return f"{visible(self.name)}, about {self.value:.4g}{error} rewards per round"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known, said first.

    kind:
        "decided", "leading", "cannot tell" or "not valid".
    name:
        The candidate that is decided on or leads; empty where none can be named.
    sentences:
        The verdict and its reasons, in the order in which they should be read.
    epsilon:
        What is certified of that candidate; None where nothing is that says anything.
    enough:
        The ε that decides; None where no value is known to compare it with.
    rounds, more_rounds:
        The rounds so far, and an estimate of those still needed to decide; None: no forecast can be made.
    more_days:
        The same in days, where it is known how many rounds a day has.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.05, seed=3)
    >>> early = cb.run(learner, shop, batch_size=100, max_rounds=100).result.verdict
    >>> early.kind, early.name, early.exit_code
    ('cannot tell', '', 3)
    >>> verdict = cb.run(learner, shop, batch_size=500).result.verdict
    >>> verdict.kind, verdict.name == learner.result().name, verdict.exit_code
    ('decided', True, 0)
    """

    kind: str
    name: str
    sentences: tuple[str, ...]
    epsilon: float | None
    enough: float | None
    rounds: int
    more_rounds: float | None = None
    more_days: float | None = None

    @property
    def decided(self) -> bool:
        """Whether a candidate may be called the winner."""
        return self.kind == DECIDED

    @property
    def exit_code(self) -> int:
        """Of a command that ends with it: 0 decided, 3 leading or cannot tell, 1 not valid."""
        return {DECIDED: 0, NOT_VALID: 1}.get(self.kind, 3)

    @property
    def title(self) -> str:
        """The kind, and the name where there is one."""
        return f"{self.kind.capitalize()}: {visible(self.name)}" if self.name else self.kind.capitalize()

    def __str__(self) -> str:
        first, *others = self.sentences or ("",)
        return "\n".join((f"{self.title}. {first}".rstrip(), *others))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "kind": self.kind,
            "name": self.name or None,
            "text": " ".join((f"{self.title}.", *self.sentences)),
            "sentences": list(self.sentences),
            "epsilon": self.epsilon,
            "enough": self.enough,
            "rounds": self.rounds,
            "more_rounds": self.more_rounds,
            "more_days": self.more_days,
        }


def judge(
    leader: Standing,
    claim: Claim | None,
    *,
    epsilon: float,
    rounds: int,
    most: float = math.inf,
    target: float | None = None,
    more_rounds: float = math.inf,
    rounds_per_day: float | None = None,
    guess: Standing | None = None,
    higher: Standing | None = None,
    warnings: Sequence[str] = (),
    obstacles: Sequence[str] = (),
    metrics: Sequence[str] = (),
) -> Verdict:
    """The verdict on the candidate that is named.

    Parameters
    ----------
    leader, claim, epsilon:
        Whom the claim is about, and that no candidate exceeds it by more than epsilon.
    rounds, more_rounds:
        So far, and an estimate of those still needed; infinity: none can be made.
    most:
        What a round can bring at most: an epsilon as large says nothing.
    target:
        The epsilon that was asked for, if one was.
    rounds_per_day:
        To say the same in days.
    guess, higher:
        Who looks best, and who has the highest estimate, where these may be others.
    warnings:
        What has failed: any of them makes the result not valid.
    obstacles:
        Why no number of rounds like these can tell.
    metrics:
        By which the one named is safe, and no other that is is better.

    >>> from comband.statistics.claims import Claim
    >>> held = Claim("certificate", "within 0.02 of the best candidate", 0.05, "", ())
    >>> print(judge(Standing("new", 0.12, 0.01), held, epsilon=0.02, rounds=900))
    Decided: new. With probability 0.95 no candidate is better by more than 0.02 rewards per round.
    It earns about 0.12 ± 0.01 rewards per round.
    >>> print(judge(Standing("new", 0.12, 0.01), held, epsilon=0.05, rounds=900, more_rounds=2345, rounds_per_day=500))
    Leading: new. It earns about 0.12 ± 0.01 rewards per round.
    With probability 0.95 no candidate is better by more than 0.05 rewards per round.
    An epsilon of 0.03, a quarter of its value, would decide.
    About 2,300 rounds more, or 4.7 days, at this rate (an estimate).
    >>> print(judge(Standing("new", 0.0046, 0.003), held, epsilon=0.061, rounds=900))
    Cannot tell. The rewards so far weigh as much as 2.4 rewards of equal weight, and 10 are needed to name a leader.
    Some candidate may be better by 0.061 rewards per round; the highest estimate, of new, is 0.0046.
    """
    failed, pending = _failures(claim)
    enough = target if target is not None else SMALL_SHARE * leader.value if leader.value > 0 else None
    holds = claim is not None and claim.delta is not None and claim.holds
    certified = epsilon if holds and epsilon < most else None
    if holds and certified is None and leader.value > 0:
        pending.append("nothing is certified yet")
    facts: dict[str, Any] = {"epsilon": certified, "enough": enough, "rounds": rounds}
    if warnings or failed:
        return Verdict(NOT_VALID, "", tuple(map(_sentence, dict.fromkeys([*warnings] or failed))), **facts)
    to_come = _to_come(more_rounds, rounds_per_day)
    if math.isfinite(more_rounds):
        facts["more_rounds"] = more_rounds
        facts["more_days"] = more_rounds / rounds_per_day if rounds_per_day else None
    few = epsilon > 0 and leader.effective_rewards < LEAST_REWARDS
    if pending or certified is None or few or obstacles or epsilon >= leader.value:
        return Verdict(CANNOT_TELL, "", tuple(_missing(leader, certified, pending, few, obstacles, to_come)), **facts)
    assert claim is not None
    assert claim.delta is not None
    assert enough is not None
    earns = f"{leader.value:.4g}" + ("" if leader.error is None else f" ± {leader.error:.2g}")
    by_more = f" by more than {epsilon:.4g} rewards per round" if epsilon > 0 else ""
    condition = f"{claim.condition[0].upper()}{claim.condition[1:]}, with" if claim.condition else "With"
    promise = f"{condition} probability {1 - claim.delta:g} no candidate is better{by_more}."
    beside = _beside(leader, guess, higher, decided=epsilon <= enough, by_more=epsilon > 0)
    if metrics:  # what looks better may not be safe
        safe = f"it is safe by {', '.join(metrics)}, and no other safe candidate"
        promise, beside = f"With probability {1 - claim.delta:g} {safe} is better{by_more}.", []
    if epsilon <= enough:
        facts.update(more_rounds=0.0, more_days=0.0 if rounds_per_day else None)
        said = (promise, f"It earns about {earns} rewards per round.", *beside)
        return Verdict(DECIDED, leader.name, said, **facts)
    what = "which was asked for" if target is not None else "a quarter of its value"
    said = (
        f"It earns about {earns} rewards per round.",
        promise,
        f"An epsilon of {enough:.3g}, {what}, would decide.",
        *to_come,
        *beside,
    )
    return Verdict(LEADING, leader.name, said, **facts)


def _failures(claim: Claim | None) -> tuple[list[str], list[str]]:
    """Why a claim does not hold: what has failed, and what is not in yet."""
    if claim is None:
        return [], ["nothing is promised of it"]
    failing = [premise for premise in claim.premises if premise.failure]
    return [one.failure for one in failing if not one.pending], [one.failure for one in failing if one.pending]


def _missing(
    leader: Standing,
    certified: float | None,
    pending: Sequence[str],
    few: bool,
    obstacles: Sequence[str],
    to_come: Sequence[str],
) -> list[str]:
    found = [_sentence(one) for one in (*pending, *obstacles)]
    if few and leader.value > 0:
        found.append(
            f"The rewards so far weigh as much as {leader.effective_rewards:.2g} rewards of equal weight, and "
            f"{LEAST_REWARDS} are needed to name a leader."
        )
    if certified is not None and certified >= leader.value > 0:
        found.append(
            f"Some candidate may be better by {certified:.3g} rewards per round; the highest estimate, of "
            f"{visible(leader.name)}, is {leader.value:.3g}."
        )
    elif not few and leader.value > 0:
        found.append(f"The highest estimate so far is that of {leader}.")
    return found + list(to_come)


def _to_come(more_rounds: float, rounds_per_day: float | None) -> list[str]:
    if not 0 < more_rounds < math.inf:
        return []
    days = "" if rounds_per_day is None else f", or {_days(more_rounds / rounds_per_day)},"
    return [f"About {rough(more_rounds)} rounds more{days} at this rate (an estimate)."]


def _days(days: float) -> str:
    return f"{days:.2g} days" if days < 100 else f"{rough(days)} days"


def _beside(
    leader: Standing, guess: Standing | None, higher: Standing | None, *, decided: bool, by_more: bool
) -> list[str]:
    """Who looks better than the one that is named, and why it is not named instead."""
    if guess is not None and guess.name != leader.name:
        who, other = f"The best guess is another one: {guess}", guess
    elif higher is not None and higher.value > leader.value:
        who, other = f"Another one has a higher estimate: {higher}", higher
    else:
        return []
    if not decided:
        return [f"{who}; more is certified of {visible(leader.name)}."]
    return [f"{who}. By the certificate {visible(other.name)} is not better{' by more than that' * by_more} either."]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
