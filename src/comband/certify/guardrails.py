"""What rounds say of further metrics: who harms, who is safe, and the accounts of those who have led.

The mathematics is in `comband.statistics.guardrails`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.blocks import Block
from comband.certify.epochs import Epoch, Railing
from comband.certify.event_store import EventStore, Propensities
from comband.page.metrics import Metric
from comband.page.problem import Problem
from comband.page.storage import Array, Column, Many, State, check, put_into, require, state_of
from comband.statistics.betting import OFFSETS, SAFETY, STAKES, Bets
from comband.statistics.grids import bisect, grown, log_mean_exp
from comband.statistics.guardrails import REWARD_WEIGHT, Rail

Floats = NDArray[np.float64]
_BETS = len(OFFSETS)
_LARGEST_SHARE = 4.0  # of production's value: who brings more is not said by how much


class Guardrails:
    """Log-wealths for and against each candidate's being safe, by J metrics.

    Parameters
    ----------
    metrics, problem:
        What was declared, and the setting in which rewards count.
    n_policies, production:
        P, and production's number.
    epochs:
        The epochs so far; the list grows.
    per_reward:
        How many events each value has.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        problem: Problem,
        n_policies: int,
        production: int,
        epochs: Sequence[Epoch],
        *,
        per_reward: int = 1,
    ) -> None:
        self.metrics, self.production, self.epochs, self.per_reward = tuple(metrics), production, epochs, per_reward
        self.rails = tuple(Rail.of(metric, problem) for metric in metrics)
        shape = (len(self.rails), n_policies, _BETS)
        self.harm, self.safe = np.zeros(shape), np.zeros(shape)  # without what each round adds beside its values
        self.accounts = np.full(shape, -np.inf)  # logarithms, when the lead was last taken
        self.gains = np.zeros(shape)  # of accounts since then, without what each round adds
        self.deposits = np.zeros(n_policies)
        self.led: list[int] = []  # who has had an account, in order
        self.entered: list[int] = []  # rounds of each epoch when the lead was last taken
        self.certified: frozenset[int] = frozenset()  # safe, as was found when that was judged
        self.seen = [EventStore(n_policies) for _ in self.rails]
        self.weights = np.log([REWARD_WEIGHT, *([(1 - REWARD_WEIGHT) / len(self.rails)] * len(self.rails))])

    @property
    def trusted(self) -> frozenset[int]:
        """Whose epochs count in full for every claim: those who are known to be safe."""
        return self.certified | {self.production}

    # ---- rounds enter ------------------------------------------------------------------------------------------------

    def begin(self, k: int, n_rounds: Sequence[int]) -> None:
        """The first round of epoch k is about to enter, after so many of the others: the purse follows the lead."""
        self._settle(n_rounds)
        new = self.epochs[k].leader
        if new == self.production:
            return
        amount = 0.0
        if new not in self.led:
            self.led = [*self.led, new]
            amount = 1 / (len(self.led) * (len(self.led) + 1))
        for old in self.led:
            if old == new or self.deposits[old] <= 0:
                continue
            whole = np.logaddexp.reduce(self.accounts[:, old], axis=-1)  # (J,)
            part = min(float(np.exp(min(whole.min(), 0.0))), float(self.deposits[old]))
            if part > 0:
                with np.errstate(divide="ignore"):  # nothing may be left
                    self.accounts[:, old] += np.log1p(-np.minimum(np.exp(np.log(part) - whole), 1.0))[:, None]
                self.deposits[old] -= part
                amount += part
        if amount > 0:
            self.accounts[:, new] = np.logaddexp(self.accounts[:, new], np.log(amount / _BETS))
            self.deposits[new] += amount

    def _settle(self, n_rounds: Sequence[int]) -> None:
        """What accounts have gained becomes their own."""
        for one in self.led:
            for j in range(len(self.rails)):
                self.accounts[j, one] = self._account(j, one, n_rounds)
        self.gains = np.zeros_like(self.gains)
        self.entered = list(n_rounds)

    def _account(self, j: int, one: int, n_rounds: Sequence[int]) -> Floats:
        """Logarithms (3,) of an account's parts."""
        total = self.accounts[j, one] + self.gains[j, one]
        for k, n in enumerate(n_rounds):
            n -= self.entered[k] if k < len(self.entered) else 0
            if n and self.epochs[k].leader == one:
                purse = self.epochs[k].rails[1 + j].purse
                total = (
                    total + n * self.rails[j].credit(stakes_of(self.epochs[k], purse, np.array([one])), safety=True)[0]
                )
        return np.asarray(total)

    def add(self, k: int, blocks: Sequence[Block]) -> None:
        """Enter rounds of epoch k, a block for each metric."""
        epoch = self.epochs[k]
        for j, (rail, bets, block) in enumerate(zip(self.rails, epoch.rails[1:], blocks, strict=True)):
            if block.kept is not None:
                self.seen[j].add(block.kept, block.inside, epoch.candidates)
            if not block.eventful:
                continue
            inside = block.inside
            for total, one, safety in (
                (self.harm[j], bets.harm, False),
                (self.safe[j], bets.safe, True),
                (self.gains[j], bets.purse, True),
            ):
                part = total[epoch.candidates]
                rail.enter(part, one, inside, block.rows, block.weights, uncovered=block.places, safety=safety)
                total[epoch.candidates] = part

    # ---- what they say -----------------------------------------------------------------------------------------------

    def against_being_safe(self, which: NDArray[np.int64], n_rounds: Sequence[int]) -> Floats:
        """(J, n) log H of some policies."""
        return self.wealths_of(self.harm, which, n_rounds, safety=False)

    def combined(self, against: Floats, which: NDArray[np.int64], n_rounds: Sequence[int]) -> Floats:
        """log(w_0·C + Σ w_j·H_j), where log C (n,) is that against being the best."""
        harm = self.against_being_safe(which, n_rounds)
        return np.asarray(np.logaddexp.reduce([self.weights[0] + against, *(self.weights[1:, None] + harm)], axis=0))

    def harmful(self, which: NDArray[np.int64], n_rounds: Sequence[int]) -> Floats:
        """log Σ w_j·H_j of some policies."""
        harm = self.against_being_safe(which, n_rounds)
        return np.asarray(np.logaddexp.reduce(self.weights[1:, None] + harm, axis=0))

    def safety(self, which: NDArray[np.int64], n_rounds: Sequence[int], *, as_leaders: bool = False) -> Floats:
        """(J, n) log(½U/(P − 1) + ½A) of some policies; `as_leaders` with what they would be given, did they lead."""
        n = self.harm.shape[1]
        union = self.wealths_of(self.safe, which, n_rounds, safety=True) - np.log(max(n - 1, 1))
        result = np.empty_like(union)
        to_get = -np.log((len(self.led) + 1) * (len(self.led) + 2))
        for i, one in enumerate(which.tolist()):
            for j in range(len(self.rails)):
                own = float(np.logaddexp.reduce(self._account(j, one, n_rounds)))
                if as_leaders and one not in self.led:
                    own = max(own, float(to_get))
                result[j, i] = np.logaddexp(union[j, i], own) - np.log(2)
        return np.asarray(result)

    def is_safe(self, one: int, n_rounds: Sequence[int], threshold: float) -> bool:
        """Whether a policy is certified safe where so much log-evidence suffices."""
        if one in self.trusted:
            return True
        return bool(np.all(self.safety(np.array([one]), n_rounds) >= threshold))

    def judge(self, n_rounds: Sequence[int], threshold: float) -> bool:
        """Note who of those that have led is safe; whether there is another one."""
        new = [one for one in self.led if one not in self.certified and self.is_safe(one, n_rounds, threshold)]
        self.certified = self.certified | frozenset(new)
        return bool(new)

    def wealths_of(self, events: Floats, which: NDArray[np.int64], n_rounds: Sequence[int], *, safety: bool) -> Floats:
        """(J, n) logarithms of mean wealths of some policies, from sums (J, P, stakes) over their values."""
        result = np.empty((len(self.rails), len(which)))
        for j, rail in enumerate(self.rails):
            total = events[j, which]
            for epoch, n in zip(self.epochs, n_rounds, strict=False):
                if n and rail.margin > 0:
                    bets = epoch.rails[1 + j].safe if safety else epoch.rails[1 + j].harm
                    total = total + n * rail.credit(stakes_of(epoch, bets, which), safety=safety)
            result[j] = log_mean_exp(total) if len(which) else np.empty(0)
        return result

    # ---- what they look like -----------------------------------------------------------------------------------------

    def slacks(self, candidates: NDArray[np.int64], n_rounds: Sequence[int]) -> Floats:
        """(J, S) estimates of h + m: how far candidates are from being unsafe; of production, the margin."""
        rounds = np.zeros(len(self.epochs), dtype=np.int64)
        rounds[: len(n_rounds)] = n_rounds
        result = np.zeros((len(self.rails), len(candidates)))
        place = int(np.searchsorted(candidates, self.production))
        for j, (rail, seen) in enumerate(zip(self.rails, self.seen, strict=True)):
            scores = seen.scores(candidates, rounds, unit=rail.unit)
            result[j] = rail.sign * (scores - rail.share * scores[place]) + rail.margin
        return result

    def estimates(
        self, j: int, candidates: NDArray[np.int64], n_rounds: Sequence[int], rounds: int
    ) -> tuple[Floats, Floats]:
        """By metric j, (S,) how much more of it than with production, and the standard error."""
        counted = np.zeros(len(self.epochs), dtype=np.int64)
        counted[: len(n_rounds)] = n_rounds
        rail, seen = self.rails[j], self.seen[j]
        scores = seen.scores(candidates, counted, unit=rail.unit)
        place = int(np.searchsorted(candidates, self.production))
        chosen = np.searchsorted(seen.columns, candidates)
        squares = seen.squares(
            int(np.searchsorted(seen.columns, self.production)),
            0,
            lambda events, which, _rows: events.propensities[which],
            per_reward=self.per_reward,
        )
        return np.asarray(scores - scores[place]), np.asarray(np.sqrt(squares[chosen]) / rounds)

    def second_moments(
        self, candidates: NDArray[np.int64], floor: float, propensities: Propensities, rounds: int
    ) -> Floats:
        """(J, S) E G² of candidates, under given propensities; one event may add what this floor allows."""
        result = []
        for rail, seen in zip(self.rails, self.seen, strict=True):
            place = int(np.searchsorted(seen.columns, self.production))
            most = rail.most**2 / floor
            found = seen.second_moments(
                place, propensities, n_rounds=rounds, of_an_event=most, per_reward=self.per_reward
            )
            result.append(found[np.searchsorted(seen.columns, candidates)])
        return np.stack(result)

    # ---- files -------------------------------------------------------------------------------------------------------

    _NUMBERS: ClassVar = {
        "harm": Array("f8", ("J", "P", _BETS)),
        "safe": Array("f8", ("J", "P", _BETS)),
        "accounts": Array("f8", ("J", "P", _BETS), infinite=True),
        "gains": Array("f8", ("J", "P", _BETS)),
        "deposits": Array("f8", ("P",), 0, 1),
        "led": Column("i8", ("accounts",), 0, "P-1"),
        "entered": Column("i8", ("begun",), 0),
    }
    SCHEMA: ClassVar = {
        **_NUMBERS,
        "certified": Array("i8", ("safe",), 0, "P-1", rising=True),
        "seen": Many(EventStore.SCHEMA),
    }

    def state(self) -> State:
        """All but metrics and epochs by name, for a file; see `comband.page.storage`."""
        return {
            **state_of(self, self._NUMBERS),
            "certified": np.array(sorted(self.certified), dtype=np.int64),
            "seen": [seen.state() for seen in self.seen],
        }

    def restore(self, state: State, n_rounds: Sequence[int]) -> None:
        """The inverse of `state`, checked."""
        n_policies = self.harm.shape[1]
        check(state, self.SCHEMA, P=n_policies, J=len(self.rails))
        put_into(self, self._NUMBERS, state)
        self.certified = frozenset(state["certified"].tolist())
        require(len(state["seen"]) == len(self.rails), "there must be events for each metric.")
        self.seen = [EventStore.from_state(part, n_policies) for part in state["seen"]]
        leaders = [epoch.leader for epoch, n in zip(self.epochs, n_rounds, strict=False) if n]
        first = list(dict.fromkeys(one for one in leaders if one != self.production))
        require(
            sorted(self.led) == sorted(first)
            and self.certified <= frozenset(self.led)
            and float(self.deposits.sum()) <= 1
            and not self.deposits[[i for i in range(n_policies) if i not in self.led]].any()
            and len(self.entered) <= len(n_rounds)
            and all(before <= now for before, now in zip(self.entered, n_rounds, strict=False)),
            "accounts must be those of policies that have led.",
        )
        for seen in self.seen:
            require(
                np.array_equal(seen.columns, self.epochs[-1].candidates)
                and all(a <= b for a, b in pairwise(seen.events.ids.tolist())),
                "values that are kept must be those of its rounds.",
            )


