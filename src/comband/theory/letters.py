"""What every theorem starts from: its letters as numbers, and which route of constants is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from comband.page.problem import InputError, Problem, check_choice, check_floor, check_problem

Route = Literal["refined", "printed"]
PacRoute = Literal["gradient", "joint", "refined", "printed", "held-out"]
PAC_ROUTES = ("gradient", "joint", "refined", "printed", "held-out")


def sparsity_of(problem: Problem) -> float:
    """s, or K when no bound is known: rewards lie in [0, 1]."""
    check_problem(problem)
    return float(problem.n_actions if problem.sparsity is None else problem.sparsity)


def all_letters(problem: Problem, floor: Any) -> tuple[float, float, float, float, float]:
    """γ, K, m, s, ρ as floats."""
    gamma, problem = check_floor(floor), check_problem(problem)
    return (
        gamma,
        float(problem.n_actions),
        float(problem.list_size),
        sparsity_of(problem),
        problem.max_reward,
    )


def design_letters(problem: Problem, floor: Any) -> tuple[float, float, float, float, float]:
    """The same where there is a design, which only uniform lists (γ = 1) would not be."""
    found = all_letters(problem, floor)
    if found[0] == 1:
        raise InputError("floor must lie below 1 here, got 1: only uniform lists leave nothing to design.")
    return found


def check_route(route: str) -> str:
    """The route, if there is one of that name."""
    return check_choice("route", route, ("refined", "printed"))


def check_pac_route(route: str) -> str:
    """The route of a schedule of two phases, if there is one of that name."""
    return check_choice("route", route, PAC_ROUTES)


def estimation_route(route: str) -> Route:
    """The constants of everything that the gradient route does not change."""
    return "printed" if route == "printed" else "refined"


def smallest_count(enough: Callable[[int], bool], start: int = 1) -> int:
    """The smallest whole number from `start` on that is enough, where all larger ones are: by doubling and halving.

    >>> smallest_count(lambda n: n * n >= 1000)
    32
    """
    low, high = start - 1, start
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
