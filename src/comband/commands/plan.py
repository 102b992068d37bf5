"""`comband plan`: how long a comparison will take."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from comband.certify.forecasts import (
    Forecast,
    by_simulation,
    by_theorem,
    check_shares,
    chosen_by_theorem,
    slack_remarks,
)
from comband.commands.common import console, print_json, print_table, stoppable, working
from comband.commands.known_scores import read_scores
from comband.commands.metric_options import rated_metric
from comband.page.metrics import check_metrics
from comband.page.problem import InputError, Problem, check_choice, check_count, check_epsilon, check_positive


def plan(
    items: Annotated[int, typer.Option(help="K: how many items there are.")] = 100,
    slots: Annotated[int, typer.Option(help="m: how many are shown at once.")] = 5,
    sparsity: Annotated[int, typer.Option(help="s: at most so many clicks per round.")] = 1,
    candidates: Annotated[int | None, typer.Option(help="How many candidates compete; 50 if unset.")] = None,
    click_rate: Annotated[
        float | None, typer.Option(help="Clicks per round of the best possible lists; 0.1 if unset.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="What is known of the candidates, in clicks per round: a .csv with a column score (and "
            "standard_error), or what comband evaluate --json said of a log. Simulated candidates then have these "
            "values, drawn together by as much as their error asks for."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Lists that you can show in all: the epsilon that they certify is forecast, not the rounds."),
    ] = None,
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
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A further metric, how much worse than production is allowed, and the share of items that carry it: "
            "purchases=5%,rate=0.2. Again for each. What safety takes in addition is forecast, and the lift.",
            show_default=False,
        ),
    ] = None,
    segments: Annotated[
        str | None,
        typer.Option(help="Shares of segments, 0.6,0.3,0.1: also with a learner for each.", show_default=False),
    ] = None,
    rounds_a_day: Annotated[float, typer.Option(help="Lists you can show in a day.")] = 10_000,
    runs: Annotated[int, typer.Option(help="Simulated shops for each method; 0: no forecast, only theorems.")] = 6,
    max_rounds: Annotated[int, typer.Option(help="Give up a simulated run after so many rounds.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same forecast.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Forecast the rounds and days until the best candidate is known, for each method, by simulation.

    The last rows are theorems: rounds that are enough in the worst case, not forecasts. With --budget it is forecast
    what so many rounds certify.

    Example: comband plan --items 200 --slots 5 --candidates 100 --click-rate 0.1 --epsilon 0.02 --rounds-a-day 20000
    """
    problem = Problem(
        n_actions=items,
        list_size=slots,
        sparsity=sparsity,
        feedback=check_choice("feedback", feedback, ("items", "total")),
    )
    daily = check_positive("rounds_a_day", rounds_a_day)
    metrics = dict(rated_metric(text) for text in metric or ())
    check_metrics("metrics", list(metrics))
    shares = check_shares(as_numbers(segments, "--segments"))
    told = None if scores is None else read_scores(scores)
    per_slot = told is not None and told.per_slot
    told = None if told is None else told.per_round(slots)
    known = None if told is None else told.shrunk()
    if known is not None and candidates not in (None, len(known)):
        raise InputError(f"--candidates is {candidates}, but {scores} has scores of {len(known)}; leave it out.")
    competing = len(known) if known is not None else 50 if candidates is None else candidates
    # A list made by the truth does a quarter better than the best candidate, or so.
    guessed = min(1.25 * float(known.max()), problem.max_reward) if known is not None else 0.1
    rate = check_positive("click_rate", guessed if click_rate is None else click_rate)
    if budget is not None:
        if epsilon is not None:
            raise InputError("--epsilon asks for rounds, --budget for the epsilon that they certify: give one of them.")
        if not runs:
            raise InputError("a forecast of epsilon is by simulation: --budget needs --runs of at least 1.")
        check_count("budget", budget)
    target = None if budget is not None else check_epsilon(rate / 5 if epsilon is None else epsilon, problem)
    worst = (
        []
        if target is None
        else by_theorem(problem, n_policies=competing, click_rate=rate, epsilon=target, delta=delta)
    )
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
                n_policies=competing,
                click_rate=rate,
                epsilon=target,
                scores=known,
                delta=delta,
                runs=runs,
                max_rounds=max_rounds if budget is None else budget,
                seed=seed,
                metrics=metrics,
                shares=shares,
                progress=progress,
            ):
                forecasts.append(forecast)
    forecasts += worst
    remarks = [] if told is None else told.remarks(target)
    if per_slot:
        remarks.insert(0, f"The scores are per slot; a round has {slots} slots, so that they count {slots} times here.")
    remarks += slack_remarks(metrics, rate)
    if as_json:
        chosen = chosen_by_theorem(worst)
        print_json(
            {
                "epsilon": target,
                "delta": delta,
                "unit": "clicks per round",
                "remarks": remarks,
                "forecasts": [_row(f, daily) for f in forecasts],
                "chosen_by_theorem": None if chosen is None else chosen.method,
            }
        )
    elif target is None:
        _print_epsilons(forecasts, rate, delta)
    else:
        _print(forecasts, daily, target, delta)
    if not as_json:
        for remark in remarks:
            console().print(remark)


def as_numbers(text: str | None, option: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [] if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} takes numbers with commas between them, such as 0.6,0.3,0.1, got {text!r}."
        ) from None


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
    out.print(
        f"\nUntil no candidate is better by more than {epsilon:g} clicks per round, with probability {1 - delta:g}."
    )
    runs = forecasts[0].runs
    if runs > 1:
        out.print(
            f"By simulation: the median, which over shops like these lies between fewest and most with probability "
            f"{1 - 2.0 ** (1 - runs):.3g}."
        )
    out.print("By theorem: a worst-case guarantee, enough in every shop with that click rate, not a forecast.")
    for one in forecasts:
        if one.lift_width is not None:
            out.print(
                f"{one.method[:1].upper()}{one.method[1:]}: half of the candidates are better than production, and the "
                f"winner's lift over it is known to within {50 * one.lift_width:.2g}% of the best one's value by then."
            )
    chosen = chosen_by_theorem(forecasts)
    if chosen is not None:
        out.print(
            f"OnlineComband takes {chosen.rounds or 0:,} rounds at most, {chosen.method}: the smaller of learnt "
            "exploration and uniform lists, which is known before any data."
        )


def _print_epsilons(forecasts: list[Forecast], click_rate: float, delta: float) -> None:
    rows = []
    for forecast in forecasts:
        epsilon, (smallest, largest) = forecast.epsilon or 0.0, forecast.epsilons or (0.0, 0.0)
        share = f"{100 * epsilon / click_rate:.0f}%"
        rows.append((forecast.method, f"{epsilon:.3g}", f"{smallest:.3g}", f"{largest:.3g}", share))
    out = console()
    print_table(out, ("method", "epsilon", "smallest", "largest", "of click rate"), rows, texts=1)
    if forecasts:
        out.print(
            f"\nAfter {forecasts[0].cap:,} rounds no candidate is better than the one named by more than epsilon "
            f"(clicks per round), with probability {1 - delta:g}: the median of {forecasts[0].runs} simulated shops, "
            "the smallest and the largest."
        )


def _count(rounds: int | None, cap: int) -> str:
    return f"> {cap:,}" if rounds is None else f"{rounds:,}"
