"""Columnar records: what was shown (`Decisions`), what came back (`Rounds`), and what mattered (`Events`).

All three are immutable columns that can be sliced, joined with `+`, and saved to one npz file.
What a decision was made with travels in it, so that feedback may come late, in parts and in any order.
"""

from __future__ import annotations

from comband.page.rounds.columns import all_covered, no_arms, read_only
from comband.page.rounds.decisions import Decisions, check_decisions, sign
from comband.page.rounds.events import EventParts, Events, events_of_rounds
from comband.page.rounds.rounds import Rounds, check_rounds

__all__ = [
    "Decisions",
    "EventParts",
    "Events",
    "Rounds",
    "all_covered",
    "check_decisions",
    "check_rounds",
    "events_of_rounds",
    "no_arms",
    "read_only",
    "sign",
]
