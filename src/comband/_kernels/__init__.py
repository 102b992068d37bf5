"""The hot loops, compiled by numba and cached, one file per user of them. Each has a plain numpy twin in the tests.

Nothing else names numba, and a loop checks no input: its callers have. `announcing.py` says aloud that a first call
compiles.

May be imported: every function, by the rooms that call it; no user does.
Read first: `lists.py`, then `betting.py`.
"""

from comband._kernels import announcing as announcing  # from the first loop on
