"""How to explore: explorers draw an epoch's lists with exact propensities, designs say which mixture is best.

Here live explorers and the explorations that plan them (`explorers/`), the design problem (`design.py`, verified on
other rounds by `held_out.py`), its solvers (`solvers/`) and the oracles that find the best policy of a class
(`oracles/`).

May be imported: the fronts of `explorers`, `oracles` and `solvers`, and what `design.py` and `held_out.py` define.
Read first: `explorers/base.py`, then `design.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
