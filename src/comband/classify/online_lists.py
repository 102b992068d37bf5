"""List classification as it happens: exploration and learning take turns in growing epochs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from comband.classify.classifier import BanditListClassifier
from comband.classify.novelty import Balanced, New, enough_answers
from comband.classify.optimism import Optimistic, Widths
from comband.explore.explorers.base import check_objective
from comband.explore.oracles.pairs import check_matrix, context_keys
from comband.learners.atomic import synchronized
from comband.learners.base import Learner, Seed
from comband.page.contexts import Contexts, concat_contexts, n_contexts, take_contexts
from comband.page.lists import check_lists, check_propensities, check_rewards
from comband.page.problem import (
    InputError,
    Problem,
    check_count,
    check_fraction,
    check_number,
    check_positive,
)
from comband.page.rounds import Decisions, Rounds, read_only, sign
from comband.page.storage import Maybe, Part, State, Text, Whole, require
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.scored import ScoredPolicy
from comband.statistics.claims import nothing
from comband.statistics.importance import ValueSums
from comband.statistics.results import Candidate, Selection, Status
from comband.statistics.sequences import bernstein_sequence

# Contexts on which a label's scores are centred and scaled.
_REFERENCE = 4096
_MOST_FLOOR = 0.3
_DELTA = 0.05
# The interval of a value is tightest where Σ X² is so many squares of the largest X.
_BEST_AT = 10.0
# How many optimistic lists an epoch of `objective="reward"` draws from.
_OPTIMISTIC = 8
# What follows from the objective: growth and least_floor.
_DEFAULTS = {"rounds": (1.5, 0.05), "reward": (1.1, 0.02)}


class OnlineListClassifier(Learner):
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
    (ε, δ) promise over a class here, only the estimated value of what was learnt. Its interval rests on the decisions
    of an epoch from the first one up to the first that had no answer when the epoch ended: whichever answers come
    early, these are a fair sample. The k-th model's interval misses with probability 0.05/(k(k + 1)) at most, so all
    that are ever shown hold together with probability 0.95.

    That is for learning much in few rounds. With `objective="reward"` it earns meanwhile: γ is `least_floor`, and the
    other lists are, by `exploit`, greedy or *optimistic* ones, the labels with the highest upper bounds of their rates.
    Bounds are as wide as a ridge regression is unsure, feature by feature, and shrink with every answer (`Widths`).

    Parameters
    ----------
    problem:
        K, m and s.
    classifier:
        How to learn: a `BanditListClassifier`, which is cloned; its list size and number of actions are set from the
        problem. By default ridge regression. Its `repeat_correlation` also says when a repeated answer is worthless.
    objective:
        "rounds": learn as much as can be in few rounds; "reward": collect much meanwhile, and learn a little less.
    first_epoch:
        Uniform rounds before the first fit; 10·K/m by default, 20 for "reward".
    growth:
        An epoch ends when the number of answered rounds has grown by this factor; 1.5 by default, 1.1 for "reward".
    exploit:
        The share of greedy lists among those that are not uniform.
    least_floor:
        γ never falls below this; 0.05 by default, 0.02 for "reward".
    n_rounds:
        `done` after so many answers; never by default.
    seed:
        An int, a SeedSequence or a Generator.

    >>> import numpy as np
    >>> import comband as cb
    >>> world = cb.MultilabelWorld(cb.MultilabelData.from_sklearn("iris"), list_size=1)
    >>> learner = cb.OnlineListClassifier(world.problem, n_rounds=300, seed=1)
    >>> result = cb.run(learner, world, batch_size=50).result
    >>> learner.predict(world.sample(2, np.random.default_rng(2)).contexts).shape
    (2, 1)
    """

    def __init__(
        self,
        problem: Problem,
        classifier: BanditListClassifier | None = None,
        *,
        objective: str = "rounds",
        first_epoch: int | None = None,
        growth: float | None = None,
        exploit: float = 0.2,
        least_floor: float | None = None,
        n_rounds: int | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, seed=seed)
        template = BanditListClassifier() if classifier is None else classifier
        if not isinstance(template, BanditListClassifier):
            raise InputError(f"classifier must be a BanditListClassifier, got {type(template).__name__}.")
        self.classifier = clone(template).set_params(list_size=problem.list_size, n_actions=problem.n_actions)
        self.objective = check_objective(objective)
        usual_growth, usual_floor = _DEFAULTS[self.objective]
        default = 20 if self.objective == "reward" else max(20, round(10 / problem.uniform_propensity))
        self.first_epoch = default if first_epoch is None else check_count("first_epoch", first_epoch)
        self.growth = check_positive("growth", usual_growth if growth is None else growth)
        if self.growth <= 1:
            raise InputError(f"growth must be above 1, got {growth}.")
        self.exploit = check_fraction("exploit", exploit)
        self.least_floor = check_fraction("least_floor", usual_floor if least_floor is None else least_floor)
        self.n_rounds = None if n_rounds is None else check_count("n_rounds", n_rounds)
        self.epoch = 0
        self._batches: list[Rounds] = []
        self._shown: dict[bytes, NDArray[np.int32]] = {}
        enough = enough_answers(check_number("repeat_correlation", self.classifier.repeat_correlation))
        self._enough = enough if self.objective == "rounds" else None  # who earns may show what is known
        self._widths: Widths | None = None
        self._mixture = _uniform(problem)
        self._fitted: tuple[int, BanditListClassifier] | None = None  # how many rounds it saw, and the model
        self._checked: ValueSums | None = None
        self._epoch_start = 0
        self._first_id = 0  # of the epoch's decisions
        self._next_epoch = self.first_epoch

    @property
    def done(self) -> bool:
        """Whether the budget is spent; never without one."""
        return self.n_rounds is not None and self.rounds >= self.n_rounds

    @synchronized
    def model(self) -> BanditListClassifier:
        """The classifier fitted on all answered rounds so far."""
        if self.rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        if self._fitted is None or self._fitted[0] != self.rounds:
            self._fitted = (self.rounds, self._fit(self._log()))
        return self._fitted[1]

    @synchronized
    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """The model's lists (n, m), without exploration."""
        return self.model().policy_.predict(check_matrix(X))

    @synchronized
    def result(self) -> Selection:
        """The current model, with the value of the one that was in use in the last finished epoch."""
        model, rho = self.model(), self.problem.max_reward
        value, interval, note = self._value()
        return Selection(
            policy=model.policy_,
            best=Candidate(0, "list classifier", value, interval),
            epsilon=rho,
            delta=_DELTA,
            rounds=self.rounds,
            runners_up=(),
            claims=(nothing("the class is reached through a regression"),),
            notes=(note,),
        )

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now."""
        return Status(self.rounds, f"epoch {self.epoch}", len(self._mixture.support))

    @classmethod
    def load(cls, path: str | os.PathLike[str], classifier: BanditListClassifier | None = None) -> Self:
        """Go on where `save` stopped, with the same classifier (unfitted) as the one it was made with.

        Models are fitted again.
        """
        return super().load(path, classifier)

    @classmethod
    def from_state(cls, state: State, classifier: BanditListClassifier | None = None) -> Self:
        """The inverse of `state`, checked, with the same classifier (unfitted)."""
        return super().from_state(state, classifier)

    def _value(self) -> tuple[float, tuple[float, float], str]:
        """The value of the model that was in use in the last finished epoch, its interval, and what that rests on."""
        rho, values, epoch = self.problem.max_reward, self._checked, self.epoch - 1
        if values is None:
            return 0.0, (0.0, rho), "the value is not estimated yet: no epoch with a fitted model has ended"
        if values.n_rounds == 0:
            return (
                0.0,
                (0.0, rho),
                f"the value is not estimated: the first decision of epoch {epoch} had no answer when that epoch ended, "
                "and later decisions that were answered before it may be no fair sample; tell decisions without reward "
                "too",
            )
        # Draws depend on what was answered in the same epoch: values of a martingale, not independent ones. Which is
        # the last finished epoch depends on the answers: all epochs share δ.
        bound, delta = rho / self._least_chance(), _DELTA / (epoch * (epoch + 1))
        low, high = bernstein_sequence(
            values.sums, values.n_rounds, values.squares, alpha=delta, bound=bound, best_at=_BEST_AT * bound**2
        )
        return (
            min(float(values.means[0]), rho),  # an unbiased estimate may pass the largest possible value
            (float(low[0]), float(min(high[0], rho))),
            f"the value is that of the model in use in epoch {epoch}, the last finished one, on its first "
            f"{values.n_rounds:,} decisions, up to the first that had no answer when it ended; the intervals of all "
            f"epochs hold together with probability {1 - _DELTA:g}",
        )

    def _least_chance(self) -> float:
        """The smallest probability of a label of the greedy list: (1 − γ)·exploit + γ·m/K at least, linear in γ."""
        most = self.least_floor if self.objective == "reward" else max(_MOST_FLOOR, self.least_floor)
        uniform = self.problem.uniform_propensity
        return min((1 - floor) * self.exploit + floor * uniform for floor in (self.least_floor, most))

    def _check_contexts(self, X: Contexts) -> Contexts:
        """A matrix, of the kind and width of those that were answered first."""
        known = self._batches[0].decisions.contexts if self._batches else None
        matrix = check_matrix(X, features=None if known is None else known.shape[1])
        if known is not None and sp.issparse(matrix) != sp.issparse(known):
            return matrix.toarray() if sp.issparse(matrix) else sp.csr_array(matrix)
        return matrix

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        return self._mixture.draw(X, self._rng, first_id=first_id, epoch=self.epoch)

    def _learn(self, rounds: Rounds) -> None:
        own = rounds[np.arange(len(rounds))]  # a copy: the contexts may be the caller's own
        kept = Rounds(replace(own.decisions, contexts=self._check_contexts(own.decisions.contexts)), own.rewards)
        sign(kept.decisions, read_only(np.zeros(len(kept), dtype=np.int64)))  # who made them no longer matters
        self._batches.append(kept)
        answered = self.rounds + len(rounds)
        shown, add_to_widths = self._labels_shown(rounds), self._widths_told(kept)
        if answered >= self._next_epoch:
            self._start_epoch(answered)
        self._corrupt = True
        self._shown.update(shown)
        add_to_widths()

    def _config(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "first_epoch": self.first_epoch,
            "growth": self.growth,
            "exploit": self.exploit,
            "least_floor": self.least_floor,
            "n_rounds": self.n_rounds,
        }

    _SCHEMA: ClassVar = {
        "classifier": Text(),
        "epoch": Whole(0),
        "epoch_start": Whole(0),
        "first_id": Whole(0),
        "rounds": Maybe(Part()),
        "checked": Maybe(Part()),
    }

    def _state(self) -> State:
        return {
            "classifier": repr(self.classifier),
            "epoch": self.epoch,
            "epoch_start": self._epoch_start,
            "first_id": self._first_id,
            "rounds": self._log().state() if self._batches else None,
            "checked": None if self._checked is None else self._checked.state(),
        }

    def _restore(self, state: State) -> None:
        if repr(self.classifier) != state["classifier"]:
            raise InputError(f"it was saved with {state['classifier']}, but it is loaded with {self.classifier!r}.")
        self.epoch, self._epoch_start, self._first_id = state["epoch"], state["epoch_start"], state["first_id"]
        self._set_next_epoch()
        require(
            (self.epoch == 0) == (self._epoch_start == 0)
            and self.epoch <= self._epoch_start <= self.rounds < self._next_epoch
            and self._first_id <= self._ledger.issued,
            "its epochs do not fit its rounds.",
        )
        log = None if state["rounds"] is None else Rounds.from_state(state["rounds"])
        require(self.rounds == (0 if log is None else len(log)), "it must hold as many rounds as were answered.")
        if log is not None:
            self._take_back(log)
        if state["checked"] is not None:
            self._checked = ValueSums.from_state(state["checked"], P=1)
            require(
                self.epoch > 1 and self._checked.n_rounds <= self.rounds, "its value must be that of its own rounds."
            )

    def _take_back(self, log: Rounds) -> None:
        """All rounds so far, from a file."""
        shown = log.decisions
        check_matrix(shown.contexts)
        check_lists(shown.lists, self.problem)
        check_propensities(shown.propensities, shape=shown.lists.shape)
        check_rewards(log.rewards, self.problem, n=len(log))
        require(
            len(np.unique(shown.ids)) == len(log)
            and 0 <= int(shown.ids.min(initial=0)) <= int(shown.ids.max(initial=0)) < self._ledger.issued
            and 0 <= int(shown.epochs.min(initial=0)) <= int(shown.epochs.max(initial=0)) <= self.epoch
            and bool((shown.ids[shown.epochs < self.epoch] < self._first_id).all()),
            "its rounds must be its own, each once.",
        )
        self._batches = [log]
        self._shown.update(self._labels_shown(log))
        self._widths_told(log)()
        if self.epoch > 0:
            before = log[: self._epoch_start]
            self._fitted = (len(before), self._fit(before))
            self._enter(self._fitted[1], before)

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
            )
            self._batches = [Rounds(joined, np.concatenate([batch.rewards for batch in self._batches]))]
        return self._batches[0]

    def _labels_shown(self, rounds: Rounds) -> dict[bytes, NDArray[np.int32]]:
        """For the contexts of these rounds: all labels that they have been shown, these included."""
        shown: dict[bytes, NDArray[np.int32]] = {}
        if self._enough is None:
            return shown
        for key, labels in zip(context_keys(rounds.decisions.contexts), rounds.decisions.lists, strict=True):
            known = shown.get(key, self._shown.get(key))
            if known is None:
                shown[key] = labels
            else:
                shown[key] = np.union1d(known, labels) if self._enough == 1 else np.concatenate([known, labels])
        return shown

    def _widths_told(self, rounds: Rounds) -> Callable[[], None]:
        """Makes room for widths, if the objective needs any; what is returned adds these rounds to them."""
        if self.objective == "rounds":
            return lambda: None
        contexts, lists = rounds.decisions.contexts, rounds.decisions.lists
        widths = self._widths or Widths(contexts.shape[1], self.problem.n_actions)
        self._widths = widths
        return lambda: widths.add(contexts, lists)

    def _start_epoch(self, answered: int) -> None:
        log = self._log()
        if self.epoch > 0:
            self._checked = self._check(log[self._epoch_start :])
        self._fitted = (answered, self._fit(log))
        self._enter(self._fitted[1], log)
        self.epoch += 1
        self._epoch_start, self._first_id = answered, self._ledger.issued
        self._set_next_epoch()

    def _set_next_epoch(self) -> None:
        """The first of n₁, n₁·growth, … (rounded up) that lies after the current epoch's start."""
        while self._next_epoch <= self._epoch_start:
            self._next_epoch = int(np.ceil(self._next_epoch * self.growth))

    def _enter(self, model: BanditListClassifier, log: Rounds) -> None:
        """Make the mixture that draws from now on."""
        scorer, seed = model.policy_.scorer, int(model.random_state)
        others, floor = self._exploring(scorer, log)
        scorers = {"greedy": scorer, **others}
        explore = (1 - self.exploit) / len(others)
        self._mixture = Mixture(
            PolicySet([ScoredPolicy(each, self.problem, seed=seed) for each in scorers.values()], list(scorers)),
            [self.exploit, *[explore] * len(others)],
            problem=self.problem,
            floor=floor,
        )

    def _exploring(self, scorer: Any, log: Rounds) -> tuple[dict[str, Any], float]:
        """Scorers of the lists that are not greedy, by name, and γ."""
        if self._widths is not None:
            rate = (log.rewards.sum() + 0.5) / (log.rewards.size + 1.0)
            rng = np.random.default_rng([int(self.classifier.random_state), len(log)])
            numbers = range(1, _OPTIMISTIC + 1)
            return {f"optimistic {n}": Optimistic(scorer, self._widths, rate, rng) for n in numbers}, self.least_floor
        reference = take_contexts(log.decisions.contexts, slice(-_REFERENCE, None))
        scorers = {
            "best new": New(scorer, self._shown, self._enough),
            "balanced new": New(Balanced(scorer, reference), self._shown, self._enough),
        }
        floor = min(_MOST_FLOOR, float(np.sqrt(self.first_epoch / (2 * len(log)))))
        return scorers, max(self.least_floor, floor)

    def _check(self, rounds: Rounds) -> ValueSums:
        """The value of the greedy list on decisions made after its model was fitted, up to the first without answer.

        Those that are answered need not be a fair sample (clicks are often told first); the first so many are.
        """
        ids = rounds.decisions.ids
        own = np.flatnonzero((rounds.decisions.epochs == self.epoch) & (ids >= self._first_id))
        own = own[np.argsort(ids[own])]
        in_order = ids[own] == self._first_id + np.arange(len(own))
        return ValueSums.from_events(rounds[own[in_order]].events(), self._mixture.policies, [0])

    def _fit(self, log: Rounds) -> BanditListClassifier:
        model: BanditListClassifier = clone(self.classifier)
        shown = log.decisions
        return model.fit(shown.contexts, lists=shown.lists, rewards=log.rewards, propensities=shown.propensities)


class _Blank:
    """No score for anything."""

    def __init__(self, n_actions: int) -> None:
        self._n_actions = n_actions

    def __call__(self, X: Any) -> NDArray[np.float64]:
        return np.zeros((n_contexts(X), self._n_actions))


def _uniform(problem: Problem) -> Mixture:
    """Uniform lists; the mixture needs a policy, which is never asked."""
    blank = ScoredPolicy(_Blank(problem.n_actions), problem)
    return Mixture(PolicySet([blank]), [1.0], problem=problem, floor=1.0)
