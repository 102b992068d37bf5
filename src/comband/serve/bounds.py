"""What a service waits for at most, and how much of anything it takes on at once; all of them are settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Times are in seconds.

    lock_timeout:
        For a lock in the store.
    statement_timeout:
        For one statement; a transaction in which nothing happens for so long is ended by PostgreSQL, too.
    answer_timeout:
        For the store as a whole, before a request is answered with 503.
    ready_timeout:
        The same for `/readyz`.
    shutdown_timeout:
        From SIGTERM to the end of the process.
    commit_delay:
        For more requests before a commit, if the one before it had several; none if it is 0.
    max_waiting:
        Requests that wait to be written; more are answered with 503 at once. The same for those that wait to be read.
    max_readers:
        Reads at once, each with a connection to the store.
    max_exports:
        Exports that wait for the one that is under way.
    head_timeout, receive_timeout:
        For the head of a request, and for all of it.
    max_head, max_body, max_bodies:
        Bytes of a head, of one body, and of all bodies at once.
    max_connections:
        Connections at once; the one that has been silent for longest makes room for a new one.
    max_rate_per_token, max_requests_per_token:
        Requests of one token per second (those of one second may come at once), and under way at once.
    """

    lock_timeout: float = 2.0
    statement_timeout: float = 10.0
    answer_timeout: float = 15.0
    ready_timeout: float = 2.0
    shutdown_timeout: float = 10.0
    commit_delay: float = 0.0
    max_waiting: int = 4096
    max_readers: int = 8
    max_exports: int = 4
    head_timeout: float = 10.0
    receive_timeout: float = 30.0
    max_head: int = 32 * 1024
    max_body: int = 16 * 1024 * 1024
    max_bodies: int = 128 * 1024 * 1024
    max_connections: int = 800
    max_rate_per_token: float = 10_000.0
    max_requests_per_token: int = 512
