"""Learning while earning: EXP4-COMB-SPARSE and its peers, and curves of their regret.

Here live the learners that promise regret (`exp4_comb_sparse.py`, `exp4.py`, `m_sets.py`), simple ones to compare with
(`epsilon_greedy.py`, `explore_then_commit.py`), and `curves.py`. Nothing here knows certificates, logs or
classification.

May be imported: what is listed here.
Read first: `exp4_comb_sparse.py`, then `curves.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
