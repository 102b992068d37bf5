"""Parts and what was asked of them, as bytes and back: plain numbers and arrays by name, nothing that could run."""

from __future__ import annotations

import io
import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from comband.evaluation.parts import Facts, FirstLook, Part, Sample, SecondLook
from comband.page.bits import PackedRows
from comband.page.problem import InputError
from comband.statistics.exact import ExactSums, ExactValueSums
from comband.statistics.histograms import ValueHistograms
from comband.statistics.importance import SharedActions

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Part, Sample, Facts, FirstLook, SecondLook),
        *(SharedActions, PackedRows, ValueHistograms, ExactSums, ExactValueSums),
    )
}


def to_bytes(value: Any) -> bytes:
    """A part, or a statistic of parts.

    >>> from comband.evaluation.parts import Facts
    >>> facts = Facts(3, 1, 1, 0.5, float("inf"), 1.0, None, 1.0)
    >>> from_bytes(to_bytes(facts)) == facts
    True
    """
    arrays: dict[str, np.ndarray] = {}
    tree = _encoded(value, arrays)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, tree=np.array(json.dumps(tree)), **arrays)
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    """What `to_bytes` was given."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return _decoded(json.loads(str(arrays["tree"])), arrays)


def _encoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        name = f"array_{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, (list, tuple)):
        return [_encoded(one, arrays) for one in value]
    # A part of a log is kept as what evaluation needs of it, whatever else its class adds.
    kind = Part if isinstance(value, Part) else type(value)
    if _KINDS.get(kind.__name__) is not kind:
        raise InputError(f"{type(value).__name__} cannot be kept.")
    names = [field.name for field in fields(value)] if is_dataclass(value) else _names(value)
    return {"kind": kind.__name__, "fields": {name: _encoded(getattr(value, name), arrays) for name in names}}


def _names(value: Any) -> list[str]:
    return [name for name in vars(value) if name not in ("number", "facts", "ids")]


def _decoded(tree: Any, arrays: Any) -> Any:
    if isinstance(tree, list):
        return [_decoded(one, arrays) for one in tree]
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    kind = _KINDS[tree["kind"]]
    made = object.__new__(kind)
    for name, one in tree["fields"].items():
        object.__setattr__(made, name, _decoded(one, arrays))
    return made
