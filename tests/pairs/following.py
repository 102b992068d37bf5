"""The twin of `tests.certify.twin` for all options at once: periods, totals, production, decisions drawn elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.certify import CertifyingLearner
from tests.certify.twin import Asked, Facts, Floats, Twin, log_mean_exp, read_evidence, read_kinds
from tests.certify.twin_metrics import GuardedTwin, read_rails
from tests.pairs.worlds import K, M, World

F = (M - 1) / (K - 1)  # of lists that hold an item, how many hold another one


class PairsTwin(Twin):
    """Follows a learner through any run; contexts are the numbers of visitors, and `production` is never dropped."""

    production: Any

    def __init__(self, learner: CertifyingLearner, world: World, *, production: int | None) -> None:
        self.production, self.period = production, learner.spec.period
        self.of_totals = learner.problem.feedback == "total"
        self.kinds: list[str] = []
        self.begins_anew = False
        self.list_bounds: list[float | None] = []  # of Z, in each epoch; None where there is no excess
        self.first_ids: list[int] = []
        self.looks_back = False  # whether old epochs are read again, which must not have changed
        self.z_low, self.z_high, self.z_sum = np.zeros(10), np.zeros(10), 0.0
        super().__init__(learner, world.table)
        most = K if learner.problem.sparsity is None else learner.problem.sparsity
        self.most_of_list = most / (1 - F)
        self.most_filled = self.rho + F * M * self.most_of_list

    # ---- what is read ------------------------------------------------------------------------------------------------

    def look(self, learner: CertifyingLearner, *, ended: bool = True) -> None:
        known = len(self.epochs)
        if len(learner.epochs) == known and not self.looks_back:
            return
        self.begins_anew = learner.evidence.since != self.since
        super().look(learner, ended=ended)
        self.begins_anew = False
        self.kinds = read_kinds(learner)
        for epoch in learner.epochs[known:]:
            smallest = getattr(epoch.explorer, "smallest_list", None)
            self.list_bounds.append(None if smallest is None or not self.of_totals else self.rho / smallest)
            self.first_ids.append(epoch.first_id)

    def is_old(self) -> bool:
        """Evidence begins anew when a stretch is long enough, and not before."""
        assert not self.begins_anew or super().is_old() or self.epochs[-1].fitting
        return self.begins_anew

    def restart(self, delta: float) -> None:
        super().restart(delta)
        self.z_low, self.z_high, self.z_sum = np.zeros(10), np.zeros(10), 0.0

    def asked_for(
        self, learner: CertifyingLearner, decisions: cb.Decisions, numbers: NDArray[np.int64], *, adopted: bool
    ) -> None:
        """As `ask`, for visitors of these numbers; `adopted` decisions may be of an older epoch."""
        self.enter_all()
        self.move_on(learner)
        for i, x in enumerate(numbers.tolist()):
            assert decisions.ids[i] == len(self.asked)
            epoch = int(decisions.epochs[i])
            assert adopted or epoch == len(self.epochs) - 1
            asked = Asked(
                epoch,
                bool(decisions.covered[i]),
                int(decisions.arms[i]),
                x,
                decisions.lists[i].tolist(),
                self.propensities(decisions, i),
                self.placements(decisions, i),
            )
            assert (asked.arm >= 0) == self.ab_test
            self.asked.append(asked)
        self.enter_all()

    # ---- what enters -------------------------------------------------------------------------------------------------

    def enter_all(self) -> None:
        last = self.front
        while last < len(self.asked) and (last in self.answers or self.overdue(last)):
            last += 1
        while self.front < last - last % self.period:
            self.enter(self.asked[self.front], self.answers.get(self.front))
            self.front += 1

    def enter(self, asked: Asked, rewards: Floats | None) -> None:
        nothing = rewards is None or not rewards.any()
        if nothing and asked.covered:  # nothing changes but the number of rounds
            self.n_rounds[asked.epoch] += 1
            self.missing += rewards is None
            return
        bound = self.list_bounds[asked.epoch] if asked.epoch >= self.since else None
        self.most = self.rho if bound is None else self.most_filled
        if bound is not None:
            stakes = np.minimum(self.value_stakes, 0.9 / bound)
            if asked.covered and rewards is not None:
                q = sum((Q - F) / (1 - F) for Q in asked.propensities)
                Z = float(rewards.sum()) / ((1 - F) * q)
                assert bound * (1 + 1e-9) >= Z
                self.z_low += np.log(1 + stakes * Z)
                self.z_high += np.log(1 - stakes * Z)
                self.z_sum += Z
            elif not asked.covered:
                self.z_high += np.log(1 - stakes * self.most_of_list)
        super().enter(asked, rewards)

    def worth(self, asked: Asked, rewards: Floats, epoch: Facts) -> Floats:
        if not self.of_totals or self.ab_test:
            return super().worth(asked, rewards, epoch)
        X, T, kind = np.zeros(self.P), float(rewards.sum()), self.kinds[asked.epoch]
        shown = set(asked.shown)
        lists = {i: self.lists[i, asked.context] for i in epoch.candidates}
        same = [i for i in epoch.candidates if set(lists[i]) == shown]
        q = sum((Q - F) / (1 - F) for Q in asked.propensities)
        rows = np.zeros((len(epoch.candidates), K))
        for row, i in zip(rows, epoch.candidates, strict=True):
            row[lists[i]] = 1
        for place, i in enumerate(epoch.candidates):
            if kind == "midzuno":
                X[i] = T * len(set(lists[i]) & shown) / ((1 - F) * q)
            elif kind == "own lists":
                inverse = np.linalg.pinv(rows.T @ rows / len(rows), rcond=1e-9, hermitian=True)
                X[i] = T * rows[place] @ inverse @ np.isin(np.arange(K), asked.shown)
            else:
                assert kind == "whole lists"
                X[i] = T * len(epoch.candidates) / len(same) if i in same else 0.0
        return X

    # ---- what follows ------------------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Production stays, whatever the evidence."""
        before = [*self.dropped]
        super().drop()
        self.dropped = [*before, *(one for one in self.dropped[len(before) :] if one[0] != self.production)]
        if self.production is not None:
            self.alive[self.production] = True

    def z_rounds(self) -> list[tuple[int, float]]:
        """How many rounds count for Z, and its bound, epoch by epoch."""
        pairs = zip(self.n_rounds[self.since :], self.list_bounds[self.since :], strict=True)
        return [(n, bound) for n, bound in pairs if bound is not None]

    def value(self, i: int) -> float:
        n = sum(n for n, _ in self.z_rounds())
        return super().value(i) - F * M * self.z_sum / max(n, 1)

    def intervals(self) -> tuple[Floats, Floats]:
        rounds = self.z_rounds()
        if not sum(n for n, _ in rounds):
            self.most = self.rho
            return self.refuted_outside(self.delta)
        self.most = self.most_filled
        low, high = self.refuted_outside(self.delta / 2)
        ends = []
        for sign, sums in ((1, self.z_low), (-1, self.z_high)):
            left, right = 0.0, self.most_of_list
            for _ in range(60):
                z = (left + right) / 2
                credit = sum(n * np.log(1 + sign * np.minimum(self.value_stakes, 0.9 / b) * z) for n, b in rounds)
                against = log_mean_exp(sums - credit) >= np.log(4 / self.delta)
                left, right = (z, right) if against == (sign > 0) else (left, z)
            ends.append(left if sign > 0 else right)
        return np.clip(low - F * M * ends[1], 0, self.rho), np.clip(high - F * M * ends[0], 0, self.rho)


