"""The command line: thin, no algorithm in it."""

from __future__ import annotations

import typer
from rich.console import Console

import comband as cb
from comband.commands.bench import bench
from comband.commands.common import Commands
from comband.commands.design import design
from comband.commands.evaluate import evaluate
from comband.commands.plan import plan
from comband.commands.simulate import simulate

app = typer.Typer(
    cls=Commands,
    help="Find the best of many list recommenders with as few user interactions as possible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def comband() -> None:
    """Find the best of many list recommenders with as few user interactions as possible."""


@app.command()
def demo(
    rounds: int = typer.Option(40_000, help="How many lists to show."),
    seed: int = typer.Option(7, help="The same seed gives the same run."),
) -> None:
    """Find the best of 50 rankers of 100 items in a simulated shop, end to end.

    Example: comband demo --rounds 20000
    """
    problem = cb.Problem(n_actions=100, list_size=5, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.3, seed=seed)
    candidates = world.candidates(50, seed=seed + 1)
    learner = cb.UniformExploration(problem, candidates, n_rounds=rounds, seed=seed + 2)
    say = Console(stderr=True).print
    say("A shop has 100 items and shows 5 at a time; 50 rankers compete; a visitor wants at most one item.")
    outcome = cb.run(learner, world, seed=seed + 3, progress=True)
    truth = world.values(candidates)
    print(outcome.result)
    print(
        f"In truth (known here because the shop is simulated): {outcome.result.name} is worth "
        f"{truth[outcome.result.index]:.4f} clicks a round, the best of all {truth.max():.4f}."
    )


for command in (plan, evaluate, design, simulate, bench):
    app.command()(command)


def main() -> None:
    """Entry point of the `comband` command."""
    app()
