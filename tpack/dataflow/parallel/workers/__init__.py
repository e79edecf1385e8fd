"""Worker processes: how they start, what they run, how they end."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
