"""Reward estimates → the best policy of a class."""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
