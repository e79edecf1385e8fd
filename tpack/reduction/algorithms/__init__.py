"""The algorithms: each reduces dense columns in a way of its own."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
