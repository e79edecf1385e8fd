"""The setting of the C library's heap that workers get, tried out in processes of their own."""

import ctypes
import subprocess
import sys

import pytest

from tpack.dataflow.parallel import worker
from tpack.dataflow.parallel.worker import keep_freed_memory

ROUNDS = 20
PROGRAM = """
import resource, sys
from tpack.dataflow.parallel.worker import keep_freed_memory

def allocate():
    blocks = [bytearray(1 << 20) for _ in range(24)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

taken = keep_freed_memory() if sys.argv[1] == "keep" else None
for _ in range(3):
    allocate()
begin = faults()
for _ in range({rounds}):
    allocate()
print(taken, faults() - begin)
"""


def faults_of(how):
    """Return what the setting said in a new process, and how many pages its allocations needed anew."""
    command = [sys.executable, "-c", PROGRAM.replace("{rounds}", str(ROUNDS)), how]
    taken, faults = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return taken, int(faults)


def test_memory_that_was_freed_is_used_again_without_new_pages(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    taken, faults = faults_of("keep")
    if taken == "False":
        pytest.skip("the C library is another one than glibc")
    assert faults < ROUNDS
    assert faults_of("not")[1] > 5 * ROUNDS


@pytest.mark.parametrize(
    "environment",
    [{"MALLOC_TRIM_THRESHOLD_": "1"}, {"MALLOC_TOP_PAD_": "1"}, {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"}],
    ids=lambda environment: next(iter(environment)),
)
def test_setting_of_the_user_is_kept(environment, monkeypatch):
    monkeypatch.setattr(worker.ctypes, "CDLL", lambda name: pytest.fail("something was set"))
    assert keep_freed_memory(environment) is False


@pytest.mark.parametrize(("answer", "is_taken"), [(1, True), (0, False)])
def test_both_limits_are_set_and_the_answer_is_told(answer, is_taken, monkeypatch):
    calls = []

    class Library:
        @staticmethod
        def mallopt(what, value):
            calls.append((what, value >> 20))
            return answer

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    assert keep_freed_memory({"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=1"}) is is_taken
    assert calls == [(-1, 64), (-3, 32)]


def test_library_that_has_no_such_setting_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory({}) is False
