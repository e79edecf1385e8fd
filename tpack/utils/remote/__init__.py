"""Directories on remote storage: a run writes here, and what it wrote is sent there."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
