"""The algorithms: each reduces dense columns in a way of its own."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
