"""Which reducer to take: by the kind of the devices, or by measuring."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
