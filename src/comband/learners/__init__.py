"""Where the loop closes: ask, tell, done, result. What all learners share.

Here live the base class with its ledger of decisions (`base.py`, `ledger.py`, `atomic.py`), learners that choose among
candidates (`selector.py`), those that weigh all of them (`weighted.py`), and the base for one of your own
(`custom.py`). Learners themselves are in `certify`, `regret` and `classify`.

May be imported: what is listed here, and the public names of its modules.
Read first: `base.py`, then `custom.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
