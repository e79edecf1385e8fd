"""Data for training: sources, and flows that wrap flows. Works without TensorFlow."""

from tpack.dataflow.base import DataFlow, DataFlowTerminated, ProxyDataFlow, RNGDataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.fake import FakeData
from tpack.dataflow.fixed_size import FixedSizeData
from tpack.dataflow.from_generator import DataFromGenerator
from tpack.dataflow.from_iterable import DataFromIterable
from tpack.dataflow.from_list import DataFromList
from tpack.dataflow.mapping import MapData, MapDataComponent
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.speed import TestDataSpeed

__all__ = [
    "BatchData",
    "DataFlow",
    "DataFlowTerminated",
    "DataFromGenerator",
    "DataFromIterable",
    "DataFromList",
    "FakeData",
    "FixedSizeData",
    "MapData",
    "MapDataComponent",
    "ProxyDataFlow",
    "RNGDataFlow",
    "RepeatedData",
    "TestDataSpeed",
]
