"""Certificates of experiments: what the chain begins with, and the bundle that a second person checks.

Everything is read from the journal: any process can make the bundle, and it is the same. It holds in full those
decisions that brought a reward and a sample of the others; of the rest the leaf and whether floors held, as the chain
does. What was removed by age had brought nothing, and is not in the sample.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.declaring import plain
from comband.page.keyed import keyed_numbers, seed_hash
from comband.page.problem import InputError
from comband.policies.fallback import NOTHING
from comband.policies.requested import RequestedLists
from comband.serve import chain
from comband.serve.field import changes_of, names_of
from comband.serve.journal import Experiment, Journal
from comband.serve.learning import new_learner
from comband.serve.requests import fallback_of, filled, problem_of, unpack_body
from comband.serve.wire import Spec

VERSION = 2  # of the format: the chain of a service
_STEP = 2000
_WRITTEN = (1980, 1, 1, 0, 0, 0)  # the same contents make the same file


def first_record(spec: Spec, seed: str) -> chain.Record:
    """What was declared; `service` says how the journal settles decisions."""
    nothing = NOTHING if spec.fallback == NOTHING else None
    policies = RequestedLists(spec.candidates, problem_of(spec), fallback=nothing)
    declared = plain(new_learner(spec, policies, seed=0).spec)
    problem = problem_of(spec)
    return {
        "format": VERSION,
        "problem": {**asdict(problem), "max_reward": problem.max_reward},
        "spec": {**declared, "audited": spec.audited},
        "candidates": spec.candidates,
        "digests": spec.digests or [None] * len(spec.candidates),
        "seed_hash": seed_hash(bytes.fromhex(seed)),
        "service": {
            "window_seconds": spec.window_seconds,
            "patience": spec.patience,
            "block": spec.block,
            "fallback": spec.fallback,
            "order": "empty places last" if spec.fallback == NOTHING else "as drawn",
        },
    }


def is_audited(secret: bytes, numbers: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Which decisions are in the sample, by their numbers."""
    return np.asarray(keyed_numbers(secret, numbers, 0)[:, 0] < share)


NO_CHAIN = (
    'no chain is kept from which others could check a certificate: create the experiment with "audited": 0.01, say, '
    "the share of decisions of which all candidates' lists are kept."
)


class UnfinishedError(Exception):
    """The experiment goes on, and its certificate would reveal the secret seed."""


