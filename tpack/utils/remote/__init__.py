"""Directories on remote storage: a run writes here, and what it wrote is sent there."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
