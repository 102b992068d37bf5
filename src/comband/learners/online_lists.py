"""List classification as it happens: exploration and learning take turns in growing epochs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from comband.classifier import BanditListClassifier
from comband.contexts import Contexts, concat_contexts, context_prints, n_contexts, private_contexts, take_contexts
from comband.estimates.importance import ValueSums
from comband.learners.atomic import Atomic, Checkpoint, alone
from comband.learners.base import Seed, restore_rng
from comband.learners.ledger import Ledger
from comband.lists import check_lists, check_propensities, check_rewards
from comband.oracles.pairs import check_matrix, context_keys
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.scored import ScoredPolicy
from comband.problem import (
    InputError,
    Problem,
    check_count,
    check_fraction,
    check_itemised,
    check_number,
    check_positive,
    check_problem,
    learner_generator,
)
from comband.results import Candidate, Receipt, Selection, Status
from comband.rounds import Decisions, Rounds, check_decisions
from comband.storage import PROBLEM, Maybe, Part, Real, State, Text, Whole, check, load, require, save

# Contexts on which a label's scores are centred and scaled.
_REFERENCE = 4096
# An answer worth less than this share of a first one is not worth a place in an exploring list.
_WORTHLESS = 0.1
_MOST_FLOOR = 0.3
_DELTA = 0.05

Shown = Mapping[bytes, NDArray[np.int32]]
"""For a context (by its key): the labels it has been shown; once for each time, or just once if one time is enough."""


class OnlineListClassifier(Atomic):
    """Shows lists, learns which labels are confirmed, and gets better at both; `ask` and `tell` as for every learner.

    Rounds fall into epochs that grow by `growth`. After each, a `BanditListClassifier` is fitted on all rounds so far,
    and the next epoch's lists are drawn from a mixture, with exact propensities:

    - with probability γ a uniform list, γ = √(n₁/2t) between `least_floor` and 0.3, n₁ = `first_epoch`;
    - else, with probability `exploit`, the *greedy* list: the m labels of highest fitted rate;
    - else, half and half, one of two *exploring* lists: the labels of highest rate, or those whose rate is highest
      relative to the label's own mean and spread over contexts. The first collects confirmations of labels that are
      well known; the second shows every label about equally often, but in the contexts that suit it, which is how a
      rare label is learnt in few rounds. Both pass over labels whose answer in this very context is known already.

    Greedy lists alone starve labels that did badly in the first epochs, and uniform lists hardly ever hit. There is no
    (ε, δ) promise over a class here, only the estimated value of what was learnt.

    Parameters
    ----------
    problem:
        K, m and s.
    classifier:
        How to learn: a `BanditListClassifier`, which is cloned; its list size and number of actions are set from the
        problem. By default ridge regression. Its `repeat_correlation` also says when a repeated answer is worthless.
    first_epoch:
        Uniform rounds before the first fit; 10·K/m by default.
    growth:
        An epoch ends when the number of answered rounds has grown by this factor.
    exploit:
        The share of greedy lists among those that are not uniform.
    least_floor:
        γ never falls below this.
    n_rounds:
        `done` after so many answers; never by default.
    seed:
        An int, a SeedSequence or a Generator.
    """

    def __init__(
        self,
        problem: Problem,
        classifier: BanditListClassifier | None = None,
        *,
        first_epoch: int | None = None,
        growth: float = 1.5,
        exploit: float = 0.2,
        least_floor: float = 0.05,
        n_rounds: int | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        self.problem = check_problem(problem)
        check_itemised(problem, type(self).__name__)
        template = BanditListClassifier() if classifier is None else classifier
        if not isinstance(template, BanditListClassifier):
            raise InputError(f"classifier must be a BanditListClassifier, got {type(template).__name__}.")
        self.classifier = clone(template).set_params(list_size=problem.list_size, n_actions=problem.n_actions)
        default = max(20, round(10 / problem.uniform_propensity))
        self.first_epoch = default if first_epoch is None else check_count("first_epoch", first_epoch)
        self.growth = check_positive("growth", growth)
        if self.growth <= 1:
            raise InputError(f"growth must be above 1, got {growth}.")
        self.exploit = check_fraction("exploit", exploit)
        self.least_floor = check_fraction("least_floor", least_floor)
        self.n_rounds = None if n_rounds is None else check_count("n_rounds", n_rounds)
        self.epoch = 0
        self._rng = learner_generator(seed)
        self._ledger = Ledger()
        self._batches: list[Rounds] = []
        self._shown: dict[bytes, NDArray[np.int32]] = {}
        self._enough = _enough_answers(check_number("repeat_correlation", self.classifier.repeat_correlation))
        self._mixture = _uniform(problem)
        self._fitted: tuple[int, BanditListClassifier] | None = None  # how many rounds it saw, and the model
        self._checked: ValueSums | None = None
        self._epoch_start = 0
        self._next_epoch = self.first_epoch

    @property
    def rounds(self) -> int:
        """How many decisions have been answered."""
        return self._ledger.answered

    @property
    def done(self) -> bool:
        """Whether the budget is spent; never without one."""
        return self.n_rounds is not None and self.rounds >= self.n_rounds

    def ask(self, X: Contexts) -> Decisions:
        """A list for each context, with its propensities; `epochs` hold the epoch."""
        matrix = private_contexts(check_matrix(X))
        prints = context_prints(matrix)
        with self._lock:
            self._check_whole()
            before, numbers = Checkpoint(self, self._ledger), self._rng.bit_generator.state
            try:
                decisions = self._mixture.draw(matrix, self._rng, first_id=self._ledger.issued, epoch=self.epoch)
                self._ledger.issue(decisions, prints)
            except BaseException:
                before.restore()
                self._rng.bit_generator.state = numbers
                raise
        return decisions

    def tell(self, decisions: Decisions, rewards: ArrayLike) -> Receipt:
        """Which of the shown labels were confirmed, (n, m); late, in parts and in any order, as for every learner.

        All of it is taken in or, if anything fails (a fit, say), nothing.
        """
        checked = check_rewards(rewards, self.problem, n=len(check_decisions(decisions)))
        with self._lock:
            self._check_whole()
            admission = self._ledger.admit(decisions, checked)
            before, forgotten = Checkpoint(self), dict[bytes, NDArray[np.int32] | None]()
            try:
                if len(admission.rows):
                    rounds = Rounds(decisions[admission.rows], checked[admission.rows])
                    self._batches.append(rounds)
                    self._remember(rounds, forgotten)
                answered = self.rounds + admission.receipt.accepted
                if answered >= self._next_epoch:
                    self._start_epoch(answered)
                self._torn = True
                self._ledger.settle(admission)
                self._torn = False
            except BaseException:
                if not self._torn:
                    before.restore()
                    for key, labels in forgotten.items():
                        if labels is None:
                            self._shown.pop(key, None)
                        else:
                            self._shown[key] = labels
                raise
            return admission.receipt

    @alone
    def model(self) -> BanditListClassifier:
        """The classifier fitted on all answered rounds so far."""
        if self.rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        if self._fitted is None or self._fitted[0] != self.rounds:
            self._fitted = (self.rounds, self._fit(self._log()))
        return self._fitted[1]

    @alone
    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """The model's lists (n, m), without exploration."""
        return self.model().policy_.predict(check_matrix(X))

    @alone
    def result(self) -> Selection:
        """The current model, with the value of the one that was in use in the last finished epoch."""
        model, rho = self.model(), self.problem.max_reward
        value, interval = 0.0, (0.0, rho)
        note = "the value is not estimated yet: no epoch with a fitted model has ended"
        if self._checked is not None:
            # A greedy list is drawn with probability (1 − γ)·exploit at least.
            bound = rho / ((1 - _MOST_FLOOR) * self.exploit)
            low, high = self._checked.bounds(bound=bound, delta=_DELTA)
            value = min(float(self._checked.means[0]), rho)  # an unbiased estimate may pass the largest possible value
            interval = (float(low[0]), float(min(high[0], rho)))
            note = "the value is that of the model in use in the last finished epoch, on the rounds of that epoch"
        return Selection(
            policy=model.policy_,
            best=Candidate(0, "list classifier", value, interval),
            epsilon=rho,
            delta=_DELTA,
            rounds=self.rounds,
            runners_up=(),
            guarantee="none but the trivial bound: the class is reached through a regression",
            notes=(note,),
        )

    @alone
    def status(self) -> Status:
        """Where the learner stands now."""
        return Status(self.rounds, f"epoch {self.epoch}", len(self._mixture.support))

    @alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write rounds and state to one npz file; models are fitted again when it is loaded."""
        save(path, "online list classifier", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], classifier: BanditListClassifier | None = None) -> Self:
        """Go on where `save` stopped, with the same classifier (unfitted) as the one it was made with."""
        return load(path, "online list classifier", lambda state: cls.from_state(state, classifier))

    @alone
    def state(self) -> State:
        """All but the classifier, for a file; see `comband.storage`."""
        return {
            "problem": asdict(self.problem),
            "config": {
                "first_epoch": self.first_epoch,
                "growth": self.growth,
                "exploit": self.exploit,
                "least_floor": self.least_floor,
                "n_rounds": self.n_rounds,
            },
            "classifier": repr(self.classifier),
            "epoch": self.epoch,
            "epoch_start": self._epoch_start,
            "rng": self._rng.bit_generator.state,
            "ledger": self._ledger.state(),
            "rounds": self._log().state() if self._batches else None,
            "checked": None if self._checked is None else self._checked.state(),
        }

    @classmethod
    def from_state(cls, state: State, classifier: BanditListClassifier | None = None) -> Self:
        """The inverse of `state`, checked, with the same classifier (unfitted)."""
        check(state, _SCHEMA)
        learner = cls(Problem(**state["problem"]), classifier, **state["config"])
        if repr(learner.classifier) != state["classifier"]:
            raise InputError(f"it was saved with {state['classifier']}, but it is loaded with {classifier!r}.")
        learner._rng = restore_rng(state["rng"])
        learner._ledger = Ledger.from_state(state["ledger"])
        learner.epoch, learner._epoch_start = state["epoch"], state["epoch_start"]
        learner._set_next_epoch()
        require(
            (learner.epoch == 0) == (learner._epoch_start == 0)
            and learner.epoch <= learner._epoch_start <= learner.rounds < learner._next_epoch,
            "its epochs do not fit its rounds.",
        )
        log = None if state["rounds"] is None else Rounds.from_state(state["rounds"])
        require(learner.rounds == (0 if log is None else len(log)), "it must hold as many rounds as were answered.")
        if log is not None:
            shown = log.decisions
            check_matrix(shown.contexts)
            check_lists(shown.lists, learner.problem)
            check_propensities(shown.propensities, shape=shown.lists.shape)
            check_rewards(log.rewards, learner.problem, n=len(log))
            require(
                len(np.unique(shown.ids)) == len(log)
                and 0 <= int(shown.ids.min(initial=0)) <= int(shown.ids.max(initial=0)) < learner._ledger.issued
                and 0 <= int(shown.epochs.min(initial=0)) <= int(shown.epochs.max(initial=0)) <= learner.epoch,
                "its rounds must be its own, each once.",
            )
            learner._batches = [log]
            learner._remember(log)
            if learner.epoch > 0:
                before = log[: learner._epoch_start]
                learner._fitted = (len(before), learner._fit(before))
                learner._enter(learner._fitted[1], before)
        if state["checked"] is not None:
            learner._checked = ValueSums.from_state(state["checked"], n_policies=1)
            require(learner._checked.n_rounds <= learner.rounds, "its value must be that of its own rounds.")
        return learner

    def _log(self) -> Rounds:
        """All rounds so far as one record; joined only when needed, since every join copies."""
        if len(self._batches) > 1:
            decisions = [batch.decisions for batch in self._batches]
            joined = Decisions(
                ids=np.concatenate([d.ids for d in decisions]),
                lists=np.concatenate([d.lists for d in decisions]),
                propensities=np.concatenate([d.propensities for d in decisions]),
                epochs=np.concatenate([d.epochs for d in decisions]),
                contexts=concat_contexts([d.contexts for d in decisions]),
                makers=np.concatenate([d.makers for d in decisions]),
            )
            self._batches = [Rounds(joined, np.concatenate([batch.rewards for batch in self._batches]))]
        return self._batches[0]

    def _remember(self, rounds: Rounds, before: dict[bytes, NDArray[np.int32] | None] | None = None) -> None:
        """Keep which labels were shown; what was kept of the same contexts goes to `before`."""
        if self._enough is None:
            return
        for key, labels in zip(context_keys(rounds.decisions.contexts), rounds.decisions.lists, strict=True):
            known = self._shown.get(key)
            if before is not None:
                before.setdefault(key, known)
            if self._enough == 1:
                self._shown[key] = labels if known is None else np.union1d(known, labels)
            else:
                self._shown[key] = labels if known is None else np.concatenate([known, labels])

    def _start_epoch(self, answered: int) -> None:
        log = self._log()
        if self.epoch > 0:
            self._checked = self._check(log[self._epoch_start :])
        self._fitted = (answered, self._fit(log))
        self._enter(self._fitted[1], log)
        self.epoch += 1
        self._epoch_start = answered
        self._set_next_epoch()

    def _set_next_epoch(self) -> None:
        """The first of n₁, n₁·growth, … (rounded up) that lies after the current epoch's start."""
        while self._next_epoch <= self._epoch_start:
            self._next_epoch = int(np.ceil(self._next_epoch * self.growth))

    def _enter(self, model: BanditListClassifier, log: Rounds) -> None:
        """Make the mixture that draws from now on."""
        scorer = model.policy_.scorer
        reference = take_contexts(log.decisions.contexts, slice(-_REFERENCE, None))
        scorers = {
            "greedy": scorer,
            "best new": _New(scorer, self._shown, self._enough),
            "balanced new": _New(_Balanced(scorer, reference), self._shown, self._enough),
        }
        seed = int(model.random_state)
        floor = max(self.least_floor, min(_MOST_FLOOR, float(np.sqrt(self.first_epoch / (2 * len(log))))))
        explore = (1 - self.exploit) / 2
        self._mixture = Mixture(
            PolicySet([ScoredPolicy(each, self.problem, seed=seed) for each in scorers.values()], list(scorers)),
            [self.exploit, explore, explore],
            problem=self.problem,
            floor=floor,
        )

    def _check(self, rounds: Rounds) -> ValueSums:
        """The value of the greedy list on rounds drawn after its model was fitted: unbiased."""
        own = rounds[np.flatnonzero(rounds.decisions.epochs == self.epoch)]
        return ValueSums.from_events(own.events(), self._mixture.policies, [0])

    def _fit(self, log: Rounds) -> BanditListClassifier:
        model: BanditListClassifier = clone(self.classifier)
        shown = log.decisions
        return model.fit(shown.contexts, lists=shown.lists, rewards=log.rewards, propensities=shown.propensities)


