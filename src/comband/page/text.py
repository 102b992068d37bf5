"""Text that comes from outside (names, ids, paths), as it may be shown."""

from __future__ import annotations

import re
from reprlib import Repr

# Control characters (a terminal obeys them), line and paragraph separators, marks that turn the direction of what
# follows, and halves of surrogate pairs (which cannot be written as UTF-8).
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object, *, keep: str = "") -> str:
    r"""`text` on one line, with everything that a terminal or a page would obey spelt out as an escape.

    A name, an id, a path or an error is sent through here before it is shown. Characters in `keep` stay.

    >>> print(visible("a\nb"), visible("\x1b[31mred"), visible("[red]ünïcode ε"))
    a\nb \x1b[31mred [red]ünïcode ε
    """
    return _UNSEEN.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), str(text))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


_REPR = Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxdict = 4, 12, 6
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 80


def quoted(value: object) -> str:
    """`repr(value)` within bounds: whatever a file holds (a thousand nested lists, a megabyte of text) fits a message.

    >>> quoted(["a", [1, 2]])
    "['a', [1, 2]]"
    """
    return _REPR.repr(value)


def shorten(text: str, width: int = 300) -> str:
    """`text` with its middle left out if it is longer than `width`: a message is a sentence, whatever it quotes.

    >>> shorten("0123456789", 7)
    '012…789'
    """
    if len(text) <= width:
        return text
    left = width // 2
    return f"{text[:left]}…{text[len(text) - (width - left - 1) :]}"


def missing_extra(what: str, package: str, extra: str) -> str:
    """What to do where an optional package is missing, in a sentence that is right for a clone and for an index.

    >>> missing_extra("reading Parquet", "pyarrow", "logs")
    "reading Parquet needs pyarrow, which is not installed: pip install 'comband[logs]', or '.[logs]' in a clone"
    """
    return f"{what} needs {package}, which is not installed: pip install 'comband[{extra}]', or '.[{extra}]' in a clone"


def rough(number: float) -> str:
    """A guess should not look exact: two digits.

    >>> rough(12_345)
    '12,000'
    """
    return f"{float(f'{number:.2g}'):,.0f}"
