"""The evidence of certifying learners as straight lines of arithmetic, one round after the other, from decisions and
rewards; of the library it uses only what an epoch states before its first context is drawn.

    D_t(π) = X_t(π) − X_t(ℓ), or ρ where the floor was not kept;
    X_t(π) = Σ r_t(y)/Q_t(y) over items that both showed (where pairs matter: in the same place, and Q_t is that of the
    item there), or Σ r_t(y)·θ_{k_π(y)}/(Q_t(y)·Θ/m) where places are examined
    (in natural order θ_{k_π(y)}/Σ_k Q_t(y, k)·θ_k);
    log-wealth against "π exceeds ℓ by μ": log mean_j Π_t (1 − λ_j D_t) / Π_{t led by ℓ} (1 − λ_j μ).

A decision counts when it and all before it are answered or overdue; an answer to one that is overdue is late. π is
dropped when its log-wealth at μ = 0 reaches log 1/δ, the leader is certified when all others' at μ = ε do, and the
smallest μ certified at an epoch's end stays. Who is dropped is seen when decisions are asked for, or before if all of
them count; a certificate whenever somebody looks.

Candidates may come and go: Π_t over rounds led by a withdrawn candidate counts, for each j, if it is below 1; and
log 1/δ gives way to what `thresholds` says.

Where factors of places are fitted each epoch has its own, those that are most likely after the rounds before it; the
first epochs have none, and evidence begins with the first that has.

Evidence may begin anew when so many `recent` decisions have brought no certificate: then only rounds of epochs since
count, all who are there are candidates, and δ is (1/k² − 1/(k + 1)²) of itself in the k-th such stretch, the first
one's 3/4 included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import comband as cb

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Facts:
    """What an epoch states beforehand. Columns go with all policies; 0 for those that are no candidates."""

    leader: int
    candidates: tuple[int, ...]
    stakes: Floats  # (P, J)
    bound: float  # of D where the floor is kept
    value_bound: float  # of X there
    growth: Floats  # (P,) log-wealth at μ = ε that a round is expected to add
    theta: Floats | None = None  # (m,) factors of places that were fitted for it
    fitting: bool = False  # whether its rounds only serve to fit them


# ---- all that is read of a learner's insides: when they move, only these three functions change ----------------------


def read_epochs(learner: cb.certify.CertifyingLearner) -> list[Facts]:
    facts = []
    for epoch in learner.epochs:
        stakes, growth = np.zeros((len(learner.policies), 3)), np.zeros(len(learner.policies))
        stakes[epoch.candidates], growth[epoch.candidates] = epoch.bets.stakes, epoch.growth
        shown = tuple(epoch.candidates.tolist())
        more = getattr(epoch.explorer, "theta", None), epoch.fitting
        facts.append(Facts(epoch.leader, shown, stakes, epoch.bets.bound, epoch.value_bound, growth, *more))
    return facts


def read_evidence(learner: cb.certify.CertifyingLearner, leader: int, mu: float, rivals: NDArray[np.int64]) -> Floats:
    return learner.evidence.against(leader, mu, rivals)


def read_kinds(learner: cb.certify.CertifyingLearner) -> list[str]:
    return [epoch.explorer.KIND for epoch in learner.epochs]


# ---- the twin --------------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    epoch: int
    covered: bool
    arm: int
    context: int
    shown: list[int]
    propensities: list[float]
    placements: Floats | None = None  # (m, m)


def log_mean_exp(a: Floats) -> Floats:
    return np.asarray(np.logaddexp.reduce(a, axis=-1) - np.log(a.shape[-1]))


class Twin:
    """Follows a learner from outside; `lists` (P, contexts, m) are the lists of all that are ever candidates, or
    (P, contexts, K) the probabilities with which they show items."""

    def __init__(self, learner: cb.certify.CertifyingLearner, lists: NDArray[np.int64]) -> None:
        self.lists, self.rho, self.P = lists, learner.problem.max_reward, len(lists)
        self.most = self.rho  # of E X
        self.places = learner.problem.places
        self.placed: list[tuple[int, float, Floats]] = []  # rewards by place, of items with these chances of places
        self.epsilon, self.patience = learner.verdict.epsilon, learner.spec.patience
        self.recent, self.stretch, self.since, self.since_id = learner.spec.recent, 1, 0, 0
        self.delta = learner.spec.delta if learner.spec.recent is None else 0.75 * learner.spec.delta
        self.ab_test = isinstance(learner, cb.ABTest)
        self.everyone = not (isinstance(learner, cb.ABTest) and learner.spec.eliminate)
        self.asked: list[Asked] = []
        self.answers: dict[int, Floats] = {}  # in time
        self.told: set[int] = set()
        self.front = self.missing = self.late = 0
        self.earned = np.zeros(self.P)  # the rewards of the rounds in which each was a candidate
        self.epochs: list[Facts] = []
        self.n_rounds: list[int] = []  # of each epoch
        self.by_leader: dict[int, Floats] = {}  # log-wealths (P, 3) of the rounds that each has led
        self.n_first = len(learner.policies)
        self.open = learner.spec.open_field
        self.present = np.arange(self.P) < self.n_first
        self.number = np.zeros(self.P, dtype=int)  # of arrivals that were not planned
        self.chosen = np.zeros(self.P, dtype=bool)  # withdrawn, and that was not planned
        self.value_stakes = 4.0 ** -np.arange(10) / min(1.0, self.rho)
        self.low, self.high, self.sums = np.zeros((self.P, 10)), np.zeros((self.P, 10)), np.zeros(self.P)
        self.alive = self.present.copy()
        self.sizes: list[int] = []  # of the field in each epoch
        self.dropped: list[tuple[int, int, int, float]] = []
        self.certified: tuple[int, float] | None = None
        self.kept: tuple[int, float] | None = None
        self.n_uncovered = self.n_uncovered_rewards = self.n_old = 0
        self.look(learner)

    @property
    def log_wealth(self) -> Floats:
        """(P, 3) at μ = 0, as far as it counts."""
        parts = (part if self.present[one] else np.minimum(part, 0.0) for one, part in self.by_leader.items())
        return np.asarray(sum(parts, np.zeros((self.P, 3))))

    def thresholds(self) -> Floats:
        """What the log-wealth against each must reach."""
        if not self.open:
            return np.full(self.P, np.log(1 / self.delta))
        against, w = log_mean_exp(self.log_wealth), 0
        levels = [self.delta / 2] + [self.delta / (4 * w * (w + 1)) for w in range(1, self.P + 1)]
        while sum(against[i] < np.log(1 / levels[w]) for i in np.flatnonzero(self.chosen & (self.number == 0))) > w:
            w += 1
        own = [levels[w] if i == 0 else self.delta / (4 * i * (i + 1)) for i in self.number]
        return np.asarray(np.log(1 / np.array(own)))

    def change(
        self, learner: cb.certify.CertifyingLearner, arrivals: list[int], withdrawn: list[int], *, planned: bool
    ) -> None:
        """The field has changed, and an epoch has begun."""
        for i in arrivals:
            self.present[i] = True
            self.number[i] = 0 if planned else self.number.max() + 1
        for i in withdrawn:
            self.present[i] = False
            self.chosen[i] = not planned
        out = log_mean_exp(self.log_wealth) >= self.thresholds()
        self.dropped = [one for one in self.dropped if out[one[0]] and self.present[one[0]]]
        self.alive = self.present.copy()
        self.alive[[one[0] for one in self.dropped]] = False
        self.certified = self.kept = None
        self.look(learner, ended=False)
        self.judge()

    def look(self, learner: cb.certify.CertifyingLearner, *, ended: bool = True) -> None:
        """Read new epochs; what old ones stated must not have changed."""
        facts = [self.padded(one) for one in read_epochs(learner)]
        for before, now in zip(self.epochs, facts, strict=False):
            assert (before.leader, before.candidates, before.bound) == (now.leader, now.candidates, now.bound)
            np.testing.assert_array_equal(before.stakes, now.stakes)
        for new in facts[len(self.epochs) :]:
            if new.theta is not None and not new.fitting:
                np.testing.assert_allclose(new.theta, self.fitted(), rtol=1e-4)
            if ended and self.epochs and self.epochs[-1].fitting and not new.fitting:
                self.stretch -= 1  # nothing was bet
                self.restart(learner.spec.delta)
            elif ended and self.is_old():
                self.restart(learner.spec.delta)
            elif self.epochs and ended:
                self.kept = self.claim()
            assert new.candidates == tuple(np.flatnonzero(self.alive))
            assert new.stakes.max() * new.bound < 1
            self.epochs.append(new)
            self.sizes.append(int(self.present.sum()))
            self.n_rounds.append(0)

    def is_old(self) -> bool:
        return self.recent is not None and self.certified is None and len(self.asked) - self.since_id >= self.recent

    def restart(self, delta: float) -> None:
        """Evidence begins anew with the next epoch."""
        self.stretch, self.since, self.since_id = self.stretch + 1, len(self.epochs), len(self.asked)
        self.delta = delta
        if self.recent is not None:
            self.delta *= 1 / self.stretch**2 - 1 / (self.stretch + 1) ** 2
        self.by_leader, self.alive, self.dropped, self.kept = {}, self.present.copy(), [], None
        self.low, self.high, self.sums = np.zeros((self.P, 10)), np.zeros((self.P, 10)), np.zeros(self.P)
        self.earned = np.zeros(self.P)

    def padded(self, facts: Facts) -> Facts:
        """With a row for all that will ever be there."""
        more = self.P - len(facts.stakes)
        return replace(facts, stakes=np.pad(facts.stakes, ((0, more), (0, 0))), growth=np.pad(facts.growth, (0, more)))

    def ask(self, learner: cb.certify.CertifyingLearner, decisions: cb.Decisions) -> None:
        self.enter_all()
        self.move_on(learner)
        for i in range(len(decisions)):
            assert decisions.ids[i] == len(self.asked)
            epoch = int(decisions.epochs[i])
            assert epoch == len(self.epochs) - 1
            assert (decisions.arms[i] >= 0) == self.ab_test
            x, shown = int(np.asarray(decisions.contexts)[i]), decisions.lists[i].tolist()
            covered, arm = bool(decisions.covered[i]), int(decisions.arms[i])
            more = self.propensities(decisions, i), self.placements(decisions, i)
            self.asked.append(Asked(epoch, covered, arm, x, shown, *more))

    def placements(self, decisions: cb.Decisions, i: int) -> Floats | None:
        return None if decisions.placements is None else decisions.placements[i]

    def theta(self, epoch: int) -> Floats:
        """Factors of places, fitted or stated."""
        fitted = self.epochs[epoch].theta
        return np.array(self.places) if fitted is None else fitted

    def fitted(self) -> Floats:
        """The factors that are most likely after the rounds that have entered."""
        places, rewards = np.array([k for k, _, _ in self.placed]), np.array([r for _, r, _ in self.placed])
        rows = np.array([row for _, _, row in self.placed])

        def unlikely(free: Floats) -> float:
            theta = np.exp(np.concatenate([[0.0], free]))
            return -float(rewards @ (np.log(theta)[places] - np.log(rows @ theta)))

        found = minimize(
            unlikely, np.zeros(rows.shape[1] - 1), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12}
        )
        return np.asarray(np.exp(np.concatenate([[0.0], found.x])))

    def propensities(self, decisions: cb.Decisions, i: int) -> list[float]:
        """Q of what was shown; where its places are stated and examined, the Q that random order would need for
        the same examination: Σ_k Q(x, y, k)·θ_k, over the mean of θ.
        """
        if decisions.placements is None or self.places is None:
            return [float(q) for q in decisions.propensities[i]]
        theta = self.theta(int(decisions.epochs[i]))
        return [float(row @ theta / theta.mean()) for row in decisions.placements[i]]

    def tell(self, learner: cb.certify.CertifyingLearner, ids: NDArray[np.int64], rewards: Floats) -> None:
        """Answers, after which somebody looks."""
        for i, r in zip(ids.tolist(), rewards, strict=True):
            if i not in self.told:
                self.told.add(i)
                if self.overdue(i):
                    self.late += 1
                else:
                    self.answers[i] = r
        self.enter_all()
        if self.front == len(self.asked):
            self.move_on(learner)
        before = self.certified
        self.certify()
        if self.certified != before:
            self.drop()

    def enter_all(self) -> None:
        """All rounds that count by now."""
        while self.front < len(self.asked) and (self.front in self.answers or self.overdue(self.front)):
            self.enter(self.asked[self.front], self.answers.get(self.front))
            self.front += 1

    def move_on(self, learner: cb.certify.CertifyingLearner) -> None:
        self.judge()
        before = len(self.epochs)
        self.look(learner)
        if len(self.epochs) > before:
            self.judge()

    def overdue(self, i: int) -> bool:
        return self.patience is not None and i < len(self.asked) - self.patience

    def enter(self, asked: Asked, rewards: Floats | None) -> None:
        """One round of evidence."""
        epoch = self.epochs[asked.epoch]
        self.n_rounds[asked.epoch] += 1
        self.missing += rewards is None
        uncovered = not asked.covered
        self.n_uncovered += uncovered
        self.n_uncovered_rewards += uncovered and rewards is not None and bool(rewards.any())
        X = np.zeros(self.P)
        if rewards is not None and asked.placements is not None:
            self.placed += [(k, r, row) for k, (r, row) in enumerate(zip(rewards, asked.placements, strict=True)) if r]
        if asked.epoch < self.since:
            self.n_old += 1
            return
        if rewards is not None:
            self.earned[list(epoch.candidates)] += float(rewards.sum())
            X = self.worth(asked, rewards, epoch)
        of = list(epoch.candidates)
        D = np.where(np.arange(self.P) == epoch.leader, 0.0, self.rho if uncovered else X - X[epoch.leader])[of, None]
        assert D.max() <= epoch.bound * (1 + 1e-9)
        assert uncovered or X.max() <= epoch.value_bound * (1 + 1e-9)
        least, most = (0.0 * X, 0.0 * X + self.most) if uncovered else (X, X)
        value_stakes = np.minimum(self.value_stakes, 0.9 / epoch.value_bound)
        self.by_leader.setdefault(epoch.leader, np.zeros((self.P, 3)))[of] += np.log(1 - epoch.stakes[of] * D)
        self.low[of] += np.log(1 + value_stakes * least[of, None])
        self.high[of] += np.log(1 - value_stakes * most[of, None])
        self.sums[of] += least[of]

    def worth(self, asked: Asked, rewards: Floats, epoch: Facts) -> Floats:
        """X (P,) of a round."""
        X = np.zeros(self.P)
        for k, (y, r, q) in enumerate(zip(asked.shown, rewards, asked.propensities, strict=True)):
            for i in epoch.candidates:
                if self.ab_test:  # only the candidate's own rounds count for it
                    arms = self.sizes[asked.epoch] if self.everyone else len(epoch.candidates)
                    X[i] += r * arms * (asked.arm == i)
                else:
                    X[i] += r * self.weight(y, k, q, self.lists[i, asked.context].tolist(), asked.epoch)
        return X

    def weight(self, y: int, k: int, q: float, own: list[int], epoch: int) -> float:
        """What a reward of y, shown in place k, is worth for a candidate with this list, or these probabilities."""
        if self.lists.dtype == np.float64:
            return float(own[y] / q)
        if y not in own:
            return 0.0
        if self.places is None:
            return 1 / q
        if self.places == "pairs":
            return 1 / q if own[k] == y else 0.0
        theta = self.theta(epoch)
        return float(theta[own.index(y)] / (q * theta.sum() / len(theta)))

    def value(self, i: int) -> float:
        """The estimate of a policy's value."""
        return float(self.sums[i] / max(self.counted()[i], 1))

    def evidence(self, leader: int, mu: float) -> Floats:
        """Log-wealth of the bets against "π exceeds the leader by more than μ", (P,)."""
        total = self.log_wealth.copy()
        for epoch, n in self.that_count():
            if epoch.leader == leader:
                total -= n * np.log(1 - epoch.stakes * mu)
        return log_mean_exp(total)

    def rivals(self, leader: int) -> NDArray[np.int64]:
        return np.array([i for i in range(self.P) if self.alive[i] and i != leader], dtype=np.int64)

    def judge(self) -> None:
        self.drop()
        self.certify()

    def drop(self) -> None:
        leader, threshold = self.epochs[-1].leader, self.thresholds()
        against = log_mean_exp(self.log_wealth)
        for i in self.rivals(leader):
            if against[i] >= threshold[i]:
                self.alive[i] = False
                self.dropped.append((int(i), self.front, leader, float(against[i])))

    def certify(self) -> None:
        leader, threshold = self.epochs[-1].leader, self.thresholds()
        rivals = self.rivals(leader)
        reached = self.evidence(leader, self.epsilon)[rivals] >= threshold[rivals]
        if self.certified is None and reached.all():
            self.certified = leader, min(self.smallest(leader), self.epsilon)

    def smallest(self, leader: int) -> float:
        """The smallest μ that is certified, to one per cent above."""

        def holds(mu: float) -> bool:
            rivals = self.rivals(leader)
            return bool((self.evidence(leader, mu)[rivals] >= self.thresholds()[rivals]).all())

        if holds(0.0):
            return 0.0
        low, high = 0.0, self.rho
        while high - low > 0.01 * high and high >= 1e-6 * self.rho:
            middle = (low * high) ** 0.5 if low else high / 4
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def claim(self) -> tuple[int, float]:
        if self.certified is not None:
            return self.certified
        leader = self.epochs[-1].leader
        now = leader, self.smallest(leader)
        return self.kept if self.kept is not None and self.kept[1] < now[1] and self.alive[self.kept[0]] else now

    def forecast(self) -> float:
        epoch = self.epochs[-1]
        if self.certified is not None:
            return 0.0
        rounds = [0.0]
        for i in self.rivals(epoch.leader):
            missing = self.thresholds()[i] - self.evidence(epoch.leader, self.epsilon)[i]
            if missing > 0:
                rounds.append(missing / epoch.growth[i] if epoch.growth[i] > 0 else np.inf)
        return float(max(rounds))

    def counted(self) -> NDArray[np.int64]:
        """How many rounds count for each policy's value."""
        return np.array([self.rounds_with(lambda e, i=i: i in e.candidates) for i in range(self.P)])  # type: ignore[misc]

    def rounds_with(self, holds: Callable[[Facts], bool]) -> int:
        return sum(n for e, n in self.that_count() if holds(e))

    def that_count(self) -> list[tuple[Facts, int]]:
        """Epochs of the current stretch, with their rounds."""
        return list(zip(self.epochs, self.n_rounds, strict=True))[self.since :]

    def intervals(self) -> tuple[Floats, Floats]:
        """Values that no bet refutes, δ/2(P + 1) on each side; of that the i(i + 1)-th part for the i-th that came
        later.
        """
        return self.refuted_outside(self.delta)

    def refuted_outside(self, delta: float) -> tuple[Floats, Floats]:
        """Means of X that no bet refutes."""
        later = [max(i - self.n_first + 1, 0) for i in range(self.P)]
        threshold = np.log(2 * (self.n_first + 1) * np.array([i * (i + 1) if i else 1 for i in later]) / delta)

        def total(sign: int, v: Floats) -> Floats:
            result = (self.low if sign > 0 else self.high).copy()
            for epoch, n in self.that_count():
                stakes = np.minimum(self.value_stakes, 0.9 / epoch.value_bound)
                of = list(epoch.candidates)
                result[of] -= n * np.log(1 + sign * stakes * v[of, None])
            return log_mean_exp(result)

        ends = []
        for sign in (1, -1):
            left, right = np.zeros(self.P), np.full(self.P, self.most)
            for _ in range(60):
                v = (left + right) / 2
                inside = total(sign, v) >= threshold if sign > 0 else total(sign, v) < threshold
                left, right = np.where(inside, v, left), np.where(inside, right, v)
            ends.append(left if sign > 0 else right)
        return ends[0], ends[1]
