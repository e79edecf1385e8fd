"""File formats of TensorFlow that are read without it."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
