"""Optimisation over arrays: nothing here knows rounds, policies or environments."""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
