"""Reports as one HTML page each, with charts to hover over and zoom into: nothing to load from anywhere."""

from comband.reports.pages import Needed, evaluation_page, selection_page

__all__ = ["Needed", "evaluation_page", "selection_page"]
