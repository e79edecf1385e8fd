"""Data for training: sources, and flows that wrap flows. Works without TensorFlow.

The names are loaded on first use: a process that prepares data begins with what its own flow needs, and no more.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "adapters": ("AdaptedData", "as_dataflow"),
        "arrays": ("DataFromArrays",),
        "base": ("DataFlow", "DataFlowTerminated", "ProxyDataFlow", "RNGDataFlow", "UnknownLengthError"),
        "batch": ("BatchData", "BatchDataByShape"),
        "cache": ("CacheData",),
        "combine": ("ConcatData", "JoinData", "RandomChooseData", "RandomMixData"),
        "dataset": (),
        "images": ("AugmentImageComponent", "AugmentImageComponents", "AugmentImageCoordinates", "ImageFromFile"),
        "imgaug": (),
        "inspect": ("PrintData", "TestDataSpeed"),
        "local_shuffle": ("LocallyShuffleData",),
        "mapping": ("FlatMapData", "MapData", "MapDataComponent", "SelectComponent"),
        "mixup": ("CutMix", "MixUp"),
        "parallel.process_map": (
            "MultiProcessMapAndBatchData",
            "MultiProcessMapAndBatchDataZMQ",
            "MultiProcessMapData",
            "MultiProcessMapDataZMQ",
        ),
        "parallel.process_runner": ("MultiProcessRunner", "MultiProcessRunnerZMQ"),
        "parallel.threads": ("MultiThreadMapData", "MultiThreadRunner"),
        "parallel.worker": ("start_workers_by",),
        "remote.flow": ("RemoteDataZMQ", "RemoteStats", "send_dataflow_zmq"),
        "remote.options": ("CurveKeys", "RemoteOptions", "make_curve_keys"),
        "repeat": ("FixedSizeData", "RepeatedData", "RepeatedDataPoint"),
        "sources": (
            "DataFromGenerator",
            "DataFromIterable",
            "DataFromList",
            "DataFromQueue",
            "FakeData",
            "IndexedDataFlow",
        ),
        "shard": ("ShardData", "shard_files"),
        "iterator_state": ("StatelessError",),
        "storage.hdf5": ("HDF5Data", "HDF5Serializer"),
        "storage.lmdb": ("LMDBData", "LMDBDataDecoder", "LMDBSerializer"),
        "storage.npz": ("NumpySerializer",),
        "storage.svmlight": ("SVMLightData",),
        "storage.tar": ("TarData", "TarSerializer"),
        "storage.tfrecord": ("TFRecordData", "TFRecordSerializer"),
    },
)
