"""The number of cores is that of the process, where the system tells it."""

import os

from tpack.utils.concurrency import usable_cores


def test_cores_are_counted(monkeypatch):
    assert usable_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()
