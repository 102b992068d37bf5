"""What is told about experiments, from the journal: any process can tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from comband.serve.experiments import Experiments, Running
from comband.serve.housekeeping import retention_text
from comband.serve.journal import GoneError, Journal
from comband.serve.progress import Progress
from comband.serve.requests import unpack_body
from comband.serve.views import next_step


class Queries:
    """Answers to questions.

    Parameters
    ----------
    experiments, journal:
        About which, and from where.
    """

    def __init__(self, experiments: Experiments, journal: Journal) -> None:
        self._experiments, self._journal, self._progress = experiments, journal, Progress(journal)

    def summary(self, running: Running) -> dict[str, Any]:
        """An experiment in a few numbers."""
        found = self.summaries([running])
        if not found:
            raise GoneError(running.experiment.name)
        return found[0]

    def summaries(self, chosen: Sequence[Running]) -> list[dict[str, Any]]:
        """Several of them, read together."""
        ids = [running.experiment.id for running in chosen]
        counts, views = self._journal.counts_of(ids), self._progress.latest_views(ids)
        return [
            self._summary(running, counts[number], _parts(views.get(number, b"{}")))
            for running, number in zip(chosen, ids, strict=True)
            if number in counts
        ]

    def _summary(self, running: Running, counts: tuple[int, int, int], parts: dict[str, msgspec.Raw]) -> dict[str, Any]:
        experiment, (decisions, settled, clock) = running.experiment, counts
        stopped = self._experiments.failures.get(experiment.id)
        names = (
            "answer",
            "verdict",
            "leader",
            "winner",
            "shown",
            "certified",
            "survivors",
            "done",
            "is_certified",
            "forecast_decisions",
            "stopped_by_harm",
        )
        wanted = (*names, "n_candidates", "warnings")
        view = {name: msgspec.json.decode(parts[name]) for name in wanted if name in parts}
        return {
            "name": experiment.name,
            "state": experiment.state,
            "note": experiment.spec.note,
            "created": experiment.created,
            "archived": experiment.archived,
            "n_candidates": view.get("n_candidates", len(experiment.spec.candidates)),
            "list_size": experiment.spec.list_size,
            "epsilon": experiment.spec.epsilon,
            "delta": experiment.spec.delta,
            "decisions": decisions,
            "settled": settled,
            **{name: view.get(name) for name in names},
            "warnings": [*([] if stopped is None else [stopped_text(stopped)]), *view.get("warnings", [])],
            "learning_stopped": stopped,
            "time": clock,
        }

    def behind(self, experiments: Sequence[int]) -> dict[int, int]:
        """How many settled decisions of each are not yet in what is told about it."""
        counts, positions = self._journal.counts_of(experiments), self._progress.positions(experiments)
        return {number: max(0, settled - positions.get(number, 0)) for number, (_, settled, _) in counts.items()}

    def holders(self, experiments: Sequence[int]) -> dict[int, str]:
        """Which process learns for each; those are missing whose lease has run out."""
        return self._progress.holders(experiments)

    def guards(self, experiments: Sequence[int]) -> dict[int, dict[str, bool]]:
        """Which guards of each warn."""
        views = {number: _parts(view) for number, view in self._progress.latest_views(experiments).items()}
        found = {number: msgspec.json.decode(view["guards"]) for number, view in views.items() if "guards" in view}
        return {number: {one["name"]: bool(one["warning"]) for one in guards} for number, guards in found.items()}

    def status(self, name: str) -> dict[str, Any]:
        """Where an experiment stands, in full."""
        running = self._experiments.find(name)
        if running.plan is None:
            self._experiments.take_plan(running)
        view = self._view(running)
        view.pop("result", None)
        upto, removed = self._journal.retained(running.experiment.id)
        summary, last = self.summary(running), self._progress.minutes(running.experiment.id, 1)
        idle = summary["time"] // 60_000 - last[0][0] - 1 if last else 0  # full minutes
        return {
            **view,
            **summary,
            "next_step": next_step(summary, running.experiment.spec.production, idle),
            "epoch": -1 if running.plan is None else running.plan.epoch,
            "removed": removed,
            "removed_note": retention_text(upto, removed) if removed else "",
        }

    def result(self, name: str) -> dict[str, Any] | None:
        """The answer so far; None before any decision is settled."""
        return self._view(self._experiments.find(name)).get("result")

    def shown(self, name: str, number: int) -> dict[str, Any] | None:
        """One decision as the journal has it; None if it has none of this number."""
        experiment = self._experiments.find(name).experiment
        found = self._journal.decisions(experiment.id, number, number + 1)
        if not found:
            return None
        body = unpack_body(found[0].body)
        rewards = self._journal.rewards(experiment.id, number, number + 1)
        items = body.items()
        return {
            "decision": number,
            "request": found[0].request,
            "time": found[0].time,
            "epoch": found[0].epoch,
            "items": items,
            "propensities": np.frombuffer(body.propensities, np.float64)[: len(items)].tolist(),
            "placements": body.of_places(len(items)).tolist(),
            "rewards": [(items[place], value) for _, place, value in rewards],
            "metrics": {
                one.name: [
                    (items[place], value)
                    for _, place, value in self._journal.rewards(experiment.id, number, number + 1, part)
                ]
                for part, one in enumerate(experiment.spec.metrics, start=1)
            },
            "settled": number < self._journal.counts(experiment.id)[1],
        }

    def _view(self, running: Running) -> dict[str, Any]:
        data = self._progress.latest_view(running.experiment.id)
        return {} if data is None else msgspec.json.decode(data)

    def history(self, name: str, *, since: int | None = None, minutes: int = 180) -> dict[str, Any]:
        """Points over time and the last minutes; only what may be new to a client with the point after `since`
        decisions: this one, which may have been made anew, and what came later.
        """
        number = self._experiments.find(name).experiment.id
        time = 0 if since is None else self._progress.time_of(number, since)
        return {
            "name": name,
            "points": [
                {"decisions": row[0], **msgspec.json.decode(row[2])}
                for row in self._progress.points(number, since or 0)
            ],
            "minutes": [
                {
                    "time": minute * 60_000,
                    "decisions": decisions,
                    "rewards": rewards,
                    "late": late,
                    "mean_delay_seconds": delay / rewards / 1000 if rewards else None,
                }
                for minute, decisions, rewards, late, delay in self._progress.minutes(number, minutes, time)
            ],
        }


def stopped_text(reason: str) -> str:
    """That learning stopped, and what to do."""
    return (
        f"{reason[:1].upper()}{reason[1:].removesuffix('.')}. Decisions go on by the last plan, and nothing is lost; "
        "start a process again, and see its log if that does not help."
    )


_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode  # of which few are looked at
