"""The number of GPUs, from the environment, the library or the command."""

import os
import sys

import pytest

from tests.helpers.fake_nvml import FakeNVML, two_gpus
from tpack.utils.gpu import change_gpu, get_nr_gpu, get_num_gpu


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch, tmp_path):
    """No variable, no driver, and a directory of commands that is empty."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML([], driver=False))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("val", "text"), [(None, "-1"), ([], "-1"), (2, "2"), ((0, "3"), "0,3"), ("1,2", "1,2")])
def test_variable_is_set_for_the_block(val, text):
    with change_gpu(val):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == text
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.parametrize(("val", "number"), [(None, 0), (-1, 0), ([0, 2], 2), ("GPU-a,GPU-b", 2), ([1, -1, 2], 1)])
def test_the_variable_counts(monkeypatch, val, number):
    monkeypatch.setitem(sys.modules, "pynvml", two_gpus())
    with change_gpu(val):
        assert get_num_gpu() == number


def test_the_library_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", two_gpus())
    assert get_num_gpu() == get_nr_gpu() == 2


@pytest.mark.parametrize(
    ("script", "number"),
    [
        ("echo 'GPU 0: Old (UUID: GPU-1)'\necho '  MIG 1g.5gb'\necho 'GPU 1: New (UUID: GPU-2)'", 2),
        ("echo 'NVIDIA-SMI has failed'\nexit 9", 0),
    ],
)
@pytest.mark.parametrize("library", [None, FakeNVML([], driver=False)])
def test_the_command_is_asked_last(monkeypatch, no_gpus, library, script, number):
    monkeypatch.setitem(sys.modules, "pynvml", library)
    command = no_gpus / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    assert get_num_gpu() == number


def test_a_machine_with_nothing_has_no_gpu():
    assert get_num_gpu() == 0
