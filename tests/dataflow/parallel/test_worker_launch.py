"""How workers are started: the start method, what they are to work on, and the setting of the C library they get."""

import os
import platform
import threading

import numpy as np
import pytest

from tpack.dataflow.parallel.worker import (
    current_start_method,
    read_payload,
    start_workers_by,
    with_streaming_stores,
    without_streaming_stores,
    write_payload,
)
from tpack.dataflow.parallel.worker_group import OwnedWorkers
from tpack.errors import ConfigError

OURS = "glibc.cpu.x86_non_temporal_threshold=0x400000"
OTHER = "glibc.malloc.arena_max=1"


def test_spawn_is_the_default_and_a_block_changes_it_for_itself():
    assert current_start_method() == "spawn"
    with start_workers_by("fork"):
        assert current_start_method() == "fork"
        with start_workers_by("spawn"):
            assert current_start_method() == "spawn"
        assert current_start_method() == "fork"
    assert current_start_method() == "spawn"


def test_statement_is_for_the_rest_of_the_script():
    with start_workers_by("spawn"):
        start_workers_by("fork")
        assert current_start_method() == "fork"
        assert OwnedWorkers(object(), None)._start_method == "fork"
        with start_workers_by("spawn"):
            assert current_start_method() == "spawn"
        assert current_start_method() == "fork"
    assert current_start_method() == "spawn"


def test_block_ends_with_an_exception_too_and_is_not_seen_in_other_threads():
    seen = []
    with pytest.raises(OSError, match="gone"), start_workers_by("fork"):
        thread = threading.Thread(target=lambda: seen.append(current_start_method()))
        thread.start()
        thread.join()
        raise OSError("gone")
    assert [*seen, current_start_method()] == ["spawn", "spawn"]


def test_other_methods_are_refused():
    with pytest.raises(ConfigError, match="got method='thread': expected one of 'spawn', 'fork'"):
        start_workers_by("thread")


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


@pytest.fixture
def x86(monkeypatch):
    """Be a machine that the setting is for."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.mark.parametrize(
    ("before", "during"),
    [
        ({}, {"GLIBC_TUNABLES": OURS}),
        ({"A": "b"}, {"A": "b", "GLIBC_TUNABLES": OURS}),
        ({"GLIBC_TUNABLES": OTHER}, {"GLIBC_TUNABLES": f"{OTHER}:{OURS}"}),
    ],
)
def test_worker_gets_the_setting_and_passes_it_on_to_nobody(x86, before, during):
    variables = with_streaming_stores(before)
    assert variables == during
    without_streaming_stores(variables)
    assert variables == before


def test_setting_of_the_user_is_kept(x86):
    before = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=0x1000000"}
    variables = with_streaming_stores(before)
    assert variables == before
    without_streaming_stores(variables)
    assert variables == before


def test_other_machines_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert with_streaming_stores({"A": "b"}) == {"A": "b"}
