"""`comband simulate`: a learner in a simulated shop, and the log it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from comband.certify import (
    ABTest,
    AdaptiveComband,
    CertifyingLearner,
    Confirmation,
    OnlineComband,
    PacComband,
    TwoPhaseComband,
    UniformExploration,
    UniformLists,
    UniformMixture,
)
from comband.certify.confirming.learner import Lift
from comband.certify.spec import EXPLORATIONS
from comband.commands.cluster_options import ClusterOption, working_on
from comband.commands.common import can_write, console, is_quiet, print_json, print_table, say, stoppable
from comband.commands.log_options import as_places
from comband.commands.setting_options import said_by, with_settings
from comband.evaluation.logs import write_candidates, write_rounds
from comband.evaluation.logs.writing import check_ending
from comband.learners import Learner
from comband.page.problem import InputError, Problem, check_count
from comband.page.rounds import Rounds
from comband.page.storage import write_text
from comband.page.text import visible
from comband.policies import PolicySet
from comband.policies.reading import reading_of
from comband.show import selection_page
from comband.statistics.results import Selection
from comband.worlds import SyntheticRecommender
from comband.worlds.item_metrics import ItemMetrics
from comband.worlds.running import run

_BATCH = 1000


def _certifying(kind: type[CertifyingLearner]) -> Callable[[Setting, PolicySet, int], Learner]:
    def make(setting: Setting, policies: PolicySet, seed: int) -> Learner:
        said = {"epsilon": setting.epsilon, "max_rounds": setting.rounds, **said_by(setting.settings, kind.SPEC)}
        return kind(setting.problem, policies, **said, seed=seed)

    return make


def _online(setting: Setting, policies: PolicySet, seed: int) -> Learner:
    promise = {"epsilon": setting.epsilon, **setting.only("delta")}
    # Propensities go into the log.
    return OnlineComband(setting.problem, policies, **promise, batch_size=_BATCH, propensities="always", seed=seed)


def _uniform(setting: Setting, policies: PolicySet, seed: int) -> Learner:
    return UniformExploration(setting.problem, policies, n_rounds=setting.rounds, **setting.only("delta"), seed=seed)


def _pac(setting: Setting, policies: PolicySet, seed: int) -> Learner:
    explore = max(1, setting.rounds // 4)
    estimate = max(1, setting.rounds - setting.rounds // 4)
    return PacComband(
        setting.problem, policies, n_explore=explore, n_estimate=estimate, **setting.only("delta"), seed=seed
    )


LEARNERS: dict[str, Callable[[Setting, PolicySet, int], Learner]] = {
    "adaptive": _certifying(AdaptiveComband),
    "mixture": _certifying(UniformMixture),
    "lists": _certifying(UniformLists),
    "ab-test": _certifying(ABTest),
    "two-phase": _certifying(TwoPhaseComband),
    "online": _online,
    "uniform": _uniform,
    "pac": _pac,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a simulation depends on but its seed; another process understands it. `settings` are those of the
    learner that were said.
    """

    problem: Problem
    candidates: int
    click_rate: float
    place_effect: Any
    learner: str
    rounds: int
    epsilon: float | None
    settings: Mapping[str, Any]

    def only(self, *names: str) -> dict[str, Any]:
        """The settings of a learner that has no others than these."""
        others = [name for name in said_by(self.settings, CertifyingLearner.SPEC) if name not in names]
        if others:
            able = ", ".join(name for name in EXPLORATIONS if name in LEARNERS)
            raise InputError(f"{others[0]} is a setting of the learners {able}, got --learner {self.learner}.")
        return dict(self.settings)

    def world(self, seed: int) -> tuple[SyntheticRecommender, PolicySet, Learner]:
        """A shop, its candidates, and a learner that knows nothing yet."""
        shop = SyntheticRecommender(self.problem, click_rate=self.click_rate, place_effect=self.place_effect, seed=seed)
        policies = shop.candidates(self.candidates, seed=seed + 1)
        return shop, policies, LEARNERS[self.learner](self, policies, seed + 2)

    def metrics(self, seed: int) -> ItemMetrics | None:
        """What clicks are worth by further metrics, if there are any."""
        declared = self.settings.get("metrics")
        return ItemMetrics(declared, self.problem, seed=seed + 4) if declared else None

    def document(self, selection: Selection, world: SyntheticRecommender, policies: PolicySet) -> dict[str, Any]:
        """What was selected, and what is true."""
        truth = world.values(policies, shuffled=reading_of(self.problem).SETS and self.learner != "ab-test")
        return {
            "verdict": selection.verdict.as_dict(),
            "best": selection.name,
            "value": selection.value,
            "interval": list(selection.interval),
            "epsilon": selection.epsilon,
            "delta": selection.delta,
            "rounds": selection.rounds,
            "guarantee": selection.guarantee,
            "lift": None if selection.lift is None else selection.lift.as_dict(),
            "metrics": [one.as_dict() for one in selection.guarded],
            "claims": [claim.as_dict() for claim in selection.claims],
            "declared": {name: value for name, value, _ in selection.declared},
            "warnings": list(selection.warnings),
            "notes": list(selection.notes),
            "explained": list(selection.explained),
            "true_value": float(truth[selection.index]),
            "true_best_value": float(truth.max()),
        }


