"""What logged rounds say about candidates: values with intervals, the best one, and how good it surely is.

Here live readers and writers of logs, files, frames and SQL alike (`logs/`), and what is made of them: joined with
candidates, cut into parts, judged and told. Nothing here knows certifying learners, regret or classification.

May be imported: what is listed here, and the front of `logs`.
Read first: `evaluating.py`, then `logs/reading.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
