"""Ask and tell until a winner is certified: one learner made of parts, told apart by how an epoch explores.

Here live the learner and its parts (queue, evidence, verdict, planner, watch, report), the learners by name
(`adaptive.py`, `ab_test.py`, …), forecasts of how long it takes (`forecasts.py`), and learners whose rounds are planned
beforehand (`fixed_time/`). Nothing here knows logs, regret or classification.

May be imported: what is listed here, and for guards of one's own the names of `notifications.py`; the service also
takes epochs from theirs.
Read first: `learner.py`, then `evidence.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
