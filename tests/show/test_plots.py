"""Pictures draw the numbers they are given, onto the axes they are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.evaluation.evaluating import item_weights
from comband.statistics.results import Candidate

pyplot = pytest.importorskip("matplotlib.pyplot")
NAMES = ["<b>$x$</b>", "two\nlines", "c", "d", "e", "f"]
PROBLEM = cb.Problem(12, 3, 1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
POLICIES = cb.PolicySet(list(WORLD.candidates(6, seed=1)), names=NAMES)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def learner() -> cb.AdaptiveComband:
    return cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=0.05, seed=2)


@pytest.fixture(scope="module")
def run(learner: cb.AdaptiveComband) -> cb.worlds.running.Run:
    return cb.run(learner, WORLD, batch_size=100, seed=3)


@pytest.fixture(scope="module")
def log() -> cb.Rounds:
    kept: list[cb.Rounds] = []
    uniform = cb.UniformLists(PROBLEM, POLICIES, epsilon=0.001, seed=4)
    cb.run(uniform, WORLD, batch_size=800, max_rounds=800, seed=5, keep=kept.append)
    return kept[0]


def dots(axes: Any, label: str) -> list[tuple[float, float]]:
    (found,) = [one for one in axes.collections if one.get_label() == label]
    return [tuple(point) for point in found.get_offsets().tolist()]


def lines(axes: Any) -> list[list[float]]:
    """Ends of the first lines: one for each row."""
    return [sorted(line.get_xdata()) for line in axes.lines if len(set(line.get_ydata())) == 1]


def labels(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_differences(learner: cb.AdaptiveComband, run: cb.worlds.running.Run) -> None:
    given = pyplot.subplots()[1]
    axes: Any = cb.plot_differences(learner, given)
    assert axes is given
    compared = learner.comparison()
    rows = compared.candidates
    assert dots(axes, "differences") == [(one.difference, i) for i, one in enumerate(rows)]
    assert dots(axes, "bounds") == [(one.bound, i + 1) for i, one in enumerate(rows[1:])]
    assert lines(axes)[: len(rows)] == [sorted([one.difference, one.bound]) for one in rows]
    (epsilon,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert set(epsilon.get_xdata()) == {compared.epsilon}
    assert set(labels(axes)) == {r"<b>\$x\$</b>", r"two\nlines", "c", "d", "e", "f"}
    axes.get_figure().canvas.draw()
    low, high = axes.get_ylim()
    assert low > high  # the winner on top
    assert dots(cb.plot_differences(compared, most=2), "differences") == dots(axes, "differences")[:2]


def test_values_of_all_that_compare(learner: cb.AdaptiveComband, run: cb.worlds.running.Run, log: cb.Rounds) -> None:
    evaluation = cb.evaluate(log, POLICIES, max_reward=1.0)
    for source in (learner, evaluation, run.result):
        rows = source.comparison().candidates
        axes: Any = cb.plot_values(source)
        assert dots(axes, "values") == [(one.value, i) for i, one in enumerate(rows)]
        assert lines(axes) == [list(one.interval) for one in rows]
        assert axes.get_xlim()[0] <= 0


def test_field_and_certificate(run: cb.worlds.running.Run) -> None:
    history = run.history
    field: Any = cb.plot_field(run)
    (line,) = field.lines
    assert np.array_equal(line.get_xydata(), np.column_stack([history["rounds"], history["survivors"]]))
    axes: Any = cb.plot_certificate(run, target=0.05)
    assert np.array_equal(axes.lines[0].get_ydata(), history["certified"], equal_nan=True)
    assert axes.lines[0].get_drawstyle() == "steps-post"
    assert set(axes.lines[1].get_ydata()) == {0.05}
    assert len(axes.lines) == 2  # it is reached: nothing more is expected
    open_end = (history["certified"] > 0.05) & (history["forecast"] > 0) & np.isfinite(history["forecast"])
    n = int(np.flatnonzero(open_end)[0]) + 1
    early = cb.worlds.running.Run(run.result, {name: column[:n] for name, column in history.items()})
    axes = cb.plot_certificate(early, target=0.05)
    expected = axes.lines[2].get_xydata().tolist()
    rounds, togo = history["rounds"][n - 1], history["forecast"][n - 1]
    assert expected == [[rounds, history["certified"][n - 1]], [rounds + togo, 0.05]]


def test_design_weights_and_variance(log: cb.Rounds) -> None:
    design = cb.design_exploration(log, POLICIES, problem=PROBLEM)
    axes: Any = cb.plot_design_weights(design)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(design.mixture.weights[design.support].tolist(), reverse=True)
    axes = cb.plot_design_variance(design, log)
    widths = [bar.get_width() for bar in axes.patches]
    assert len(widths) == 6
    assert widths[0] == pytest.approx(design.max_variance)
    assert set(axes.lines[0].get_xdata()) == {design.max_variance}
    events, mixture = log.events(), design.mixture  # one policy's proxy, term by term
    j = NAMES.index(next(name for name in labels(axes) if name in NAMES))
    X = events.contexts[events.rows]
    shown = POLICIES.predict(X, problem=PROBLEM)[:, j]
    terms = [
        r / (len(log) * q * Q[y])
        for r, q, Q, y, listed in zip(
            events.rewards, events.propensities, mixture.propensities(X), events.actions, shown, strict=True
        )
        if y in listed
    ]
    assert widths[labels(axes).index(NAMES[j])] == pytest.approx(sum(terms))


def test_regret() -> None:
    curves = cb.regret.RegretCurves(np.array([1, 2]), np.array([[0.0, 1.0], [2.0, 5.0]]), best=0)
    axes: Any = cb.plot_regret({"$a": curves}, bound=9.0, coverage=1.0)
    assert axes.lines[0].get_xydata().tolist() == [[1, 1], [2, 3]]
    assert set(axes.lines[1].get_ydata()) == {9.0}
    corners = {tuple(point) for point in axes.collections[0].get_paths()[0].vertices.tolist()}
    assert {(1, 0), (1, 2), (2, 1), (2, 5)} <= corners
    axes.get_figure().canvas.draw()


def test_propensity_check(log: cb.Rounds) -> None:
    axes: Any = cb.plot_propensity_check(log, POLICIES, min_propensity=0.25)
    weights = item_weights(log, POLICIES, min_propensity=0.25)
    assert sorted(x for x, _ in dots(axes, "means")) == sorted(weights.means.tolist())
    assert sorted(lines(axes)[:6]) == sorted(map(list, zip(weights.low.tolist(), weights.high.tolist(), strict=True)))
    assert set(axes.lines[-1].get_xdata()) == {3.0}


def test_what_cannot_be_drawn_is_refused(run: cb.worlds.running.Run) -> None:
    wrongly: tuple[tuple[Any, Any], ...] = (
        (cb.plot_differences, 3),
        (cb.plot_values, "log.csv"),
        (cb.plot_field, run.result),
        (cb.plot_certificate, run.history),
        (cb.plot_design_weights, None),
    )
    for draw, wrong in wrongly:
        with pytest.raises(cb.InputError, match="must be"):
            draw(wrong)
    empty = cb.worlds.running.Run(run.result, {name: column[:0] for name, column in run.history.items()})
    with pytest.raises(cb.InputError, match="no rounds"):
        cb.plot_field(empty)
    best = Candidate(0, "a", 0.1, (0.0, 0.2))
    alone = cb.Selection(POLICIES[0], best, 0.1, 0.05, 10, ())
    assert labels(cb.plot_differences(alone)) == ["a"]
