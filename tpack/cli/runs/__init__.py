"""Runs as they are told by the files that they write; for commands, without TensorFlow."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
