"""Pictures by matplotlib: axes in, axes out. Needs the extra `plots`.

Every function draws onto the `axes` it is given, onto new ones if there are none, and returns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from comband.evaluation import LogEvaluation
from comband.evaluation.evaluating import item_weights
from comband.explore.design import Design
from comband.page.contexts import take_contexts
from comband.page.problem import InputError, check_count, check_positive
from comband.page.rounds import Events, Rounds, check_rounds
from comband.page.text import missing_extra, shorten, visible
from comband.policies.policy_set import PolicySet, check_policies
from comband.regret import RegretCurves
from comband.statistics.importance import ValueSums
from comband.statistics.results import ComparedCandidate, Comparison
from comband.worlds.running import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEST, _MARK, _SOFT, _LIMIT = "#2a9d63", "#3a86d8", "#8a93a3", "#d9722b"  # those of reports


class Compared(Protocol):
    """What knows differences to a winner: certifying learners, evaluations, selections."""

    def comparison(self) -> Comparison:
        """The winner beside the others."""
        ...


def plot_differences(
    source: Compared | Comparison | LogEvaluation, axes: Axes | None = None, *, most: int = 40
) -> Axes:
    """Differences to the winner, sorted, each with its bound, and the line at ε.

    A dot is the estimated difference of a candidate's value to the winner's; its line ends at the most by which the
    candidate can be better, if it is the best of all.

    Parameters
    ----------
    source:
        A certifying learner, an evaluation, a selection, or their `comparison()`.
    axes:
        Where to draw; new ones by default.
    most:
        How many candidates to show.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> world = cb.SyntheticRecommender(problem, click_rate=0.4, n_users=30, seed=0)
    >>> learner = cb.AdaptiveComband(problem, world.candidates(4, seed=1), epsilon=0.2, seed=2)
    >>> outcome = cb.run(learner, world, seed=3)
    >>> axes = cb.plot_differences(learner)
    >>> axes.get_xlabel()
    'rewards per round more than policy 1'
    """
    compared = _compared(source)
    shown = compared.candidates[: check_count("most", most)]
    colours = _colours(compared, shown)
    axes = _axes(axes, height=len(shown))
    for i, one in enumerate(shown):
        axes.plot([one.difference, one.bound], [i, i], color=colours[i], linewidth=2, solid_capstyle="butt")
    axes.scatter(
        [one.bound for one in shown[1:]],
        range(1, len(shown)),
        marker="|",
        color=colours[1:],
        label="bounds",
    )
    axes.axvline(0, color=_SOFT, linewidth=1)
    line = axes.axvline(compared.epsilon, color=_LIMIT, linestyle="--", label=f"ε = {compared.epsilon:.3g}")
    _rows(axes, shown, [one.difference for one in shown], colours, label="differences")
    axes.set_xlabel(f"rewards per round more than {_text(compared.winner.name)}")
    axes.legend(handles=[line], frameon=False)
    return axes


def plot_values(source: Compared | Comparison | LogEvaluation, axes: Axes | None = None, *, most: int = 40) -> Axes:
    """Estimated values with their intervals, which hold all at once.

    Parameters
    ----------
    source:
        A certifying learner, an evaluation, a selection, or their `comparison()`.
    axes:
        Where to draw; new ones by default.
    most:
        How many candidates to show.

    >>> import comband as cb
    >>> from comband.statistics.results import Candidate
    >>> candidates = [Candidate(0, "a", 0.3, (0.2, 0.5)), Candidate(1, "b", 0.2, (0.1, 0.4))]
    >>> selection = cb.Selection(None, candidates[0], 0.1, 0.05, 100, (candidates[1],))
    >>> cb.plot_values(selection).get_xlabel()
    'rewards per round'
    """
    compared = _compared(source)
    shown = compared.candidates[: check_count("most", most)]
    colours = _colours(compared, shown)
    axes = _axes(axes, height=len(shown))
    for i, one in enumerate(shown):
        axes.plot(one.interval, [i, i], color=colours[i], linewidth=2, solid_capstyle="butt")
    _rows(axes, shown, [one.value for one in shown], colours, label="values")
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.set_xlabel("rewards per round")
    return axes


def plot_field(run: Run, axes: Axes | None = None) -> Axes:
    """How the field thinned out: candidates that may still be the best, after each batch of a run.

    Parameters
    ----------
    run:
        What `cb.run` returned.
    axes:
        Where to draw; new ones by default.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> world = cb.SyntheticRecommender(problem, click_rate=0.4, n_users=30, seed=0)
    >>> learner = cb.AdaptiveComband(problem, world.candidates(4, seed=1), epsilon=0.2, seed=2)
    >>> cb.plot_field(cb.run(learner, world, seed=3)).get_ylabel()
    'candidates left'
    """
    history = _history(run)
    axes = _axes(axes)
    axes.step(history["rounds"], history["survivors"], where="post", color=_MARK)
    axes.fill_between(history["rounds"], history["survivors"], step="post", color=_MARK, alpha=0.15, linewidth=0)
    axes.set(xlabel="rounds", ylabel="candidates left", ylim=(0, None))
    return axes


def plot_certificate(run: Run, axes: Axes | None = None, *, target: float | None = None) -> Axes:
    """The ε that was certified after each batch of a run, and where the end was expected.

    Parameters
    ----------
    run:
        What `cb.run` returned.
    axes:
        Where to draw; new ones by default.
    target:
        The ε that was asked for: a line, and from the last point a dotted one to where it is expected.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> world = cb.SyntheticRecommender(problem, click_rate=0.4, n_users=30, seed=0)
    >>> learner = cb.AdaptiveComband(problem, world.candidates(4, seed=1), epsilon=0.2, seed=2)
    >>> cb.plot_certificate(cb.run(learner, world, seed=3), target=0.2).get_ylabel()
    'certified ε (rewards per round)'
    """
    history = _history(run)
    rounds, certified, forecast = history["rounds"], history["certified"], history["forecast"]
    axes = _axes(axes)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.step(rounds, certified, where="post", color=_MARK, marker="" if len(rounds) > 1 else "o")
    if target is not None:
        axes.axhline(check_positive("target", target), color=_LIMIT, linestyle="--", label=f"asked for: ε = {target:g}")
        if 0 < forecast[-1] < np.inf and certified[-1] > target:
            end = [rounds[-1], rounds[-1] + forecast[-1]]
            axes.plot(end, [certified[-1], target], color=_SOFT, linestyle=":", marker="o", label="expected")
        axes.legend(frameon=False)
    axes.set(xlabel="rounds", ylabel="certified ε (rewards per round)", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return axes


def plot_design_weights(design: Design, axes: Axes | None = None, *, most: int = 40) -> Axes:
    """The weights of an exploration mixture, largest first.

    Parameters
    ----------
    design:
        What `cb.design_exploration` returned.
    axes:
        Where to draw; new ones by default.
    most:
        How many policies to show.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0], [1]], [[2], [1]], [[0], [3]]], problem)
    >>> rounds = cb.Rounds.from_log([0, 1, 0], lists=[[0], [1], [2]], rewards=[[1], [1], [0]],
    ...     propensities=[[0.25]] * 3, problem=problem)
    >>> design = cb.design_exploration(rounds, policies, problem=problem)
    >>> cb.plot_design_weights(design).get_xlabel()
    'weight in the mixture (floor: 0.5 of uniform lists)'
    """
    mixture = _design(design).mixture
    support = design.support[np.argsort(-mixture.weights[design.support], kind="stable")]
    shown = support[: check_count("most", most)]
    axes = _axes(axes, height=len(shown))
    axes.barh(range(len(shown)), mixture.weights[shown], color=_MARK)
    _names(axes, [mixture.policies.names[i] for i in shown])
    axes.set_xlabel(f"weight in the mixture (floor: {mixture.floor:g} of uniform lists)")
    return axes


def plot_design_variance(design: Design, rounds: Rounds | Events, axes: Axes | None = None, *, most: int = 40) -> Axes:
    """The variance proxy of each policy under a design, Σ_e w_e 1[y_e ∈ π(x_e)] / Q_e, and the largest over the class.

    Parameters
    ----------
    design:
        What `cb.design_exploration` returned.
    rounds:
        What it was made from, or other rounds, on which the proxies are then estimated.
    axes:
        Where to draw; new ones by default.
    most:
        How many policies to show: those of largest variance.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0], [1]], [[2], [1]], [[0], [3]]], problem)
    >>> rounds = cb.Rounds.from_log([0, 1, 0], lists=[[0], [1], [2]], rewards=[[1], [1], [0]],
    ...     propensities=[[0.25]] * 3, problem=problem)
    >>> design = cb.design_exploration(rounds, policies, problem=problem)
    >>> cb.plot_design_variance(design, rounds).get_xlabel()
    'variance proxy'
    """
    mixture = _design(design).mixture
    if not isinstance(rounds, (Rounds, Events)):
        raise InputError(f"rounds must be Rounds or Events, got {type(rounds).__name__}.")
    events = rounds if isinstance(rounds, Events) else rounds.events()
    shown_with = mixture.inclusion(take_contexts(events.contexts, events.rows), events.actions[:, None])[:, 0]
    # Σ_e r_e/(n·q_e·Q_e) over a policy's actions is its mean under the product of both propensities.
    proxies = ValueSums.from_events(replace(events, propensities=events.propensities * shown_with), mixture.policies)
    shown = np.argsort(-proxies.means, kind="stable")[: check_count("most", most)]
    axes = _axes(axes, height=len(shown))
    axes.barh(range(len(shown)), proxies.means[shown], color=[_BEST if mixture.weights[i] else _MARK for i in shown])
    axes.axvline(
        design.max_variance, color=_LIMIT, linestyle="--", label=f"largest of the class: {design.max_variance:.3g}"
    )
    _names(axes, [mixture.policies.names[i] for i in shown])
    axes.set_xlabel("variance proxy")
    axes.legend(loc="lower right")
    return axes


def plot_regret(
    curves: Mapping[str, RegretCurves], axes: Axes | None = None, *, bound: float | None = None, coverage: float = 0.8
) -> Axes:
    """Mean regret curves, with the band that holds the middle seeds.

    Parameters
    ----------
    curves:
        What `comband.regret.regret_curves` returned, by name.
    axes:
        Where to draw; new ones by default.
    bound:
        A line that the regret should stay below: a theorem's.
    coverage:
        The share of the seeds within the band.

    >>> import comband as cb
    >>> curves = cb.regret.RegretCurves(np.array([1, 2, 3]), np.array([[0.0, 1, 1], [1, 1, 2]]), best=0)
    >>> cb.plot_regret({"EXP4": curves}, bound=3.0).get_xlabel()
    'rounds'
    """
    axes = _axes(axes)
    for name, one in curves.items():
        low, high = one.band(coverage)
        (line,) = axes.plot(one.rounds, one.mean, label=_text(name))
        axes.fill_between(one.rounds, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    if bound is not None:
        axes.axhline(bound, color=_LIMIT, linestyle="--", label="bound")
    axes.set(xlabel="rounds", ylabel="regret against the best policy in hindsight")
    axes.legend(frameon=False)
    return axes


def plot_propensity_check(
    rounds: Rounds, policies: PolicySet, axes: Axes | None = None, *, min_propensity: float, most: int = 40
) -> Axes:
    """Whether logged propensities fit: what each candidate's items weigh per round, where m, a line, is right.

    Parameters
    ----------
    rounds, policies, min_propensity:
        As for `cb.check_logged_propensities`, whose intervals these are: one of them missing m happens by chance once
        in a million logs.
    axes:
        Where to draw; new ones by default.
    most:
        How many candidates to show: those that fit worst.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=3, list_size=1, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem, names=["zero", "one"])
    >>> log = cb.Rounds.from_log(np.zeros(300, dtype=int), lists=np.arange(300)[:, None] % 3, problem=problem,
    ...     rewards=np.zeros((300, 1)), propensities=np.full((300, 1), 1 / 3))
    >>> cb.plot_propensity_check(log, policies, min_propensity=1 / 3).get_xlabel()
    'weight of its items per round (1 is right)'
    """
    check_policies(policies)
    if len(check_rounds(rounds)) < 2:
        raise InputError(f"at least 2 rounds are needed to check propensities, got {len(rounds)}.")
    least = check_positive("min_propensity", min_propensity)
    weights = item_weights(rounds, policies, min_propensity=least)
    m = weights.expected
    shown = np.argsort(-np.abs(weights.means - m), kind="stable")[: check_count("most", most)]
    axes = _axes(axes, height=len(shown))
    for i, j in enumerate(shown):
        fits = weights.low[j] <= m <= weights.high[j]
        axes.plot([weights.low[j], weights.high[j]], [i, i], color=_MARK if fits else _LIMIT, linewidth=2)
    axes.scatter(weights.means[shown], range(len(shown)), color=_MARK, zorder=3, label="means")
    axes.axvline(m, color=_BEST, linestyle="--")
    _names(axes, [policies.names[j] for j in shown])
    axes.set_xlabel(f"weight of its items per round ({m:g} is right)")
    return axes


def _axes(axes: Axes | None, *, height: int | None = None) -> Axes:
    """New ones where none are given, with room for so many rows."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise InputError(missing_extra("a plot", "matplotlib", "plots")) from None
    size = (6.4, 4.0) if height is None else (6.4, max(2.0, 1.0 + 0.22 * height))
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def _compared(source: Compared | Comparison | LogEvaluation) -> Comparison:
    if isinstance(source, LogEvaluation):
        source = source.evaluation
    if isinstance(source, Comparison):
        return source
    if not callable(getattr(source, "comparison", None)):
        raise InputError(
            f"source must be a certifying learner, an evaluation or a selection, got {type(source).__name__}."
        )
    return source.comparison()


