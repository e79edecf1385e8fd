"""Which reducer to take: by the kind of the devices, or by measuring."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
