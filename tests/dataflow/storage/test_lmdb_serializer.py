"""Data points in LMDB files: written, read, damaged, and written by tensorpack."""

import re

import lmdb
import msgpack
import numpy as np
import pytest

from tests.helpers.flows import Broken
from tests.helpers.stored_points import assert_same, flip, flow_of, make_points, read_all
from tpack.dataflow.storage import lmdb as lmdb_storage
from tpack.dataflow.storage.lmdb import LMDBSerializer
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils import serialize


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "points.lmdb"
    LMDBSerializer.save(flow_of(make_points()), path)
    return path


@pytest.mark.parametrize("write_frequency", [1, 3, 7, 5000])
def test_points_come_back_in_order(tmp_path, write_frequency):
    path = tmp_path / "points.lmdb"
    LMDBSerializer.save(flow_of(make_points()), path, write_frequency)
    ds = LMDBSerializer.load(path, shuffle=False)
    assert len(ds) == 7
    assert_same(read_all(ds), make_points())
    assert [file.name for file in tmp_path.iterdir()] == ["points.lmdb"]


def test_points_come_back_shuffled(path):
    ds = LMDBSerializer.load(str(path))
    ds.reset_state()
    orders = [[point[1] for point in ds] for _ in range(4)]
    assert all(sorted(order) == list(range(7)) for order in orders)
    assert len(set(map(tuple, orders))) > 1


def test_directory_gets_the_file_data_mdb(tmp_path):
    LMDBSerializer.save(flow_of(make_points()), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["data.mdb"]
    assert_same(read_all(LMDBSerializer.load(tmp_path, shuffle=False)), make_points())


def test_file_grows_as_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(lmdb_storage, "_FIRST_MAP_SIZE_BYTES", 1 << 15)
    monkeypatch.setattr(lmdb_storage, "_MAX_CHUNK_SIZE_BYTES", 1 << 14)
    points = [[np.full(5000, k)] for k in range(20)]
    LMDBSerializer.save(flow_of(points), tmp_path / "a")
    assert_same(read_all(LMDBSerializer.load(tmp_path / "a", shuffle=False)), points)


def test_empty_flow_makes_an_empty_file(tmp_path):
    LMDBSerializer.save(flow_of([]), tmp_path / "a")
    ds = LMDBSerializer.load(tmp_path / "a", shuffle=False)
    assert (len(ds), read_all(ds)) == (0, [])


@pytest.mark.parametrize(
    ("flow", "error"), [(Broken(), OSError), (flow_of([[object()]]), DataPointError)], ids=["raising", "objects"]
)
def test_failing_save_leaves_the_old_file_and_nothing_else(path, flow, error):
    before = path.read_bytes()
    with pytest.raises(error):
        LMDBSerializer.save(flow, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_bad_frequency_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="LMDBSerializer got write_frequency=0"):
        LMDBSerializer.save(flow_of([]), tmp_path / "a", 0)


def test_every_flipped_bit_in_a_value_is_noticed_and_named(path):
    data = path.read_bytes()
    stored = serialize.dumps(make_points()[3])
    # LMDB writes a page anew and leaves the old one in the file.
    starts = [match.start() - 4 for match in re.finditer(re.escape(stored), data)]
    for place in (0, 3, 4, 20, len(stored) + 3):
        for start in starts:
            flip(path, start + place, 1 << place % 8)
        with pytest.raises(InputError, match=r"points\.lmdb is damaged: the checksum of the data point b'00000003' is"):
            read_all(LMDBSerializer.load(path, shuffle=place % 2 == 0))
        path.write_bytes(data)


def test_cut_off_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"points.lmdb is damaged: it was cut off"):
        LMDBSerializer.load(path)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"format": 1, "size": 9}, "has 7 data points: expected"),
        ({"format": 2, "size": 7}, r"description \{'format': 2, 'size': 7\}: expected format 1"),
        ([1], r"description \[1\]: expected format 1"),
    ],
)
def test_file_that_is_not_as_it_says_is_refused(path, description, message):
    env = lmdb.open(str(path), subdir=False, lock=False)
    with env.begin(write=True) as transaction:
        transaction.put(b"__tpack__", serialize.dumps(description))
    env.close()
    with pytest.raises(InputError, match=message):
        LMDBSerializer.load(path)


def as_tensorpack(array):
    """Encode an array as msgpack-numpy does."""
    return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}


def write_as_tensorpack(path, points):
    keys = [b"%08d" % k for k in range(len(points))]
    env = lmdb.open(str(path), subdir=False, lock=False)
    with env.begin(write=True) as transaction:
        for key, point in zip(keys, points, strict=True):
            transaction.put(key, msgpack.packb(point))
        transaction.put(b"__keys__", msgpack.packb(keys))
    env.close()


@pytest.mark.parametrize("shuffle", [False, True])
def test_file_that_tensorpack_wrote_is_read(tmp_path, shuffle):
    points = [[np.full((2, k), k, "f4"), k, f"name {k}"] for k in range(5)]
    write_as_tensorpack(tmp_path / "a", [[as_tensorpack(image), k, name] for image, k, name in points])
    ds = LMDBSerializer.load(tmp_path / "a", shuffle)
    assert len(ds) == 5
    assert_same(sorted(read_all(ds), key=lambda point: point[1]), points)


def test_pickled_objects_in_a_file_of_tensorpack_are_refused(tmp_path):
    objects = {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": (1,), b"data": b"cos\nsystem\n(S'exit 1'\ntR."}
    write_as_tensorpack(tmp_path / "a", [[1], [objects]])
    with pytest.raises(InputError, match="a, not of tpack, has an unreadable entry b'00000001': it has a pickled"):
        read_all(LMDBSerializer.load(tmp_path / "a", shuffle=False))
