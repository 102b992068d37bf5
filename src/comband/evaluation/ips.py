"""The figures that evaluators know from elsewhere: IPS, SNIPS, the direct method, doubly robust; with normal intervals.

With X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(y), W_t(π) = Σ_{y∈π(x_t)∩a_t} 1/Q_t(y) (of mean m) and a model r̂ of rewards,

    IPS     mean of X_t
    SNIPS   m · ΣX_t / ΣW_t
    DM      mean of Σ_{y∈π(x_t)} r̂(x_t, y)
    DR      mean of Σ_{y∈π(x_t)} r̂(x_t, y) + Σ_{y∈π(x_t)∩a_t} (r_t(y) − r̂(x_t, y))/Q_t(y)

and intervals estimate ± z·(standard error), of the mean, or of the ratio by its linearisation. They are *approximate*:
right for many rounds, one candidate named beforehand, and one look at a number of rounds fixed beforehand. They are not
valid under peeking, and nothing here is a guarantee; `comband.evaluate` gives one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.normal import upper_quantile
from comband.page.contexts import n_contexts
from comband.page.frames import Tabular
from comband.page.problem import InputError, as_floats, check_fraction
from comband.page.rounds import Rounds, check_rounds
from comband.policies.policy_set import PolicySet, check_policies
from comband.policies.stochastic import StochasticPolicies

Floats = NDArray[np.float64]
_CELLS = 1 << 22  # policies times rounds times slots at once
APPROXIMATE = (
    "approximate: right for many rounds, one candidate named beforehand and one look; not valid under peeking, and no "
    "guarantee"
)


@dataclass(frozen=True, eq=False, slots=True)
class UsualSums:
    """Sums over rounds, for P candidates, of X, X², W, W², XW, and with a model DM's and DR's terms; `a + b` adds.

    Parameters
    ----------
    n_rounds:
        How many rounds were seen.
    sums:
        By name.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> from comband.evaluation.ips import UsualSums
    >>> sums = UsualSums.of(rounds, policies, None)
    >>> (sums + sums).n_rounds
    4000
    """

    n_rounds: int
    sums: dict[str, Floats]

    @classmethod
    def zero(cls, n_policies: int) -> UsualSums:
        """Nothing seen yet."""
        return cls(0, {name: np.zeros(n_policies) for name in ("X", "XX", "W", "WW", "XW", "M", "MM", "D", "DD")})

    def __add__(self, other: UsualSums) -> UsualSums:
        return UsualSums(
            self.n_rounds + other.n_rounds, {name: self.sums[name] + other.sums[name] for name in self.sums}
        )

    @classmethod
    def of(cls, rounds: Rounds, policies: PolicySet, model: RewardModel | None) -> UsualSums:
        """What some rounds contribute."""
        decisions = rounds.decisions
        matched: Any
        if isinstance(policies, StochasticPolicies):
            n, m = decisions.lists.shape
            rows, items = np.repeat(np.arange(n), m), decisions.lists.ravel()
            matched = policies.inclusion(decisions.contexts, rows, items).reshape(n, m, -1).transpose(0, 2, 1)
        else:
            shown = policies.predict(decisions.contexts)  # (n, P, m)
            inside = shown[:, :, :, None] == decisions.lists[:, None, None, :]  # (n, P, m, m')
            matched = inside.any(axis=2)
        X = (matched * (rounds.rewards / decisions.propensities)[:, None, :]).sum(axis=2)
        W = (matched / decisions.propensities[:, None, :]).sum(axis=2)
        columns = {"X": X, "W": W, "XX": X * X, "WW": W * W, "XW": X * W}
        if model is not None:
            if isinstance(policies, StochasticPolicies):
                M = policies.expected(decisions.contexts, _all_scores(model, decisions.contexts, policies))
            else:
                by_candidate = [model(decisions.contexts, shown[:, p]).sum(axis=1) for p in range(len(policies))]
                M = np.stack(by_candidate, axis=1)
            said = model(decisions.contexts, decisions.lists)
            D = M + (matched * ((rounds.rewards - said) / decisions.propensities)[:, None, :]).sum(axis=2)
            columns |= {"M": M, "MM": M * M, "D": D, "DD": D * D}
        empty = np.zeros((len(rounds), len(policies)))
        return cls(len(rounds), {name: columns.get(name, empty).sum(axis=0) for name in cls.zero(1).sums})


def _all_scores(model: RewardModel, X: Any, policies: StochasticPolicies) -> Floats:
    """What a model expects of every item, (n, K)."""
    n, K = n_contexts(X), policies.anywhere().tables[0].shape[1]
    return model(X, np.broadcast_to(np.arange(K, dtype=np.int32), (n, K)))


RewardModel = Callable[[Any, NDArray[np.int32]], Floats]


@dataclass(frozen=True, slots=True)
class UsualEstimates(Tabular):
    """For each candidate and method an estimate with its standard error and normal interval, all (P,), by name.

    effective_sample_size:
        (ΣW)²/ΣW² for each candidate: so many rounds of its own lists would weigh the items as evenly.
    level:
        Of the intervals, each for itself: 1 − delta.
    names:
        Of the candidates.
    estimates:
        By method: "IPS", "SNIPS" and, with a reward model, "DM" and "DR".
    standard_errors:
        The same.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> usual = cb.evaluation.usual_estimates(rounds, policies)
    >>> sorted(usual.estimates)
    ['IPS', 'SNIPS']
    >>> low, high = usual.interval("SNIPS")
    >>> bool((low < usual.estimates["SNIPS"]).all())
    True
    """

    names: tuple[str, ...]
    rounds: int
    level: float
    estimates: dict[str, Floats]
    standard_errors: dict[str, Floats]
    effective_sample_size: Floats

    def interval(self, method: str) -> tuple[Floats, Floats]:
        """The approximate interval of a method, both ends (P,)."""
        z = upper_quantile(max(1 - self.level, 2.0**-53) / 2)  # no level below 1 is closer to it
        radius = z * self.standard_errors[method]
        return self.estimates[method] - radius, self.estimates[method] + radius

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate and method, approximate intervals beside the estimates."""
        table: dict[str, list[Any]] = {
            name: [] for name in ("candidate", "method", "estimate", "standard_error", "approximate_low")
        }
        table |= {"approximate_high": [], "effective_sample_size": []}
        for method in self.estimates:
            low, high = self.interval(method)
            table["candidate"] += self.names
            table["method"] += [method] * len(self.names)
            table["estimate"] += self.estimates[method].tolist()
            table["standard_error"] += self.standard_errors[method].tolist()
            table["approximate_low"] += low.tolist()
            table["approximate_high"] += high.tolist()
            table["effective_sample_size"] += self.effective_sample_size.tolist()
        return table

    def headline(self) -> str:
        """How the intervals are to be read."""
        return f"{self.rounds:,} rounds; intervals at {self.level:g} are {APPROXIMATE}."


