"""Pictures, and reports as one HTML page each, with charts to hover over and zoom into.

A page loads nothing from anywhere. Here live the pages (`pages.py`), their charts (`charts.py`, `static/`) and pictures
by matplotlib (`plots.py`).

May be imported: what is listed here, `charts`, and the functions of `plots`.
Read first: `pages.py`, then `charts.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
