"""What new interpreters are to work on."""

import os
import threading

import numpy as np
import pytest

from tpack.dataflow.parallel.workers.child import read_payload, write_payload
from tpack.errors import ConfigError


def test_object_is_read_as_it_was_written():
    with write_payload("Owner", {"data": np.arange(10), "func": lambda x: x + 1}) as payload:
        found = read_payload(payload)
    assert found["data"].tolist() == list(range(10))
    assert found["func"](3) == 4


def test_reader_that_changes_an_array_changes_it_for_itself():
    with write_payload("Owner", [np.zeros(4)]) as payload:
        one, other = read_payload(payload), read_payload(payload)
    one[0][:] = 1
    assert other[0].tolist() == [0] * 4


def test_file_is_gone_with_its_readers():
    before = sorted(os.listdir("/proc/self/fd"))
    with write_payload("Owner", [np.zeros(4)]) as payload:
        found = read_payload(payload)
    del found
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_systems_without_files_in_memory_use_others(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    with write_payload("Owner", [np.ones(3)]) as payload:
        assert read_payload(payload)[0].tolist() == [1] * 3


def test_what_cannot_be_pickled_is_refused_with_a_way_out():
    with pytest.raises(ConfigError, match=r"Owner cannot be sent to its workers.*lock.*start_workers_by\('fork'\)"):
        write_payload("Owner", threading.Lock()).__enter__()
