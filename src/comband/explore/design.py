"""The exploration design: rounds and an oracle in, a mixture with its variance certificate out."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband._kernels.packed import packed_scores
from comband.explore.held_out import HeldOutCertificate, certify_mixture, in_setting
from comband.explore.oracles import EnumerationOracle, Oracle
from comband.explore.solvers.columns import ColumnOracle, Columns
from comband.explore.solvers.corrective import FullyCorrective, warm_start
from comband.explore.solvers.frank_wolfe import ExactStep, PrintedStep, Rule, Solution, minimise
from comband.explore.solvers.incidence import Incidence, RealIncidence, build_incidence, real_incidence
from comband.explore.solvers.potential import Floats, LogBarrier
from comband.explore.solvers.sharded import EventColumns, ShardedIncidence
from comband.explore.solvers.stopping import NO_EVENTS, Outcome, State, Stopping, sentence
from comband.page.bits import pack, words_for
from comband.page.contexts import n_contexts
from comband.page.frames import Tabular
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, check_count, check_floor, check_number, check_problem
from comband.page.rounds import Events, Rounds
from comband.page.totals import TotalRounds
from comband.policies import Mixture, Policy, PolicySet, ScoredPolicy
from comband.policies.policy_set import check_policies
from comband.policies.reading import reading_of
from comband.policies.stochastic import check_drawable

SOLVERS: dict[str, Rule] = {
    "corrective": FullyCorrective(),
    "frank-wolfe": PrintedStep(),
    "line-search": ExactStep(),
    "away": ExactStep("away"),
    "pairwise": ExactStep("pairwise"),
}
COLUMNS_A_CALL = 60  # for the corrective solver where the class is given in full
WARM_START_FROM = 20_000  # events: below, one pass costs less than the detour


@dataclass(frozen=True, slots=True)
class Design(Tabular):
    """An exploration mixture and what is known about it on the data it was made from.

    From totals (`problem.feedback`) read T/(n·q(a)) for w_e, for Q the share q_p(x, a) of a list that
    `MidzunoLists(mixture)` draws, and #(π(x) ∩ a)/m for 1[y ∈ π(x)]; `comband.theory.totals` says what a proxy then
    bounds.

    Where places matter by pairs, read the pair of item and place for the item, and s·m for s. By examination lists are
    designed as sets and shown in random order, and all of it speaks of rewards as they come there; the estimated value
    of a policy in its own order has a variance of at most (θ_max·m/Θ)² times that (`Reading.stretch`).

    With event weights w_e = r_e / (n q_e) and Q = Q^γ under the mixture:

    - `value`: F̂(p) = −Σ_e w_e log Q_e; `gap` bounds F̂(p) − min F̂ (`relative_gap`: as a share of Σ w);
    - `max_variance`: max_π Σ_e w_e 1[y_e ∈ π(x_e)] / Q_e. The estimated value of any policy of the class
      has variance at most m times this (paper, eq. (4)), if the data speak for the world;
    - `gradient_norm` = (1−γ)·max_variance = ‖∇F̂(p)‖∞, which the paper's lemma bounds by 2s at accuracy μ.

    `certified` says whether these hold for the whole class. With an approximate oracle they are with
    respect to that oracle only, and `certified` is False. What holds beyond these data, `certify` says.

    Parameters
    ----------
    oracle_calls, steps, seconds:
        What it took.
    n_events:
        How many events it rests on.
    status:
        Which rule stopped it.
    message:
        The same in words.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.5)
    >>> visitors = shop.sample(2000, np.random.default_rng(3))
    >>> decisions = mixture.draw(visitors.contexts, 4)
    >>> rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    >>> design = cb.design_exploration(rounds, cb.EnumerationOracle(policies), problem=problem, floor=0.5)
    >>> design.certified, round(float(design.mixture.weights.sum()), 6)
    (True, 1.0)
    >>> design.max_variance < 2 * problem.sparsity / (1 - 0.5)  # the paper's bound
    True
    """

    mixture: Mixture
    value: float
    gap: float
    relative_gap: float
    max_variance: float
    gradient_norm: float
    certified: bool
    oracle_calls: int
    steps: int
    seconds: float
    n_events: int
    status: Outcome
    message: str
    oracle: Oracle = field(repr=False, compare=False)

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate of positive weight, the heaviest first."""
        mixture = self.mixture
        ranked = mixture.support[np.argsort(-mixture.weights[mixture.support], kind="stable")]
        names = [mixture.policies.names[i] for i in ranked]
        return {"candidate": names, "weight": mixture.weights[ranked].tolist()}

    def headline(self) -> str:
        """What is known about the mixture, in a sentence."""
        return f"largest variance {self.max_variance:.4g}, relative gap {self.relative_gap:.2g}: {self.message}"

    def certify(
        self,
        held_out: Rounds | TotalRounds | Events,
        delta: float,
        *,
        n_policies: int | None = None,
        least_propensity: float | None = None,
    ) -> HeldOutCertificate:
        """A bound on the largest variance proxy of the class that holds with probability 1 − δ, by one oracle call.

        Parameters
        ----------
        held_out:
            Rounds that the design was not made from; how many was decided beforehand. With 20·(ρ/s)(K/m)²·log(P/δ)
            uniform ones the bound is mostly within 1.5 times the truth.
        delta, n_policies, least_propensity:
            As for `comband.explore.held_out.certify_mixture`.
        """
        return certify_mixture(
            self.mixture, held_out, self.oracle, delta=delta, n_policies=n_policies, least_propensity=least_propensity
        )

    @property
    def support(self) -> NDArray[np.int64]:
        """Indices of the policies with positive weight."""
        return self.mixture.support

    @property
    def meets_paper_bound(self) -> bool | None:
        """Whether ‖∇F̂(p)‖∞ ≤ 2s is certified; None when the problem states no sparsity."""
        s = reading_of(self.mixture.problem).theory.sparsity
        return None if s is None else self.certified and self.gradient_norm <= 2 * s


