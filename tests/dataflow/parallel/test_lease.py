"""Memory that is lent out as arrays."""

import os

import numpy as np
import pytest

from tpack.dataflow.parallel.lease import lend


@pytest.fixture
def lent():
    """A lent array in a list, its memory, and the list of what came back."""
    memory, back = np.zeros(256, np.uint8), []
    return [lend(memory, lambda: back.append(1))], memory, back


def test_array_is_the_memory_and_can_be_written_to(lent):
    (array,), memory, _ = lent
    array[3] = 9
    assert memory[3] == 9
    assert array.flags.writeable


def test_memory_comes_back_with_the_last_view_and_only_once(lent):
    arrays, _, back = lent
    view = np.ndarray((4, 4), np.float32, arrays[0], 64)[1:, ::2]
    row = view.T[0]
    arrays.clear()
    del view
    assert back == []
    del row
    assert back == [1]


def test_what_holds_a_view_by_its_buffer_keeps_the_memory(lent):
    arrays, _, back = lent
    buffer = memoryview(arrays.pop())
    assert back == []
    buffer.release()
    del buffer
    assert back == [1]


def test_in_a_fork_nothing_comes_back(lent):
    arrays, _, back = lent
    pid = os.fork()
    if pid == 0:
        arrays.clear()
        os._exit(len(back))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert back == []