class GuardedPairsTwin(PairsTwin, GuardedTwin):
    """The same with further metrics, which totals have none of."""

    def enter(self, asked: Asked, rewards: Floats | None) -> None:
        self.most = self.rho
        GuardedTwin.enter(self, asked, rewards)

    def enter_rewards(self, asked: Asked, rewards: Floats | None) -> None:
        Twin.enter(self, asked, rewards)

    def drop(self, leader: int | None = None) -> None:
        GuardedTwin.drop(self, leader)

    def look(self, learner: CertifyingLearner, *, ended: bool = True) -> None:
        PairsTwin.look(self, learner, ended=ended)
        self.rails = read_rails(learner, self.P)


def differences(learner: CertifyingLearner, twin: PairsTwin, *, whole: bool) -> list[str]:
    """In what a learner and its twin differ; `whole` looks at what takes long, too."""
    names, verdict, queue = learner.policies.names, learner.verdict, learner.queue
    leader, _ = twin.certified or (twin.epochs[-1].leader, 0.0)
    rivals = twin.rivals(leader)
    waiting = sum(i not in twin.told for i in range(twin.front, len(twin.asked)))
    dropped = [(d.index, d.round, d.leader) for d in verdict.dropped]
    compared: list[tuple[str, Any, Any]] = [
        ("missing", queue.missing, twin.missing),
        ("late", queue.late, twin.late),
        ("waiting", queue.waiting, waiting),
        ("rounds of evidence", sum(learner.evidence.n_rounds), twin.front),
        ("who is left", verdict.candidates.tolist(), np.flatnonzero(twin.alive).tolist()),
        ("dropped", dropped, [(i, n, names[by]) for i, n, by, _ in twin.dropped]),
        ("certified", verdict.certified is not None, twin.certified is not None),
    ]
    found = [f"{name}: {mine}, and by the twin {other}" for name, mine, other in compared if mine != other]
    if not found:
        numbers: list[tuple[str, Any, Any]] = [
            (f"evidence at {mu:g}", read_evidence(learner, leader, mu, rivals), twin.evidence(leader, mu)[rivals])
            for mu in (0.0, learner.verdict.epsilon)
        ]
        numbers.append(
            ("evidence of the dropped", [d.log_evidence for d in verdict.dropped], [d[3] for d in twin.dropped])
        )
        if isinstance(twin, GuardedPairsTwin):
            guardrails, n_rounds = learner.evidence.guardrails, learner.evidence.n_rounds
            assert guardrails is not None
            all_of_them = np.arange(len(names))
            safety = np.array([twin.safety(i) for i in all_of_them.tolist()]).T
            numbers.append(("harm", guardrails.harmful(all_of_them, n_rounds), twin.harm()[all_of_them]))
            numbers.append(("safety", np.exp(guardrails.safety(all_of_them, n_rounds)), safety))
        if whole:
            claim, known = twin.claim(), verdict.claim()
            numbers.append(("claim", [known.leader, known.epsilon], claim))
            numbers.append(("intervals", learner.intervals(), [ends[: len(names)] for ends in twin.intervals()]))
            numbers.append(("value", learner.evidence.values.means[claim[0]], twin.value(claim[0])))
        for name, mine, other in numbers:
            if not np.allclose(mine, other, rtol=1e-12, atol=1e-12):
                found.append(f"{name}: {mine}, and by the twin {other}")
    return found
