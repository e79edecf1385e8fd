"""Files of data points: LMDB, HDF5, TFRecord, NumPy, SVMLight."""

from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__: list[str] = []
