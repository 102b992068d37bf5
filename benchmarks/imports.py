"""`python -m benchmarks.imports [--quick]`: what `import comband` and `comband --help` cost before anything is done.

Every line is a fresh process; they take turns, so that whatever else the machine does falls on all alike. Times are
medians, ratios those of medians.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median

BASE = "import numpy, scipy.sparse, numba"
# The names that cannot do without scikit-learn: they subclass its estimators, or fit and save them.
SKLEARN = {"BanditListClassifier", "OnlineListClassifier", "RegressionOracle", "load_model", "save_model"}
USE = f"import comband; [getattr(comband, name) for name in comband.__all__ if name not in {SKLEARN!r}]"
START = "from comband import AdaptiveComband, PolicySet, Problem, ScoredPolicy, SyntheticRecommender, run"
CODE = {
    "import numpy, scipy.sparse, numba": BASE,
    "import comband": "import comband",
    "what the start page uses": START,
    "all names without scikit-learn": USE,
    "all names": "from comband import *",
    "comband --help": "import sys; sys.argv = ['comband', '--help']; from comband.commands.cli import main; main()",
    "python": "pass",
}


def seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 turns instead of 15")
    turns = 5 if parser.parse_args().quick else 15
    for code in CODE.values():
        seconds(code)  # compiled files and the disk's cache are there from now on
    times: dict[str, list[float]] = {name: [] for name in CODE}
    for _ in range(turns):
        for name, code in CODE.items():
            times[name].append(seconds(code))
    base = median(times["import numpy, scipy.sparse, numba"])
    print(f"{'':36}{'seconds':>8}{'least':>8}{'ratio':>8}")
    for name, taken in times.items():
        print(f"{name:36}{median(taken):8.2f}{min(taken):8.2f}{median(taken) / base:8.2f}")


if __name__ == "__main__":
    main()