def design_exploration(
    rounds: Rounds | TotalRounds | Events | EventColumns,
    oracle: Oracle | PolicySet,
    *,
    problem: Problem,
    floor: float = 0.5,
    solver: str = "corrective",
    stopping: Stopping | None = None,
    indices: ArrayLike | None = None,
    start: int | None = None,
    n_columns: int | None = None,
    trim: float = 1e-9,
    callback: Callable[[State], None] | None = None,
) -> Design:
    """Find the mixture p that minimises F̂(p) = −Σ_e w_e log((1−γ) Q_p(x_e, y_e) + γ m/K).

    Phase 1 of PAC-COMBAND (paper, Algorithm 1 and 2) made practical. The rounds may come from any
    distribution with known propensities q > 0, also from several: w_e = r_e / (n q_e) keeps F̂ unbiased, and
    uniform lists (q = m/K) are the paper's case. Only positive rewards enter.

    From totals it is F̂(p) = −Σ_i T_i/(n·q_i)·log q_p(x_i, a_i) over lists, with q the shares of `comband.page.totals`;
    each linear step is an oracle call with rewards T/(m·q·q_p) on every shown action.

    Parameters
    ----------
    rounds:
        What was shown and answered, or its events; `TotalRounds` if the problem's feedback is the total. Where pairs of
        item and place matter it must be rounds, with propensities of the item in its place.
        Columns that were made in parts elsewhere are `comband.explore.solvers.sharded.EventColumns`.
    oracle:
        A `PolicySet` or its `EnumerationOracle`: the class is known in full, its incidence is held in memory (one bit
        per cell or less) and the corrective solver takes several columns per call. Any other `Oracle` is asked for one
        policy at a time.
    problem, floor:
        K, m, s, and what places do; γ.
    solver:
        "corrective" (fully corrective Frank-Wolfe), "frank-wolfe" (Algorithm 2 as printed), "line-search",
        "away" or "pairwise".
    stopping:
        By default at a relative gap of 1e-6, or after 1000 oracle calls. `Stopping(max_steps=T)` gives the
        paper's T steps.
    indices:
        Restrict the design to these policies of an enumerated class (say, those not yet eliminated). The
        mixture still speaks of the whole set, with weight zero elsewhere.
    start:
        The policy (of an enumerated class) that p_1 is a delta distribution on. By default one more oracle
        call finds the one of largest estimated reward.
    n_columns:
        Columns per call for the corrective solver: 60 by default if the class is enumerated, else 1.
    trim:
        Weights up to this are removed; the certificate is that of what is left.
    callback:
        Receives the solver's `State` after every oracle call.

    Examples
    --------
    >>> problem = Problem(n_actions=4, list_size=1, sparsity=1)
    >>> policies = PolicySet.from_lists([[[0], [1]], [[2], [1]], [[0], [3]]], problem)
    >>> rounds = Rounds.from_log(
    ...     [0, 1, 0], lists=[[0], [1], [2]], rewards=[[1], [1], [0]], propensities=[[0.25]] * 3, problem=problem
    ... )
    >>> design = design_exploration(rounds, EnumerationOracle(policies), problem=problem)
    >>> design.mixture.weights.round(3).tolist(), design.certified
    ([1.0, 0.0, 0.0], True)

    References
    ----------
    Erez & Koren, Algorithm 2, Lemmas fw-loo-erm and log-self-concordance; Jaggi (2013) for the gap.
    """
    began = time.perf_counter()
    floor = check_floor(floor)
    stated = check_problem(problem, places=True)
    if isinstance(oracle, PolicySet):
        oracle = EnumerationOracle(oracle)
    if isinstance(oracle, EnumerationOracle) and check_policies(oracle.policies, gaps=True, by_chance=True).by_chance:
        check_drawable(stated, oracle.policies)
    if not callable(getattr(oracle, "fit", None)):
        raise InputError(f"oracle must be a PolicySet or have fit(X, rewards), got {type(oracle).__name__}.")
    if not 0 <= check_number("trim", trim) < 1:
        raise InputError(f"trim must lie in [0, 1), got {trim}.")
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}.")
    rule = SOLVERS[solver]
    stopping = Stopping(relative_gap=1e-6, max_calls=1000) if stopping is None else stopping
    events: Events | EventColumns
    if isinstance(rounds, EventColumns):
        events = rounds
    else:
        events, oracle, problem = in_setting(rounds, oracle, stated)
    if isinstance(events, Events) and len(events) and int(events.actions.max()) >= problem.n_actions:
        raise InputError(
            f"the rounds show action {int(events.actions.max())}, but actions must lie in 0 … {problem.n_actions - 1}."
        )
    if isinstance(events, Events) and len(events) and events.n_rounds < events.n_rewarded:
        raise InputError(f"{events.n_rewarded} rewarded rounds cannot be among {events.n_rounds} rounds in all.")
    survivors: NDArray[np.int64] | None = None
    if isinstance(oracle, EnumerationOracle):
        survivors = _check_indices(indices, len(oracle.policies))
    elif indices is not None or start is not None:
        raise InputError("indices and start name policies of an enumerated class; this oracle has no such list.")
    if len(events) == 0:
        return _without_events(oracle, survivors, stated, floor)

    source: _Enumerated | _Reached
    if isinstance(oracle, EnumerationOracle) and survivors is not None:
        source = _Enumerated(oracle.policies, survivors, events, problem)
    elif isinstance(events, EventColumns):
        raise InputError("columns are those of an enumerated class; give its PolicySet or EnumerationOracle.")
    else:
        source = _Reached(oracle, events, problem)
    group = reading_of(problem).group
    potential = LogBarrier(source.weights, floor, problem.uniform_propensity, group)
    several = COLUMNS_A_CALL if n_columns is None else check_count("n_columns", n_columns)
    width = several if solver == "corrective" and isinstance(source, _Enumerated) else 1
    # A tenth of the events is no tenth of the lists, so totals begin without the detour.
    first, calls = source.start(potential, start, warm=width > 1 and group == 1, n_columns=width)
    solution = minimise(
        potential, source.columns, rule=rule, stopping=stopping, n_columns=width, start=first, callback=callback
    )
    final, calls = solution, calls + solution.state.calls
    keep = np.flatnonzero(solution.weights > trim)
    if len(keep) < len(solution.weights):
        left = Columns([solution.keys[i] for i in keep], solution.bits[keep], np.zeros(len(keep)))
        final = minimise(
            potential, source.columns, rule=rule, stopping=Stopping(max_steps=0), start=(left, solution.weights[keep])
        )
        calls += final.state.calls
    state = replace(final.state, calls=calls, steps=solution.state.steps)
    policies, p = source.mixture(final)
    return Design(
        mixture=_mixture(policies, p, stated, floor),
        value=state.value,
        gap=state.gap,
        relative_gap=state.relative_gap,
        max_variance=state.maximum,
        gradient_norm=state.gradient_norm,
        certified=final.exact,
        oracle_calls=calls,
        steps=state.steps,
        seconds=time.perf_counter() - began,
        n_events=len(events) // group,
        status=solution.status,
        message=sentence(solution.status, state, exact=final.exact),
        oracle=_restricted(oracle, survivors),
    )


