"""The package of flows as a whole."""

import tpack.dataflow


def test_star_gives_all_names():
    names = {}
    exec("from tpack.dataflow import *", names)
    assert set(tpack.dataflow.__all__) <= set(names)
    assert names["imgaug"].Resize.__module__ == "tpack.dataflow.imgaug.resize"
