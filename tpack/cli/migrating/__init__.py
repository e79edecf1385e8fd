"""How sources are rewritten for tpack: what is called differently, what a person must look at, and the rewriting."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
