"""What evidence costs: updates at P = 20,000, a new leader with 5,000 events, memory.

python -m benchmarks.update [--quick] [--json FILE]

Rounds with 1% positive; candidates are tabulated: asking them costs a look-up and the rest is the learner's own. Times
are of the processor. "Reading" is the time to sum the same rounds' rewards over propensities once.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb


def measure(P: int, n_events: int) -> dict[str, Any]:
    """Feed batches of 1000 rounds with 10 positive ones each until there are `n_events`."""
    rng = np.random.default_rng(0)
    N, K, m = 100, 200, 5
    problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
    lists = (rng.integers(K // m, size=(P, N, m)) + np.arange(m) * (K // m)).astype(np.int32)
    policies = cb.PolicySet.from_lists(lists, problem)
    learner = cb.AdaptiveComband(problem, policies, epsilon=1e-4, first_epoch=10**9, seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tell, ask, asked, look, read = [], [], [], [], []
    for _ in range(n_events // 10):
        X = rng.integers(N, size=1000)
        start = time.process_time()
        decisions = learner.ask(X)
        ask.append(time.process_time() - start)
        rewards = np.zeros((1000, m))
        rewards[rng.choice(1000, 10, replace=False), rng.integers(m, size=10)] = 1.0
        start = time.process_time()
        float((rewards / decisions.propensities).sum())
        read.append(time.process_time() - start)
        start = time.process_time()
        rewarded = np.flatnonzero(rewards.any(axis=1))
        policies.contains(X[rewarded], np.arange(len(rewarded)), decisions.lists[rewarded, 0])
        asked.append(time.process_time() - start)
        start = time.process_time()
        learner.tell(decisions, rewards)
        tell.append(time.process_time() - start)
    start = time.process_time()
    learner.status()
    look.append(time.process_time() - start)
    start = time.process_time()
    learner._all.begin_epoch(first_id=learner._ledger.issued)
    leader = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "policies": P,
        "events": len(learner.evidence.seen),
        "tell_ms": 1000 * float(np.median(tell)),
        "policies_ms": 1000 * float(np.median(asked)),
        "ask_ms": 1000 * float(np.median(ask)),
        "status_ms": 1000 * float(np.median(look)),
        "tell_to_reading": float(np.median(tell) / np.median(read)),
        "new_epoch_seconds": leader,
        "grown_mb": after - before,
        "incidence_mb": learner.evidence.seen.rows.nbytes / 2**20,
    }


def main() -> None:
    """Print one row a size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    sizes = [(1000, 500)] if arguments.quick else [(1000, 2000), (20_000, 5000)]
    rows = []
    for P, n_events in sizes:
        row = measure(P, n_events)
        rows.append(row)
        print(
            f"P = {P:6,}: {row['tell_ms']:.1f} ms to tell 1000 rounds with 10 events ({row['policies_ms']:.1f} of them "
            f"for the policies' answers; {row['tell_to_reading']:.0f}x reading), {row['ask_ms']:.1f} ms to ask; "
            f"status {row['status_ms']:.0f} ms; new leader and plan with {row['events']:,} events "
            f"{row['new_epoch_seconds']:.2f} s; memory grew {row['grown_mb']:.0f} MB "
            f"({row['incidence_mb']:.0f} incidence)"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
