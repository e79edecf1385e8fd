"""Small tools of tensorpack."""

import argparse

import pytest

from tpack.errors import DependencyError
from tpack.legacy.code import utils
from tpack.legacy.code.callbacks import TFLocalCLIDebugHook
from tpack.legacy.code.dataflow import CaffeLMDB
from tpack.utils import logger


def test_global_arguments_are_those_of_the_command_line():
    utils.use_global_argument(argparse.Namespace(BATCH=32))
    assert utils.globalns.BATCH == 32


def test_a_deprecated_function_warns_once(monkeypatch):
    warned = []
    monkeypatch.setattr(logger, "warning", warned.append)

    @utils.deprecated("Use later().", "2020-01-01")
    def earlier():
        return 3

    assert (earlier(), earlier()) == (3, 3)
    assert warned == ["earlier will go after 2020-01-01. Use later()."]
    utils.log_deprecated(text="Gone.")
    assert warned[1:] == ["Gone."]


def test_what_needs_a_missing_package_says_so():
    with pytest.raises(DependencyError, match="load needs lmdb, which is not installed"):
        utils.create_dummy_func("load", "lmdb")()
    with pytest.raises(DependencyError, match="Reader needs lmdb, h5py"):
        utils.create_dummy_class("Reader", ["lmdb", "h5py"])(1)


def test_a_speed_counter_logs_every_few_calls(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "info", lines.append)
    count = utils.IterSpeedCounter(2, name="read")
    for _ in range(5):
        count()
    assert [line.split(" s ")[1].split(",")[0] for line in lines] == ["for 2 times", "for 4 times"]
    assert all(line.startswith("read: ") for line in lines)


@pytest.mark.parametrize("refused", [utils.load_caffe, utils.get_caffe_pb, CaffeLMDB, TFLocalCLIDebugHook])
def test_readers_of_caffe_and_the_older_debugger_name_what_to_use(refused):
    with pytest.raises(DependencyError, match=r"use (an \.npz|LMDBDataDecoder|CheckNumerics)"):
        refused("model")
