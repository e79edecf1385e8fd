"""Reducers around other reducers: packing, splitting, sharding, another type on the wire."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