def simulated(seed: int, setting: Setting) -> dict[str, Any]:
    """One simulation from its beginning to its end."""
    world, policies, agent = setting.world(seed)
    outcome = run(
        agent, world, batch_size=_BATCH, max_rounds=setting.rounds, seed=seed + 3, metrics=setting.metrics(seed)
    )
    return {"seed": seed, **setting.document(outcome.result, world, policies)}


@with_settings(
    Problem, CertifyingLearner.SPEC, without=("n_actions", "list_size", "max_rounds", "exploration", "epsilon")
)
def simulate(
    items: Annotated[int, typer.Option(help="How many items there are.")] = 100,
    slots: Annotated[int, typer.Option(help="How many are shown at once.")] = 5,
    candidates: Annotated[int, typer.Option(help="How many candidates compete.")] = 50,
    click_rate: Annotated[float, typer.Option(help="Clicks per round of the best possible lists.")] = 0.1,
    rounds: Annotated[int, typer.Option(help="How many lists to show at most.")] = 20_000,
    learner: Annotated[str, typer.Option(help=f"One of: {', '.join(LEARNERS)}.")] = "adaptive",
    epsilon: Annotated[
        str,
        typer.Option(
            help='Stop when no candidate can be better by more, or "none": the smallest that the rounds certify; not '
            "for uniform and pac."
        ),
    ] = "0.02",
    place_effect: Annotated[
        str | None,
        typer.Option(
            help='What places really do: one chance of a click for each, 1,0.6,0.3, or "cascade"; nothing otherwise.',
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 7,
    seeds: Annotated[int, typer.Option(help="So many runs, each with a shop of its own: seed, seed + 1, …")] = 1,
    cluster: ClusterOption = None,
    log: Annotated[
        Path | None, typer.Option(help="Write the rounds here (.parquet, .csv, .jsonl).", show_default=False)
    ] = None,
    lists: Annotated[Path | None, typer.Option(help="Write the candidates' lists here.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a report to this file.", show_default=False)
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="Write what others need to check the answer here; needs --audited.", show_default=False),
    ] = None,
    confirm: Annotated[
        int | None,
        typer.Option(
            help="Then compare the winner with --production in whole lists, for so many rounds at most.",
            show_default=False,
        ),
    ] = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Let a learner find the best of simulated candidates; the files it can leave are what `comband evaluate` reads.

    Example: comband simulate --rounds 20000 --log log.parquet --lists lists.parquet --html report.html
    """
    if learner not in LEARNERS:
        raise InputError(f"learner must be one of {', '.join(LEARNERS)}, got {learner!r}.")
    check_count("rounds", rounds)
    for path in (log, lists, html, certificate):
        can_write(path)
    for path in (log, lists):
        if path is not None:
            check_ending(path)
    _check_apart({"--log": log, "--lists": lists, "--html": html, "--certificate": certificate})
    if certificate is not None and settings.get("audited") is None:
        raise InputError("--certificate needs a record of the run: say --audited 0.01, the share of rounds in it.")
    setting = Setting(
        problem=Problem(n_actions=items, list_size=slots, **{"sparsity": 1, **said_by(settings, Problem)}),
        candidates=candidates,
        click_rate=click_rate,
        place_effect=as_places(place_effect, "--place-effect"),
        learner=learner,
        rounds=rounds,
        epsilon=_number(epsilon),
        settings=said_by(settings, CertifyingLearner.SPEC),
    )
    if confirm is not None and check_count("confirm", confirm) and settings.get("production") is None:
        raise InputError("--confirm compares the winner with the candidate in production: say --production NAME.")
    if check_count("seeds", seeds) > 1 or cluster is not None:
        if confirm is not None:
            raise InputError("seeds must be 1, without --cluster, where the winner is confirmed.")
        if any(path is not None for path in (log, lists, html, certificate)):
            raise InputError(
                "seeds must be 1, without --cluster, where a log, lists, a page or a certificate is written."
            )
        _many(setting, range(seed, seed + seeds), cluster, as_json)
        return
    world, policies, agent = setting.world(seed)
    played: list[Rounds] = []
    with stoppable("what is known by now is kept") as stopped:
        outcome = run(
            agent,
            world,
            batch_size=_BATCH,
            max_rounds=rounds,
            seed=seed + 3,
            progress=not is_quiet(),
            stop=stopped,
            keep=played.append if log is not None or lists is not None else None,
            metrics=setting.metrics(seed),
        )
        early = stopped()
    if log is not None:
        write_rounds(played, log)
    if lists is not None:
        # Contexts are named after their rounds, so each round has its row of lists.
        contexts = np.concatenate([part.decisions.contexts for part in played])
        ids = np.concatenate([part.decisions.ids for part in played])
        write_candidates(policies, contexts, lists, context_ids=ids)
    selection = outcome.result
    if certificate is not None and isinstance(agent, CertifyingLearner):
        agent.certificate(certificate)
        say(f"certificate written to {visible(certificate)}, whose head is {agent.head}")
    confirmed = None if confirm is None else _confirmed(setting, selection, world, policies, confirm, seed)
    if html is not None:
        certifying = agent if isinstance(agent, CertifyingLearner) else None
        page = selection_page(
            selection,
            outcome.history,
            problem=setting.problem,
            n_candidates=candidates,
            comparison=None if certifying is None else certifying.comparison(),
            dropped=() if certifying is None else certifying.status().dropped,
            stopped=early,
            confirmation="" if confirmed is None else str(confirmed),
        )
        write_text(html, page)
        say(f"report written to {visible(html)}")
    document = setting.document(selection, world, policies)
    if confirmed is not None:
        document["confirmation"] = confirmed if isinstance(confirmed, str) else confirmed.as_dict()
    if as_json:
        print_json(document)
        return
    out = console()
    out.print(str(selection), soft_wrap=True)
    if confirmed is not None:
        out.print(str(confirmed), soft_wrap=True)
    out.print(
        f"In truth (known here because the shop is simulated): {selection.name} is worth {document['true_value']:.4f} "
        f"clicks per round, the best of all {document['true_best_value']:.4f}.",
        soft_wrap=True,
    )


def _confirmed(
    setting: Setting, selection: Selection, world: SyntheticRecommender, policies: PolicySet, rounds: int, seed: int
) -> Lift | str:
    """The winner against production in whole lists, with δ of its own; or why there is nothing to confirm."""
    production = str(setting.settings["production"])
    if not selection.verdict.decided:
        return "not confirmed: no winner is decided on"
    if selection.name == production:
        return f"nothing to confirm: the winner, {production}, is in production"
    given = {name: value for name, value in setting.settings.items() if name == "delta"}
    last = Confirmation(
        setting.problem, policies, candidate=selection.name, production=production, seed=seed + 4, **given
    )
    run(last, world, batch_size=_BATCH, max_rounds=rounds, seed=seed + 5, progress=not is_quiet())
    return last.lift()


def _number(epsilon: str) -> float | None:
    try:
        return None if epsilon == "none" else float(epsilon)
    except ValueError:
        raise InputError(f'epsilon must be a number, or "none" with a budget of rounds, got {epsilon!r}.') from None


def _check_apart(paths: Mapping[str, Path | None]) -> None:
    """Refuse options that name one file twice: the second would be written over the first."""
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is not None:
            other = seen.setdefault(path.resolve(), option)
            if other != option:
                raise InputError(f"{other} and {option} must name different files, got {path} for both.")


def _many(setting: Setting, seeds: range, cluster: str | None, as_json: bool) -> None:
    """Simulations that know nothing of each other, here or on a cluster: the same answers in the same order."""
    with working_on(cluster) as work:
        found = work.gather("answers", dict, work.each("simulations", simulated, seeds, setting))
    if as_json:
        print_json({"runs": found})
        return
    out = console()
    rows = [
        (
            run["best"],
            run["verdict"]["kind"],
            str(run["seed"]),
            f"{run['rounds']:,}",
            f"{run['epsilon']:.4g}",
            f"{run['true_value']:.4f}",
            f"{run['true_best_value']:.4f}",
        )
        for run in found
    ]
    print_table(out, ("selected", "verdict", "seed", "rounds", "epsilon", "true value", "best of all"), rows, texts=2)
    wrong = sum(run["true_best_value"] - run["true_value"] > run["epsilon"] + 1e-12 for run in found)
    middle = int(np.median([run["rounds"] for run in found]))
    out.print(f"{len(found):,} runs, {middle:,} rounds at the median, {wrong} with a statement that was wrong.")
