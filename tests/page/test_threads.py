"""Work over threads: the same results for every number of them, and compiled loops that let others run."""

from __future__ import annotations

import importlib
import multiprocessing
import pkgutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import comband as cb
from comband import _kernels
from comband._kernels.lists import linear_top_lists
from comband.explore.explorers import disagreement
from comband.explore.solvers import incidence
from comband.page import threads
from comband.policies import scored
from comband.statistics.histograms import ValueHistograms


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    threads.set_threads(None)


def linear(dtype: Any = np.float64, P: int = 9) -> cb.PolicySet:
    rng = np.random.default_rng(0)
    return cb.PolicySet.linear(rng.standard_normal((P, 7, 600)), cb.Problem(n_actions=600, list_size=4), dtype=dtype)


def predicted() -> list[Any]:
    X = np.random.default_rng(1).standard_normal((50, 7))
    found: list[Any] = []
    for dtype in (np.float64, np.float32):
        found += [linear(dtype).predict(X), linear(dtype).predict(X, [3, 1]), linear(dtype)[0].predict(X)]
    return found


def passes() -> list[Any]:
    rng = np.random.default_rng(2)
    found = []
    for density in (0.01, 0.3):
        rows = rng.random((3000, 90)) < density
        built, weights = incidence.build_incidence([(rows, rng.random(3000))])
        found += [built.scores(weights), built.best(weights, n=5).scores]
    return found


def designed() -> list[Any]:
    problem = cb.Problem(n_actions=60, list_size=3, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.3, seed=0)
    policies = world.candidates(40, seed=1)
    rng = np.random.default_rng(3)
    batch = world.sample(800, rng)
    learner = cb.UniformExploration(problem, policies, n_rounds=800, seed=1)
    decisions = learner.ask(batch.contexts)
    rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
    design = cb.design_exploration(rounds, cb.EnumerationOracle(policies), problem=problem, floor=0.5)
    return [design.mixture.weights, design.gap, design.max_variance]


def explored() -> list[Any]:
    problem = cb.Problem(n_actions=600, list_size=4)
    given: dict[str, Any] = {"leader": 2, "attention": np.arange(9.0), "smallest_disputed": 0.02, "problem": problem}
    explorer = disagreement.DisagreementExplorer(linear(), np.arange(9), **given)
    X = np.random.default_rng(1).standard_normal((50, 7))
    drawn = explorer.draw(X, np.random.default_rng(4)).decisions
    return [drawn.lists, drawn.propensities, drawn.covered, explorer.propensities_of(X, drawn.lists)]


def bounded() -> list[Any]:
    histograms = ValueHistograms.zero(150, bound=20.0, n_rounds=400)
    rng = np.random.default_rng(5)
    histograms.add(np.where(rng.random((400, 150)) < 0.1, 20.0 * rng.random((400, 150)), 0.0))
    return [*histograms.bounds(threshold=40.0, largest=1.0)]


