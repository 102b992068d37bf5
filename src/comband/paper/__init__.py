"""The paper's claims as runnable experiments, each with a verdict and a figure.

Here live the experiments (`catalogue/`, one file each), what a claim is and how it is checked (`claim.py`,
`checks.py`), and what runs them all and writes the report (`runner.py`, `reproducing.py`). The formulas are in
`comband.theory`.

May be imported: what is listed here. No other room but the commands does.
Read first: `claim.py`, then `catalogue/certification.py`.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
