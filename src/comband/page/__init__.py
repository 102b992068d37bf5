"""What a round is: the setting, lists, contexts, records of decisions and rewards; and what every room needs.

Here live the problem and all checks of outside input (`problem.py`), items and their names (`catalogue.py`), lists
(`lists.py`), places and totals (`places.py`, `totals.py`), contexts (`contexts.py`), records (`rounds/`), files
(`storage.py`), data frames (`frames.py`), packed rows, threads, text and progress.

May be imported: any public name of its modules; every other room does. Imports compiled loops alone.
Read first: `problem.py`, then `rounds/decisions.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
