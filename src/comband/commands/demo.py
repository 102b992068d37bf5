"""`comband demo`: the main job, end to end, in a simulated shop."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from comband.certify import ABTest, AdaptiveComband, CertifyingLearner, UniformLists, UniformMixture
from comband.commands.common import can_write, console, is_quiet, print_json, print_table, say, stoppable
from comband.page.problem import Problem, check_count
from comband.page.storage import write_text
from comband.page.text import visible
from comband.policies import PolicySet
from comband.show import Needed, selection_page
from comband.statistics.results import Selection, telling
from comband.worlds import SyntheticRecommender
from comband.worlds.running import run

_OTHERS: dict[str, type[CertifyingLearner]] = {
    "mixture of all candidates": UniformMixture,
    "uniform lists": UniformLists,
    "A/B/n test": ABTest,
}
_BATCH = 500


def demo(
    items: Annotated[int, typer.Option(help="How many items the shop has.")] = 500,
    slots: Annotated[int, typer.Option(help="How many are shown at once.")] = 5,
    candidates: Annotated[int, typer.Option(help="How many candidates compete.")] = 200,
    click_rate: Annotated[float, typer.Option(help="Clicks per round of the best possible lists.")] = 0.12,
    epsilon: Annotated[
        float, typer.Option(help="How much worse than the best is still fine, in clicks per round.")
    ] = 0.02,
    delta: Annotated[float, typer.Option(help="Probability allowed for a wrong answer.")] = 0.05,
    cap: Annotated[
        int, typer.Option(help="Let the other methods try for so many rounds at most; 0 leaves them out.")
    ] = 60_000,
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("comband-report.html"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Find the best of 200 candidates (rankers of 500 items) in a simulated shop, and see what other methods need.

    Example: comband demo --epsilon 0.03 --cap 20000
    """
    check_count("cap", cap, least=0)
    can_write(report)
    problem = Problem(n_actions=items, list_size=slots, sparsity=1)
    shop = SyntheticRecommender(problem, click_rate=click_rate, seed=seed)
    policies = PolicySet(
        list(shop.candidates(candidates, seed=seed + 1)), names=[f"candidate {i}" for i in range(candidates)]
    )
    say(
        f"A shop has {items:,} items and shows {slots} to each visitor, who clicks at most one of them, mostly none.\n"
        f"{candidates:,} candidates compete, each with its own lists. Which is best, to within {epsilon:g} clicks per "
        f"round, with probability {1 - delta:g}?"
    )
    learner = AdaptiveComband(problem, policies, epsilon=epsilon, delta=delta, seed=seed + 2)
    with stoppable("the report will say what is known by now") as stopped:
        settings: dict[str, Any] = {"batch_size": _BATCH, "seed": seed + 3, "progress": not is_quiet(), "stop": stopped}
        outcome = run(learner, shop, **settings)
        needed = [_needed("comband (AdaptiveComband)", learner, outcome.result)]
        for name, kind in _OTHERS.items() if cap else ():
            if stopped():
                break
            say(f"The same with the method «{name}», for {cap:,} rounds at most:")
            other = kind(problem, policies, epsilon=epsilon, delta=delta, max_rounds=cap, seed=seed + 2)
            reached = run(other, shop, max_rounds=cap, **settings)
            needed.append(_needed(name, other, reached.result))
        early = stopped()

    truth = shop.values(policies)
    chosen = float(truth[outcome.result.index])
    page = selection_page(
        outcome.result,
        outcome.history,
        problem=problem,
        n_candidates=candidates,
        comparison=learner.comparison(),
        dropped=learner.status().dropped,
        needed=needed,
        stopped=early,
    )
    write_text(report, page)
    if as_json:
        print_json(
            {
                "verdict": outcome.result.verdict.as_dict(),
                "best": outcome.result.name,
                "epsilon": outcome.result.epsilon,
                "delta": outcome.result.delta,
                "stopped_early": early,
                "true_value": chosen,
                "true_best_value": float(truth.max()),
                "needed": [asdict(row) for row in needed],
                "report": str(report),
            }
        )
        return
    out = console()
    if not needed[0].finished:
        out.print("Stopped early; so far:")
    out.print(visible(outcome.result, keep="\n"), soft_wrap=True)
    out.print(
        f"  in truth (known here because the shop is simulated): {chosen:.4f} clicks per round, "
        f"the best candidate has {truth.max():.4f}, the median one {np.median(truth):.4f}\n",
        soft_wrap=True,
    )
    rows = []
    for row in needed:
        more = "" if row.finished else "> "
        certified = "nothing yet" if row.epsilon is None else f"within {row.epsilon:.3g}"
        times = f"{more}{row.rounds / learner.rounds:.1f}"
        rows.append((row.method, f"{more}{row.rounds:,}", certified, times))
    print_table(out, ("rounds to the same certainty", "rounds", "certified by then", "times comband's"), rows)
    say(f"The report is in {visible(report)}.")


def _needed(method: str, learner: CertifyingLearner, result: Selection) -> Needed:
    return Needed(
        method,
        learner.rounds,
        result.epsilon <= (learner.spec.epsilon or 0.0),
        telling(result.epsilon, learner.problem.max_reward),
    )