@pytest.mark.parametrize("work", [predicted, passes, designed, explored, bounded])
def test_results_are_the_same_for_every_number_of_threads(
    work: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scored, "_PIECE", 1)  # everything is large enough for a thread
    monkeypatch.setattr(incidence, "_PIECE", 1)
    monkeypatch.setattr(disagreement, "_PIECE", 1)
    threads.set_threads(1)
    alone = work()
    for n in (2, 3):
        threads.set_threads(n)
        for one, other in zip(alone, work(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_every_part_is_worked_on_once_and_by_several_threads() -> None:
    threads.set_threads(3)
    meeting = threading.Barrier(3, timeout=60)  # passes only if three threads are at work at once
    done: list[int] = []
    names = set()

    def work(k: int) -> None:
        meeting.wait()
        names.add(threading.current_thread().name)
        done.append(k)

    threads.for_each(work, [0, 1, 2])
    assert sorted(done) == [0, 1, 2]
    assert len(names) == 3


def test_cuts_cover_everything_once() -> None:
    for n_threads in (1, 2, 5):
        threads.set_threads(n_threads)
        for n in (0, 1, 7, 100):
            for least in (0, 1, 30, 1000):
                edges = threads.cut(n, least)
                assert [k for start, stop in edges for k in range(start, stop)] == list(range(n))
                assert len(edges) == 1 or min(stop - start for start, stop in edges) >= least


def test_the_first_failure_is_raised_and_others_still_work() -> None:
    threads.set_threads(3)

    def work(k: int) -> None:
        if k in (1, 2):
            raise ValueError(str(k))

    with pytest.raises(ValueError, match=r"^[12]$"):
        threads.for_each(work, range(3))
    done: list[int] = []
    threads.for_each(done.append, range(5))
    assert sorted(done) == list(range(5))


def test_parts_may_have_parts() -> None:
    threads.set_threads(2)
    done: list[tuple[int, int]] = []
    threads.for_each(lambda i: threads.for_each(lambda j: done.append((i, j)), range(3)), range(4))
    assert sorted(done) == [(i, j) for i in range(4) for j in range(3)]


def test_a_number_of_threads_is_checked() -> None:
    for n in (0, -1, 1.5, "2"):
        with pytest.raises(cb.InputError, match="n must be"):
            threads.set_threads(n)  # type: ignore[arg-type]


def _in_child(queue: Any) -> None:
    done: list[int] = []
    threads.for_each(done.append, range(4))
    queue.put(sorted(done))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    threads.set_threads(3)
    threads.for_each(lambda k: None, range(4))  # the pool is there
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == [0, 1, 2, 3]
    child.join()


def test_every_kernel_lets_go_of_the_interpreter() -> None:
    kernels = {
        f"{module.__name__}.{name}": value
        for info in pkgutil.iter_modules(_kernels.__path__)
        for module in [importlib.import_module(f"{_kernels.__name__}.{info.name}")]
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }
    assert len(kernels) > 50
    assert [name for name, kernel in kernels.items() if not kernel.targetoptions.get("nogil")] == []


def test_other_threads_go_on_while_a_kernel_runs() -> None:
    X, weights = np.ones((1, 50)), np.ones((50, 1, 4000))
    rank = np.arange(4000, dtype=np.int32)[None, :]

    def run(n_policies: int) -> None:
        which, lists = np.zeros(n_policies, dtype=np.int64), np.empty((1, n_policies, 5), dtype=np.int32)
        linear_top_lists(X, weights, which, rank, lists, 0, n_policies)

    run(1)  # compiled
    n_policies, inside = 1000, False
    while not inside and n_policies < 10**6:  # until a call is long enough for the other thread to get its turn
        started, finished = threading.Event(), threading.Event()
        ticks: list[bool] = []

        def tick(started: threading.Event, finished: threading.Event, ticks: list[bool]) -> None:
            started.wait()
            while not finished.wait(0.001):
                ticks.append(True)

        ticker = threading.Thread(target=tick, args=(started, finished, ticks))
        ticker.start()
        started.set()
        before = len(ticks)
        run(n_policies)
        inside = len(ticks) > before + 5  # a kernel that held the interpreter would let one tick by, at its borders
        finished.set()
        ticker.join()
        n_policies *= 4
    assert inside


def test_blas_is_given_one_thread_and_all_of_them_back() -> None:
    """Also where several are inside at once, and leave in any order, or by a failure."""
    from threadpoolctl import threadpool_info, threadpool_limits

    def blas() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = blas()
        first, second = threads.one_blas_thread(), threads.one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert blas() == {1}
        first.__exit__(None, None, None)
        assert blas() == {1}
        second.__exit__(None, None, None)
        assert blas() == before
        with pytest.raises(ZeroDivisionError), threads.one_blas_thread():
            raise ZeroDivisionError
        assert blas() == before
