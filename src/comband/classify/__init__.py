"""Lists of labels: a classifier that learns from what was shown, offline as scikit-learn does it, or online.

Here live the classifier (`classifier.py`), the learner that chooses which lists to show (`online_lists.py`, with
`novelty.py` and `optimism.py`), and fitted models in files (`persistence.py`). Nothing here knows certificates, logs or
regret.

May be imported: what is listed here.
Read first: `classifier.py`, then `online_lists.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
