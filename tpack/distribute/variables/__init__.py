"""The variables of strategies: mirrored ones, and those local to a tower."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
