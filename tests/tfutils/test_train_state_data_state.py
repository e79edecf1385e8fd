"""The position in the data beside a checkpoint is whole or absent, and goes when its checkpoint goes."""

import os
from pathlib import Path

import numpy as np
import pytest

from tpack.errors import CheckpointError, DataPointError
from tpack.tfutils.train_state import data_state_path, prune_train_states, read_data_state, write_data_state
from tpack.utils.serialize import dumps, seal

STATE = {"flow": "DataFromList", "index": 3, "rng": ["MT19937", np.arange(5, dtype=np.uint32), 1, 0, 0.5]}


def test_what_is_read_is_what_was_written(tmp_path):
    prefix = str(tmp_path / "model-3")
    write_data_state(prefix, {"index": 1}, 3)
    write_data_state(prefix, STATE, 3)
    read = read_data_state(prefix, 3)
    np.testing.assert_array_equal(read["rng"].pop(1), STATE["rng"][1])
    assert read == {**STATE, "rng": ["MT19937", 1, 0, 0.5]}
    assert os.listdir(tmp_path) == ["model-3.data_state.msgpack"]


def test_where_there_is_no_position_there_is_no_file(tmp_path):
    prefix = str(tmp_path / "model-3")
    assert read_data_state(prefix, 3) is None
    write_data_state(prefix, STATE, 3)
    write_data_state(prefix, None, 3)
    write_data_state(prefix, None, 3)
    assert read_data_state(prefix, 3) is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x81\xa4flow"])
def test_a_damaged_file_is_named(tmp_path, content):
    prefix = str(tmp_path / "model-3")
    Path(data_state_path(prefix)).write_bytes(content)
    with pytest.raises(CheckpointError, match="model-3.data_state.msgpack holds no position in the data"):
        read_data_state(prefix, 3)


def test_every_flipped_bit_is_noticed(tmp_path):
    prefix = str(tmp_path / "model-3")
    write_data_state(prefix, STATE, 3)
    path = Path(data_state_path(prefix))
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="holds no position in the data: .* another checksum"):
            read_data_state(prefix, 3)


def test_the_position_of_another_step_is_refused(tmp_path):
    write_data_state(str(tmp_path / "model-3"), STATE, 3)
    os.rename(data_state_path(str(tmp_path / "model-3")), data_state_path(str(tmp_path / "model-4")))
    with pytest.raises(CheckpointError, match="is the position of step 3: expected that of step 4"):
        read_data_state(str(tmp_path / "model-4"), 4)


@pytest.mark.parametrize("content", [[1, 2], {"global_step": 3}, {"global_step": 3, "state": 1, "more": 2}])
def test_other_content_is_refused(tmp_path, content):
    prefix = str(tmp_path / "model-3")
    Path(data_state_path(prefix)).write_bytes(seal(dumps(content)))
    with pytest.raises(CheckpointError, match="holds no position in the data, but other content"):
        read_data_state(prefix, 3)


def test_a_position_from_before_checksums_is_refused_in_words(tmp_path):
    prefix = str(tmp_path / "model-3")
    Path(data_state_path(prefix)).write_bytes(dumps(STATE))
    with pytest.raises(CheckpointError, match="or were written without one.*Without model-3.data_state.msgpack"):
        read_data_state(prefix, 3)


def test_a_state_that_cannot_be_serialized_leaves_the_old_one(tmp_path):
    prefix = str(tmp_path / "model-3")
    write_data_state(prefix, {"index": 1}, 3)
    with pytest.raises(DataPointError, match="cannot be serialized"):
        write_data_state(prefix, {"index": object()}, 3)
    assert read_data_state(prefix, 3) == {"index": 1}


def test_it_goes_with_its_checkpoint(tmp_path):
    for step in (1, 2):
        write_data_state(str(tmp_path / f"model-{step}"), STATE, step)
    (tmp_path / "model-2.index").touch()
    (tmp_path / ".model-2.data_state.msgpack.0a1b2c3d.tmp").touch()
    removed = prune_train_states(str(tmp_path))
    assert [os.path.basename(path) for path in removed] == [
        ".model-2.data_state.msgpack.0a1b2c3d.tmp",
        "model-1.data_state.msgpack",
    ]
    assert sorted(os.listdir(tmp_path)) == ["model-2.data_state.msgpack", "model-2.index"]
