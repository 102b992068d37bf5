"""Write the certificates that must be verified for ever: `python -m tests.certify.checking.make_vectors`."""

from __future__ import annotations

from pathlib import Path

import comband as cb
from tests.certify.checking.honest import LEARNERS, READINGS, certificate

FOLDER = Path(__file__).parent / "vectors"

if __name__ == "__main__":
    for reading in READINGS:
        for learner in LEARNERS:
            try:
                head = certificate(FOLDER / f"{reading} {learner}.zip", reading, learner, 7, rounds=300)
            except cb.InputError:
                continue
            (FOLDER / f"{reading} {learner}.head").write_text(f"{head}\n", encoding="utf-8")
