"""Code for scripts of tensorpack's older versions alone: renamed classes, and small functions that it had."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
