"""Rounds → values: sums, betting e-processes, guards; and claims, verdicts and results, in which they are told.

Every statistic has one grammar: `zero` has seen nothing, `add` puts in a block of rounds, `a + b` has seen what both
have, and `bounds` says what follows.

May be imported: what is listed here, and the public names of its modules. Knows no learner and no log.
Read first: `betting.py` (the evidence and its proof), then `claims.py` (a sentence with its premises).
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
