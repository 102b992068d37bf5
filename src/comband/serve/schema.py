"""The tables of a journal and their versions: each entry of `VERSIONS` turns one version into the next.

Statements are written for SQLite; `{bytes}`, `{real}` and `{key}` are what the database calls such columns, `{sorted}`
what keeps a table in the order of its key.

Processes of an earlier version go on with tables to which a version only adds (a table, a column with a default). One
that changes what earlier versions read or write raises `OLDEST` to its own number: it is not made while a process
learns on the store, and earlier versions refuse the store from then on (`Database.migrate`).
"""

from __future__ import annotations

VERSIONS: tuple[tuple[str, ...], ...] = (
    (
        # One store holds several environments, whose names do not touch each other. What was deleted frees its name at
        # once, and is removed bit by bit.
        """CREATE TABLE experiments (
            id INTEGER PRIMARY KEY, environment TEXT NOT NULL, name TEXT NOT NULL, spec {bytes} NOT NULL,
            seed TEXT NOT NULL, state TEXT NOT NULL, created BIGINT NOT NULL, changed BIGINT NOT NULL,
            archived BIGINT)""",
        """CREATE UNIQUE INDEX names ON experiments (environment, name) WHERE state <> 'deleted'""",
        # What has ended costs nothing: those that have not are found without it.
        """CREATE INDEX live_experiments ON experiments (id) WHERE state IN ('running', 'paused')""",
        # How many decisions there are, and the journal's clock in milliseconds, which never goes back.
        """CREATE TABLE counters (experiment INTEGER PRIMARY KEY, next BIGINT NOT NULL, clock BIGINT NOT NULL)""",
        # Decisions below the front are settled: no reward counts for them any more.
        """CREATE TABLE fronts (experiment INTEGER PRIMARY KEY, front BIGINT NOT NULL)""",
        # Decisions below `upto` have been looked through by age: `removed` of them are gone, and brought nothing.
        """CREATE TABLE retained (experiment INTEGER PRIMARY KEY, upto BIGINT NOT NULL, removed BIGINT NOT NULL)""",
        # Decisions that became durable together, of one experiment and epoch, in one row, and their requests by digest.
        # The key is experiment·2⁴⁰ + the number of the first; `items` has a byte for each: how many items it shows.
        """CREATE TABLE runs (
            first {key} PRIMARY KEY, time BIGINT NOT NULL, epoch INTEGER NOT NULL, items {bytes} NOT NULL,
            shown {bytes} NOT NULL, requests {bytes} NOT NULL, bodies {bytes} NOT NULL)""",
        """CREATE TABLE requests (
            digest BIGINT NOT NULL, decision BIGINT NOT NULL, PRIMARY KEY (digest, decision)) {sorted}""",
        """CREATE TABLE rewards (
            decision BIGINT NOT NULL, place INTEGER NOT NULL, value {real} NOT NULL, time BIGINT NOT NULL,
            counted INTEGER NOT NULL, PRIMARY KEY (decision, place))""",
        # Candidates that come and go.
        """CREATE TABLE field_changes (
            experiment INTEGER NOT NULL, change INTEGER NOT NULL, after BIGINT NOT NULL, time BIGINT NOT NULL,
            what {bytes} NOT NULL, PRIMARY KEY (experiment, change))""",
        """CREATE TABLE plans (
            experiment INTEGER NOT NULL, epoch INTEGER NOT NULL, made_after BIGINT NOT NULL, time BIGINT NOT NULL,
            plan {bytes} NOT NULL, PRIMARY KEY (experiment, epoch))""",
        """CREATE TABLE snapshots (
            experiment INTEGER NOT NULL, position BIGINT NOT NULL, time BIGINT NOT NULL, state {bytes} NOT NULL,
            PRIMARY KEY (experiment, position))""",
        # What the page shows: the latest view, points over time, and what happened in each minute.
        """CREATE TABLE views (experiment INTEGER PRIMARY KEY, position BIGINT NOT NULL, view {bytes} NOT NULL)""",
        """CREATE TABLE points (
            experiment INTEGER NOT NULL, position BIGINT NOT NULL, time BIGINT NOT NULL, point {bytes} NOT NULL,
            PRIMARY KEY (experiment, position))""",
        """CREATE TABLE minutes (
            experiment INTEGER NOT NULL, minute BIGINT NOT NULL, decisions BIGINT NOT NULL, rewards BIGINT NOT NULL,
            late BIGINT NOT NULL, delay BIGINT NOT NULL, PRIMARY KEY (experiment, minute))""",
        # Experiments for which learning stopped, where and why; gone when all there is has been learnt again.
        """CREATE TABLE failures (
            experiment INTEGER PRIMARY KEY, time BIGINT NOT NULL, holder TEXT NOT NULL, reason TEXT NOT NULL)""",
        # Who changed what and when; other processes hear of changes by it.
        """CREATE TABLE audit (
            id BIGINT PRIMARY KEY, time BIGINT NOT NULL, environment TEXT NOT NULL, experiment INTEGER NOT NULL,
            name TEXT NOT NULL, token TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
            detail {bytes} NOT NULL)""",
        """CREATE INDEX audit_of ON audit (environment, name, id)""",
        """CREATE TABLE tokens (
            id TEXT PRIMARY KEY, environment TEXT NOT NULL, name TEXT NOT NULL, roles TEXT NOT NULL,
            hash {bytes} NOT NULL, created BIGINT NOT NULL, revoked BIGINT)""",
        """CREATE TABLE leases (
            experiment INTEGER PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL, expires BIGINT NOT NULL)""",
    ),
    (
        # The hash chain of each experiment (`comband.serve.chain`), its head ('' without a chain) and how many records
        # it has; and leaves of decisions that were removed by age, by the number of each.
        """ALTER TABLE counters ADD COLUMN head TEXT NOT NULL DEFAULT ''""",
        """ALTER TABLE counters ADD COLUMN records BIGINT NOT NULL DEFAULT 0""",
        """CREATE TABLE chain (
            experiment INTEGER NOT NULL, number BIGINT NOT NULL, kind TEXT NOT NULL, line {bytes} NOT NULL,
            PRIMARY KEY (experiment, number)) {sorted}""",
        """CREATE INDEX told ON chain (experiment, number) WHERE kind NOT IN ('decisions', 'rounds')""",
        """CREATE TABLE leaves (
            experiment INTEGER NOT NULL, decision BIGINT NOT NULL, leaf {bytes} NOT NULL,
            PRIMARY KEY (experiment, decision)) {sorted}""",
    ),
)
OLDEST = 2  # the earliest version that can use these tables
OF_EXPERIMENTS = (  # which have a row, or some, for each
    *("counters", "fronts", "retained", "field_changes", "plans", "snapshots"),
    *("views", "points", "minutes", "failures", "leases", "chain", "leaves"),
)
