"""What click logs usually call their columns."""

from __future__ import annotations

from comband.evaluation.logs.tables import TableFile

# The first of each is the name that the formats know; letters may be large or small.
USUAL_NAMES = {
    "round": (
        *("round", "round_id", "request", "request_id", "requestid", "impression_id", "query_id", "search_id"),
        *("page_view_id", "pageview_id", "slate_id", "visit_id", "rank_request_id"),
    ),
    "item": (
        *("item", "item_id", "itemid", "product", "product_id", "sku", "doc_id", "docid", "docno", "document_id"),
        *("object_id", "asin", "movie_id", "video_id", "article_id", "ad_id", "action", "arm"),
    ),
    "reward": ("reward", "click", "clicked", "is_click", "is_clicked", "label", "converted", "conversion"),
    "propensity": (
        *("propensity", "propensity_score", "pscore", "prob", "probability", "action_prob", "logging_prob"),
        *("action_probability", "logging_probability", "logging_propensity"),
    ),
    "position": ("position", "pos", "rank", "slot", "place"),
    "context": ("context", "context_id"),
}


def usual_names(table: TableFile) -> dict[str, str]:
    """The columns of a table that go by a usual name, {name of the format: name in the table}.

    A column that stands there under the format's own name is not named, nor is one of which there are two.

    >>> from pathlib import Path
    >>> usual_names(TableFile(Path("log.csv"), "csv", ("item_id", "Click", "propensity", "rank", "slot")))
    {'item': 'item_id', 'reward': 'Click'}
    """
    found: dict[str, str] = {}
    for name, others in USUAL_NAMES.items():
        there = [column for column in table.names if column.lower() in others]
        if name not in table.names and len(there) == 1:
            found[name] = there[0]
    return found
