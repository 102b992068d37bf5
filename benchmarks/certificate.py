"""What a record costs, and how long a certificate takes to write and to check.

python -m benchmarks.certificate --rounds 1000000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import comband as cb
from comband.certify.verify import verify


def played(rounds: int, audited: float | None) -> tuple[cb.AdaptiveComband, float]:
    """A learner that aims too high to be done, after so many rounds, and the seconds that they took."""
    problem = cb.Problem(n_actions=100, list_size=5, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.05, seed=1)
    learner = cb.AdaptiveComband(problem, shop.candidates(50, seed=2), epsilon=1e-5, seed=3, audited=audited)
    start = time.perf_counter()
    cb.run(learner, shop, batch_size=1000, max_rounds=rounds)
    return learner, time.perf_counter() - start


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    rounds = parser.parse_args().rounds
    played(2000, 0.01)  # compiles
    without, with_record = played(rounds, None)[1], played(rounds, 0.01)
    print(f"{rounds:,} rounds: {without:.1f} s without a record, {with_record[1]:.1f} s with one")
    with tempfile.TemporaryDirectory() as folder:
        path, start = Path(folder) / "certificate.zip", time.perf_counter()
        with_record[0].certificate(path)
        print(f"written in {time.perf_counter() - start:.1f} s, {path.stat().st_size / 1e6:.1f} MB")
        start = time.perf_counter()
        report = verify(str(path), [with_record[0].head])
        print(f"checked in {time.perf_counter() - start:.1f} s: {'verified' if report.verified else report.reason}")
        print("\n".join(report.checked))


if __name__ == "__main__":
    main()