Start = tuple[Columns, Floats]


class _Enumerated:
    """A class given in full: all its columns are in memory, and keys are places among the survivors."""

    columns: Incidence | RealIncidence | ShardedIncidence

    def __init__(
        self, policies: PolicySet, survivors: NDArray[np.int64], events: Events | EventColumns, problem: Problem
    ) -> None:
        self._policies, self._survivors = policies, survivors
        if isinstance(events, EventColumns):
            if len(survivors) < len(policies):
                raise InputError("columns are those of all policies: leave indices out.")
            self.columns, self.weights = events.columns, events.weights
            return
        w = _event_weights(events, problem)
        chosen = None if len(survivors) == len(policies) else survivors
        blocks = policies.incidence(events.contexts, events.rows, events.actions, chosen)
        weighed = ((rows, w[which]) for which, rows in blocks)
        if policies.by_chance:
            self.columns, self.weights = real_incidence(weighed)
        else:
            self.columns, self.weights = build_incidence(weighed, merge=reading_of(problem).group == 1)

    def start(
        self, potential: LogBarrier, start: int | None, *, warm: bool, n_columns: int
    ) -> tuple[Start | None, int]:
        """Where to begin, and the oracle calls it took to find out."""
        if start is not None:
            places = np.flatnonzero(self._survivors == start)
            if len(places) == 0:
                raise InputError(f"start must be the index of a policy in the design, got {start!r}.")
            return (Columns([int(places[0])], self.columns.columns(places), np.zeros(1)), np.ones(1)), 0
        if warm and np.count_nonzero(potential.weights) >= WARM_START_FROM:
            return warm_start(potential, self.columns, n_columns=n_columns)
        return None, 0

    def mixture(self, solution: Solution) -> tuple[PolicySet, Floats]:
        p = np.zeros(len(self._policies))
        p[self._survivors[np.array(solution.keys, dtype=np.int64)]] = solution.weights
        return self._policies, p


