"""The public names of tpack.dataflow."""

import tpack.dataflow

NAMES = [
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


def test_all_is_the_list_of_flows():
    assert tpack.dataflow.__all__ == NAMES


def test_every_name_is_there():
    assert [name for name in NAMES if not hasattr(tpack.dataflow, name)] == []


def test_star_gives_all_names():
    names = {}
    exec("from tpack.dataflow import *", names)
    assert set(NAMES) <= set(names)
    assert names["imgaug"].Resize.__module__ == "tpack.dataflow.imgaug.resize"
