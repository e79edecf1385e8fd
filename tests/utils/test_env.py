"""Environment variables that are changed for a while."""

import os

import pytest

from tpack.errors import WrongTypeError
from tpack.utils.env import change_env, usable_cores


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("during", [None, "new"])
def test_variable_is_changed_and_brought_back(monkeypatch, before, during):
    monkeypatch.delenv("TPACK_TEST", raising=False)
    if before is not None:
        monkeypatch.setenv("TPACK_TEST", before)
    with change_env("TPACK_TEST", during):
        assert os.environ.get("TPACK_TEST") == during
    assert os.environ.get("TPACK_TEST") == before


def test_variable_is_brought_back_after_an_exception(monkeypatch):
    monkeypatch.setenv("TPACK_TEST", "old")
    with pytest.raises(KeyError), change_env("TPACK_TEST", "new"):
        raise KeyError
    assert os.environ["TPACK_TEST"] == "old"


def test_wrong_arguments_are_refused_before_the_block():
    for arguments, message in (((5, "x"), "name=5: expected text"), (("X", 5), "val=5: expected text or None")):
        with pytest.raises(WrongTypeError, match=f"change_env got {message}"):
            change_env(*arguments)


def test_cores_are_counted(monkeypatch):
    assert usable_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()