def write_certificate(path: str, journal: Journal, experiment: Experiment) -> None:
    """Write the bundle of an experiment of which nothing is open any more; `UnfinishedError` before that, `InputError`
    where no chain was kept.
    """
    if not experiment.spec.is_recorded:
        raise InputError(NO_CHAIN)
    head, _, n, ended = chain.head_of(journal.database, experiment.id)
    if not ended:
        raise UnfinishedError
    lines = list(chain.lines(journal.database, experiment.id))
    records = [json.loads(line) for line in lines if not line.startswith(b'{"kind":"decisions"')]
    parts, missing = _facts(journal, experiment, records, n)
    about = {
        "format": "comband certificate",
        "version": VERSION,
        "head": head,
        "seed": experiment.seed,
        "claim": {**_claim(records), "decisions": n, "missing": missing, "late": 0},
    }
    entries = {
        "bundle.json": json.dumps(about, indent=1, sort_keys=True, allow_nan=False).encode(),
        "chain.jsonl": b"".join(line + b"\n" for line in lines),
        "verify.py": files("comband.certify").joinpath("verify.py").read_bytes(),
        **parts,
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(zipfile.ZipInfo(name, _WRITTEN), data, zipfile.ZIP_DEFLATED, 1)


def _claim(records: Sequence[chain.Record]) -> dict[str, Any]:
    """What the chain claims at its end."""
    [claim] = [record for record in records if record["kind"] == "claim"][-1:]
    changes = [record for record in records if record["kind"] == "change"]
    names = [*records[0]["candidates"], *(name for one in changes for name in one["arrivals"])]
    fields = 1 + sum(one["planned"] for one in changes)
    warnings = [record["warnings"] for record in records if record["kind"] == "guards"]
    return {
        "leader": claim["leader"],
        "name": names[claim["leader"]],
        "epsilon": claim["epsilon"],
        "rounds": claim["rounds"],
        "delta": min(records[0]["spec"]["delta"] * fields, 1.0),
        "warnings": warnings[-1] if warnings else [],
    }


def _facts(
    journal: Journal, experiment: Experiment, records: Sequence[chain.Record], n: int
) -> tuple[dict[str, bytes], int]:
    """Arrays as files by name, and requests; and how many rounds that count have no answer."""
    spec, m, number = experiment.spec, experiment.spec.list_size, experiment.id
    secret, rounds = bytes.fromhex(experiment.seed), _claim(records)["rounds"]
    answers, front, paid, unanswered = [], 0, *np.zeros((2, n), dtype=np.bool_)
    for one in records:
        if one["kind"] == "rounds":
            found = journal.rewards(number, front, one["settled"])
            answers.append(chain.answers_of(found, one["told"], m))
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(one["unanswered"]), np.uint8))
            unanswered[front : one["settled"]] = bits[: one["settled"] - front]
            front = one["settled"]
            paid[answers[-1]["answers.ids"][answers[-1]["answers.rewards"].any(axis=1)]] = True
    answers.append(chain.answers_of([], 0, m))
    columns = {name: np.concatenate([part[name] for part in answers]) for name in answers[0]}
    names = names_of(spec, changes_of(journal, number))
    fallback = fallback_of(spec, names)
    asked = {one["epoch"]: one["asked"] for one in records if one["kind"] == "plan" and "winner" not in one}
    wanted = paid | is_audited(secret, np.arange(n), float(spec.audited or 0))
    wanted[rounds:] = False
    leaves = np.zeros((n, chain.LEAF), dtype=np.uint8)
    with journal.database.transaction(write=False):
        gone = journal.database.run("SELECT decision, leaf FROM leaves WHERE experiment = ?", [number])
    for decision, leaf in gone:
        leaves[decision] = np.frombuffer(bytes(leaf), np.uint8)
    shown: dict[int, list[tuple[int, bytes, bytes, bytes, NDArray[np.int32], str]]] = {}
    for start in range(0, n, _STEP):
        for row in journal.decisions(number, start, min(n, start + _STEP)):
            body = unpack_body(row.body)
            leaves[row.number] = np.frombuffer(body.leaf, np.uint8)
            if wanted[row.number] and row.epoch in asked:
                lists = filled(*body.rows(m), len(names), fallback)[asked[row.epoch]]
                facts = (row.number, body.shown, body.propensities, body.keys, lists, row.request)
                shown.setdefault(row.epoch, []).append(facts)
    found_parts = {f"{name}.npy": _array(column) for name, column in {**columns, "decisions.leaves": leaves}.items()}
    for epoch, rows in sorted(shown.items()):
        ids, lists, weights, keys, tables, requests = zip(*rows, strict=True)
        known = {
            "ids": np.array(ids, "<i8"),
            "lists": np.stack(tables).astype("<i4"),
            "shown": np.frombuffer(b"".join(lists), "<i4").reshape(-1, m),
            "propensities": np.frombuffer(b"".join(weights), "<f8").reshape(-1, m),
            "items": np.frombuffer(b"".join(sha256(one).digest() for one in keys), np.uint8).reshape(-1, chain.LEAF),
        }
        found_parts |= {f"lists.{epoch}.{name}.npy": _array(column) for name, column in known.items()}
        found_parts[f"lists.{epoch}.requests.json"] = json.dumps(requests).encode()
    return found_parts, int(unanswered[:rounds].sum())


def _array(column: NDArray[Any]) -> bytes:
    held = io.BytesIO()
    np.lib.format.write_array(held, np.ascontiguousarray(column), version=(1, 0), allow_pickle=False)
    return held.getvalue()
