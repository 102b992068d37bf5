"""List classification when only the shown labels are ever confirmed, in scikit-learn's own form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from comband.explore.oracles.linear import ridge_of_pairs
from comband.explore.oracles.pairs import Pairs, check_entries, shown_pairs
from comband.explore.oracles.scorers import LinearScorer, fit_actions
from comband.page.lists import check_lists, check_propensities, check_rewards
from comband.page.problem import InputError, Problem, check_count, check_number, check_positive, refuse_masked
from comband.page.progress import progress_bar
from comband.policies.scored import ScoredPolicy


class NoNumbersError(InputError, TypeError):
    """Contexts that are no numbers: scikit-learn's convention is a TypeError."""


class BanditListClassifier(BaseEstimator):  # type: ignore[misc]
    """Learns to list the m labels most likely to be confirmed, from answers to the labels that were shown.

    Each label y gets a model of E[r(y) | x], fitted on the rounds that showed it; a list is the m labels of highest
    score. Fitting on shown rounds alone is unbiased when the model can represent the confirmation rate, whatever chose
    the lists, as long as it looked at the context only; `importance` moves towards inverse-propensity weights,
    which also cover a model that cannot. In experiments with linear models the direct method (0) was the better
    choice: weights of 1/q are large exactly for the labels about which little is known.

    Parameters
    ----------
    estimator:
        A regressor or classifier that takes one target; `Ridge(alpha=3.0)` if None. A plain `Ridge` is fitted for all
        labels together (conjugate gradients to three digits), anything else label by label.
    list_size:
        m.
    n_actions:
        K; from the lists (the largest label in them) or from y by default.
    importance:
        The power of 1/propensity that a shown label weighs: 0 the direct method, 1 importance weighting.
    clip:
        Weights, which have mean 1, are cut at this; None for no bound. It bounds the variance and costs bias.
    self_normalize:
        Divide each label's weights by their mean, so that labels shown at small propensities are not fitted with less
        regularisation than others.
    repeat_correlation:
        How alike the answers are when the same context is shown the same label again: such pairs are merged, and k
        answers count for k/(1 + (k−1)ρ). 1 for facts (tags), 0 for independent clicks.
    smoothing:
        Every label starts with so many imagined answers at the mean rate.
    random_state:
        For ties between equal scores, an int.
    verbose:
        Whether to show a progress bar while labels are fitted one by one.

    Attributes
    ----------
    classes_:
        The labels, (K,): actions 0 … K−1, or what y held.
    problem_:
        K and m.
    policy_:
        The fitted `ScoredPolicy`; its lists hold positions in `classes_`.
    n_features_in_:
        d.

    >>> import numpy as np
    >>> X = np.eye(3).repeat(8, axis=0)
    >>> shown = np.random.default_rng(0).integers(3, size=(24, 1))
    >>> confirmed = shown == X.argmax(axis=1, keepdims=True)
    >>> model = BanditListClassifier(Ridge(alpha=0.1), list_size=1, n_actions=3)
    >>> model = model.fit(X, lists=shown, rewards=confirmed, propensities=np.full((24, 1), 1 / 3))
    >>> model.predict(np.eye(3)).ravel().tolist()
    [0, 1, 2]
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        list_size: int = 1,
        n_actions: int | None = None,
        importance: float = 0.0,
        clip: float | None = 10.0,
        self_normalize: bool = False,
        repeat_correlation: float = 1.0,
        smoothing: float = 2.0,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.list_size = list_size
        self.n_actions = n_actions
        self.importance = importance
        self.clip = clip
        self.self_normalize = self_normalize
        self.repeat_correlation = repeat_correlation
        self.smoothing = smoothing
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        lists: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        propensities: ArrayLike | None = None,
        round_weights: ArrayLike | None = None,
    ) -> Self:
        """Learn from rounds: contexts X (n, d), the shown `lists`, their `rewards` and `propensities`, all (n, m').

        The logged lists may have another length than `list_size`. Without `propensities` every shown label weighs the
        same, which only `importance=0` allows. `round_weights` (n,) say how often a round counts (bootstrap).

        With `y` instead of lists — a vector of classes, or a 0/1 matrix (n, K) — every label of every row counts as
        shown: full information, the skyline of any bandit learner.
        """
        if y is None and lists is None:
            raise InputError(
                "requires y to be passed, but the target y is None: give fit(X, lists=…, rewards=…, propensities=…) "
                "what was shown and confirmed, or fit(X, y) all labels."
            )
        if y is not None and lists is not None:
            raise InputError("fit takes either y (all labels are known) or lists (only shown ones are), got both.")
        self._check_parameters()
        matrix = self._check(X, reset=True)
        pairs = (
            self._known(matrix, y)
            if lists is None
            else self._shown(matrix, lists, rewards, propensities, round_weights)
        )
        self.problem_ = Problem(n_actions=pairs.n_actions, list_size=check_count("list_size", self.list_size))
        self.policy_ = ScoredPolicy(self._fit(pairs), self.problem_, seed=int(self.random_state))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Lists (n, m) of labels, best first."""
        check_is_fitted(self)
        lists = self.policy_.predict(self._check(X))
        return np.asarray(self.classes_[lists])

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Fitted confirmation rates (n, K), in the order of `classes_`."""
        check_is_fitted(self)
        return self.policy_.scores(self._check(X))

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        lists: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        propensities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """How many of the listed labels are right, on average per row: hits@m, between 0 and m; larger is better.

        With `y`, a vector of classes or a 0/1 matrix (n, K), they are counted. With a log instead (what was shown, its
        rewards and its propensities, all (n, m')), hits@m is estimated without bias by (1/n) Σ r/q over the shown
        labels that are in the predicted lists, if every label could be shown; noisy where propensities are small. Score
        on rows that `fit` did not see, as `GridSearchCV` does: with scikit-learn's metadata routing both methods get
        their part of the log. `sample_weight` (n,) says how much each row counts.
        """
        if lists is not None and y is not None:
            raise InputError("score takes y (all labels are known) or lists (only shown ones are), got both.")
        if lists is None and y is None:
            raise InputError(
                "score needs y, or lists with rewards and propensities. In a search over a log they come by metadata "
                "routing: sklearn.set_config(enable_metadata_routing=True), and for the model set_fit_request and "
                "set_score_request(lists=True, rewards=True, propensities=True)."
            )
        worth = self._hits(X, y) if lists is None else self._estimated_hits(X, lists, rewards, propensities)
        weights = None if sample_weight is None else _check_weights("sample_weight", sample_weight, len(worth))
        return float(np.average(worth, weights=weights))

    def _estimated_hits(self, X: Any, lists: ArrayLike, rewards: Any, propensities: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        predicted = self.policy_.predict(self._check(X))
        shown = check_lists(lists, n=len(predicted))
        if rewards is None or propensities is None:
            raise InputError("rewards and propensities of the shown labels are needed to score a log.")
        logged = Problem(n_actions=max(int(shown.max(initial=0)) + 1, shown.shape[1]), list_size=shown.shape[1])
        r, q = check_rewards(rewards, logged, n=len(shown)), check_propensities(propensities, shape=shown.shape)
        shared = (shown[:, :, None] == predicted[:, None, :]).any(axis=2)
        return np.asarray((shared * r / q).sum(axis=1))

    def _hits(self, X: Any, y: Any) -> NDArray[np.float64]:
        refuse_masked("y", y)
        lists = self.predict(X)
        if sp.issparse(y) or np.ndim(y) == 2:
            known = sp.csr_array(y)
            if known.shape != (len(lists), len(self.classes_)):
                raise InputError(
                    f"y must have shape (rows, labels) = {(len(lists), len(self.classes_))}, got {known.shape}."
                )
            places = np.searchsorted(self.classes_, lists)
            found = known[np.repeat(np.arange(len(lists)), lists.shape[1]), places.ravel()]
            values = np.asarray(found.todense() if sp.issparse(found) else found, dtype=np.float64)
            return np.asarray(values.reshape(lists.shape).sum(axis=1))
        truth = np.asarray(y)
        if truth.shape != (len(lists),):
            raise InputError(f"y must hold one class per row, {len(lists)} of them, got shape {truth.shape}.")
        return np.asarray((lists == truth[:, None]).any(axis=1).astype(np.float64))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _check_parameters(self) -> None:
        # scikit-learn's rule: constructors only store, `fit` looks.
        if self.estimator is not None and not _is_estimator(self.estimator):
            kind = type(self.estimator).__name__
            raise InputError(f"estimator must be a scikit-learn estimator (an instance) or None, got {kind}.")
        for name, most in (("importance", 10.0), ("smoothing", 1e15)):
            value = check_number(name, getattr(self, name))
            if not 0 <= value <= most:
                raise InputError(f"{name} must lie in [0, {most:g}], got {value}.")
        correlation = check_number("repeat_correlation", self.repeat_correlation)
        if not 0 <= correlation <= 1:
            raise InputError(f"repeat_correlation must lie in [0, 1], got {correlation}.")
        if self.clip is not None:
            check_positive("clip", self.clip)

    def _check(self, X: Any, *, reset: bool = False) -> Any:
        refuse_masked("X", X)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # sums of what is refused below
                matrix = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        except ValueError as error:
            raise InputError(str(error)) from None
        except (TypeError, OverflowError) as error:
            raise NoNumbersError(str(error)) from None
        check_entries(matrix)
        return matrix

    def _known(self, X: Any, y: Any) -> Pairs:
        """Full information: all K labels of every row count as shown."""
        refuse_masked("y", y)
        try:
            y = y if sp.issparse(y) else np.asarray(y)
        except (TypeError, ValueError, OverflowError):
            raise InputError("y must be a vector of classes or a matrix of 0 and 1, got unequal rows.") from None
        if y.dtype.kind == "c" or (y.dtype.kind == "f" and not np.isfinite(y.data if sp.issparse(y) else y).all()):
            raise InputError("y must hold classes, or 0 and 1, got NaN, infinity or complex numbers.")
        if y.ndim == 2:
            try:
                labels = sp.csr_array(y, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(f"a matrix y must hold numbers, got dtype {y.dtype}.") from None
            K = labels.shape[1] if self.n_actions is None else check_count("n_actions", self.n_actions)
            if labels.shape != (X.shape[0], K):
                raise InputError(f"y must have shape (rows, labels) = {(X.shape[0], K)}, got {labels.shape}.")
            if (labels.data < 0).any() or (labels.data > 1).any():
                raise InputError("a matrix y must hold confirmation rates in [0, 1], such as zeros and ones.")
            self.classes_ = np.arange(K)
        else:
            target = np.asarray(y)
            if target.shape != (X.shape[0],):
                raise InputError(f"y must hold one class per row, {X.shape[0]} of them, got shape {target.shape}.")
            try:
                check_classification_targets(target)
            except ValueError as error:
                raise InputError(f"y must hold classes: {error}") from None
            self.classes_, place = np.unique(target, return_inverse=True)
            K = len(self.classes_)
            labels = sp.csr_array((np.ones(len(place)), (np.arange(len(place)), place)), shape=(len(place), K))
        everything = np.broadcast_to(np.arange(K), (X.shape[0], K))
        certain = np.ones(everything.shape)
        return shown_pairs(
            X, everything, labels.toarray(), certain, n_actions=K, repeat_correlation=self.repeat_correlation
        )

    def _shown(
        self, X: Any, lists: ArrayLike, rewards: ArrayLike | None, propensities: ArrayLike | None, weights: Any
    ) -> Pairs:
        n = X.shape[0]
        if rewards is None:
            raise InputError("rewards must say which of the shown labels were confirmed, got none.")
        shown = check_lists(lists, n=n)
        largest = int(shown.max(initial=0))
        K = largest + 1 if self.n_actions is None else check_count("n_actions", self.n_actions)
        if largest >= K:
            raise InputError(f"lists hold label {largest}, but n_actions is {K}.")
        logged = Problem(n_actions=K, list_size=shown.shape[1])
        answers = check_rewards(rewards, logged, n=n)
        power = check_number("importance", self.importance)
        if propensities is None and power != 0:
            raise InputError(
                "propensities of the shown labels are needed when importance is above 0; log the probability that a "
                "label is anywhere in the list, or set importance=0."
            )
        q = np.ones(shown.shape) if propensities is None else check_propensities(propensities, shape=shown.shape)
        self.classes_ = np.arange(K)
        return shown_pairs(
            X,
            shown,
            answers,
            q,
            n_actions=K,
            importance=power,
            clip=None if self.clip is None else check_positive("clip", self.clip),
            self_normalize=self.self_normalize,
            repeat_correlation=self.repeat_correlation,
            round_weights=None if weights is None else _check_weights("round_weights", weights, n),
        )

    def _fit(self, pairs: Pairs) -> Any:
        estimator = Ridge(alpha=3.0) if self.estimator is None else self.estimator
        smoothing = check_number("smoothing", self.smoothing)
        plain = type(estimator) is Ridge and not estimator.positive and np.ndim(estimator.alpha) == 0
        if plain and estimator.alpha > 0:
            return LinearScorer(
                *ridge_of_pairs(
                    pairs, alpha=estimator.alpha, fit_intercept=estimator.fit_intercept, smoothing=smoothing
                )
            )
        K, prior = pairs.n_actions, pairs.mean_reward
        shown = np.bincount(pairs.actions, pairs.weights, K)
        confirmed = np.bincount(pairs.actions, pairs.weights * pairs.rewards, K)
        constants = (confirmed + smoothing * prior) / np.maximum(shown + smoothing, 1e-9)
        by_action = np.argsort(pairs.actions, kind="stable")
        bounds = np.searchsorted(pairs.actions[by_action], np.arange(K + 1))
        contexts = pairs.contexts

        def tasks(done: Callable[[int], None]) -> Any:
            for action in range(K):
                done(action)
                some = by_action[bounds[action] : bounds[action + 1]]
                # One kind of answer only: nothing to learn from, and the smoothed rate says it all.
                if len(some) and np.ptp(pairs.rewards[some]) > 0:
                    yield action, contexts[pairs.rows[some]], pairs.rewards[some], pairs.weights[some]
            done(K)

        if not self.verbose:
            return fit_actions(estimator, tasks(lambda action: None), constants=constants)
        with progress_bar("labels", forecast=True) as bar:
            task = bar.add_task("", total=K)
            return fit_actions(estimator, tasks(lambda action: bar.update(task, completed=action)), constants=constants)


def _check_weights(name: str, weights: Any, n: int) -> NDArray[np.float64]:
    """How often each of n rounds counts: finite numbers of at least 0, not all of them 0."""
    refuse_masked(name, weights)
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be numbers, one for each of the {n} rounds.") from None
    if array.shape != (n,):
        raise InputError(f"{name} must hold one number for each of the {n} rounds, got shape {array.shape}.")
    if not ((array >= 0) & (array <= 1e15)).all() or not array.any():
        raise InputError(f"{name} must be finite, at least 0 (at most 1e15) and not all 0.")
    return array


def _is_estimator(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("fit", "get_params"))
