"""Reducers around other reducers: packing, splitting, sharding, another type on the wire."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
