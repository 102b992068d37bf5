"""The tables of a journal and their versions: each entry of `VERSIONS` turns one version into the next.

Statements are written for SQLite; `{bytes}`, `{real}` and `{key}` are what the database calls such columns, `{sorted}`
what keeps a table in the order of its key. A function is called with the database, inside the transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comband.serve.migrating import gather_runs
from comband.serve.thinning import thin_all_points

VERSIONS: tuple[tuple[str | Callable[[Any], None], ...], ...] = (
    (
        """CREATE TABLE experiments (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, spec {bytes} NOT NULL, seed TEXT NOT NULL,
            state TEXT NOT NULL, created BIGINT NOT NULL, changed BIGINT NOT NULL)""",
        # How many decisions there are, and the journal's clock in milliseconds, which never goes back.
        """CREATE TABLE counters (experiment INTEGER PRIMARY KEY, next BIGINT NOT NULL, clock BIGINT NOT NULL)""",
        # Decisions below the front are settled: no reward counts for them any more.
        """CREATE TABLE fronts (experiment INTEGER PRIMARY KEY, front BIGINT NOT NULL)""",
        # A decision's key is experiment·2⁴⁰ + number.
        """CREATE TABLE decisions (
            id BIGINT PRIMARY KEY, experiment INTEGER NOT NULL, request TEXT NOT NULL, time BIGINT NOT NULL,
            epoch INTEGER NOT NULL, shown {bytes} NOT NULL, body {bytes} NOT NULL,
            UNIQUE (experiment, request))""",
        """CREATE TABLE rewards (
            decision BIGINT NOT NULL, place INTEGER NOT NULL, value {real} NOT NULL, time BIGINT NOT NULL,
            counted INTEGER NOT NULL, PRIMARY KEY (decision, place))""",
        """CREATE TABLE plans (
            experiment INTEGER NOT NULL, epoch INTEGER NOT NULL, made_after BIGINT NOT NULL, time BIGINT NOT NULL,
            plan {bytes} NOT NULL, PRIMARY KEY (experiment, epoch))""",
        """CREATE TABLE snapshots (
            experiment INTEGER NOT NULL, position BIGINT NOT NULL, time BIGINT NOT NULL, state {bytes} NOT NULL,
            PRIMARY KEY (experiment, position))""",
        """CREATE TABLE changes (
            experiment INTEGER NOT NULL, time BIGINT NOT NULL, state TEXT NOT NULL, number BIGINT NOT NULL)""",
        """CREATE TABLE tokens (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, roles TEXT NOT NULL, hash {bytes} NOT NULL,
            created BIGINT NOT NULL, revoked BIGINT)""",
        """CREATE TABLE leases (
            experiment INTEGER PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL, expires BIGINT NOT NULL)""",
    ),
    (
        # What the page shows: the latest view, points over time, and what happened in each minute.
        """CREATE TABLE views (experiment INTEGER PRIMARY KEY, position BIGINT NOT NULL, view {bytes} NOT NULL)""",
        """CREATE TABLE points (
            experiment INTEGER NOT NULL, position BIGINT NOT NULL, time BIGINT NOT NULL, point {bytes} NOT NULL,
            PRIMARY KEY (experiment, position))""",
        """CREATE TABLE minutes (
            experiment INTEGER NOT NULL, minute BIGINT NOT NULL, decisions BIGINT NOT NULL, rewards BIGINT NOT NULL,
            late BIGINT NOT NULL, delay BIGINT NOT NULL, PRIMARY KEY (experiment, minute))""",
    ),
    (
        # How many items a decision shows (−1: as many as its list has places); and candidates that come and go.
        """ALTER TABLE decisions ADD COLUMN items INTEGER NOT NULL DEFAULT -1""",
        """CREATE TABLE field_changes (
            experiment INTEGER NOT NULL, change INTEGER NOT NULL, after BIGINT NOT NULL, time BIGINT NOT NULL,
            what {bytes} NOT NULL, PRIMARY KEY (experiment, change))""",
    ),
    (
        # Decisions that became durable together, of one experiment and epoch, in one row, and their requests by digest.
        """CREATE TABLE runs (
            first {key} PRIMARY KEY, time BIGINT NOT NULL, epoch INTEGER NOT NULL, items {bytes} NOT NULL,
            shown {bytes} NOT NULL, requests {bytes} NOT NULL, bodies {bytes} NOT NULL)""",
        """CREATE TABLE requests (
            digest BIGINT NOT NULL, decision BIGINT NOT NULL, PRIMARY KEY (digest, decision)) {sorted}""",
        gather_runs,
        """DROP TABLE decisions""",
    ),
    (
        # Experiments for which learning stopped, at whom and why; gone when somebody has learnt all there is again.
        """CREATE TABLE failures (
            experiment INTEGER PRIMARY KEY, time BIGINT NOT NULL, holder TEXT NOT NULL, reason TEXT NOT NULL)""",
    ),
    (
        # What has ended costs nothing: those that have not are found without it. Points are thinned from now on.
        """CREATE INDEX live_experiments ON experiments (id) WHERE state <> 'ended'""",
        thin_all_points,
    ),
)
