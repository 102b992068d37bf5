"""A cluster by its address, or one of this machine for as long as it is needed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from comband.cluster.work import InProcess, Progress, Work
from comband.page.problem import InputError
from comband.page.text import missing_extra
from comband.page.threads import n_threads

_PATIENCE = "10s"  # for a scheduler to answer


def as_work(client: Any, progress: Progress | None = None) -> Work:
    """Where to work: here for None, on the cluster of a Dask client, or what is given if it can be worked with.

    Parameters
    ----------
    client:
        A `dask.distributed.Client`, what `connect` gave, or None.
    progress:
        As for `InProcess`.

    >>> from comband.cluster import as_work
    >>> type(as_work(None)).__name__
    'InProcess'
    """
    if client is None:
        return InProcess(progress)
    if all(callable(getattr(client, name, None)) for name in ("each", "total", "gather", "ask", "share")):
        work: Work = client
        return work
    if all(callable(getattr(client, name, None)) for name in ("submit", "who_has", "cancel")):
        from comband.cluster.on_dask import OnDask

        return OnDask(client, progress)
    raise InputError(f"client must be a dask.distributed.Client or None, got {type(client).__name__}.")


@contextmanager
def connect(where: str, progress: Progress | None = None, *, threads: bool = False) -> Iterator[Work]:
    """Work on a cluster: Dask's scheduler (tcp://host:8786), "local" or "local:N" for N workers here; or Spark's.

    Parameters
    ----------
    where:
        The address, "local" or "local:N"; spark://host:7077 or spark:local[2] for Spark.
    progress:
        As for `InProcess`.
    threads:
        Whether local workers are threads of this process, which share what they read, instead of processes. Reading,
        checking and counting let go of the interpreter; policies of one's own may not, and may not be fit for threads.

    >>> from comband.cluster import connect
    >>> with connect("local:2") as work:  # doctest: +SKIP
    ...     answer = comband.evaluate_log("log/", "lists.parquet", client=work)
    """
    if isinstance(where, str) and where.startswith("spark:"):
        from comband.cluster.on_spark import spark_work

        with spark_work(where, progress) as on_spark:
            yield on_spark
        return
    from comband.cluster.on_dask import OnDask

    with client_of(where, threads=threads) as client:
        yield OnDask(client, progress)


@contextmanager
def client_of(where: str, *, threads: bool = False) -> Iterator[Any]:
    """A Dask client, closed at the end; of "local" with its cluster, of processes of one thread each or of threads."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(missing_extra("working on a cluster", "distributed", "cluster")) from None
    import dask

    local = re.fullmatch(r"local(?::(\d+))?", where) if isinstance(where, str) else None
    if local is None:
        if not isinstance(where, str) or not where:
            raise InputError(
                f"cluster must be an address such as tcp://host:8786, or local, or local:N, got {where!r}."
            )
        try:
            client = Client(where, timeout=_PATIENCE)
        except (OSError, ValueError, TypeError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"no scheduler answers at {where} ({why}); start one with: dask scheduler.") from None
        try:
            if not client.scheduler_info()["workers"]:
                raise InputError(f"the scheduler at {where} has no workers; start some with: dask worker {where}.")
            yield client
        finally:
            with suppress(OSError, TimeoutError):
                client.close(timeout=2)
        return
    n = int(local[1]) if local[1] else n_threads()
    if n < 1:
        raise InputError(f"local:N needs at least one worker, got {where!r}.")
    sizes = {"n_workers": 1, "threads_per_worker": n} if threads else {"n_workers": n, "threads_per_worker": 1}
    settings = {"distributed.worker.daemon": True, "distributed.scheduler.allowed-failures": 30}
    with (
        dask.config.set(settings),
        LocalCluster(processes=not threads, dashboard_address=None, silence_logs=logging.ERROR, **sizes) as cluster,
        Client(cluster) as client,
    ):
        yield client
