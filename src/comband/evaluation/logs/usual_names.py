"""What click logs and lists of candidates usually call their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from comband.evaluation.logs.tables import TableFile

# The first of each is the name that the formats know. Large and small letters, spaces, dots, hyphens and underscores
# make no difference: "Request ID" and "requestId" are request_id.
USUAL_NAMES = {
    "round": (
        *("round", "round_id", "request", "request_id", "impression_id", "query_id", "search_id", "serp_id"),
        *("page_view_id", "pageview_id", "slate_id", "visit_id", "rank_request_id", "event_id", "decision_id"),
    ),
    "item": (
        *("item", "item_id", "product", "product_id", "sku", "doc", "doc_id", "docno", "document", "document_id"),
        *("object_id", "asin", "movie_id", "video_id", "article_id", "news_id", "ad_id", "action", "action_id", "arm"),
    ),
    "reward": (
        *("reward", "click", "clicks", "clicked", "is_click", "is_clicked", "was_clicked", "label"),
        *("converted", "conversion", "purchased"),
    ),
    "propensity": (
        *("propensity", "propensity_score", "pscore", "prob", "probability", "action_prob", "logging_prob"),
        *("action_probability", "logging_probability", "logging_propensity", "item_propensity", "shown_probability"),
    ),
    "position": ("position", "pos", "rank", "slot", "place", "display_position", "item_position"),
    "context": ("context", "context_id"),
}
_LISTS = {
    "items": ("items", "item_ids", "products", "product_ids", "skus", "docs", "doc_ids", "documents", "slate", "shown"),
    "rewards": ("rewards", "clicks", "labels", "clicked"),
    "propensities": ("propensities", "propensity_scores", "pscores", "probs", "probabilities", "action_probs"),
}
_ONE_OF = {"items": "item", "rewards": "reward", "propensities": "propensity"}
_CANDIDATE = (
    *("candidate", "candidate_id", "policy", "policy_name", "policy_id", "ranker", "ranker_name", "recommender"),
    *("model", "model_name", "model_id", "algorithm", "algo", "system", "variant", "method", "strategy", "run"),
)


def plain_name(name: str) -> str:
    """A name by its letters and figures alone.

    >>> plain_name("Request ID"), plain_name("propensityScore")
    ('requestid', 'propensityscore')
    """
    return re.sub(r"[\W_]+", "", name.lower())


def usual_names(table: TableFile) -> dict[str, str]:
    """The columns of a table that go by a usual name, {name of the format: name in the table}.

    A column that stands there under the format's own name is not named, nor is one of which there are two.

    >>> from pathlib import Path
    >>> usual_names(TableFile(Path("log.csv"), "csv", ("Item ID", "Click", "propensity", "rank", "slot")))
    {'item': 'Item ID', 'reward': 'Click'}
    """
    return _found(table, USUAL_NAMES)


def usual_lists(table: TableFile) -> dict[str, str]:
    """The same of a log with one row per round: lists in one column each, or in numbered ones (click_1, click_2, …).

    >>> from pathlib import Path
    >>> wide = ("request_id", "sku_1", "sku_2", "click_1", "click_2", "propensity_1", "propensity_2")
    >>> usual_lists(TableFile(Path("log.csv"), "csv", wide))
    {'id': 'request_id', 'item': 'sku', 'reward': 'click'}
    """
    found = _found(table, {"id": ("id", *USUAL_NAMES["round"]), "context": USUAL_NAMES["context"]})
    for many, names in _LISTS.items():
        one = _ONE_OF[many]
        if many in table.names or any(name in table.names for name in (f"{one}_0", f"{one}_1")):
            continue
        whole = _found(table, {many: names})
        found |= whole or _numbered(table, one, (*USUAL_NAMES[one], *names))
    return found


def usual_candidates(table: TableFile) -> dict[str, str]:
    """The same of a file of candidates' lists; `item` where each row has one item of a list.

    >>> from pathlib import Path
    >>> usual_candidates(TableFile(Path("lists.csv"), "csv", ("context", "policy", "rank", "item_id")))
    {'candidate': 'policy', 'position': 'rank', 'item': 'item_id'}
    """
    found = _found(table, {"candidate": _CANDIDATE, "context": USUAL_NAMES["context"]})
    if "items" in table.names or any(name in table.names for name in ("item_0", "item_1")):
        return found
    if whole := _found(table, {"items": _LISTS["items"]}) or _numbered(table, "item", USUAL_NAMES["item"]):
        return found | whole
    return found | _found(table, {name: USUAL_NAMES[name] for name in ("position", "item")})


def _found(table: TableFile, wanted: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Which of the wanted columns stand there under one of their names, and under which."""
    found: dict[str, str] = {}
    for name, others in wanted.items():
        known = set(map(plain_name, others))
        there = [column for column in table.names if plain_name(column) in known]
        if name not in table.names and len(there) == 1:
            found[name] = there[0]
    return found


def _numbered(table: TableFile, one: str, others: Sequence[str]) -> dict[str, str]:
    """Under which name numbered columns (sku_1, sku_2, …) stand there."""
    known = set(map(plain_name, others))
    stems = {match[1] for name in table.names if (match := re.fullmatch(r"(.*?)_?\d+", name))}
    there = [stem for stem in stems if plain_name(stem) in known]
    return {one: there[0]} if len(there) == 1 else {}
