"""Embedding tables whose rows are dealt out over workers."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"embedding": ("sharded_embedding",)})