_SCHEMA = {
    "problem": PROBLEM,
    "config": {
        "first_epoch": Whole(1),
        "growth": Real(1),
        "exploit": Real(0, 1),
        "least_floor": Real(0, 1),
        "n_rounds": Maybe(Whole(1)),
    },
    "classifier": Text(),
    "epoch": Whole(0),
    "epoch_start": Whole(0),
    "rng": Part(),
    "ledger": Part(),
    "rounds": Maybe(Part()),
    "checked": Maybe(Part()),
}


class _Balanced:
    """(f_y(x) − μ_y) / σ_y: how unusual a label's score is among its own scores on some reference contexts."""

    def __init__(self, scorer: Any, reference: Any) -> None:
        scores = scorer(reference)
        spread = scores.std(axis=0)
        self._scorer = scorer
        self._centre = scores.mean(axis=0)
        self._spread = np.where(spread > 0, spread, np.inf)  # a constant score is never unusual

    def __call__(self, X: Any) -> NDArray[np.float64]:
        return np.asarray((self._scorer(X) - self._centre) / self._spread, dtype=np.float64)


class _New:
    """The inner scores; labels that this very context has been shown `enough` times come last, in their order.

    `shown` grows while feedback comes in. That is sound: propensities are computed when a list is drawn, with what is
    known then, and they travel in the decision.
    """

    def __init__(self, scorer: Any, shown: Shown, enough: int | None) -> None:
        self._scorer = scorer
        self._shown = shown
        self._enough = enough

    def __call__(self, X: Any) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = np.array(self._scorer(X), dtype=np.float64)
        if self._enough is None or scores.size == 0:
            return scores
        below = 1.0 + np.ptp(scores)
        for row, key in enumerate(context_keys(X)):
            labels = self._shown.get(key)
            if labels is None:
                continue
            if self._enough > 1:
                distinct, counts = np.unique(labels, return_counts=True)
                labels = distinct[counts >= self._enough]
            scores[row, labels] -= below
        return scores


def _enough_answers(correlation: float) -> int | None:
    """How many answers of one pair make the next worthless; None if none ever does.

    k answers of correlation ρ are worth k/(1 + (k−1)ρ) independent ones, so the next adds
    (1−ρ)/((1 + (k−1)ρ)(1 + kρ)).
    """
    if not 0 <= correlation <= 1:
        raise InputError(f"repeat_correlation must lie in [0, 1], got {correlation}.")
    if correlation == 0:
        return None
    k = 1
    while (1 - correlation) / ((1 + (k - 1) * correlation) * (1 + k * correlation)) >= _WORTHLESS:
        k += 1
    return k


def _uniform(problem: Problem) -> Mixture:
    """Uniform lists; the mixture needs a policy, which is never asked."""
    blank = ScoredPolicy(lambda X: np.zeros((n_contexts(X), problem.n_actions)), problem)
    return Mixture(PolicySet([blank]), [1.0], problem=problem, floor=1.0)
