"""TFRecord files of one data set: written in turn with an index, read by it, in threads, by workers."""

import os
from pathlib import Path

import numpy as np
import pytest

from tpack.dataflow.mapping import FlatMapData
from tpack.dataflow.shard import ShardData, shard_files
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.storage import tfrecord
from tpack.dataflow.storage.shards import shard_names
from tpack.dataflow.storage.tfrecord import TFRecordData, TFRecordSerializer
from tpack.errors import ConfigError, InputError

POINTS = [[np.full(k, k, "f4"), k] for k in range(11)]
ORDER = [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8]


@pytest.fixture
def shards(tmp_path):
    path = str(tmp_path / "train-{0..2}-of-3.tfrecord")
    TFRecordSerializer.save(DataFromList(POINTS, shuffle=False), path)
    return path


def numbers(flow):
    flow.reset_state()
    found = list(flow)
    assert all(len(array) == k and (array == k).all() for array, k in found)
    return [k for _, k in found]


def test_points_are_dealt_out_and_come_back(shards):
    flow = TFRecordSerializer.load(shards, size=11)
    assert (numbers(flow), len(flow)) == (ORDER, 11)
    assert [numbers(TFRecordSerializer.load(name)) for name in shard_names(None, shards)] == [
        ORDER[:4],
        ORDER[4:8],
        ORDER[8:],
    ]
    shuffled = TFRecordSerializer.load(shards, shuffle=True)
    assert sorted(numbers(shuffled)) == list(range(11))
    assert numbers(shuffled) != numbers(shuffled)


def test_the_index_tells_what_headers_tell(shards, monkeypatch):
    by_index = TFRecordData(shards)
    for name in shard_names(None, shards):
        os.remove(f"{name}.index")
    by_headers = TFRecordData(shards)
    np.testing.assert_array_equal(by_index._offsets, by_headers._offsets)
    assert list(by_index) == list(by_headers)


def test_with_an_index_nothing_is_read_before_the_first_point(shards, monkeypatch):
    monkeypatch.setattr(tfrecord, "_read_length", None)
    assert len(TFRecordData(shards)) == 11


def test_threads_read_ahead_in_the_same_order_and_end_with_the_pass(shards, monkeypatch):
    monkeypatch.setattr(tfrecord, "_MOST_OPEN", 2)
    flow = TFRecordSerializer.load(shards, num_thread=3)
    assert numbers(flow) == ORDER
    # The check for leaks fails this test if threads stay.
    passing = iter(flow)
    next(passing)
    passing.close()


def test_processes_make_the_same_files(shards, tmp_path):
    other = str(tmp_path / "other-{0..2}.tfrecord")
    TFRecordSerializer.save(DataFromList(POINTS, shuffle=False), other, num_proc=1)
    for one, same in zip(shard_names(None, shards), shard_names(None, other), strict=True):
        for end in ("", ".index"):
            assert Path(one + end).read_bytes() == Path(same + end).read_bytes()


def test_workers_read_points_or_files_of_their_own(shards, monkeypatch):
    read = []
    original = TFRecordData._read_from
    monkeypatch.setattr(TFRecordData, "_read_from", lambda *args: read.append(args[2]) or original(*args))
    shares = [numbers(ShardData(TFRecordSerializer.load(shards), rank, 2, remainder="keep")) for rank in (0, 1)]
    assert shares == [ORDER[0::2], ORDER[1::2]]
    assert len(read) == 11
    files = shard_files(shard_names(None, shards), 1, 3, shuffle=False)
    assert numbers(FlatMapData(files, lambda name: TFRecordSerializer.load(name[0]))) == ORDER[4:8]


def test_cut_and_damaged_files_are_told(shards):
    name = shard_names(None, shards)[1]
    whole = Path(name).read_bytes()
    with open(name, "wb") as file:
        file.write(whole[:-1])
    with pytest.raises(
        InputError, match=rf"the index .*1-of-3.tfrecord.index does not fit its file of {len(whole) - 1} "
    ):
        TFRecordData(shards)
    os.remove(f"{name}.index")
    with pytest.raises(InputError, match=r"record 3 of the TFRecord file .*1-of-3.tfrecord, at byte \d+, was cut off"):
        TFRecordData(shards)
    with open(name, "wb") as file:
        file.write(whole[:-8] + bytes(8))
    with pytest.raises(InputError, match=r"record 3 of the TFRecord file .*1-of-3.tfrecord, at byte \d+, is damaged"):
        list(TFRecordData(shards, num_thread=2))


# Four sizes that 64 bits count as none.
WRAPPED = "".join(f"{(number << 62) - (1 << 64 if number > 1 else 0)} {1 << 62}\n" for number in range(4)) + "0 SIZE\n"


@pytest.mark.parametrize("text", ["", "0 x\n", "0 10\n10\n", "5 5\n", "0 -1\n", WRAPPED])
def test_a_wrong_index_is_refused(shards, text):
    path = shard_names(None, shards)[0]
    with open(f"{path}.index", "w") as file:
        file.write(text.replace("SIZE", str(os.path.getsize(path))))
    with pytest.raises(InputError, match="0-of-3.tfrecord.index does not fit its file"):
        TFRecordData(shards)


def test_an_old_index_goes_when_the_file_is_written_again(shards):
    name = shard_names(None, shards)[0]
    TFRecordSerializer.save(DataFromList(POINTS[:2], shuffle=False), name)
    assert numbers(TFRecordSerializer.load(name)) == [0, 1]
    assert not os.path.exists(f"{name}.index")


def test_no_thread_is_refused(shards):
    with pytest.raises(ConfigError, match="num_thread=0: expected an integer of at least 1"):
        TFRecordData(shards, num_thread=0)
