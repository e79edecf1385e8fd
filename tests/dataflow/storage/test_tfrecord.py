"""TFRecord files, against TensorFlow, and damaged in every way."""

import importlib
import pickle

import numpy as np
import pytest

from tests.helpers.stored_points import flip, read_all
from tpack.dataflow.storage.tfrecord import TFRecordData, _read_record, _write_record
from tpack.errors import InputError
from tpack.utils.formats.crc32c import masked_crc32c

RECORDS = [b"first", b"", bytes(range(256)) * 30, b"last"]
# Where each record begins: 12 bytes of header, 4 bytes after the data.
OFFSETS = [0, 21, 37, 37 + 7680 + 16]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.tfrecord"
    with open(path, "wb") as file:
        for record in RECORDS:
            _write_record(file, record)
    return path


def test_records_come_back(path):
    ds = TFRecordData(path)
    assert len(ds) == 4
    assert read_all(ds) == RECORDS
    with open(path, "rb") as file:
        assert _read_record(file, OFFSETS[2], 2) == RECORDS[2]


def test_records_come_back_shuffled_in_two_passes_at_a_time(path):
    ds = TFRecordData(path, shuffle=True)
    ds.reset_state()
    pairs = list(zip(ds, ds, strict=True))
    assert [sorted(records) for records in zip(*pairs, strict=True)] == [sorted(RECORDS)] * 2


def test_single_record_is_read_at_its_place(path):
    assert TFRecordData(path)._read(3) == b"last"


def test_empty_file_has_no_records(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert read_all(TFRecordData(tmp_path / "a")) == []


def test_flow_can_be_pickled(path):
    assert read_all(pickle.loads(pickle.dumps(TFRecordData(path)))) == RECORDS


def test_tensorflow_and_tpack_read_what_the_other_wrote(path, tmp_path, rng):
    tf = importlib.import_module("tensorflow.compat.v1")
    records = [*RECORDS, *(rng.integers(0, 256, size, np.uint8).tobytes() for size in (1, 511, 512, 100_000))]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for record in records:
            writer.write(record)
    with open(ours, "wb") as file:
        for record in records:
            _write_record(file, record)
    assert read_all(TFRecordData(theirs)) == records
    assert list(tf.io.tf_record_iterator(str(ours))) == records
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("place", [0, 7, 8, 11])
@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_flipped_bit_in_a_header_is_named(path, index, place):
    flip(path, OFFSETS[index] + place, 64)
    with pytest.raises(
        InputError,
        match=rf"record {index} of .*some.tfrecord, at byte {OFFSETS[index]}, is damaged: the checksum of its length",
    ):
        TFRecordData(path)


@pytest.mark.parametrize("place", [12, 500, 12 + 7680, 12 + 7680 + 3])
def test_flipped_bit_in_data_is_named_when_it_is_read(path, place):
    flip(path, OFFSETS[2] + place)
    ds = TFRecordData(path)
    with pytest.raises(InputError, match="record 2 of .* is damaged: the checksum of its data is wrong"):
        read_all(ds)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (25, r"record 1 of .*, at byte 21, was cut off: the file ends in its header"),
        (500, r"record 2 of .*, at byte 37, was cut off: it ends at byte 7733 of 500"),
        (7733 + 19, r"record 3 of .*, at byte 7733, was cut off: it ends at byte 7753 of 7752"),
    ],
)
def test_cut_off_file_names_the_record(path, size, message):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=message):
        TFRecordData(path)


def test_length_that_is_forged_with_its_checksum_is_not_believed(tmp_path):
    with open(tmp_path / "a", "wb") as file:
        _write_record(file, b"x")
    data = bytearray((tmp_path / "a").read_bytes())
    length = (10 * 2**30).to_bytes(8, "little")
    checksum = masked_crc32c(length).to_bytes(4, "little")
    (tmp_path / "a").write_bytes(length + checksum + data[12:])
    with pytest.raises(InputError, match=r"it ends at byte 10737418256 of 17"):
        TFRecordData(tmp_path / "a")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="TFRecordData got path=.*: there is no file .*none.tfrecord"):
        TFRecordData(tmp_path / "none.tfrecord")
