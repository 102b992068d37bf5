"""Further metrics on the command line."""

from __future__ import annotations

from typing import Any

from comband.page.metrics import Metric
from comband.page.problem import InputError, check_share


def as_metric(text: str) -> Metric:
    """What --metric says: NAME=MARGIN, where 5% is a share of production's value, and further settings behind commas.

    >>> str(as_metric("purchases=5%")), str(as_metric("reports=0.002,cost,largest=3"))
    ('purchases: at most 5% below production', 'reports: at most 0.002 above production')
    """
    metric, more = _parsed(text, ())
    assert not more
    return metric


def rated_metric(text: str) -> tuple[Metric, float]:
    """The same with the share of items that carry it, `rate`; all, if nothing is said.

    >>> rated_metric("purchases=5%,rate=0.2")[1]
    0.2
    """
    metric, more = _parsed(text, ("rate",))
    return metric, check_share("rate", more.get("rate", 1.0))


def _parsed(text: str, others: tuple[str, ...]) -> tuple[Metric, dict[str, float]]:
    first, *parts = (part.strip() for part in text.split(","))
    name, _, margin = (part.strip() for part in first.partition("="))
    given: dict[str, Any] = {"name": name, "relative": margin.endswith("%")}
    more: dict[str, float] = {}
    try:
        given["margin"] = float(margin.removesuffix("%")) / (100 if given["relative"] else 1)
        for part in parts:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key in ("benefit", "cost") and not equals:
                given["direction"] = key
            elif key in ("largest", "per_round"):
                given[key] = float(value)
            elif key in others:
                more[key] = float(value)
            else:
                raise ValueError(key)
    except ValueError:
        known = ", ".join(f"{key}=NUMBER" for key in ("largest", "per_round", *others))
        raise InputError(
            f"--metric takes NAME=MARGIN, and after commas cost, {known}, such as purchases=5% or reports=0.002,cost; "
            f"got {text!r}."
        ) from None
    return Metric(**given), more
