"""Figures for Prometheus, as text."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from comband.serve.service import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Latencies:
    """How long requests took, by route and status."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], list[int]] = {}
        self._sums: dict[tuple[str, int], float] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """One more request."""
        key = (route, status)
        counts = self._counts.setdefault(key, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + seconds

    def lines(self) -> Iterator[str]:
        """In Prometheus' form."""
        yield "# HELP comband_request_seconds How long requests took."
        yield "# TYPE comband_request_seconds histogram"
        for (route, status), counts in sorted(self._counts.items()):
            labels, total = f'route="{_escaped(route)}",status="{status}"', 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                yield f'comband_request_seconds_bucket{{{labels},le="{bound}"}} {total}'
            yield f"comband_request_seconds_sum{{{labels}}} {self._sums[(route, status)]:.6f}"
            yield f"comband_request_seconds_count{{{labels}}} {total}"


def metrics_text(service: Service, latencies: Latencies) -> str:
    """All figures."""
    return "\n".join([*_of_process(service), *_of_experiments(service), *latencies.lines()]) + "\n"


def _metric(name: str, text: str, kind: str, values: Mapping[str, object] | object) -> Iterator[str]:
    """One metric; values by their labels, or one without any."""
    yield f"# HELP comband_{name} {text}"
    yield f"# TYPE comband_{name} {kind}"
    for labels, value in values.items() if isinstance(values, Mapping) else [("", values)]:
        yield f"comband_{name}{f'{{{labels}}}' if labels else ''} {_text(value) if isinstance(value, float) else value}"


def _of_process(service: Service) -> Iterator[str]:
    learners, counts = service.learners, service.counts
    live = service.experiments.live()
    here = 0 if learners is None else sum(learners.learning(one.experiment.id) is not None for one in live)
    followed, difference, unreadable = (
        (0, 0.0, 0)
        if learners is None
        else (learners.plans_followed, learners.largest_difference, learners.snapshots_unreadable)
    )
    yield from _metric("learning", "Experiments for which this process learns.", "gauge", here)
    yield from _metric(
        "plans_followed_total", "Published plans that differ from those that it would have made.", "counter", followed
    )
    yield from _metric(
        "plan_difference", "The largest relative difference of such plans; above 1e-6 more.", "gauge", difference
    )
    yield from _metric(
        "snapshots_unreadable_total", "Snapshots that could not be read: learning began earlier.", "counter", unreadable
    )
    yield from _metric("up_seconds", "Since the process started.", "gauge", time.time() - service.started)
    yield from _metric("commits_total", "Transactions of this process.", "counter", service.writer.commits)
    yield from _metric("waiting_writes", "Requests that wait for the writer.", "gauge", service.writer.waiting)
    yield from _metric("waiting_reads", "Reads that run or wait.", "gauge", service.readers.busy)
    failed = {f'kind="{kind}"': n for kind, n in sorted(service.database.failures.items())}
    yield from _metric("store_errors_total", "Transactions that failed, by what went wrong.", "counter", failed)
    yield from _metric("decisions_total", "Decisions answered by this process.", "counter", counts["decisions"])
    yield from _metric("rewards_total", "Rewards taken in by this process.", "counter", counts["rewards"])
    yield from _metric("repeated_total", "Requests that were answered before.", "counter", counts["repeated"])
    faults = {f'outcome="{_escaped(outcome)}"': n for outcome, n in sorted(service.reward_faults.items())}
    yield from _metric("reward_faults_total", "Rewards that did not count, by reason.", "counter", faults)


def _of_experiments(service: Service) -> Iterator[str]:
    """Figures of experiments that have not ended; the same from every process."""
    live, stopped = service.experiments.live(), service.experiments.failures
    names = {one.experiment.id: f'experiment="{_escaped(one.experiment.name)}"' for one in live}
    yield from _metric(
        "experiment_learning_stopped",
        "Whether learning stopped, in whichever process.",
        "gauge",
        {label: int(number in stopped) for number, label in names.items()},
    )
    summaries = service.queries.summaries(live)
    harmed = {f'experiment="{_escaped(one["name"])}"': int(bool(one.get("stopped_by_harm"))) for one in summaries}
    yield from _metric("experiment_stopped_by_harm", "Whether visitors were proven to be harmed.", "gauge", harmed)
    for name, text in (
        ("decisions", "Decisions in the journal."),
        ("settled", "Decisions that are settled."),
        ("survivors", "Candidates that may still be the best."),
        ("certified", "The epsilon that is certified."),
        ("epsilon", "The epsilon that was asked for."),
    ):
        told = {f'experiment="{_escaped(one["name"])}"': one[name] for one in summaries if one[name] is not None}
        yield from _metric(f"experiment_{name}", text, "gauge", {label: float(value) for label, value in told.items()})
    behind = service.queries.behind(list(names))
    lag = {names[number]: n for number, n in behind.items()}
    yield from _metric("experiment_learner_lag", "Settled decisions that are not in the evidence yet.", "gauge", lag)
    holders = {
        f'{names[n]},holder="{_escaped(holder)}"': 1 for n, holder in service.queries.holders(list(names)).items()
    }
    yield from _metric("experiment_lease", "Which process learns, if one does.", "gauge", holders)
    alarms = {
        f'{names[number]},guard="{_escaped(guard)}"': int(alarm)
        for number, guards in service.queries.guards(list(names)).items()
        for guard, alarm in guards.items()
    }
    yield from _metric("experiment_guard_alarm", "Whether a guard warns.", "gauge", alarms)


def _text(number: float) -> str:
    return "+Inf" if number == float("inf") else f"{number:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
