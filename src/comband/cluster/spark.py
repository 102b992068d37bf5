"""Sessions of Spark, by address."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from comband.page.problem import InputError
from comband.page.text import missing_extra


@contextmanager
def session_of(where: str) -> Iterator[Any]:
    """A session on spark://host:7077, or on this machine (spark:local[2]); one that is open already is used.

    A session that was opened here is stopped at the end.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError(missing_extra("working on Spark", "pyspark", "spark")) from None
    if shutil.which("java") is None:
        raise InputError("Spark needs a Java runtime, and there is no java on the path: install one (default-jre).")
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    master = where if where.startswith("spark://") else where.removeprefix("spark:") or "local[*]"
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = "4"  # for a cluster it is 200
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers of this machine have what we have
        if "PYTHONPATH" in os.environ:  # also if it changed since a virtual machine was started, which has its own copy
            settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    builder = SparkSession.builder.master(master).appName("comband")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # of py4j, of the JVM
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"no Spark answers at {where} ({why}).") from None
    try:
        yield session
    finally:
        session.stop()
