"""Worlds that answer, the loop of learner and world, and suites that an own part can be put through.

Here live environments (`base.py` says what one is), `running.py` (`comband.run`) and the conformance suites
(`testing/`).

May be imported: what is listed here, `running`, and the front of `testing`. Knows learners by their base class alone.
Read first: `base.py`, then `running.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
