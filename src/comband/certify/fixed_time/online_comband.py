"""Exploration that is learnt online: the optimal rate for candidates that can be listed."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband import theory
from comband._kernels.ftrl import softmax_solve
from comband._kernels.online import credit_rounds
from comband.certify.fixed_time.online_claims import OnlineRun, Promise
from comband.learners.atomic import synchronized
from comband.learners.base import Seed
from comband.learners.weighted import Propensities, WeightedPolicies
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import Problem
from comband.page.rounds import Decisions, Events, Rounds, events_of_rounds
from comband.page.storage import Array, Held, Maybe, Real, State, Whole, put_into, require, state_of
from comband.policies.policy_set import PolicySet, check_policies
from comband.statistics.results import ANSWER_THEM, UNWATCHED, Candidate, Selection, Status
from comband.theory.online import Explorations, Point, schedule_at

_RUNNERS_UP = 3
_NONE = np.empty(0, dtype=np.int64)
_ROUNDING = 1e-9  # by so much an ε is rounded upwards


class OnlineComband(WeightedPolicies):
    """Explore by weights over candidates that follow the spread of their own estimates, for at most T rounds.

    With R_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(x_t, y) and ψ(z) = z − log(1+z), candidate π is drawn with probability
    p_t(π) ∝ exp(η·Σ_{i<t} ψ(λR_i(π))), and with probability γ a uniform list: who is hard to estimate is shown more
    often, until no candidate is hard to estimate. The answer is the candidate of the largest Σ R. T is of order
    (ρs/ε² + ρK/(mε))·log(P/δ), proved with its constants in docs/optimal_rate.md, and enough in every world; where
    uniform lists need fewer rounds, they are shown instead, which is settled before any data.

    Two things are promised, with half of δ each. *The theorem*: after T rounds the answer is within ε. *The evidence*,
    at any time, looked at as often as you like: with G(π) = Σ_t log(1 + λR_t(π)) and
    H(π) = Σ_t (λR_t(π) + (α/k)ψ(λR_t(π))),

        ε_t = [log P + max H − max G + (1 + 1/k)·log(2/δ)] / (λt)

    bounds by how much any candidate is better than the one of the largest G. Rounds stop when either says ε.

    **Late answers.** Rounds count in the order of decisions: an answer that comes before an older one waits for it. The
    evidence allows that, and any weights that were settled before a round. The theorem asks more: a batch, that is one
    `ask`, holds at most `batch_size` contexts, a number that does not depend on them, and is made when all earlier
    decisions are answered. If it ever is not, T is no longer promised, and the result says so.

    All candidates are asked on contexts where a reward came, O(P·m), and otherwise only the one that is shown. Lists
    are shown in random order, so that places, if they matter, favour none.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most. Single rewards must be seen, in whatever place.
    policies:
        The candidates.
    epsilon, delta:
        The promise: no candidate's value exceeds the selected one's by more than epsilon, with probability 1 − delta.
    batch_size:
        How many contexts a batch may hold. T grows with it (`theory.online_comband`).
    early_stop:
        Whether to stop by the evidence, too; without it all of δ is the theorem's, T is smaller, and before T rounds
        nothing is promised but what the theorem says of fewer.
    exploration:
        "fewest rounds" takes learnt exploration or uniform lists, whichever has the smaller T; or "learnt", or "uniform
        lists".
    propensities:
        "when rewarded" (default), or "always" to have them in every decision, which asks all candidates about every
        context.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=60, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> learner = cb.OnlineComband(problem, shop.candidates(20, seed=2), epsilon=0.2, batch_size=100, seed=3)
    >>> selection = cb.run(learner, shop, batch_size=100).result
    >>> selection.epsilon <= 0.2, selection.rounds <= learner.schedule.n_rounds + 99
    (True, True)
    """

    RANDOM_ORDER = True

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        epsilon: float,
        delta: float = 0.05,
        batch_size: int = 1,
        early_stop: bool = True,
        exploration: Explorations = "fewest rounds",
        propensities: Propensities = "when rewarded",
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, check_policies(policies), floor=1.0, propensities=propensities, seed=seed)
        self.early_stop = bool(early_stop)
        self.schedule = theory.online_comband(
            problem,
            n_policies=len(policies),
            epsilon=epsilon,
            delta=delta,
            batch_size=batch_size,
            early_stop=self.early_stop,
            exploration=exploration,
        )
        self.exploration = exploration
        self.floor = self.schedule.floor
        self._p = np.full(len(policies), 1 / len(policies))
        self._bends = np.zeros(len(policies))  # W = Σ ψ(λR), of the counted rounds as the losses −Σ R are
        self._counted = 0  # every decision below is answered, and counts
        self._waiting = Events.none()  # rewards of decisions that wait for the answers of older ones
        self._out_of_step = 0
        self._credited = 0  # how many rounds counted when the last of them was rewarded
        self._standing = self._stand(self._losses, self._bends)
        self._promise: Promise | None = None

    @property
    @synchronized
    def done(self) -> bool:
        """Whether ε is promised, or T rounds are counted."""
        return self._counted >= self.schedule.n_rounds or (
            self._promise is not None and self._promise.epsilon <= self.schedule.epsilon
        )

    @property
    @synchronized
    def in_step(self) -> bool:
        """Whether the theorem's T still holds: no batch was larger than declared, or made while answers were due."""
        return self._out_of_step == 0

    @property
    @synchronized
    def promise(self) -> Promise | None:
        """The smallest ε so far, of which candidate and why; None while the range of the rewards says as much."""
        return self._promise

    @property
    @synchronized
    def spreads(self) -> NDArray[np.float64]:
        """W (P,): Σ ψ(λR) of each candidate over the counted rounds, by which weights are learnt."""
        return self._bends.copy()

    @synchronized
    def result(self) -> Selection:
        """The candidate about which most is promised; before anything is, the one of the highest estimate."""
        rho, counted, promise = self.problem.max_reward, max(self._counted, 1), self._promise
        means = self.estimated_totals / counted
        leader, epsilon = (self._standing[0], rho) if promise is None else (promise.leader, promise.epsilon)
        ranked = np.lexsort((-means, np.arange(len(means)) != leader))
        best, *others = (
            Candidate(int(i), self.policies.names[i], float(means[i]), (0.0, rho)) for i in ranked[: 1 + _RUNNERS_UP]
        )
        claims = OnlineRun(self.problem, self.policies, self.schedule, promise, self._out_of_step).claims()
        return Selection(
            policy=self.policies[best.index],
            best=best,
            epsilon=epsilon,
            delta=self.schedule.delta,
            rounds=self.rounds,
            runners_up=tuple(others),
            claims=claims,
            notes=(*self._notes(), *(one.text for one in claims[1:]), UNWATCHED),
            target=self.schedule.epsilon,
            max_reward=rho,
        )

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now."""
        promise = self._promise
        leader, certified = (self._standing[0], None) if promise is None else (promise.leader, promise.epsilon)
        return Status(self.rounds, self.policies.names[leader], len(self.policies), certified=certified)

    def _notes(self) -> list[str]:
        schedule = self.schedule
        learnt, uniform = f"{schedule.n_online:,} with learnt exploration", f"{schedule.n_uniform:,} with uniform lists"
        taken, other = (uniform, learnt) if schedule.uniform else (learnt, uniform)
        notes = [f"chosen before any data: {taken}, which are enough in every world; it would be {other}"]
        if self._counted < min(self.rounds, schedule.n_rounds if schedule.uniform else self.rounds):
            notes.insert(0, f"decision {self._counted} is without answer, and later ones do not count; {ANSWER_THEM}")
        return notes

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        n = n_contexts(X)
        if not self.schedule.uniform and n and (n > self.schedule.batch_size or first_id > self._counted):
            self._out_of_step += n
        return super()._decide(X, first_id)

    def _learn(self, rounds: Rounds) -> None:
        counted, waiting, credited = self._counted_with(rounds.decisions.ids), self._waiting, False
        blocks, losses, bends = self._rewarded_blocks(rounds), self._losses, self._bends
        due = np.flatnonzero(waiting.ids < counted) if waiting.n_rewarded else _NONE
        if blocks or len(due):
            losses, bends = losses.copy(), bends.copy()
        for rows in blocks:
            lists, where, actions, gained, q = self._rewards_of(rounds, rows)
            in_time = rounds.decisions.ids[rows] < counted
            now = in_time[where]
            amounts = gained[now] / q[now]
            credit_rounds(lists, where[now], actions[now], amounts, self.schedule.scale, losses, bends)
            credited |= bool(now.any())
            if not now.all():
                later = np.flatnonzero(~in_time)
                waiting += Events(
                    n_rounds=0,
                    ids=rounds.decisions.ids[rows[later]],
                    epochs=rounds.decisions.epochs[rows[later]],
                    contexts=take_contexts(rounds.decisions.contexts, rows[later]),
                    rows=np.searchsorted(later, where[~now]),
                    actions=actions[~now],
                    rewards=gained[~now],
                    propensities=q[~now],
                )
        if len(due):
            events, _ = events_of_rounds(waiting, due[np.argsort(waiting.ids[due], kind="stable")])
            self._credit_events(events, losses, bends)
            waiting, _ = events_of_rounds(waiting, np.flatnonzero(waiting.ids >= counted))
            credited = True
        self._counted, self._waiting = counted, waiting
        if credited:
            self._losses, self._bends, self._stale, self._credited = losses, bends, True, counted
            self._standing = self._stand(losses, bends)
        self._judge()
        self._corrupt = True
        self._close_versions(rounds.decisions)

    def _counted_with(self, ids: NDArray[np.int64]) -> int:
        """Up to where all decisions are answered when these are; uniform lists end at T."""
        issued = self._ledger.issued
        if len(ids) == issued - self._counted == issued - self.rounds:  # all that were open, in whatever order
            counted = issued
        else:
            answered = self._ledger.answered_from(self._counted)
            answered[ids[ids >= self._counted] - self._counted] = True
            counted = self._counted + (len(answered) if answered.all() else int(np.argmin(answered)))
        return min(counted, max(self.schedule.n_rounds, self._counted)) if self.schedule.uniform else counted

    def _credit_events(self, events: Events, losses: NDArray[np.float64], bends: NDArray[np.float64]) -> None:
        step = self._rows_a_block()
        for start in range(0, events.n_rewarded, step):
            lists = self.policies.predict(
                take_contexts(events.contexts, slice(start, start + step)), problem=self.problem
            )
            some = (events.rows >= start) & (events.rows < start + step)
            amounts = events.rewards[some] / events.propensities[some]
            rows = events.rows[some] - start
            credit_rounds(lists, rows, events.actions[some], amounts, self.schedule.scale, losses, bends)

    def _stand(self, losses: NDArray[np.float64], bends: NDArray[np.float64]) -> tuple[int, int, float]:
        """The candidates of the largest Σ R and of the largest G, and λt·ε_t; equal ones by lot, always the same."""
        schedule = self.schedule
        gains = -schedule.scale * losses
        low, high = gains - bends, gains + schedule.alpha / schedule.share * bends
        lot = np.random.default_rng(self._credited)
        first, best = (int(lot.choice(np.flatnonzero(sums == sums.max()))) for sums in (gains, low))
        # Half of δ is for the evidence; all of it where there is nothing else, but then nothing asks for it.
        odds = math.log(2 / schedule.delta)
        gap = math.log(len(losses)) + float(high.max() - low.max()) + (1 + 1 / schedule.share) * odds
        return first, best, gap

    def _judge(self) -> None:
        """Keep the smallest ε that is promised by now, if it says more than the range of the rewards does."""
        n, schedule = self._counted, self.schedule
        if n == 0:
            return
        first, best, gap = self._standing
        least = self.problem.max_reward if self._promise is None else self._promise.epsilon
        if schedule.early_stop:
            epsilon = gap / (schedule.scale * n) * (1 + _ROUNDING)
            if epsilon < least:
                self._promise, least = Promise(epsilon, best, n, by_theorem=False), epsilon
        # The theorem speaks of ends of batches; that of uniform lists, of T rounds.
        if schedule.uniform or (self._out_of_step == 0 and n == self._ledger.issued):
            epsilon = schedule.epsilon_at(n)
            if epsilon < least:
                self._promise = Promise(epsilon, first, n, by_theorem=True)

    def _weights(self) -> NDArray[np.float64]:
        return self._p

    def _solve(self) -> None:
        softmax_solve(-self._bends, self.schedule.rate, self._p)

    def _config(self) -> dict[str, Any]:
        return {
            "epsilon": self.schedule.epsilon,
            "delta": self.schedule.delta,
            "batch_size": self.schedule.batch_size,
            "early_stop": self.early_stop,
            "exploration": self.exploration,
            "propensities": self.propensities,
        }

    _COUNTED: ClassVar = {
        "bends": Array("f8", ("P",), 0),
        "counted": Whole(0),
        "credited": Whole(0),
        "waiting": Held(Events),
        "out_of_step": Whole(0),
        "promise": Maybe(Held(Promise)),
    }
    _SCHEMA: ClassVar = {
        **WeightedPolicies._SCHEMA,
        **_COUNTED,
        "weights": Array("f8", ("P",), 0, 1),
        # As it was: a search elsewhere may end at another point, and what was learnt goes with this one.
        "schedule": {
            "floor": Real(0, 1),
            "scale": Real(0),
            "rate": Real(0),
            "alpha": Real(0),
            "n_rounds": Whole(1),
            "n_online": Whole(1),
        },
    }

    def _state(self) -> State:
        schedule = self.schedule
        point = {**schedule.point._asdict(), "n_rounds": schedule.n_rounds, "n_online": schedule.n_online}
        return {**super()._state(), **state_of(self, self._COUNTED), "weights": self._p, "schedule": point}

    def _restore(self, state: State) -> None:
        self._restore_schedule(state["schedule"])
        put_into(self, self._COUNTED, state)
        self._waiting.check(self.problem, ids=(self._counted, self._ledger.issued))
        require(
            self._counted == self._counted_with(_NONE)
            and self._credited <= self._counted
            and self._out_of_step <= self._ledger.issued
            and float(self._waiting.propensities.min(initial=1.0))
            >= self.floor * self.problem.uniform_propensity * (1 - 1e-9)
            and self._waiting.n_rewarded <= self.rounds - self._counted,
            "its counted rounds must be those whose decisions and all older ones are answered.",
        )
        super()._restore(state)
        self._standing = self._stand(self._losses, self._bends)
        if self._promise is not None:
            self._check_promise(self._promise)

    def _restore_schedule(self, kept: State) -> None:
        schedule = self.schedule
        self.schedule = schedule_at(
            self.problem,
            Point(*(kept[name] for name in Point._fields)),
            n_policies=schedule.n_policies,
            epsilon=schedule.epsilon,
            delta=schedule.delta,
            batch_size=schedule.batch_size,
            early_stop=schedule.early_stop,
            n_online=kept["n_online"],
            n_uniform=schedule.n_uniform,
        )
        self.floor = self.schedule.floor
        require(
            kept["n_rounds"] == self.schedule.n_rounds and self.schedule.share > 0,
            "its rounds must be those of its parameters.",
        )

    def _check_promise(self, promise: Promise) -> None:
        """Refuse a promise to which no data can lead."""
        schedule = self.schedule
        least = schedule.epsilon_at(promise.rounds)
        if not promise.by_theorem:
            odds = math.log(len(self.policies)) + (1 + 1 / schedule.share) * math.log(2 / schedule.delta)
            least = odds / (schedule.scale * promise.rounds)
        require(
            promise.rounds <= self._counted and promise.epsilon >= least * (1 - _ROUNDING),
            "no data can lead to what it promises.",
        )

    def _restore_weights(self, state: State) -> None:
        self._solve()
        require(
            np.allclose(self._p, state["weights"], rtol=1e-9, atol=1e-12), "weights must be those of the estimates."
        )
        self._p = state["weights"]
