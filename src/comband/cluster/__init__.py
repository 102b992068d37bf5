"""Work over many parts, in this process or on a Dask cluster, with the same answer to the last digit.

A part is computed where its data lie and stays there; only what is asked of it comes back. Nothing here schedules,
ships or retries: Dask does. What makes answers equal is that parts depend on nothing but their own arguments, and that
what they contribute adds exactly (`comband.statistics.exact`) or is put in the order of the parts.

May be imported: what is listed here; `spark.py`, by what reads tables.
Read first: `work.py`, then `on_dask.py`.
"""

from comband.cluster.connecting import as_work, connect
from comband.cluster.work import InProcess, Tally, Work

__all__ = ["InProcess", "Tally", "Work", "as_work", "connect"]
