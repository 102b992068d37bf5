"""The commands, one per file; `cli.py` lists them.

May be imported: nothing. `comband` at a prompt and `python -m comband` begin here.
Read first: `cli.py`, then `common.py`.
"""
