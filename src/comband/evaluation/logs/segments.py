"""To which segment each context of a log belongs, from a file or a data frame with the columns context and segment."""

from __future__ import annotations

from typing import Any

from comband.evaluation.logs.columns import as_keys
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import need_columns, note_bad_keys
from comband.evaluation.logs.tables import open_table
from comband.page.segments import Segments

COLUMNS = ("context", "segment")


def read_segments(source: Any) -> Segments:
    """Segments by the contexts' keys; there are as many as the file names. A faulty row is refused.

    Parameters
    ----------
    source:
        A .parquet, .csv or .jsonl file, or a data frame.

    >>> import pandas as pd
    >>> from comband.evaluation.logs import read_segments
    >>> read_segments(pd.DataFrame({"context": ["u1", "u2"], "segment": ["phone", "desktop"]})).names
    ('desktop', 'phone')
    """
    table = open_table(source)
    need_columns(table, COLUMNS, "segments of contexts")
    faults = Faults(str(table.path))
    of: dict[Any, str] = {}
    for piece in table.pieces(COLUMNS, faults):
        keys = {name: as_keys(piece.columns[name]) for name in COLUMNS}
        good = ~note_bad_keys(piece, keys, faults)
        told = zip(keys["context"].values[good].tolist(), keys["segment"].values[good].tolist(), strict=True)
        for context, segment in told:
            if of.setdefault(context, str(segment)) != str(segment):
                raise LogError(f"{table.path} says two segments of context {context!r}: a context belongs to one.")
    faults.settle("refuse")
    return Segments(sorted(set(of.values())), of)
