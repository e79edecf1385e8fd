"""Data points in TFRecord files."""

import msgpack
import numpy as np
import pytest

from tests.helpers.flows import Broken
from tests.helpers.stored_points import assert_same, flow_of, make_points, read_all
from tpack.dataflow.storage.tfrecord import TFRecordSerializer, _write_record
from tpack.errors import InputError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "points.tfrecord"
    TFRecordSerializer.save(flow_of(make_points()), path)
    return path


def test_points_come_back(path):
    ds = TFRecordSerializer.load(str(path))
    assert len(ds) == 7
    assert_same(read_all(ds), make_points())
    assert_same(read_all(TFRecordSerializer.load(path, 7)), make_points())


def test_points_come_back_shuffled(path):
    points = read_all(TFRecordSerializer.load(path, shuffle=True))
    assert_same(sorted(points, key=lambda point: point[1]), make_points())


def test_other_size_is_refused(path):
    with pytest.raises(InputError, match=r"points\.tfrecord has 7 records: expected 9"):
        TFRecordSerializer.load(path, size=9)


def test_failing_save_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    with pytest.raises(OSError, match="the disk is gone"):
        TFRecordSerializer.save(Broken(), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_record_that_is_no_data_point_is_named(path):
    with open(path, "ab") as file:
        _write_record(file, b"\xc1 no msgpack")
    with pytest.raises(
        InputError, match=r"record 7 of .*points\.tfrecord, at byte 525, does not hold a data point: 12 bytes"
    ):
        read_all(TFRecordSerializer.load(path))


def test_file_that_tensorpack_wrote_is_read(tmp_path):
    image = np.arange(6, dtype="u1").reshape(2, 3)
    entries = {b"nd": True, b"type": "|u1", b"kind": b"", b"shape": image.shape, b"data": image.tobytes()}
    with open(tmp_path / "a", "wb") as file:
        _write_record(file, msgpack.packb([entries, 3]))
    assert_same(read_all(TFRecordSerializer.load(tmp_path / "a", 1)), [[image, 3]])
