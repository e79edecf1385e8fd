"""Flows that change other flows, under the module name that scripts import them from.

Their code is in modules named after what they do.
"""

from tpack.dataflow.batch import BatchData, BatchDataByShape
from tpack.dataflow.cache import CacheData
from tpack.dataflow.combine import ConcatData, JoinData, RandomChooseData, RandomMixData
from tpack.dataflow.inspect import PrintData, TestDataSpeed
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.mapping import MapData, MapDataComponent, SelectComponent
from tpack.dataflow.repeat import FixedSizeData, RepeatedData, RepeatedDataPoint

__all__ = [
    "BatchData",
    "BatchDataByShape",
    "CacheData",
    "ConcatData",
    "FixedSizeData",
    "JoinData",
    "LocallyShuffleData",
    "MapData",
    "MapDataComponent",
    "PrintData",
    "RandomChooseData",
    "RandomMixData",
    "RepeatedData",
    "RepeatedDataPoint",
    "SelectComponent",
    "TestDataSpeed",
]
