"""Steps from one version of the tables to the next that statements alone cannot take."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from comband.serve.digests import digests_of, index_of

_STRIDE, _RUN, _STEP = 1 << 40, 64, 4096
_pack, _keys = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(list[str | int]).decode


def gather_runs(database: Any) -> None:
    """Decisions, which had a row each, in runs that were made at one time by one plan."""
    seeds, last = dict(database.run("SELECT id, seed FROM experiments")), -1
    while True:
        rows = database.run(
            "SELECT id, request, time, epoch, shown, body FROM decisions WHERE id > ? ORDER BY id LIMIT ?",
            [last, _STEP],
        )
        if not rows:
            return
        last = rows[-1][0]
        runs, index = [], []
        for (experiment, made, epoch, _), group in groupby(
            enumerate(rows), key=lambda one: (one[1][0] // _STRIDE, one[1][2], one[1][3], one[1][0] - one[0])
        ):
            mine = [row for _, row in group]
            digests = index_of(digests_of(seeds[experiment], [row[1] for row in mine]))
            index += [(digest, row[0]) for digest, row in zip(digests, mine, strict=True)]
            for start in range(0, len(mine), _RUN):
                part = mine[start : start + _RUN]
                shown = [_keys(bytes(row[4])) for row in part]
                runs.append(
                    (
                        part[0][0],
                        made,
                        epoch,
                        bytes(map(len, shown)),
                        msgspec.json.encode(shown),
                        _pack([row[1] for row in part]),
                        _pack([bytes(row[5]) for row in part]),
                    )
                )
        database.run_many(
            "INSERT INTO runs (first, time, epoch, items, shown, requests, bodies) VALUES (?, ?, ?, ?, ?, ?, ?)",
            runs,
        )
        database.run_many("INSERT INTO requests (digest, decision) VALUES (?, ?)", index)
