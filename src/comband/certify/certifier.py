"""What the evidence amounts to: which candidates are out, and what is certified of which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.evidence import Evidence
from comband.certify.field import Field
from comband.certify.stretches import share_of_stretch
from comband.certify.validate import largest_possible, may_be_safe
from comband.page.storage import Array, Held, Maybe, Real, Record, State, Whole, check, put_into, require, state_of
from comband.statistics.grids import log_mean_exp
from comband.statistics.guardrails import MAIN_SHARE
from comband.statistics.results import Dropped


@dataclass(frozen=True, slots=True)
class Certified(Record):
    """No candidate exceeds the leader by more than epsilon."""

    leader: int
    epsilon: float

    SCHEMA: ClassVar = {"leader": Whole(0, "P-1"), "epsilon": Real(0)}


class Certifier:
    """Drops candidates and certifies the leader as soon as the evidence reaches 1/δ, or what a field that changes asks.

    All claims, of all leaders and at all times, hold on one event of probability 1 − δ; see
    `comband.statistics.betting`, and `comband.certify.field` for candidates that come and go. Where evidence
    may begin anew (`restarts`), that is so over all stretches together: the current one, number `stretch`, has its
    share of `field.delta`, which is `delta`; see `comband.certify.stretches`.

    A certificate may be looked for at any time (`look`), and one that was seen stays. Who is dropped has a say
    in what is shown next: that is judged (`judge`) at moments that do not depend on how answers were told.

    Parameters
    ----------
    evidence:
        What it judges by.
    names:
        (P,) of the candidates.
    epsilon, field:
        The promise, with its δ, and the candidates it is about.
    kept:
        Who is not dropped, whatever the evidence, because visitors go on seeing it; None: all can be.
    restarts:
        Whether evidence may begin anew.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=3)
    >>> _ = cb.run(learner, shop, batch_size=500)
    >>> learner.verdict.leader in learner.verdict.candidates, len(learner.verdict.candidates) <= 4
    (True, True)
    """

    def __init__(
        self,
        evidence: Evidence,
        names: tuple[str, ...],
        *,
        epsilon: float,
        field: Field,
        kept: int | None = None,
        restarts: bool = False,
    ) -> None:
        self.evidence, self.names, self.epsilon, self.field, self.kept = evidence, names, epsilon, field, kept
        self.restarts = restarts
        self.stretch = 1
        self.alive = field.present
        self._thresholds: float | NDArray[np.float64] = self._levels_at(np.zeros(len(names)))
        self.dropped: list[Dropped] = []
        self.certified: Certified | None = None  # once and for all
        self.best_before: Certified | None = None  # of the epochs that are over
        self._slowest = -1
        self._nothing_until = 0.0  # rounds; see `may_be_certified`
        self._moved = True  # whether log-wealths may be others than when it was last judged

    def on(self, evidence: Evidence, field: Field) -> Certifier:
        """One of the same promise on other evidence, of which nothing is judged yet."""
        return Certifier(
            evidence, self.names, epsilon=self.epsilon, field=field, kept=self.kept, restarts=self.restarts
        )

    @property
    def threshold(self) -> float:
        """The log-evidence that suffices against all; against which less does, `enough` says."""
        return float(np.max(self._thresholds))

    def enough(self, which: NDArray[np.int64]) -> NDArray[np.float64]:
        """The log-evidence that suffices against some policies."""
        thresholds = self._thresholds
        return np.full(len(which), thresholds) if isinstance(thresholds, float) else thresholds[which]

    @property
    def share(self) -> float:
        """How much of δ the current stretch may spend."""
        return share_of_stretch(self.stretch) if self.restarts else 1.0

    @property
    def delta(self) -> float:
        """The probability allowed for a wrong claim in the current stretch; `field.delta` is that of all of them."""
        return self.field.delta * self.share

    def _levels_at(self, against: NDArray[np.float64]) -> float | NDArray[np.float64]:
        """The log-evidence that suffices, when so much (P,) speaks against being the best."""
        share = self.share if self.evidence.guardrails is None else self.share * MAIN_SHARE
        return self.field.thresholds(against, share=share)

    # ---- further metrics ---------------------------------------------------------------------------------------------

    @property
    def safe_at(self) -> float:
        """The log-evidence that suffices for being declared safe."""
        return float(np.log(1 / (self.delta * (1 - MAIN_SHARE))))

    def is_safe(self, one: int) -> bool:
        """Whether a policy is certified not to be worse than production by any metric; true where there are none."""
        guardrails = self.evidence.guardrails
        return guardrails is None or guardrails.is_safe(one, self.evidence.n_rounds, self.safe_at)

    def harms(self, which: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some policies are proven to harm."""
        guardrails = self.evidence.guardrails
        if guardrails is None:
            return np.zeros(len(which), dtype=np.bool_)
        found = guardrails.harmful(which, self.evidence.n_rounds) >= self.enough(which)
        return np.asarray(found & (which != guardrails.production))

    @property
    def leader_harms(self) -> bool:
        """Whether who leads is proven to harm: then another must."""
        return self.evidence.guardrails is not None and bool(self.harms(np.array([self.leader]))[0])

    def fallback(self) -> Certified:
        """Of those that are known to be safe, the one of which most is certified: there is one, for production is."""
        evidence, guardrails = self.evidence, self.evidence.guardrails
        assert guardrails is not None
        found = []
        for one in sorted(guardrails.trusted):
            rivals = np.flatnonzero(self.field.present)
            rivals = rivals[rivals != one]
            found.append(Certified(one, evidence.claim(one, rivals, self.enough(rivals))))
        return min(found, key=lambda claim: claim.epsilon)

    def lead(self, leader: int) -> None:
        """Another epoch is to be led by this one: whose epochs count for claims about it, and so who is out, is found
        anew. Who is back has a column in the evidence again.
        """
        if self.evidence.guardrails is None or leader == self.evidence.claimed:
            return
        self.evidence.regard(leader)
        out = self.evidence.against_being_best(self.field.present, self._thresholds) >= self._thresholds
        self.dropped = [one for one in self.dropped if out[one.index]]
        self.alive = self.field.present
        self.alive[[one.index for one in self.dropped]] = False
        self._drop(leader)
        self.evidence.forget(self.alive)
        self.evidence.admit(self.candidates)
        self.look_again()

    def _look_at_levels(self) -> None:
        """What suffices may depend on the evidence against those who were withdrawn."""
        if self.field.chosen.any():
            self._thresholds = self._levels_at(log_mean_exp(self.evidence.log_wealth))

    @property
    def candidates(self) -> NDArray[np.int64]:
        """Who is left."""
        return np.flatnonzero(self.alive)

    def spent(self) -> float:
        """The probability with which anything that was claimed so far may be wrong: the levels in use, of all stretches
        so far.
        """
        shares = sum(map(share_of_stretch, range(1, self.stretch + 1))) if self.restarts else 1.0
        return self.field.spent() * shares * self.field.planned_fields

    @property
    def claimed_delta(self) -> float:
        """The probability with which anything that is ever claimed may be wrong: δ, for each field of the plan."""
        return min(self.field.delta * self.field.planned_fields, 1.0)

    @property
    def interval_delta(self) -> float:
        """The same for intervals of values, which have δ of their own, and are cut to what is certified."""
        return min(self.field.delta + self.claimed_delta, 1.0)

    def rivals(self, leader: int) -> NDArray[np.int64]:
        """Who is left besides."""
        alive = self.alive.copy()
        alive[leader] = False
        return np.flatnonzero(alive)

    def note(self, *, eventful: bool) -> None:
        """Rounds have entered the evidence, and changed log-wealths or not."""
        if eventful:
            self._moved, self._nothing_until = True, 0.0

    def look_again(self) -> None:
        """Another leader, or other bets, than when it was last judged."""
        self._slowest, self._nothing_until, self._moved = -1, 0.0, True

    @property
    def may_be_certified(self) -> bool:
        """Whether rounds, as many as came since the last look, may have led to a certificate."""
        return self.certified is None and self.evidence.rounds >= self._nothing_until

    @property
    def leader(self) -> int:
        """Who leads the current epoch."""
        return self.evidence.epochs[-1].leader

    def judge(self) -> None:
        """Drop the candidates that the evidence excludes, and see whether all others are certified."""
        if self._moved:
            self._trust()
            self._drop(self.leader)
        self.look()

    def look(self) -> None:
        """See whether the leader is certified; if so, all that the evidence excludes are dropped, for all is over."""
        if not self.may_be_certified:
            return
        self._look_at_levels()
        self._certify()
        if self.certified is not None:
            self._trust()
            self._drop(self.leader)

    def _trust(self) -> None:
        """Note which of those that have led are safe: their epochs count in full."""
        guardrails = self.evidence.guardrails
        if guardrails is not None and guardrails.judge(self.evidence.n_rounds, self.safe_at):
            self.evidence.regard(self.evidence.claimed)

    def _drop(self, leader: int) -> None:
        evidence, rounds = self.evidence, self.evidence.rounds
        self._look_at_levels()
        against = evidence.against_being_best(self.alive, self._thresholds)
        out = against >= self._thresholds
        out[leader] = False  # late answers of older epochs may reach it: that counts when another leads
        if self.kept is not None:
            out[self.kept] = False
        dropped = [
            Dropped(int(i), self.names[i], rounds, self.names[leader], float(against[i])) for i in np.flatnonzero(out)
        ]
        self.alive, self.dropped, self._moved = self.alive & ~out, self.dropped + dropped, False

    def _certify(self) -> None:
        evidence, rounds, leader = self.evidence, self.evidence.rounds, self.leader
        if not self._slowest_is_open(leader):
            rivals = self.rivals(leader)
            reached = evidence.against(leader, self.epsilon, rivals)
            enough = self.enough(rivals)
            if (reached >= enough).all():
                if not self.is_safe(leader):  # that may come with any round
                    self._slowest, self._nothing_until = -1, 0.0
                    return
                smallest = evidence.claim(leader, rivals, enough)
                self.certified = Certified(leader, min(smallest, self.epsilon))
            else:
                self._slowest = int(rivals[(reached - enough).argmin()])
        if self.certified is None:
            threshold = float(self.enough(np.array([self._slowest]))[0])
            needed = evidence.uneventful_rounds(leader, self._slowest, self.epsilon, threshold)
            self._nothing_until = rounds + 0.999999 * needed - 1

    def claim(self) -> Certified:
        """A candidate and its certified epsilon: the smallest that was ever certified for one that is left."""
        if self.certified is not None:
            return self.certified
        leader = self.leader
        rivals = self.rivals(leader)
        now = Certified(leader, self.evidence.claim(leader, rivals, self.enough(rivals)))
        best = self.best_before
        return best if best is not None and best.epsilon < now.epsilon and self.alive[best.leader] else now

    def change(self, names: tuple[str, ...], field: Field) -> None:
        """The field is another one. Who was dropped stays so if the evidence that still counts says so; what was
        claimed of the field before is claimed anew if it still can be.
        """
        self.names, self.field = names, field
        against = log_mean_exp(self.evidence.log_wealth)
        self._thresholds = self._levels_at(against)
        out = np.zeros(len(names), dtype=np.bool_)
        out[[one.index for one in self.dropped]] = True
        out &= field.present & (against >= self._thresholds)
        if not (field.present & ~out).any():
            out[:] = False  # one must lead
        self.alive = field.present & ~out
        self.dropped = [one for one in self.dropped if out[one.index]]
        self.certified = self.best_before = None
        self.look_again()

    def restart(self, *, counts: bool = True) -> None:
        """Nothing that was said so far is claimed any longer, and all who are in the field are candidates again. A
        stretch in which nothing was bet does not count.
        """
        self.stretch += counts
        self.alive, self.dropped = self.field.present, []
        self.certified = self.best_before = None
        self._thresholds = self._levels_at(np.zeros(len(self.names)))
        self.look_again()

    def end_epoch(self) -> None:
        """Keep the claim of an epoch that is over."""
        self.best_before = self.claim()
        self._nothing_until, self._moved = 0.0, True

    def _slowest_is_open(self, leader: int) -> bool:
        """Whether the rival that was slowest at the last look is still not certified: then no other need be asked."""
        i = self._slowest
        if i < 0 or i == leader or not self.alive[i]:
            return False
        slowest = np.array([i])
        return bool(self.evidence.against(leader, self.epsilon, slowest)[0] < self.enough(slowest)[0])

    _CLAIMS: ClassVar = {
        "certified": Maybe(Held(Certified)),
        "best_before": Maybe(Held(Certified)),
        "stretch": Whole(1),
    }
    SCHEMA: ClassVar = {
        "dropped": {
            "candidates": Array("i8", ("D",), 0, "P-1"),
            "rounds": Array("i8", ("D",), 0),
            "leaders": Array("i8", ("D",), 0, "P-1"),
            "log_evidence": Array("f8", ("D",)),
        },
        **_CLAIMS,
    }

    def state(self) -> State:
        """All but the evidence by name, for a file; see `comband.page.storage`."""
        place = {name: i for i, name in enumerate(self.names)}
        whole = [(d.index, d.round, place[d.leader]) for d in self.dropped]
        candidates, rounds, leaders = np.array(whole, dtype=np.int64).reshape(-1, 3).T
        return {
            "dropped": {
                "candidates": candidates,
                "rounds": rounds,
                "leaders": leaders,
                "log_evidence": np.array([d.log_evidence for d in self.dropped], dtype=np.float64),
            },
            **state_of(self, self._CLAIMS),
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`, checked: claims must be such as the evidence allows."""
        names, evidence, current = self.names, self.evidence, self.evidence.epochs[-1]
        check(state, self.SCHEMA, P=len(names))
        gone = state["dropped"]
        columns = (gone[name].tolist() for name in ("candidates", "rounds", "leaders", "log_evidence"))
        self.dropped = [
            Dropped(i, names[i], when, names[leader], log) for i, when, leader, log in zip(*columns, strict=True)
        ]
        self.alive = self.field.present
        self.alive[gone["candidates"]] = False
        put_into(self, self._CLAIMS, state)
        if evidence.guardrails is not None:
            guardrails, winner = evidence.guardrails, self.certified
            safe = guardrails.certified | (frozenset() if winner is None else {winner.leader})
            require(
                all(may_be_safe(guardrails, one, evidence.n_rounds, self.safe_at) for one in safe),
                "who is called safe must be so by the values that are kept.",
            )
        require(
            self.stretch <= evidence.since + 1
            and (self.stretch == 1) == (evidence.since == 0 or evidence.epochs[evidence.since - 1].fitting)
            and (self.restarts or self.stretch == 1),
            "its stretch must be one that its epochs have room for.",
        )
        self._thresholds = self._levels_at(log_mean_exp(evidence.log_wealth))
        require(
            int((~self.alive).sum()) == len(self.dropped) + int((~self.field.present).sum())
            and bool(self.alive[current.leader])
            and (self.kept is None or bool(self.alive[self.kept]))
            and bool(np.isin(self.candidates, current.candidates).all())
            and bool((gone["log_evidence"] >= np.log(1 / self.delta)).all())
            and not (gone["candidates"] == gone["leaders"]).any(),
            "candidates must be dropped once each, by evidence, and never the leader.",
        )
        largest, rho = largest_possible(evidence), evidence.problem.max_reward
        for claim in (self.certified, self.best_before):
            require(claim is None or claim.epsilon <= rho, "no claim is about more than a round can bring.")
            if claim is not None and self.alive[claim.leader]:
                rivals, least = self.rivals(claim.leader), np.log(1 / self.delta)
                possible = largest[np.searchsorted(evidence.seen.columns, rivals)]
                # Certified epsilons are those of a bisection that ends at ρ, where nothing is claimed.
                require(
                    claim.epsilon >= rho
                    or bool((evidence.against(claim.leader, claim.epsilon, rivals, possible) >= least).all()),
                    "a claim must be such as the evidence allows.",
                )
        require(
            self.certified is None
            or (self.certified.leader == current.leader and self.certified.epsilon <= self.epsilon),
            "what is certified must be about the leader, and to epsilon.",
        )
