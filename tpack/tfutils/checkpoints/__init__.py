"""Writing checkpoints in the background, and keeping the best of them."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
