"""What rounds say about the candidates: a statistic that adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.blocks import Block
from comband.certify.breaker import Breaker
from comband.certify.epochs import Epoch
from comband.certify.event_store import EventStore, Propensities
from comband.certify.guardrails import Guardrails, Lifts
from comband.page.problem import InputError, Problem
from comband.page.rounds import Events, events_of_rounds
from comband.page.storage import Array, Column, Default, Maybe, Part, State, Whole, check, put_into, require, state_of
from comband.policies.reading import reading_of
from comband.statistics.betting import OFFSETS, STAKES, credits_at, enter_bets
from comband.statistics.grids import grown, log_mean_exp
from comband.statistics.sequences import ValueBets
from comband.statistics.totals import TotalValueBets

_credits = lru_cache(maxsize=64)(credits_at)
_NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class Evidence:
    """Log-wealths against each candidate's being the best, bets on values, and the events they come from.

    Rounds are added one after the other, in the order of decisions: what is known after the first n of them is the same
    to the last bit, whichever of them came in together.

    `a + b` has seen the rounds of both: exactly, up to the rounding of sums, if the epochs are the same ones (explorers
    and bets fixed before either saw a round) and no round is in both. Parts that different processes
    gathered must be merged up to one decision, with none left out before it: which rounds are in must not depend on
    their rewards.

    Parameters
    ----------
    problem:
        The setting.
    n_policies:
        P.
    epochs:
        The epochs so far; the list grows.
    per_reward:
        How many events each reward has: the pairs of an item with all places, where places are examined by factors.
    guardrails, lifts, breaker:
        What is known of further metrics, of the lift over production, and of harm to visitors; None where that is not
        asked.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> _ = cb.run(learner, shop, batch_size=500)
    >>> learner.evidence.rounds == learner.rounds
    True
    >>> leader = learner.verdict.leader
    >>> learner.evidence.claim(leader, learner.verdict.rivals(leader), np.log(1 / 0.05)) <= 0.2
    True
    """

    def __init__(
        self,
        problem: Problem,
        n_policies: int,
        epochs: Sequence[Epoch],
        *,
        per_reward: int = 1,
        guardrails: Guardrails | None = None,
        lifts: Lifts | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.breaker = breaker
        self.problem, self.epochs, self.per_reward = problem, epochs, per_reward
        self.guardrails, self.lifts = guardrails, lifts
        self.unit = stake_unit(problem)
        self.log_wealth = np.zeros((n_policies, len(OFFSETS)))
        # By leader, of all epochs but the open one; those of withdrawn leaders, and of leaders that are not known to be
        # safe, count where they are below 0.
        self.of_leaders: dict[int, NDArray[np.float64]] = {}
        self.withdrawn: frozenset[int] = frozenset()
        self.doubted: frozenset[int] = frozenset()
        self.claimed = -1  # the one whose claims log-wealths are for, where there are guardrails
        self.open = 0
        self.since = 0  # the first epoch that counts; of older ones only the rounds are known
        self.n_first = n_policies  # how many of them were there at the start
        self.values = self._no_values()
        self.seen = EventStore(n_policies)
        self.n_rounds: list[int] = []  # of each epoch
        self.n_uncovered: list[int] = []
        self.rewards: list[float] = []

    def _no_values(self) -> ValueBets | TotalValueBets:
        n_policies, unit = len(self.log_wealth), self.unit
        values = (
            TotalValueBets.zero(n_policies, self.problem, unit=unit)
            if reading_of(self.problem).TOTAL
            else ValueBets.zero(n_policies, unit=unit)
        )
        values.n_first = self.n_first
        return values

    @property
    def reward(self) -> float:
        """All rewards seen."""
        return sum(self.rewards)

    def earned_while(self, candidate: int) -> float:
        """The rewards of the rounds in which this was a candidate, of those that count."""
        epochs = range(self.since, len(self.rewards))
        return sum(self.rewards[k] for k in epochs if candidate in self.epochs[k].candidates)

    @property
    def rounds(self) -> int:
        """How many rounds are in."""
        return sum(self.n_rounds)

    @property
    def counted(self) -> int:
        """How many rounds count: those of epochs since the last `restart`."""
        return sum(self.n_rounds[self.since :])

    def rounds_of(self, k: int) -> int:
        """How many rounds of epoch k are in."""
        return self.n_rounds[k] if k < len(self.n_rounds) else 0

    def blocks(
        self,
        first_id: int,
        epochs: NDArray[np.int64],
        covered: NDArray[np.bool_],
        events: Events,
        further: Sequence[Events] = (),
    ) -> list[Block]:
        """What rounds say, a block for as long as the epoch is the same: `epochs` and `covered` (n,) are those of their
        decisions, from `first_id` on, and `events`, and `further` ones of each metric, are in the same order. The
        candidates are asked where rewards were seen, and nothing is changed.
        """
        if further:
            main, *others = (self.blocks(first_id, epochs, covered, one) for one in (events, *further))
            return [replace(block, further=tuple(more)) for block, *more in zip(main, *others, strict=True)]
        single = epochs[0] == epochs[-1] and not (epochs != epochs[0]).any()
        if single:
            return [self._block(int(epochs[0]), first_id, covered, events)]
        ends = np.concatenate([[0], 1 + np.flatnonzero(np.diff(epochs)), [len(epochs)]])
        rewarded = np.searchsorted(events.ids, first_id + ends)
        blocks = []
        for i, (start, stop) in enumerate(pairwise(ends.tolist())):
            mine = events_of_rounds(events, np.arange(rewarded[i], rewarded[i + 1]))[0]
            blocks.append(self._block(int(epochs[start]), first_id + start, covered[start:stop], mine))
        return blocks

    def _block(self, k: int, first_id: int, covered: NDArray[np.bool_], events: Events) -> Block:
        """What successive rounds of epoch k say."""
        n, uncovered = len(covered), _NONE if covered.all() else first_id + np.flatnonzero(~covered)
        epoch, rows, kept = self.epochs[k], events.rows, None
        inside: NDArray[np.bool_] | NDArray[np.float64] = np.empty((0, len(epoch.candidates)), dtype=np.bool_)
        weights = np.empty(0)
        if len(events):
            chosen = np.flatnonzero(events.covered[rows])
            inside, divisors = epoch.explorer.inside(events, chosen), epoch.explorer.divisors(events, chosen)
            if inside.dtype != np.bool_:  # numbers: one event of a round stands for all
                one = inside.any(axis=1)
                chosen, inside, divisors = chosen[one], inside[one], divisors[one]
            rows, weights = rows[chosen], events.rewards[chosen] / divisors
            kept = _events_to_keep(events, chosen, divisors)
        return Block(k, first_id, n, uncovered, events.ids, events.rewards, rows, inside, weights, kept)

    def add(self, block: Block) -> None:
        """Enter the rounds of one epoch."""
        if self.guardrails is not None and self.rounds_of(block.epoch) == 0 and block.n_rounds:
            self.guardrails.begin(block.epoch, self.n_rounds)
        while len(self.n_rounds) <= block.epoch:
            self.n_rounds.append(0)
            self.n_uncovered.append(0)
            self.rewards.append(0.0)
        self.n_rounds[block.epoch] += block.n_rounds
        self.n_uncovered[block.epoch] += len(block.uncovered)
        for reward in block.rewards.tolist():
            self.rewards[block.epoch] += reward
        if block.epoch < self.since:
            return
        if block.eventful:
            if block.epoch == self.open:
                self._enter(block, self.log_wealth)
            else:
                self._add_to_leader(self.epochs[block.epoch].leader, block)
        if self.guardrails is not None:
            self.guardrails.add(block.epoch, block.further)
        if self.lifts is not None:
            self.lifts.add(block.epoch, block)
        if self.breaker is not None:
            self.breaker.add(self.epochs[block.epoch], block)
        _add_values(self.values, self.epochs[block.epoch], block, self.problem.max_reward)
        if block.kept is not None:
            self.seen.add(block.kept, block.inside, self.epochs[block.epoch].candidates)

    def _enter(self, block: Block, log_wealth: NDArray[np.float64]) -> None:
        """Add what its rounds say to log-wealths (P, J), in place."""
        epoch = self.epochs[block.epoch]
        all_of_them = len(epoch.candidates) == len(log_wealth)  # then adding in place is several times faster
        part = log_wealth if all_of_them else log_wealth[epoch.candidates]
        said = (block.inside, block.rows, block.weights)
        enter_bets(part, epoch.bets, *said, uncovered=block.places, max_reward=self.problem.max_reward)
        if not all_of_them:
            log_wealth[epoch.candidates] = part

    def _add_to_leader(self, leader: int, block: Block) -> None:
        part = self.of_leaders.get(leader)
        if part is None:
            part = self.of_leaders[leader] = np.zeros_like(self.log_wealth)
        if leader not in self.discounted:
            self._enter(block, part)
            self._enter(block, self.log_wealth)
            return
        for one in block.one_by_one():
            before = np.minimum(part, 0.0)
            self._enter(one, part)
            self.log_wealth += np.minimum(part, 0.0) - before

    def end_epoch(self) -> None:
        """The open epoch is over, and the next one that begins is open."""
        self.of_leaders, self.open = self._by_leaders(), len(self.epochs)

    def _by_leaders(self) -> dict[int, NDArray[np.float64]]:
        """By leader, of all epochs."""
        rest = self.log_wealth.copy()
        for leader, part in sorted(self.of_leaders.items()):  # in one order, for sums must not depend on it
            rest -= np.minimum(part, 0.0) if leader in self.discounted else part
        if self.open >= len(self.epochs):
            return self.of_leaders
        leader = self.epochs[self.open].leader
        return {**self.of_leaders, leader: self.of_leaders[leader] + rest if leader in self.of_leaders else rest}

    @property
    def discounted(self) -> frozenset[int]:
        """The leaders whose epochs count where they speak for a rival."""
        return self.withdrawn | self.doubted

    def regard(self, claimed: int) -> None:
        """Log-wealths are for claims about this leader: of all others, those that are known to be safe count in full.
        Arrays are replaced.
        """
        if self.guardrails is None:
            return
        of_leaders = self._by_leaders()
        self.claimed, self.doubted = claimed, frozenset(of_leaders) - self.guardrails.trusted - {claimed}
        self.log_wealth = self._for_claims(claimed, of_leaders)

    def _for_claims(self, claimed: int, of_leaders: dict[int, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Log-wealths (P, J) as far as they count for claims about one policy."""
        trusted = frozenset({claimed}) if self.guardrails is None else self.guardrails.trusted | {claimed}
        total = np.zeros_like(self.log_wealth)
        for leader, part in sorted(of_leaders.items()):
            total += part if leader in trusted - self.withdrawn else np.minimum(part, 0.0)
        return total

    def admit(self, candidates: NDArray[np.int64]) -> None:
        """Those who are candidates of the epoch that is to begin have a column in what is kept of rounds."""
        for seen in (self.seen, *(() if self.guardrails is None else self.guardrails.seen)):
            seen.admit(candidates, len(self.epochs))

    def forget(self, alive: NDArray[np.bool_]) -> None:
        """Those who are not `alive` (P,) have none."""
        for seen in (self.seen, *(() if self.guardrails is None else self.guardrails.seen)):
            seen.forget(alive)

    def restart(self) -> None:
        """What rounds so far have said counts no longer, nor what late ones of these epochs say; between two epochs.
        Arrays are replaced.
        """
        self.since = self.open = len(self.epochs)
        self.log_wealth, self.of_leaders = np.zeros_like(self.log_wealth), {}
        self.values, self.seen = self._no_values(), EventStore(0)

    def change(self, arrivals: int, withdrawn: Sequence[int]) -> None:
        """Newcomers, of which nothing is known, and who is withdrawn; between two epochs. Arrays are replaced."""
        if arrivals:
            self.log_wealth = grown(self.log_wealth, arrivals)
            self.of_leaders = {leader: grown(part, arrivals) for leader, part in self.of_leaders.items()}
            self.values = self.values.grown(arrivals)
            self.lifts = None if self.lifts is None else self.lifts.grown(arrivals)
        for leader in withdrawn:
            if leader in self.of_leaders:
                self.log_wealth = self.log_wealth - np.maximum(self.of_leaders[leader], 0.0)
        self.withdrawn = self.withdrawn | frozenset(withdrawn)

    def __add__(self, other: Evidence) -> Evidence:
        if self.guardrails is not None or other.guardrails is not None:
            raise InputError(
                "evidence with further metrics does not add: what is known of them follows the lead round by round."
            )
        same = self.problem == other.problem and self.withdrawn == other.withdrawn and self.since == other.since
        if not same or not _same_epochs(self.epochs, other.epochs):
            raise InputError("evidence to add must be of one problem and of the same epochs, and of one field.")
        longer = max(self.epochs, other.epochs, key=len)
        total = Evidence(self.problem, len(self.log_wealth), longer, per_reward=self.per_reward)
        total.log_wealth = self.log_wealth + other.log_wealth
        total.withdrawn, total.n_first, total.open = self.withdrawn, self.n_first, len(longer)
        total.since = self.since
        mine, theirs = self._by_leaders(), other._by_leaders()
        for leader in sorted(mine.keys() | theirs.keys()):
            parts = [part[leader] for part in (mine, theirs) if leader in part]
            total.of_leaders[leader] = parts[0] + parts[1] if len(parts) > 1 else parts[0].copy()
            if leader in self.withdrawn and len(parts) > 1:
                least = [np.minimum(part, 0.0) for part in (total.of_leaders[leader], *parts)]
                total.log_wealth += least[0] - least[1] - least[2]
        total.values = self.values + other.values  # type: ignore[operator]  # of one problem, so of one kind
        total.seen = self.seen + other.seen
        counts = np.zeros((2, 2, max(len(self.n_rounds), len(other.n_rounds))), dtype=np.int64)
        for i, part in enumerate((self, other)):
            counts[i, :, : len(part.n_rounds)] = part.n_rounds, part.n_uncovered
        total.n_rounds, total.n_uncovered = counts.sum(axis=0).tolist()
        if self.breaker is not None and other.breaker is not None:
            total.breaker = self.breaker + other.breaker
        total.rewards = [sum(both) for both in zip_longest(self.rewards, other.rewards, fillvalue=0.0)]
        return total

    def against(
        self, leader: int, mu: float, rivals: NDArray[np.int64], log_wealth: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Log-evidence against "π exceeds the leader by more than μ", for each rival that is left; from their
        log-wealths, or from others.
        """
        if log_wealth is not None:
            total = log_wealth.copy()
        elif self.guardrails is not None and leader != self.claimed:
            total = self._for_claims(leader, self._by_leaders())[rivals]
        else:
            total = self.log_wealth[rivals]
        table = _credits(mu / self.unit)
        for epoch, n_rounds in zip(self.epochs[self.since :], self.n_rounds[self.since :], strict=False):
            if epoch.leader == leader and n_rounds:
                total += n_rounds * table[levels_of(epoch, rivals)]
        return self._combined(log_mean_exp(total), rivals) if len(rivals) else np.empty(0)

    def _combined(self, against: NDArray[np.float64], which: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log-evidence against some policies' being the best, with what there is against their being safe."""
        return against if self.guardrails is None else self.guardrails.combined(against, which, self.n_rounds)

    def against_being_best(
        self, alive: NDArray[np.bool_], threshold: float | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Log-evidence against "π is the best", (P,), for those alive that it may get to the threshold; −inf for
        all others.
        """
        against = np.full(len(alive), -np.inf)
        if self.guardrails is not None:
            all_of_them = np.flatnonzero(alive)
            against[all_of_them] = self._combined(log_mean_exp(self.log_wealth[all_of_them]), all_of_them)
            return against
        # An average is no larger than the largest.
        near = np.flatnonzero(alive & (self.log_wealth >= np.reshape(threshold, (-1, 1))).any(axis=1))
        against[near] = log_mean_exp(self.log_wealth[near])
        return against

    def claim(self, leader: int, rivals: NDArray[np.int64], threshold: float | NDArray[np.float64]) -> float:
        """The smallest μ, to one per cent above, at which the log-evidence against every rival reaches the threshold,
        of each or of all.
        """
        enough = np.broadcast_to(threshold, rivals.shape)
        low, high = 0.0, self.problem.max_reward
        if len(rivals) == 0 or (self.against(leader, 0.0, rivals) >= enough).all():
            return 0.0
        while high - low > 1e-2 * high:
            middle = (low * high) ** 0.5 if low > 0 else high / 4
            open_ = self.against(leader, middle, rivals) < enough
            if open_.any():
                low, rivals, enough = middle, rivals[open_], enough[open_]
            else:
                high = middle
            if high < 1e-6 * self.problem.max_reward:
                break
        return high

    def claims(self, leader: int, rivals: NDArray[np.int64], enough: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each rival the smallest μ, to one per cent above, at which the log-evidence against it is enough; at
        most ρ.
        """
        found = np.zeros(len(rivals))
        smallest = 1e-6 * self.problem.max_reward
        open_ranges = [(0.0, self.problem.max_reward, np.flatnonzero(self.against(leader, 0.0, rivals) < enough))]
        while open_ranges:
            low, high, which = open_ranges.pop()
            if len(which) == 0 or high - low <= 1e-2 * high or high < smallest:
                found[which] = high
                continue
            middle = (low * high) ** 0.5 if low > 0 else high / 4
            reached = self.against(leader, middle, rivals[which]) >= enough[which]
            open_ranges += [(low, middle, which[reached]), (middle, high, which[~reached])]
        return found

    def uneventful_rounds(self, leader: int, rival: int, epsilon: float, threshold: float) -> float:
        """How many rounds without reward it takes at least until the rival is certified at ε.

        What its wealth lacks, the credit of uneventful rounds must bring; a mean is no larger than its largest part, so
        the stake that would get there first says how many of them that takes at least.
        """
        i = np.array([rival])
        table = _credits(epsilon / self.unit)
        if self.guardrails is not None:  # what harm says only falls in such rounds
            harm = float(self.guardrails.harmful(i, self.n_rounds)[0])
            lacking = threshold + np.log1p(-np.exp(min(harm - threshold, -1e-12)))
            threshold = float(lacking - self.guardrails.weights[0])
        missing, credit = threshold - self.log_wealth[i], np.zeros((1, len(OFFSETS)))
        for k, epoch in enumerate(self.epochs):
            if epoch.leader == leader and k >= self.since:
                of_epoch = table[levels_of(epoch, i)]
                missing, credit = missing - self.rounds_of(k) * of_epoch, np.maximum(credit, of_epoch)
        rounds = np.divide(missing, credit, out=np.full(missing.shape, np.inf), where=credit > 0)
        return max(float(rounds.min()), 0.0)

    def scores(self, alive: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Estimated values up to a common shift (P,); −inf for those not `alive`."""
        scores = np.full(len(alive), -np.inf)
        candidates = np.flatnonzero(alive)
        scores[candidates] = self.seen.scores(candidates, self._all_rounds(), unit=self.unit)
        return scores

    def estimates(self, candidates: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Estimated values up to a common shift, and the variances of these estimates less their mean, of some that
        are left.
        """
        n_rounds, seen = self._all_rounds(), self.seen
        return (
            seen.scores(candidates, n_rounds, unit=self.unit),
            seen.score_variances(candidates, n_rounds, unit=self.unit, per_reward=self.per_reward),
        )

    def value_error(self, candidate: int) -> float:
        """The standard error of a candidate's estimated value, from the rounds in which it was one."""
        return self.seen.value_error(candidate, self._all_rounds(), int(self.values.n_rounds[candidate]))

    def _all_rounds(self) -> NDArray[np.int64]:
        """How many rounds of each epoch are in."""
        n_rounds = np.zeros(len(self.epochs), dtype=np.int64)
        n_rounds[: len(self.n_rounds)] = self.n_rounds
        return n_rounds

    def second_moments(self, leader: int, bound: float, propensities: Propensities) -> NDArray[np.float64]:
        """E D² of each candidate that is left against the one at `leader`, had rounds been drawn with the given
        propensities; see `EventStore.second_moments`.
        """
        least = bound * self.problem.max_reward
        return self.seen.second_moments(
            leader, propensities, n_rounds=self.rounds, of_an_event=least, per_reward=self.per_reward
        )

    _NUMBERS: ClassVar = {
        "log_wealth": Array("f8", ("P", len(OFFSETS))),
        "open": Whole(0),
        "since": Whole(0),
        "n_rounds": Column("i8", ("epochs",), 0),
        "n_uncovered": Column("i8", ("epochs",), 0),
        "rewards": Column("f8", ("epochs",), 0),
    }
    SCHEMA: ClassVar = {
        **_NUMBERS,
        "leaders": Array("i8", ("L",), 0, "P-1", rising=True),
        "of_leaders": Array("f8", ("L", "P", len(OFFSETS))),
        "values": Part(),
        "seen": EventStore.SCHEMA,
        "claimed": Default(Whole(-1), lambda sizes: -1),
        "guardrails": Default(Maybe(Guardrails.SCHEMA)),
        "lifts": Default(Maybe(Lifts.SCHEMA)),
        "breaker": Default(Maybe(Breaker.SCHEMA)),
    }

    def state(self) -> State:
        """All but the epochs by name, for a file; see `comband.page.storage`."""
        leaders = sorted(self.of_leaders)
        against = np.array([self.of_leaders[one] for one in leaders], dtype=np.float64)
        return {
            **state_of(self, self._NUMBERS),
            "leaders": np.array(leaders, dtype=np.int64),
            "of_leaders": against.reshape(-1, *self.log_wealth.shape),
            "values": self.values.state(),
            "seen": self.seen.state(),
            **({} if self.guardrails is None else {"claimed": self.claimed, "guardrails": self.guardrails.state()}),
            **({} if self.lifts is None else {"lifts": self.lifts.state()}),
            **({} if self.breaker is None else {"breaker": self.breaker.state()}),
        }

    @classmethod
    def from_state(
        cls,
        state: State,
        problem: Problem,
        n_policies: int,
        epochs: Sequence[Epoch],
        *,
        per_reward: int = 1,
        n_first: int,
        withdrawn: frozenset[int],
        guardrails: Guardrails | None = None,
        lifts: Lifts | None = None,
        breaker: Breaker | None = None,
    ) -> Evidence:
        """The inverse of `state`, of which `comband.certify.validate` checks the rest."""
        check(state, cls.SCHEMA, P=n_policies)
        evidence = cls(
            problem, n_policies, epochs, per_reward=per_reward, guardrails=guardrails, lifts=lifts, breaker=breaker
        )
        put_into(evidence, cls._NUMBERS, state)
        evidence.of_leaders = dict(zip(state["leaders"].tolist(), state["of_leaders"], strict=True))
        evidence.n_first, evidence.withdrawn = n_first, withdrawn
        require(
            (guardrails is None) == (state["guardrails"] is None)
            and (guardrails is None or state["claimed"] == epochs[-1].leader),
            "what is known of further metrics must be there if there are any, and only then.",
        )
        if guardrails is not None:
            guardrails.restore(state["guardrails"], evidence.n_rounds)
            evidence.claimed = state["claimed"]
            others = frozenset(evidence.of_leaders) | {epochs[k].leader for k in range(evidence.open, len(epochs))}
            evidence.doubted = others - guardrails.trusted - {evidence.claimed}
        if lifts is not None and state["lifts"] is not None:
            lifts.restore(state["lifts"])
        require((breaker is None) == (state["breaker"] is None), "a breaker must be there if max_harm is.")
        if breaker is not None:
            breaker.restore(state["breaker"], evidence.n_rounds)
        evidence.values = (
            TotalValueBets.from_state(state["values"], n_policies, problem, unit=evidence.unit)
            if reading_of(problem).TOTAL
            else ValueBets.from_state(state["values"], n_policies, unit=evidence.unit)
        )
        evidence.values.n_first = n_first
        evidence.seen = EventStore.from_state(state["seen"], n_policies)
        require(
            evidence.since <= evidence.open < len(epochs)
            and {epoch.leader for epoch in epochs} >= evidence.of_leaders.keys()
            and len(evidence.n_rounds) <= len(epochs)
            and bool((state["n_uncovered"] <= state["n_rounds"]).all()),
            "rounds must be those of its epochs.",
        )
        return evidence


def levels_of(epoch: Epoch, which: NDArray[np.int64]) -> NDArray[np.int64]:
    """The levels of the bets on some policies; of nothing where they were no candidates."""
    place = np.searchsorted(epoch.candidates, which)
    there = epoch.candidates.take(place, mode="clip") == which
    if there.all():
        return epoch.bets.levels[place]
    return np.where(there[:, None], epoch.bets.levels.take(place, axis=0, mode="clip"), len(STAKES) - 1)


def stake_unit(problem: Problem) -> float:
    """What stakes are counted in: a problem with all rewards rescaled is the same problem."""
    return min(1.0, problem.max_reward)


def _add_values(values: ValueBets | TotalValueBets, epoch: Epoch, block: Block, max_reward: float) -> None:
    """Enter a block into the bets on values."""
    cells, bound = (epoch.candidates, block.inside, block.rows, block.weights), epoch.value_bound
    n, uncovered = block.n_rounds, block.places
    if isinstance(values, TotalValueBets):
        smallest = getattr(epoch.explorer, "smallest_list", None)
        list_bound = None if smallest is None else max_reward / smallest
        values.add(*cells, bound=bound, list_bound=list_bound, n_rounds=n, uncovered=uncovered)
    else:
        values.add(*cells, bound=bound, max_reward=max_reward, n_rounds=n, uncovered=uncovered)


def _events_to_keep(events: Events, chosen: NDArray[np.int64], divisors: NDArray[np.float64]) -> Events | None:
    """The events that later designs need."""
    if len(chosen) == 0:
        return None
    if len(chosen) < len(events):
        needed, rows = np.unique(events.rows[chosen], return_inverse=True)
        events = events.taken(needed, rows, chosen)
    return events.with_propensities(divisors)


def _same_epochs(one: Sequence[Epoch], other: Sequence[Epoch]) -> bool:
    """Whether the shorter one is how the longer one began."""
    return all(
        a is b
        or (
            a.leader == b.leader
            and (a.bets.bound, a.value_bound) == (b.bets.bound, b.value_bound)
            and np.array_equal(a.candidates, b.candidates)
            and np.array_equal(a.bets.levels, b.bets.levels)
        )
        for a, b in zip(one, other, strict=False)
    )
