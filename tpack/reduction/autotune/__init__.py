"""Choice of a reducer: by the devices, by the links between GPUs, or by measuring."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