class _Reached:
    """A class reached only through its ERM oracle, one policy per call.

    Policies that agree on every event are one column, so keys are digests of columns.
    """

    def __init__(self, oracle: Oracle, events: Events, problem: Problem) -> None:
        self._oracle, self._events, self._problem = oracle, events, problem
        self._found: dict[Hashable, Policy] = {}
        self.exact = oracle.exact
        self.n_words = words_for(len(events))
        self.weights = np.zeros(64 * self.n_words)
        self.weights[: len(events)] = _event_weights(events, problem)

    @property
    def columns(self) -> ColumnOracle:
        return self

    def start(
        self, potential: LogBarrier, start: int | None, *, warm: bool, n_columns: int
    ) -> tuple[Start | None, int]:
        return None, 0

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        """Lemma fw-loo-erm: the best column is the oracle's answer to rewards w_e / Q_e.

        They are scaled by the number of rounds, to r / (q Q): a regression may care about the size of its targets.
        """
        events = self._events
        estimates = sp.csr_array(
            (events.n_rounds * gains[: len(events)], (events.rows, events.actions)),
            shape=(events.n_rewarded, self._problem.n_actions),
        )
        policy = self._oracle.fit(events.contexts, estimates)
        lists = check_lists(policy.predict(events.contexts), self._problem, n=events.n_rewarded)
        inside = (lists[events.rows] == events.actions[:, None]).any(axis=1)
        bits = pack(inside[None, :], self.n_words)
        key = blake2b(bits.tobytes(), digest_size=16).digest()
        self._found.setdefault(key, policy)
        scores = np.empty(1)
        packed_scores(bits, gains, scores)
        return Columns([key], bits, scores)

    def mixture(self, solution: Solution) -> tuple[PolicySet, Floats]:
        return PolicySet([self._found[key] for key in solution.keys]), solution.weights


