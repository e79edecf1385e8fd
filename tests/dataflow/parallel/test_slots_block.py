"""Shared memory without a name."""

import mmap
import os
import tempfile

import numpy as np
import pytest

from tpack.dataflow.parallel import slots as block_module
from tpack.dataflow.parallel.slots import SHARED_MEMORY, MemoryBlock, create_block
from tpack.errors import InputError


def open_files():
    return sorted(os.listdir("/proc/self/fd"))


def test_two_mappings_are_the_same_memory():
    block, descriptor = create_block(5000)
    other = MemoryBlock(descriptor, 5000)
    os.close(descriptor)
    block.memory[:] = 7
    assert (other.memory == 7).all()
    assert block.memory.shape == (5000,)
    assert block.memory.dtype == np.uint8


def test_there_is_no_name_and_nothing_stays():
    names, files = os.listdir(SHARED_MEMORY), open_files()
    block, descriptor = create_block(1 << 20)
    assert os.listdir(SHARED_MEMORY) == names
    os.close(descriptor)
    view = block.memory[10:20]
    del block
    view[:] = 3
    assert view.sum() == 30
    del view
    assert open_files() == files


@pytest.mark.parametrize("size", [1 << 50, 1 << 70], ids=["too much", "no number of bytes"])
def test_full_file_system_says_so_and_how_much_was_wanted(size):
    files = open_files()
    with pytest.raises(InputError, match=f"data points need {size:,} of shared memory") as caught:
        create_block(size)
    assert f"{SHARED_MEMORY} has " in str(caught.value)
    assert "--shm-size" in str(caught.value)
    assert open_files() == files


def test_free_memory_is_said_if_it_is_known(monkeypatch, tmp_path):
    assert block_module._free_bytes(tmp_path / "missing") == "an unknown number"
    assert int(block_module._free_bytes(tmp_path).replace(",", "")) > 0


def test_other_systems_use_the_directory_for_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setattr(block_module, "SHARED_MEMORY", tmp_path / "missing")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delattr(os, "posix_fallocate")
    block, descriptor = create_block(mmap.PAGESIZE)
    os.close(descriptor)
    block.memory[0] = 1
    assert os.listdir(tmp_path) == []
