"""Rewriting of sources for tpack: the renames, the notes for a person, and the rewriter."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
