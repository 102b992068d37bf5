"""comband: the best of many list recommenders, found with few interactions and a proof."""

from comband._lazy import lazily

__version__ = "0.1.0"
__all__, __getattr__, __dir__ = lazily(__name__, __file__)
