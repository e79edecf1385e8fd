"""Processes and channels of a group; what they do is tested in test_group.py."""

import os

import psutil
import pytest

from tests.helpers.worker_functions import wait
from tpack.dataflow.parallel import worker_group as members_module
from tpack.dataflow.parallel.worker_group import GroupOptions, _Members

OPTIONS = GroupOptions(num_workers=2, results=3, jobs=3, timeout=None, start_method="spawn", seed=2**32 - 1)


def open_files():
    return sorted(os.listdir("/proc/self/fd"))


def test_end_leaves_nothing():
    before = open_files()
    members = _Members()
    members.start("Owner", wait, (), OPTIONS)
    processes = [psutil.Process(child.pid) for child in members.children]
    assert len(processes) == len(members.senders) == len(members.receivers) == 2
    members.end()
    assert not any(process.is_running() for process in processes)
    assert open_files() == before


def test_seeds_come_round(monkeypatch):
    tasks = []
    monkeypatch.setattr(members_module, "spawn_child", lambda run, told, **options: tasks.append(told["task"]))
    members = _Members()
    members.start("Owner", wait, (), OPTIONS)
    assert [task["seed"] for task in tasks] == [2**32 - 1, 0]
    members.children.clear()
    members.end()


def test_process_that_cannot_be_started_leaves_nothing(monkeypatch):
    def refuse(run, told, **options):
        raise OSError("too many processes")

    before = open_files()
    monkeypatch.setattr(members_module, "spawn_child", refuse)
    members = _Members()
    with pytest.raises(OSError, match="too many processes"):
        members.start("Owner", wait, (), OPTIONS)
    members.end()
    assert open_files() == before
