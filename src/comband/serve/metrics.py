"""Figures for Prometheus, as text."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator

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
    experiments, learners = service.experiments.live(), service.learners
    here = 0 if learners is None else sum(learners.learning(one.experiment.id) is not None for one in experiments)
    lines = [
        "# HELP comband_learning Experiments for which this process learns.",
        "# TYPE comband_learning gauge",
        f"comband_learning {here}",
        "# HELP comband_plans_followed_total Published plans that differ from those that this process would have made.",
        "# TYPE comband_plans_followed_total counter",
        f"comband_plans_followed_total {0 if learners is None else learners.plans_followed}",
        "# HELP comband_plan_difference The largest relative difference of such plans; above 1e-6 more than rounding.",
        "# TYPE comband_plan_difference gauge",
        f"comband_plan_difference {_text(0.0 if learners is None else learners.largest_difference)}",
        "# HELP comband_up_seconds Since the process started.",
        "# TYPE comband_up_seconds gauge",
        f"comband_up_seconds {time.time() - service.started:.3f}",
        "# HELP comband_commits_total Transactions of this process.",
        "# TYPE comband_commits_total counter",
        f"comband_commits_total {service.writer.commits}",
        "# HELP comband_waiting_writes Requests that wait for the writer.",
        "# TYPE comband_waiting_writes gauge",
        f"comband_waiting_writes {service.writer.waiting}",
    ]
    for name, text in (
        ("decisions", "Decisions answered by this process."),
        ("rewards", "Rewards taken in by this process."),
        ("repeated", "Requests that were answered before."),
    ):
        lines += [
            f"# HELP comband_{name}_total {text}",
            f"# TYPE comband_{name}_total counter",
            f"comband_{name}_total {service.counts[name]}",
        ]
    gauges = {
        "decisions": "Decisions in the journal.",
        "settled": "Decisions that are settled.",
        "survivors": "Candidates that may still be the best.",
        "certified": "The epsilon that is certified.",
    }
    stopped = service.experiments.failures
    lines += [
        "# HELP comband_experiment_learning_stopped Whether learning stopped, in whichever process.",
        "# TYPE comband_experiment_learning_stopped gauge",
    ]
    for running in experiments:
        label = f'experiment="{_escaped(running.experiment.name)}"'
        lines.append(f"comband_experiment_learning_stopped{{{label}}} {int(running.experiment.id in stopped)}")
    summaries = service.telling.summaries(experiments)
    for name, text in gauges.items():
        lines += [f"# HELP comband_experiment_{name} {text}", f"# TYPE comband_experiment_{name} gauge"]
        for one in summaries:
            if one[name] is not None:
                lines.append(f'comband_experiment_{name}{{experiment="{_escaped(one["name"])}"}} {one[name]}')
    return "\n".join([*lines, *latencies.lines()]) + "\n"


def _text(number: float) -> str:
    return "+Inf" if number == float("inf") else f"{number:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
