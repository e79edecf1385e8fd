"""Small tools of tensorpack."""

import argparse

import pytest

from tpack.errors import DependencyError
from tpack.legacy.code import utils
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
