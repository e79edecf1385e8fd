"""The public names of tpack.dataflow."""

import tpack.dataflow

NAMES = [
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


def test_all_is_the_list_of_flows():
    assert tpack.dataflow.__all__ == NAMES


def test_every_name_is_there():
    assert [name for name in NAMES if not hasattr(tpack.dataflow, name)] == []
