"""`python -m benchmarks [--quick]`: every benchmark in turn, each in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run them all; the exit code is that of the first failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute each")
    arguments = parser.parse_args()
    options = ["--quick"] if arguments.quick else []
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        if options and '"--quick"' not in path.read_text():
            print(
                f"\n== benchmarks.{path.stem} has no quick form: it wants data; see python -m benchmarks.{path.stem} -h"
            )
            continue
        print(f"\n== python -m benchmarks.{path.stem} {' '.join(options)}", flush=True)
        code = subprocess.call([sys.executable, "-m", f"benchmarks.{path.stem}", *options])
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
