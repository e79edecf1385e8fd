"""tensorpack's import paths for what it called contrib: ``tpack.contrib.keras``."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
