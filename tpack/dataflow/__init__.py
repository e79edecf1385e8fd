"""Data for training: sources, and flows that wrap flows. Works without TensorFlow."""

from tpack.dataflow.adapters import AdaptedData, as_dataflow
from tpack.dataflow.base import DataFlow, DataFlowTerminated, ProxyDataFlow, RNGDataFlow, UnknownLengthError
from tpack.dataflow.batch import BatchData, BatchDataByShape
from tpack.dataflow.cache import CacheData
from tpack.dataflow.combine import ConcatData, JoinData, RandomChooseData, RandomMixData
from tpack.dataflow.images import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates, ImageFromFile
from tpack.dataflow.inspect import PrintData, TestDataSpeed
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.mapping import MapData, MapDataComponent, SelectComponent
from tpack.dataflow.parallel.process_map import (
    MultiProcessMapAndBatchData,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapData,
    MultiProcessMapDataZMQ,
)
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.dataflow.parallel.workers.launch import start_workers_by
from tpack.dataflow.remote.flow import RemoteDataZMQ, RemoteStats, send_dataflow_zmq
from tpack.dataflow.remote.options import CurveKeys, RemoteOptions, make_curve_keys
from tpack.dataflow.repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from tpack.dataflow.sources import (
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DataFromQueue,
    FakeData,
    IndexedDataFlow,
)
from tpack.dataflow.state import StatelessError
from tpack.dataflow.storage.hdf5 import HDF5Data, HDF5Serializer
from tpack.dataflow.storage.lmdb import LMDBData, LMDBDataDecoder, LMDBSerializer
from tpack.dataflow.storage.npz import NumpySerializer
from tpack.dataflow.storage.svmlight import SVMLightData
from tpack.dataflow.storage.tfrecord import TFRecordData, TFRecordSerializer
from tpack.utils.lazy import attach

# Two packages with many names of their own, which are loaded when they are first asked for.
__getattr__, __dir__, _ = attach(__name__, {"dataset": (), "imgaug": ()})

__all__ = [
    "AdaptedData",
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "BatchData",
    "BatchDataByShape",
    "CacheData",
    "ConcatData",
    "CurveKeys",
    "DataFlow",
    "DataFlowTerminated",
    "DataFromGenerator",
    "DataFromIterable",
    "DataFromList",
    "DataFromQueue",
    "FakeData",
    "FixedSizeData",
    "HDF5Data",
    "HDF5Serializer",
    "ImageFromFile",
    "IndexedDataFlow",
    "JoinData",
    "LMDBData",
    "LMDBDataDecoder",
    "LMDBSerializer",
    "LocallyShuffleData",
    "MapData",
    "MapDataComponent",
    "MultiProcessMapAndBatchData",
    "MultiProcessMapAndBatchDataZMQ",
    "MultiProcessMapData",
    "MultiProcessMapDataZMQ",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "NumpySerializer",
    "PrintData",
    "ProxyDataFlow",
    "RNGDataFlow",
    "RandomChooseData",
    "RandomMixData",
    "RemoteDataZMQ",
    "RemoteOptions",
    "RemoteStats",
    "RepeatedData",
    "RepeatedDataPoint",
    "SVMLightData",
    "SelectComponent",
    "StatelessError",
    "TFRecordData",
    "TFRecordSerializer",
    "TestDataSpeed",
    "UnknownLengthError",
    "as_dataflow",
    "dataset",
    "imgaug",
    "make_curve_keys",
    "send_dataflow_zmq",
    "start_workers_by",
]
