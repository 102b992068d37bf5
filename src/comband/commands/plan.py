"""`comband plan`: how long a comparison will take."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer

from comband.commands.common import console, print_json, print_table, stoppable, working
from comband.planning import Forecast, by_simulation, by_theorem
from comband.problem import Problem, check_choice, check_epsilon, check_positive


def plan(
    items: Annotated[int, typer.Option(help="K: how many items there are.")] = 100,
    slots: Annotated[int, typer.Option(help="m: how many are shown at once.")] = 5,
    sparsity: Annotated[int, typer.Option(help="s: at most so many clicks per round.")] = 1,
    candidates: Annotated[int, typer.Option(help="How many candidates compete.")] = 50,
    click_rate: Annotated[float, typer.Option(help="Clicks per round of the best possible lists.")] = 0.1,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="How much worse than the best is still fine, in clicks per round; a fifth of the click rate if unset."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability allowed for a wrong answer.")] = 0.05,
    feedback: Annotated[
        str, typer.Option(help='What is seen of a shown list: "items", which ones were clicked, or "total", how many.')
    ] = "items",
    rounds_a_day: Annotated[float, typer.Option(help="Lists you can show in a day.")] = 10_000,
    runs: Annotated[int, typer.Option(help="Simulated shops for each method; 0: no forecast, only theorems.")] = 6,
    max_rounds: Annotated[int, typer.Option(help="Give up a simulated run after so many rounds.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same forecast.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Forecast the rounds and days until the best candidate is known, for each method, by simulation.

    The last rows are theorems: rounds that are enough in the worst case, not forecasts.

    Example: comband plan --items 200 --slots 5 --candidates 100 --click-rate 0.1 --epsilon 0.02 --rounds-a-day 20000
    """
    problem = Problem(
        n_actions=items,
        list_size=slots,
        sparsity=sparsity,
        feedback=check_choice("feedback", feedback, ("items", "total")),
    )
    daily = check_positive("rounds_a_day", rounds_a_day)
    target = check_epsilon(check_positive("click_rate", click_rate) / 5 if epsilon is None else epsilon, problem)
    worst = by_theorem(problem, n_policies=candidates, click_rate=click_rate, epsilon=target, delta=delta)
    forecasts: list[Forecast] = []
    if runs:
        with (
            working() as step,
            stoppable("methods that are done will be shown") as stopped,
            suppress(_StoppedError),
        ):

            def progress(text: str) -> None:
                if stopped():
                    raise _StoppedError
                step(text)

            for forecast in by_simulation(
                problem,
                n_policies=candidates,
                click_rate=click_rate,
                epsilon=target,
                delta=delta,
                runs=runs,
                max_rounds=max_rounds,
                seed=seed,
                progress=progress,
            ):
                forecasts.append(forecast)
    forecasts += worst
    if as_json:
        print_json({"epsilon": target, "delta": delta, "forecasts": [_row(f, daily) for f in forecasts]})
    else:
        _print(forecasts, daily, target, delta)


class _StoppedError(Exception):
    """Ctrl-C between two simulated runs."""


def _row(forecast: Forecast, daily: float) -> dict[str, object]:
    days = None if forecast.rounds is None else forecast.rounds / daily
    return {**asdict(forecast), "days": days}


def _print(forecasts: list[Forecast], daily: float, epsilon: float, delta: float) -> None:
    rows = []
    for forecast in forecasts:
        cap = forecast.cap or 0
        low, high = ("", "") if forecast.interval is None else (_count(value, cap) for value in forecast.interval)
        days = f"> {cap / daily:,.1f}" if forecast.rounds is None else f"{forecast.rounds / daily:,.1f}"
        basis = f"simulation, {forecast.runs} shops" if forecast.runs else "worst case, by theorem"
        rows.append((forecast.method, basis, _count(forecast.rounds, cap), low, high, days))
    out = console()
    print_table(out, ("method", "basis", "rounds", "fewest", "most", "days"), rows, texts=2)
    out.print(f"\nUntil no candidate is better by more than {epsilon:g}, with probability {1 - delta:g}.")
    runs = forecasts[0].runs
    if runs > 1:
        out.print(
            f"By simulation: the median, which over shops like these lies between fewest and most with probability "
            f"{1 - 2.0 ** (1 - runs):.3g}."
        )
    out.print("By theorem: a worst-case guarantee, enough in every shop with that click rate, not a forecast.")


def _count(rounds: int | None, cap: int) -> str:
    return f"> {cap:,}" if rounds is None else f"{rounds:,}"