def _event_weights(events: Events, problem: Problem) -> Floats:
    """w_e = r_e / (n q_e); from totals T / (n q(a)), in equal parts."""
    return reading_of(problem).mean_weights(events)


def _mixture(policies: PolicySet, p: Floats, problem: Problem, floor: float) -> Mixture:
    """The mixture in the setting that was stated: of the candidates themselves, whatever their lists were taken for."""
    return Mixture(reading_of(problem).plain(policies), p, problem=problem, floor=floor)


def _check_indices(indices: ArrayLike | None, n_policies: int) -> NDArray[np.int64]:
    """The policies a design may use, as sorted indices."""
    all_policies = np.arange(n_policies)
    if indices is None:
        return all_policies
    try:
        given = np.asarray(indices)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"indices must be the numbers of policies, got {type(indices).__name__}.") from None
    if given.dtype == np.bool_ and given.shape != (n_policies,):
        raise InputError(f"a mask of policies must have shape ({n_policies},), got {given.shape}.")
    if given.dtype == np.bool_:
        given = all_policies[given]
    if given.size == 0:
        raise InputError("indices must leave at least one policy, got none.")
    if not np.issubdtype(given.dtype, np.integer) or given.min() < 0 or given.max() >= n_policies:
        raise InputError(f"indices must be whole numbers in 0 … {n_policies - 1}, got {given.ravel()[:5].tolist()}.")
    return np.unique(given).astype(np.int64)


def _restricted(oracle: Oracle, survivors: NDArray[np.int64] | None) -> Oracle:
    """The oracle of the policies that the design is for."""
    if isinstance(oracle, EnumerationOracle) and survivors is not None and len(survivors) < len(oracle.policies):
        return EnumerationOracle(oracle.policies.subset(survivors))
    return oracle


def _without_events(oracle: Oracle, survivors: NDArray[np.int64] | None, problem: Problem, floor: float) -> Design:
    """Nothing is known: all (surviving) policies alike, or uniform lists if the class cannot be listed."""
    if isinstance(oracle, EnumerationOracle) and survivors is not None:
        policies = oracle.policies
        p = np.zeros(len(policies))
        p[survivors] = 1.0 / len(survivors)
    else:
        # A floor of 1 shows uniform lists only; the mixture needs a policy, which is never asked.
        blank = ScoredPolicy(lambda X: np.zeros((n_contexts(X), problem.n_actions)), problem)
        policies, p, floor = PolicySet([blank]), np.ones(1), 1.0
    return Design(
        mixture=_mixture(policies, p, problem, floor),
        value=0.0,
        gap=0.0,
        relative_gap=0.0,
        max_variance=0.0,
        gradient_norm=0.0,
        certified=False,
        oracle_calls=0,
        steps=0,
        seconds=0.0,
        n_events=0,
        status=Outcome.NO_EVENTS,
        message=NO_EVENTS,
        oracle=_restricted(oracle, survivors),
    )
