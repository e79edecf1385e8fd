"""Flows over files, for the contract suites; the files are written when first asked for, and removed at the end."""

import functools
import os
import tempfile

import numpy as np

from tests.helpers.flows import COUNT
from tpack.dataflow.mapping import MapData
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.storage.hdf5 import HDF5Serializer
from tpack.dataflow.storage.lmdb import LMDBData, LMDBSerializer
from tpack.dataflow.storage.npz import NumpySerializer
from tpack.dataflow.storage.svmlight import SVMLightData
from tpack.dataflow.storage.tar import TarData, TarSerializer
from tpack.dataflow.storage.tfrecord import TFRecordData, TFRecordSerializer

POINTS = [[np.full(3, k, "f4"), k] for k in range(COUNT)]


def in_list(record):
    """Make a data point of a record."""
    return [record]


@functools.cache
def directory():
    """Return a directory with one file of each kind, which goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="tpack_flows_")
    flow = DataFromList(POINTS, shuffle=False)
    LMDBSerializer.save(flow, os.path.join(folder.name, "points.lmdb"))
    TFRecordSerializer.save(flow, os.path.join(folder.name, "points.tfrecord"))
    NumpySerializer.save(flow, os.path.join(folder.name, "points.npz"))
    HDF5Serializer.save(flow, os.path.join(folder.name, "points.h5"), ["x", "y"])
    TFRecordSerializer.save(flow, os.path.join(folder.name, "points-{0..2}.tfrecord"))
    named = [{"x.npy": x, "cls": y} for x, y in POINTS]
    TarSerializer.save(DataFromList(named, shuffle=False), os.path.join(folder.name, "points-{0..2}.tar"))
    with open(os.path.join(folder.name, "points.svm"), "w") as file:
        file.writelines(f"{k} 1:{k} 3:1\n" for k in range(COUNT))
    return folder


def path_of(name):
    """Return the path of a file in that directory."""
    return os.path.join(directory().name, name)


# By name: a function that makes a flow of COUNT data points.
FLOWS = {
    "entries of an lmdb": lambda: LMDBData(path_of("points.lmdb"), shuffle=False),
    "shuffled entries of an lmdb": lambda: LMDBData(path_of("points.lmdb")),
    "points of an lmdb": lambda: LMDBSerializer.load(path_of("points.lmdb"), shuffle=False),
    "shuffled points of an lmdb": lambda: LMDBSerializer.load(path_of("points.lmdb")),
    "records": lambda: MapData(TFRecordData(path_of("points.tfrecord")), in_list),
    "points of records": lambda: TFRecordSerializer.load(path_of("points.tfrecord")),
    "shuffled points of records": lambda: TFRecordSerializer.load(path_of("points.tfrecord"), shuffle=True),
    "points of shards": lambda: TFRecordSerializer.load(path_of("points-{0..2}.tfrecord"), num_thread=2),
    "shuffled points of shards": lambda: TFRecordSerializer.load(path_of("points-?.tfrecord"), shuffle=True),
    "npz": lambda: NumpySerializer.load(path_of("points.npz")),
    "hdf5": lambda: HDF5Serializer.load(path_of("points.h5"), ["x", "y"], shuffle=False),
    "shuffled hdf5": lambda: HDF5Serializer.load(path_of("points.h5"), ["x", "y"]),
    "svmlight": lambda: SVMLightData(path_of("points.svm")),
}
# The same, of those that do not know their length.
UNSIZED_FLOWS = {
    "tar files": lambda: TarData(path_of("points-{0..2}.tar"), ("x.npy", "cls")),
    "shuffled tar files": lambda: TarData(path_of("points-?.tar"), ("x.npy", "cls"), shuffle=True),
}
