"""Files of data points: LMDB, HDF5, TFRecord, NumPy, SVMLight."""

__all__: list[str] = []
