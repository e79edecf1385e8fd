"""Files of data points: LMDB, HDF5, TFRecord, tar, NumPy, SVMLight."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