class Lifts:
    """How much more than production those who have led collect: an interval at any time for each, from its first epoch
    on.

    For D = X(ℓ) − X(p) of a round, of mean v, the products of (1 + λD)/(1 + λv) and (1 − λD)/(1 − λv) are martingales
    from 1; of the i-th that led, what refutes v by 2i(i + 1)/δ or more is outside its interval. So all intervals hold
    at all times with probability 1 − Σ_i δ/(i(i + 1)) = 1 − δ. That one leads is part of the past of its epochs.

    As a share of V(p): where V(ℓ) = s·V(p), X(ℓ) − sX(p) has mean 0, and for stakes that were fixed beforehand the
    products of 1 ± λ(X(ℓ) − sX(p)) over all rounds are martingales from 1. One falls and the other rises as s does, so
    what is refuted is an interval's outside; all of it is computed from the events that are kept. Stakes are no larger
    than bounds allow at the largest s that is looked at.

    Parameters
    ----------
    rail:
        Of the reward, without a margin.
    n_policies, production:
        P, and production's number.
    epochs:
        The epochs so far; the list grows.
    """

    def __init__(self, rail: Rail, n_policies: int, production: int, epochs: Sequence[Epoch]) -> None:
        self.rail, self.production, self.epochs = rail, production, epochs
        self.below, self.above = np.zeros((n_policies, _BETS)), np.zeros((n_policies, _BETS))  # Σ log(1 ± λD)

    def grown(self, arrivals: int) -> Lifts:
        """With so many policies more."""
        more = Lifts(self.rail, 0, self.production, self.epochs)
        more.below, more.above = grown(self.below, arrivals), grown(self.above, arrivals)
        return more

    def led(self) -> list[int]:
        """Who has led, production aside, in order."""
        return list(dict.fromkeys(epoch.leader for epoch in self.epochs if epoch.leader != self.production))

    def add(self, k: int, block: Block) -> None:
        """Enter rounds of epoch k."""
        epoch = self.epochs[k]
        which = np.flatnonzero((epoch.rails[0].harm.levels < len(STAKES) - 1).any(axis=1))
        if len(which) == 0 or not block.eventful:
            return
        # Only those that have led, and production: few columns.
        place = epoch.rails[0].harm.leader
        columns = np.append(which, place)
        inside = block.inside[:, columns]
        for total, bets, safety in ((self.above, epoch.rails[0].harm, False), (self.below, epoch.rails[0].safe, True)):
            few = Bets(len(which), bets.levels[columns], bets.bound, bets.unit)
            part = total[epoch.candidates[columns]]
            self.rail.enter(part, few, inside, block.rows, block.weights, uncovered=block.places, safety=safety)
            total[epoch.candidates[which]] = part[:-1]

    def interval(self, one: int, n_rounds: Sequence[int], delta: float) -> tuple[float, float]:
        """For V(one) − V(p), with the probability of all such intervals together; all that is possible of one that has
        not led.
        """
        most = self.rail.most
        if one == self.production:
            return 0.0, 0.0
        if one not in self.led():
            return -most, most
        below, above = self._refuting(one, n_rounds, delta)
        low, _ = bisect(lambda v: np.array(not below(float(v))), -most, most)
        _, high = bisect(lambda v: np.array(above(float(v))), -most, most)
        return float(low), float(high)

    def holds(self, one: int, lift: float, n_rounds: Sequence[int], delta: float) -> bool:
        """Whether a lift of one that has led is within its interval."""
        return not any(refutes(lift) for refutes in self._refuting(one, n_rounds, delta))

    def relative(
        self,
        one: int,
        seen: EventStore,
        n_rounds: Sequence[int],
        n_uncovered: Sequence[int],
        railing: Railing,
        delta: float,
    ) -> tuple[float, float] | None:
        """For V(one)/V(p) − 1, with a δ of its own; None where it may be as large as is looked at, or where events of
        its epochs are not kept.
        """
        if one == self.production:
            return 0.0, 0.0
        led = self.led()
        which = np.searchsorted(seen.columns, [one, self.production])
        if one not in led or seen.columns.take(which, mode="clip").tolist() != [one, self.production]:
            return None
        begun = next(k for k, epoch in enumerate(self.epochs) if epoch.leader == one)
        if int(seen.since[which].max()) > begun:
            return None
        events, place = seen.events, np.arange(seen.events.n_rewarded)
        weights = events.rewards / events.propensities
        mine, its = (np.bincount(events.rows, weights * seen.rows.column(int(j)), minlength=len(place)) for j in which)
        most, stakes = self.rail.most, np.zeros((2, len(self.epochs), _BETS))
        unkept = np.zeros(len(self.epochs))
        for k, epoch in enumerate(self.epochs[: len(n_rounds)]):
            if k < begun or not epoch.rails:
                continue
            floors, unkept[k] = railing.floors(epoch.explorer, epoch.leader), n_uncovered[k]
            rails = replace(self.rail, share=_LARGEST_SHARE), replace(self.rail, share=0.0)
            bets = epoch.rails[0].safe, epoch.rails[0].harm
            for way, (rail, staked) in enumerate(zip(rails, bets, strict=True)):
                bound = rail.bound(floors, safety=way == 0)
                stakes[way, k] = np.minimum(stakes_of(epoch, staked, np.array([one]))[0], SAFETY / bound)
        of_rounds = stakes[:, events.epochs]
        i = led.index(one) + 1
        threshold = float(np.log(2 * i * (i + 1) / delta))

        def refuted(s: float, way: int) -> bool:
            """Whether s is too small (0) or too large (1)."""
            sign = 1.0 if way == 0 else -1.0
            worst = s * most if way == 0 else most
            sums = np.log1p(sign * of_rounds[way] * (mine - s * its)[:, None]).sum(axis=0)
            sums += unkept @ np.log1p(-np.minimum(stakes[way] * worst, SAFETY))
            return float(log_mean_exp(sums)) >= threshold

        if not refuted(_LARGEST_SHARE, 1):
            return None
        low, _ = bisect(lambda s: np.array(not refuted(float(s), 0)), 0.0, _LARGEST_SHARE)
        _, high = bisect(lambda s: np.array(refuted(float(s), 1)), 0.0, _LARGEST_SHARE)
        return float(low) - 1, float(high) - 1

    def _refuting(
        self, one: int, n_rounds: Sequence[int], delta: float
    ) -> tuple[Callable[[float], bool], Callable[[float], bool]]:
        """Whether a number is refuted for being too small, or too large."""
        i = self.led().index(one) + 1
        threshold = float(np.log(2 * i * (i + 1) / delta))
        which, nothing = np.array([one]), np.zeros(_BETS)
        counts, stakes = [0], [(nothing, nothing)]
        for epoch, n in zip(self.epochs, n_rounds, strict=False):
            if n and epoch.rails:
                lift = epoch.rails[0]
                stakes.append((stakes_of(epoch, lift.safe, which)[0], stakes_of(epoch, lift.harm, which)[0]))
                counts.append(n)
        rounds, (up, down) = np.array(counts, dtype=np.float64), np.array(stakes).transpose(1, 0, 2)

        def below(v: float) -> bool:
            return float(log_mean_exp(self.below[one] - rounds @ np.log1p(up * v))) >= threshold

        def above(v: float) -> bool:
            return float(log_mean_exp(self.above[one] - rounds @ np.log1p(-down * v))) >= threshold

        return below, above

    SCHEMA: ClassVar = {"below": Array("f8", ("P", _BETS)), "above": Array("f8", ("P", _BETS))}

    def state(self) -> State:
        """The sums, for a file; see `comband.page.storage`."""
        return state_of(self, self.SCHEMA)

    def restore(self, state: State) -> None:
        """The inverse of `state`, checked."""
        check(state, self.SCHEMA, P=len(self.below))
        put_into(self, self.SCHEMA, state)


def stakes_of(epoch: Epoch, bets: Bets, which: NDArray[np.int64]) -> Floats:
    """λ (n, 3) of the bets on some policies; nothing where they were no candidates."""
    place = np.searchsorted(epoch.candidates, which)
    there = epoch.candidates.take(place, mode="clip") == which
    levels = np.where(there[:, None], bets.levels.take(place, axis=0, mode="clip"), len(STAKES) - 1)
    return np.asarray(bets.grid[levels])
