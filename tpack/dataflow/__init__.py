"""Data for training: sources, and flows that wrap flows. Works without TensorFlow."""

from tpack.dataflow.adapters import AdaptedData, as_dataflow
from tpack.dataflow.base import DataFlow, DataFlowTerminated, ProxyDataFlow, RNGDataFlow, UnknownLengthError
from tpack.dataflow.batch import BatchData
from tpack.dataflow.batch_by_shape import BatchDataByShape
from tpack.dataflow.cache import CacheData
from tpack.dataflow.concat import ConcatData
from tpack.dataflow.fake import FakeData
from tpack.dataflow.fixed_size import FixedSizeData
from tpack.dataflow.from_generator import DataFromGenerator
from tpack.dataflow.from_iterable import DataFromIterable
from tpack.dataflow.from_queue import DataFromQueue
from tpack.dataflow.hdf5_serializer import HDF5Serializer
from tpack.dataflow.image_augment import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates
from tpack.dataflow.images import ImageFromFile
from tpack.dataflow.indexed import IndexedDataFlow
from tpack.dataflow.inspect import PrintData
from tpack.dataflow.join import JoinData
from tpack.dataflow.lmdb_serializer import LMDBSerializer
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.mapping import MapData, MapDataComponent
from tpack.dataflow.parallel.process_map import MultiProcessMapData, MultiProcessMapDataZMQ
from tpack.dataflow.parallel.process_map_batch import MultiProcessMapAndBatchData, MultiProcessMapAndBatchDataZMQ
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.start_method import start_workers_by
from tpack.dataflow.parallel.thread_map import MultiThreadMapData
from tpack.dataflow.parallel.thread_runner import MultiThreadRunner
from tpack.dataflow.random_choose import RandomChooseData
from tpack.dataflow.random_mix import RandomMixData
from tpack.dataflow.remote.flow import RemoteDataZMQ, RemoteStats, send_dataflow_zmq
from tpack.dataflow.remote.options import CurveKeys, RemoteOptions, make_curve_keys
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.repeat_point import RepeatedDataPoint
from tpack.dataflow.select import SelectComponent
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.speed import TestDataSpeed
from tpack.dataflow.state import StatelessError
from tpack.dataflow.storage.hdf5 import HDF5Data
from tpack.dataflow.storage.lmdb import LMDBData, LMDBDataDecoder
from tpack.dataflow.storage.npz import NumpySerializer
from tpack.dataflow.storage.svmlight import SVMLightData
from tpack.dataflow.storage.tfrecord import TFRecordData
from tpack.dataflow.tfrecord_serializer import TFRecordSerializer
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
