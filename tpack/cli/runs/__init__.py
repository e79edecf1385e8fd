"""Runs as they are told by the files that they write; for commands, without TensorFlow."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