def usual_estimates(
    rounds: Rounds, policies: PolicySet, *, reward_model: Any = None, delta: float = 0.05
) -> UsualEstimates:
    """IPS and SNIPS, and with a model of rewards the direct method (DM) and doubly robust (DR), on all rounds.

    Parameters
    ----------
    rounds:
        With the propensities of the shown items.
    policies:
        The candidates; they are asked on every round.
    reward_model:
        Anything with `predict_scores(X) -> (n, K)`, expected rewards of all items (a fitted `BanditListClassifier`), or
        a function (X, lists) -> (n, m) of the expected rewards of listed items. It must not have been fitted on these
        rounds, or DR is biased as DM is.
    delta:
        Intervals are at 1 − delta, each for itself.

    >>> from comband import Problem
    >>> problem = Problem(n_actions=3, list_size=1, sparsity=1)
    >>> policies = PolicySet.from_lists([[[0]], [[1]]], problem, names=["zero", "one"])
    >>> log = Rounds.from_log(np.zeros(300, dtype=int), lists=np.arange(300)[:, None] % 3, problem=problem,
    ...     rewards=np.arange(300)[:, None] % 3 == 1, propensities=np.full((300, 1), 1 / 3))
    >>> {name: values.round(3).tolist() for name, values in usual_estimates(log, policies).estimates.items()}
    {'IPS': [0.0, 1.0], 'SNIPS': [0.0, 1.0]}
    """
    if len(check_rounds(rounds)) < 2:
        raise InputError(f"at least 2 rounds are needed for a standard error, got {len(rounds)}.")
    check_policies(policies, by_chance=True)
    delta = check_fraction("delta", delta)
    model = None if reward_model is None else _as_model(reward_model)
    m, P = rounds.decisions.lists.shape[1], len(policies)
    step = max(1, _CELLS // (P * m * m))
    total = UsualSums.zero(P)
    for start in range(0, len(rounds), step):
        total = total + UsualSums.of(rounds[slice(start, start + step)], policies, model)
    n, s = total.n_rounds, total.sums
    estimates, errors = {"IPS": s["X"] / n}, {"IPS": _error(s["X"], s["XX"], n)}
    ratio = np.divide(s["X"], s["W"], out=np.zeros(P), where=s["W"] > 0)
    # Of m·ΣX/ΣW: X − (ΣX/ΣW)·W has mean 0, and the estimate moves by m/W̄ times its mean.
    residual = np.maximum(s["XX"] - 2 * ratio * s["XW"] + ratio**2 * s["WW"], 0.0)
    scale = np.divide(m * n, s["W"], out=np.zeros(P), where=s["W"] > 0)
    estimates["SNIPS"], errors["SNIPS"] = m * ratio, scale * np.sqrt(residual / (n - 1) / n)
    if model is not None:
        estimates |= {"DM": s["M"] / n, "DR": s["D"] / n}
        errors |= {"DM": _error(s["M"], s["MM"], n), "DR": _error(s["D"], s["DD"], n)}
    effective = np.divide(s["W"] ** 2, s["WW"], out=np.zeros(P), where=s["WW"] > 0)
    return UsualEstimates(policies.names, n, 1 - delta, estimates, errors, effective)


def _error(total: Floats, squares: Floats, n: int) -> Floats:
    return np.sqrt(np.maximum(squares - total**2 / n, 0.0) / (n - 1) / n)


def _as_model(given: Any) -> RewardModel:
    if not callable(given) and not callable(getattr(given, "predict_scores", None)):
        raise InputError(
            "reward_model must have predict_scores(X) -> (n, K), or be a function (X, lists) -> (n, m), got "
            f"{type(given).__name__}."
        )

    def rewards(X: Any, lists: NDArray[np.int32]) -> Floats:
        if callable(getattr(given, "predict_scores", None)):
            said = as_floats("the reward model's scores", given.predict_scores(X))
            if said.ndim != 2 or len(said) != len(lists) or (lists.size and said.shape[1] <= int(lists.max())):
                raise InputError(
                    f"the reward model must give scores (n, K) of all items, got {said.shape} for {len(lists)} rounds."
                )
            said = np.take_along_axis(said, lists.astype(np.int64), axis=1)
        else:
            said = as_floats("the reward model's rewards", given(X, lists))
        if said.shape != lists.shape or not np.isfinite(said).all():
            raise InputError(f"the reward model must give finite rewards of shape {lists.shape}, got {said.shape}.")
        return said

    return rewards
