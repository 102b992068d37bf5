"""Confirmation: the winner against production, whole lists in their own order, by random assignment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from comband.certify.confirming.claims import CONFIRMATION, Run, confirmation
from comband.certify.confirming.units import Units
from comband.learners.atomic import synchronized
from comband.learners.base import Seed
from comband.learners.selector import Selector
from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import InputError, Problem, check_count, check_fraction, check_number, check_positive
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Array, State, Whole, require
from comband.page.text import quoted
from comband.policies.policy_set import PolicySet, check_policies
from comband.statistics.claims import Claim, reading_options
from comband.statistics.lift import LiftBets
from comband.statistics.results import Candidate, Selection, Status

_LOW_SHARE = 0.75  # of δ: the lower end decides; the upper one has the rest
_FIRST, _GROWTH = 200, 1.5  # units of the first block; each further one ends at so many times all before it
_ALARM = 1e-3  # how often a right assignment is suspected
_USUAL_LIFT = 0.1  # of production's value, where no other lift is expected
_PRIOR = 100.0  # units that the beta density of the assignment's guard stands for

Users = Callable[[Contexts], Sequence[Any] | NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Lift:
    """By how much a candidate collects more than production, per unit.

    candidate, production:
        Their names.
    value, error:
        The estimated lift and its standard error.
    interval:
        Holds the lift at all times, with probability 1 − delta.
    relative:
        The same for lift over production's value, with the same probability of its own; infinity: nothing is known.
    at_least:
        What was to be confirmed.
    units, rounds:
        How many units are complete, and how many decisions were made.
    claim:
        The sentence with what it rests on.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=2, list_size=1)
    >>> policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem, names=["new", "live"])
    >>> learner = cb.Confirmation(problem, policies, candidate="new", production="live", seed=1)
    >>> decisions = learner.ask(np.zeros(2000, dtype=int))
    >>> receipt = learner.tell(decisions, (decisions.lists == 0) * 1.0)  # "new" is clicked always, "live" never
    >>> lift = learner.lift()
    >>> lift.verdict, lift.value > 0.9, lift.interval[0] > 0
    ('confirmed', True, True)
    """

    candidate: str
    production: str
    value: float
    error: float
    interval: tuple[float, float]
    relative: tuple[float, float]
    at_least: float
    units: int
    rounds: int
    claim: Claim

    @property
    def verdict(self) -> str:
        """One of "confirmed", "refuted", "open" and "not valid"."""
        if self.units and not self.claim.holds:
            return "not valid"
        low, high = self.interval
        return "confirmed" if low > self.at_least else "refuted" if high < self.at_least else "open"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON; None for infinity."""
        finite = [None if not math.isfinite(end) else end for end in (*self.interval, *self.relative)]
        return {
            "candidate": self.candidate,
            "production": self.production,
            "verdict": self.verdict,
            "lift": self.value,
            "error": self.error if math.isfinite(self.error) else None,
            "low": finite[0],
            "high": finite[1],
            "relative_low": finite[2],
            "relative_high": finite[3],
            "at_least": self.at_least,
            "units": self.units,
            "rounds": self.rounds,
            "claim": self.claim.as_dict(),
        }

    def __str__(self) -> str:
        low, high = self.interval
        words = {
            "confirmed": f"confirmed: {self.candidate} beats {self.production} by more than {self.at_least:.4g}",
            "refuted": f"refuted: {self.candidate} does not beat {self.production} by {self.at_least:.4g}",
            "open": f"open: whether {self.candidate} beats {self.production} by more than {self.at_least:.4g}",
            "not valid": f"not valid: {self.claim}",
        }
        relative = ""
        if math.isfinite(self.relative[1]):
            relative = f" ({self.relative[0]:+.1%} to {self.relative[1]:+.1%})"
        return (
            f"{words[self.verdict]}, after {self.units:,} units\n"
            f"  lift {self.value:+.4g} ± {self.error:.2g}, in [{low:+.4g}, {high:+.4g}]{relative}"
        )


