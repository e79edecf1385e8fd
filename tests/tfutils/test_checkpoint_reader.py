"""Reading checkpoints: whole ones give their values, every kind of damage gives an error that names the file."""

import os
import pickle
from typing import Any

import numpy as np
import pytest

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import CheckpointError
from tpack.tfutils.checkpoint import CheckpointReader

A = np.arange(1000, dtype="float32")
B = np.arange(10, dtype="int64")


@pytest.fixture
def prefix(tmp_path: Any) -> str:
    return save_checkpoint(tmp_path, {"a": A, "b": B})


def test_values_and_shapes_are_those_saved(prefix: str) -> None:
    reader = CheckpointReader(prefix)
    reader.check()
    assert reader.shapes == {"a": [1000], "b": [10]}
    np.testing.assert_array_equal(reader.read("a"), A)
    np.testing.assert_array_equal(reader.read("b"), B)


def test_a_reader_in_another_process_opens_the_files_again(prefix: str) -> None:
    reader = pickle.loads(pickle.dumps(CheckpointReader(prefix)))
    np.testing.assert_array_equal(reader.read("a"), A)


def test_unknown_name_is_an_error(prefix: str) -> None:
    with pytest.raises(CheckpointError, match="has no variable 'c'"):
        CheckpointReader(prefix).read("c")


def test_missing_checkpoint_is_named(tmp_path: Any) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint .*nothing"):
        CheckpointReader(str(tmp_path / "nothing"))


@pytest.mark.parametrize("size", [0, 10, 60])
def test_truncated_index_is_named(prefix: str, size: int) -> None:
    os.truncate(prefix + ".index", size)
    with pytest.raises(CheckpointError, match=f"{prefix} is damaged: its index cannot be read"):
        CheckpointReader(prefix)


@pytest.mark.parametrize("size", [0, 100, 4070])
def test_truncated_data_is_named(prefix: str, size: int) -> None:
    os.truncate(prefix + ".data-00000-of-00001", size)
    with pytest.raises(CheckpointError, match=f"{prefix} is damaged: its data of the variable"):
        CheckpointReader(prefix).check()


def test_missing_data_is_an_error(prefix: str) -> None:
    os.remove(prefix + ".data-00000-of-00001")
    with pytest.raises(CheckpointError, match="data-00000-of-00001; No such file"):
        CheckpointReader(prefix).check()


def test_flipped_bit_in_the_data_is_found(prefix: str) -> None:
    path = prefix + ".data-00000-of-00001"
    with open(path, "r+b") as file:
        file.seek(2000)
        byte = file.read(1)[0]
        file.seek(2000)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(CheckpointError, match="Checksum does not match"):
        CheckpointReader(prefix).check()
