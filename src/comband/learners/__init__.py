"""Where the loop closes: ask, tell, done, result."""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