class Confirmation(Selector):
    """Compare one candidate with production in whole lists, until it is known whether it collects more by `at_least`.

    Each unit is shown the candidate's list with probability `share`, else production's, each in its own order, and what
    counts is the total that it collects. That rests on random assignment alone: places may matter, and items of one
    list may change each other's rewards. It is the last step before a launch, for the winner of `AdaptiveComband`, say.
    It may be looked at after every answer; see `comband.statistics.lift`.

    A unit is a round. With `users` it is a user, who is always shown the same side: then a user's first `visits` rounds
    count, of those that come within `window` decisions after the first.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates; two of them are shown.
    candidate, production:
        Their names: who may be launched, and what visitors see today.
    share:
        The probability that a unit is shown the candidate.
    at_least:
        The lift per unit that is to be confirmed: 0 for "better"; −margin for "not worse by more than a margin".
    delta:
        The probability with which the interval of the lift ever misses it. Three quarters are for its lower end.
    expected:
        The lift per unit that is hoped for, such as the estimate of the learner that chose the candidate; a tenth of
        production's value by default. It sets the stakes: wrong by 2 it costs about a tenth of the rounds, and no
        promise rests on it.
    value:
        What production collects per unit, if that is known roughly; it sets the first stakes, and no promise rests on
        it.
    max_rounds:
        A budget of decisions, answered or not.
    patience:
        How many later decisions a decision waits for its answer before it counts as without reward; None: for ever.
    users:
        A function that gives the id of each context's user; None: each round is a unit of its own.
    visits, window:
        For users: how many of their rounds count, and within how many decisions after the first.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=30, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(20, seed=2)
    >>> ranked = shop.values(policies).argsort()
    >>> best, live = (policies.names[i] for i in (ranked[-1], ranked[0]))
    >>> last = cb.Confirmation(problem, policies, candidate=best, production=live, seed=3)
    >>> result = cb.run(last, shop, batch_size=500, max_rounds=20_000).result
    >>> result.name == best, last.lift().verdict
    (True, 'confirmed')
    """

    KNOWS_PLACES = True
    KNOWS_ORDER = True
    FROM_TOTALS = True

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        candidate: str,
        production: str,
        share: float = 0.5,
        at_least: float = 0.0,
        delta: float = 0.05,
        expected: float | None = None,
        value: float | None = None,
        max_rounds: int | None = None,
        patience: int | None = None,
        users: Users | None = None,
        visits: int = 1,
        window: int = 0,
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, check_policies(policies), seed=seed)
        names = self.policies.names
        for side, name in (("candidate", candidate), ("production", production)):
            if name not in names:
                raise InputError(f"{side} must be the name of one of the policies, got {quoted(str(name))}.")
        if candidate == production:
            raise InputError(f"candidate and production must be two policies, got {quoted(candidate)} for both.")
        self.candidate, self.production = candidate, production
        self._sides = np.array([names.index(candidate), names.index(production)])
        self.share, self.delta = check_fraction("share", share), check_fraction("delta", delta)
        self.visits, self.window = check_count("visits", visits), check_count("window", window, least=0)
        if users is None and (self.visits > 1 or self.window > 0):
            raise InputError("visits and window are those of a user: say by users= who came.")
        if self.window < self.visits - 1:
            raise InputError(
                f"{self.visits} visits take at least {self.visits - 1} decisions after the first; make window larger, "
                f"got {self.window}."
            )
        self._largest = problem.max_reward * self.visits
        self.at_least = check_number("at_least", at_least)
        if not -self._largest < self.at_least < self._largest:
            raise InputError(
                f"at_least must lie between −{self._largest:g} and {self._largest:g}, the most that a unit collects, "
                f"got {self.at_least:g}."
            )
        self.value = None if value is None else check_number("value", value)
        if self.value is not None and not 0 <= self.value <= self._largest:
            raise InputError(f"value must lie between 0 and {self._largest:g} per unit, got {self.value:g}.")
        self.expected = None if expected is None else check_positive("expected", expected)
        if self.expected is not None and self.expected <= self.at_least:
            raise InputError(
                f"expected must exceed at_least = {self.at_least:g}, got {self.expected:g}: a smaller lift "
                "cannot be confirmed to be as large."
            )
        self.max_rounds = None if max_rounds is None else check_count("max_rounds", max_rounds)
        self.patience = None if patience is None else check_count("patience", patience)
        self.users = users
        self._key = self._rng.bytes(16)  # of the users' assignment
        self._numbers: dict[int, int] = {}  # the unit of each user, by a digest of the id
        self._new_users: tuple[int, ...] = ()  # about to be numbered
        self._units = Units(self.visits, self.window, self.patience)
        self._bets = LiftBets(share=self.share, largest=self._largest)
        self._lost = (0, 0)  # decisions without answer that showed the candidate, or production: see `alarm`
        self._told_zeros = self._late = self._unanswered = 0
        CONFIRMATION.check(self.options())
        self._begin()

    def options(self) -> frozenset[str]:
        """The settings that differ from their defaults, and how the page is read."""
        used = {"share": self.share != 0.5, "at_least": self.at_least != 0, "delta": self.delta != 0.05}
        used |= {
            name: getattr(self, name) is not None for name in ("expected", "value", "max_rounds", "patience", "users")
        }
        used |= {"visits": self.visits > 1, "window": self.window > 0}
        return reading_options(self.problem, self.policies) | {name for name, is_used in used.items() if is_used}

    # ---- the protocol ------------------------------------------------------------------------------------------------

    @property
    @synchronized
    def done(self) -> bool:
        """Whether it is decided, or the budget is spent."""
        if self.decisions_left == 0:
            return True
        levels = zip((True, False), self._levels.values(), strict=True)  # where the ends of the interval pass at_least
        decided = any(self._bets.evidence(self.at_least, above=side) >= math.log(1 / level) for side, level in levels)
        return decided and not self.alarm

    @property
    def decisions_left(self) -> int | None:
        """How many more decisions `max_rounds` allows, at least 0; None where that is not set."""
        return None if self.max_rounds is None else max(self.max_rounds - self._ledger.issued, 0)

    @synchronized
    def lift(self) -> Lift:
        """What is known of the lift now."""
        bets = self._bets
        value, error = bets.estimate()
        low, high = self._interval()
        unit = "user" if self.users is not None else "round"
        sentence = (
            f"{self.candidate} collects between {low:+.4g} and {high:+.4g} per {unit} more than {self.production}"
        )
        run = Run(self.options(), bets.units, self.alarm)
        return Lift(
            self.candidate,
            self.production,
            value,
            error,
            (low, high),
            bets.relative_bounds(**self._levels),
            self.at_least,
            bets.units,
            self._ledger.issued,
            confirmation(run, sentence, delta=self.delta),
        )

    @property
    def _levels(self) -> dict[str, float]:
        return {"alpha_low": _LOW_SHARE * self.delta, "alpha_high": (1 - _LOW_SHARE) * self.delta}

    def _interval(self) -> tuple[float, float]:
        return self._bets.bounds(**self._levels)

    @property
    def alarm(self) -> str:
        """Empty, or what speaks against random assignment: answers of one side get lost more often than it was shown.

        An average of likelihood ratios over a beta density, which passes 1/α with probability α at most. Decisions
        without answer count while more of those without reward are answered than are not: where only rewards are told
        the side that collects more has more answers, and nothing is wrong with that.
        """
        mine, other = self._lost
        a, b = _PRIOR * self.share, _PRIOR * (1 - self.share)
        fair = mine * math.log(self.share) + other * math.log1p(-self.share)
        if betaln(a + mine, b + other) - betaln(a, b) - fair < math.log(1 / _ALARM):
            return ""
        return (
            f"of the decisions without answer {mine:,} showed {self.candidate} and {other:,} {self.production}, where "
            f"a share of {self.share:g} was drawn: answers of one side are lost"
        )

    @synchronized
    def result(self) -> Selection:
        """Who should be shown: the candidate if it is confirmed, else production."""
        if self._ledger.answered == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        lift, means = self.lift(), self._bets.means()
        low, high = lift.interval
        chosen = lift.verdict == "confirmed"
        epsilon = max(0.0, -low if chosen else high)
        sides = [
            Candidate(int(i), self.policies.names[i], mean, (0.0, self._largest))
            for i, mean in zip(self._sides, means, strict=True)
        ]
        best, other = sides if chosen else sides[::-1]
        notes = [str(lift).splitlines()[1].strip()]
        if self._unanswered:
            notes.append(f"{self._unanswered:,} decisions were not answered in time and count as without reward")
        return Selection(
            policy=self.policies[best.index],
            best=best,
            epsilon=min(epsilon, self._largest),
            delta=self.delta,
            rounds=self.rounds,
            runners_up=(other,),
            claims=(lift.claim,),
            notes=tuple(notes),
            warnings=(self.alarm,) if self.alarm else (),
        )

    @synchronized
    def status(self) -> Status:
        """Where it stands now."""
        lift = self.lift()
        decided = lift.verdict in ("confirmed", "refuted")
        leader = self.production if lift.verdict == "refuted" or lift.value < self.at_least else self.candidate
        return Status(self.rounds, leader, 1 if decided else 2, forecast=0.0 if decided else self._units_to_go())

    def _units_to_go(self) -> float:
        value, _ = self._bets.estimate()
        n, gap = self._bets.units, abs(value - self.at_least)
        if n < 2 or gap == 0:
            return math.inf
        return max(2 * math.log(1 / (_LOW_SHARE * self.delta)) * self._spread() / gap**2 - n, 1.0)

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _spread(self) -> float:
        """E D², guessed."""
        bets, f = self._bets, self._bets.best_baseline()
        inverse = 1 / (self.share * (1 - self.share))
        prior = inverse * (self._largest**2 / 4 if self.value is None else max(self.value, 0.01) * self._largest)
        n = bets.units
        return float((bets.counts @ bets.differences(f) ** 2 + 20 * prior) / (n + 20))

    def _begin(self) -> None:
        """A block with the baseline and the stake that look best by all complete units.

        The stake is that of the expected lift, which is decided after about 2·log(1/α)·E D²/gap² units. Stakes that
        followed the estimate from the start would lose at every scale what they win at one; so they shrink when a lift
        as large as expected would have been decided.
        """
        bets, n = self._bets, self._bets.units
        baseline = bets.best_baseline()
        if self.value is not None:
            baseline = (n * baseline + _FIRST / 4 * self.value) / (n + _FIRST / 4)
        level, spread = math.log(1 / self._levels["alpha_low"]), self._spread()
        until = 2 * level * spread / max(self._hoped_gap(), 1e-6 * self._largest) ** 2
        stake = math.sqrt(2 * level / (spread * max(until, n)))
        bets.begin(baseline=min(baseline, self._largest), stake=stake)

    def _hoped_gap(self) -> float:
        """How far the expected lift lies above what is to be confirmed."""
        value = self._bets.means()[1] if self._bets.units else self.value
        lift = self.expected
        if lift is None:
            lift = _USUAL_LIFT * (self._largest / 10 if value is None else value)
        return max(lift - self.at_least, 0.0) or lift

    def _due(self) -> bool:
        n_blocks = len(self._bets.stakes)
        return self._bets.units >= _FIRST * _GROWTH ** (n_blocks - 1)

    # ---- asking and telling ------------------------------------------------------------------------------------------

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        n, m = n_contexts(X), self.problem.list_size
        lists = self.policies.predict(X, self._sides, problem=self.problem)  # (n, 2, m)
        same = np.asarray((lists[:, 0] == lists[:, 1]).all(axis=1))
        if self.users is None:
            numbers = self._units.n_units + np.arange(n)
            mine = self._rng.random(n) < self.share
        else:
            numbers, mine = self._assign(X, n)
        shown = np.ascontiguousarray(np.where(mine[:, None], lists[:, 0], lists[:, 1]))
        q = np.zeros((n, m))
        for side, probability in enumerate((self.share, 1 - self.share)):
            q += probability * (shown[:, :, None] == lists[:, side, None, :]).any(axis=2)
        bets = self._bets
        if self._due():
            self._bets = bets = _copy(bets)
            self._begin()
        block = len(bets.stakes) - 1
        units = self._units.assigned(numbers, mine, same, block=block)
        self._units = units
        arms = np.where(mine, self._sides[0], self._sides[1])
        return Decisions.unsigned(first_id, shown, np.minimum(q, 1.0), epoch=block, contexts=X, arms=arms)

    def _assign(self, X: Contexts, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The unit of each context's user, and whether it is shown the candidate."""
        assert self.users is not None
        ids = list(self.users(X))
        if len(ids) != n:
            raise InputError(f"users must give one id per context, {n:,}, got {len(ids):,}.")
        digests = [int.from_bytes(blake2b(_text(one), digest_size=8, key=self._key).digest(), "big") for one in ids]
        new: dict[int, int] = {}
        first = self._units.n_units
        numbers = np.empty(n, dtype=np.int64)
        for i, digest in enumerate(digests):
            known = self._numbers.get(digest)
            numbers[i] = new.setdefault(digest, first + len(new)) if known is None else known
        self._new_users = tuple(new)
        mine = np.array([digest < self.share * 2.0**64 for digest in digests], dtype=np.bool_)
        return numbers, mine

    def _issued(self) -> None:
        if self.users is not None:
            self._corrupt = True  # nothing fails from here on
            first = len(self._numbers)
            self._numbers.update({digest: first + i for i, digest in enumerate(self._new_users)})
            self._new_users = ()
        self._enter()

    def _learn(self, rounds: Rounds) -> None:
        self._units, late = self._units.answered(rounds.decisions.ids, rounds.rewards.sum(axis=1))
        self._late += late
        self._enter()

    def _enter(self) -> None:
        self._units, (blocks, mine, totals, same, lost) = self._units.completed()
        if not len(blocks):
            return
        bets = _copy(self._bets)
        bets.add(blocks, mine, totals, same)
        self._bets = bets
        if self._told_zeros > self._unanswered:
            self._lost = (self._lost[0] + int(lost[mine].sum()), self._lost[1] + int(lost[~mine].sum()))
        self._told_zeros += int(((totals == 0) & (lost == 0)).sum())
        self._unanswered += int(lost.sum())

    # ---- saving ------------------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        names = ("candidate", "production", "share", "at_least", "delta", "expected", "value", "max_rounds", "patience")
        return {name: getattr(self, name) for name in (*names, "visits", "window")}

    _SCHEMA: ClassVar = {
        "units": Units.SCHEMA,
        "bets": LiftBets.SCHEMA,
        "key": Array("u1", (16,)),
        "users": Array("u8", ("N",)),
        "lost": Array("i8", (2,), 0),
        "told_zeros": Whole(0),
        "late": Whole(0),
        "unanswered": Whole(0),
    }

    def _state(self) -> State:
        return {
            "units": self._units.state(),
            "bets": self._bets.state(),
            "key": np.frombuffer(self._key, dtype=np.uint8),
            "users": np.array(list(self._numbers), dtype=np.uint64),
            "lost": np.array(self._lost, dtype=np.int64),
            "told_zeros": self._told_zeros,
            "late": self._late,
            "unanswered": self._unanswered,
        }

    def _restore(self, state: State) -> None:
        self._bets = LiftBets.from_state(state["bets"], share=self.share, largest=self._largest)
        n_blocks = len(self._bets.stakes)
        require(n_blocks > 0, "a block must have begun.")
        self._units = Units.from_state(
            state["units"], patience=self.patience, issued=self._ledger.issued, n_blocks=n_blocks
        )
        users = state["users"].tolist()
        require(
            (self._units.visits, self._units.window) == (self.visits, self.window)
            and len(users) == len(set(users)) == (self._units.n_units if self.users is not None else 0)
            and self._bets.units == self._units.entered,
            "units, users and evidence must be as many as each other.",
        )
        self._numbers = {digest: number for number, digest in enumerate(users)}
        self._key = state["key"].tobytes()
        self._lost = (int(state["lost"][0]), int(state["lost"][1]))
        self._told_zeros, self._late, self._unanswered = state["told_zeros"], state["late"], state["unanswered"]


def _copy(bets: LiftBets) -> LiftBets:
    """The same evidence, to be added to: its arrays are replaced, never altered."""
    twin = LiftBets(share=bets.share, largest=bets.largest)
    twin.__dict__.update(bets.__dict__)
    return twin


def _text(user: Any) -> bytes:
    """An id as bytes in which 1 and "1" differ, and 1 and numpy's 1 do not."""
    plain = user.item() if isinstance(user, np.generic) else user
    if not isinstance(plain, (int, str)):
        raise InputError(f"ids of users must be whole numbers or text, got {type(plain).__name__}.")
    return repr(plain).encode()