def _history(run: Run) -> Mapping[str, NDArray[Any]]:
    if not isinstance(run, Run):
        raise InputError(f"run must be what cb.run returned, got {type(run).__name__}.")
    if len(run.history["rounds"]) == 0:
        raise InputError("the run had no rounds: there is nothing to draw.")
    return run.history


def _design(design: Design) -> Design:
    if not isinstance(design, Design):
        raise InputError(f"design must be what cb.design_exploration returned, got {type(design).__name__}.")
    return design


def _colours(compared: Comparison, shown: tuple[ComparedCandidate, ...]) -> list[str]:
    """Green is for a candidate that is decided on alone."""
    colours = [_MARK if one.dropped is None else _SOFT for one in shown]
    return [_BEST, *colours[1:]] if compared.decided else colours


def _text(name: object) -> str:
    r"""A name as matplotlib shows it as it is: $ would begin a formula."""
    return shorten(visible(name), 40).replace("$", r"\$")


def _names(axes: Axes, names: list[str]) -> None:
    """One row for each name, the first on top."""
    axes.set_yticks(range(len(names)), [_text(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def _rows(axes: Axes, shown: tuple[ComparedCandidate, ...], at: list[float], colours: list[str], *, label: str) -> None:
    faces = ["none" if one.dropped is not None else colour for one, colour in zip(shown, colours, strict=True)]
    axes.scatter(at, range(len(shown)), facecolors=faces, edgecolors=colours, zorder=3, label=label)
    _names(axes, [one.name for one in shown])
