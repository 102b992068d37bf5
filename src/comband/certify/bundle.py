"""The certificate as one file that a second person can check: what is claimed, and all that it rests on.

A zip of JSON and of numpy's own array files, which the standard library and numpy alone can read: the program that
checks it must need nothing that would have to be trusted. docs/certificate_format.md is the specification.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from comband.certify.certifier import Certifier
from comband.certify.queue import Queue
from comband.certify.recording import FORMAT, Recording
from comband.page.storage import whole_file

_WRITTEN = (1980, 1, 1, 0, 0, 0)  # the same contents make the same file


def write_bundle(
    path: str | os.PathLike[str], recording: Recording, verdict: Certifier, queue: Queue, warnings: Sequence[str]
) -> None:
    """Write the bundle of what is claimed now, as a whole or not at all."""
    claim = verdict.claim()
    recording.claim(claim, verdict.evidence.rounds)
    recording.guards(warnings)
    columns, head = recording.columns(), recording.head
    about = {
        "format": "comband certificate",
        "version": FORMAT,
        "head": head,
        "seed": recording.secret.hex(),
        "claim": {
            "leader": claim.leader,
            "name": verdict.names[claim.leader],
            "epsilon": claim.epsilon,
            "delta": verdict.claimed_delta,
            "rounds": verdict.evidence.rounds,
            "decisions": queue.ledger.issued,
            "missing": queue.missing,
            "late": queue.late,
            "warnings": list(warnings),
        },
    }
    entries = {
        "bundle.json": json.dumps(about, indent=1, sort_keys=True, allow_nan=False).encode(),
        "chain.jsonl": "".join(f"{line}\n" for line in recording.lines).encode(),
        "verify.py": files("comband.certify").joinpath("verify.py").read_bytes(),
    }
    with whole_file(path) as part, zipfile.ZipFile(part, "w") as file:
        for name, data in entries.items():
            file.writestr(zipfile.ZipInfo(name, _WRITTEN), data, zipfile.ZIP_DEFLATED)
        for name, column in columns.items():
            held = io.BytesIO()
            np.lib.format.write_array(held, np.ascontiguousarray(column), version=(1, 0), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy", _WRITTEN), held.getvalue(), zipfile.ZIP_DEFLATED, 1)
