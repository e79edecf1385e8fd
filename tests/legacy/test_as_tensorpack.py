"""Imports of tensorpack give tpack's modules. In processes of their own."""

import subprocess
import sys
import textwrap

from tests.helpers.source import ROOT

SCRIPT = """
import pickle, sys
import tpack
tpack.install_as_tensorpack()
tpack.install_as_tensorpack()
import tensorpack
import tensorpack as tp
import tensorpack.dataflow.common as common
from tensorpack.utils import logger
from tensorpack.utils.argtools import shape2d
from tensorpack.dataflow import imgaug, BatchData
import tensorpack.utils.logger, tensorpack.utils.rng

assert tensorpack is tp is tpack
assert sys.modules["tensorpack.utils.logger"] is sys.modules["tpack.utils.logger"] is logger
assert common.MapData is tpack.MapData and BatchData is tpack.BatchData
assert tpack.utils.rng.__spec__.name == tpack.utils.rng.__name__ == "tpack.utils.rng"
assert tpack.__spec__.name == "tpack" and tpack.utils.rng.__spec__.loader.is_package("tpack.utils.rng") is False
assert pickle.loads(pickle.dumps(tensorpack.utils.argtools.shape2d)) is shape2d
for name in ("tensorpack.nothing", "tensorpack.utils.nothing"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert error.name == name, error
    else:
        raise AssertionError(name)
assert "tensorflow" not in sys.modules
stars = {}
exec("from tensorpack import *", stars)
assert stars["summary"] is tpack.summary and stars["dftools"] is tpack.dftools
assert len(tpack.__all__) == len(set(tpack.__all__))
"""


def run(*arguments, **options):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, **options)


def test_modules_are_those_of_tpack():
    done = run("-c", SCRIPT)
    assert done.returncode == 0, done.stderr


def test_another_tensorpack_that_was_imported_is_an_error():
    program = """
        import sys, types
        sys.modules["tensorpack"] = types.ModuleType("tensorpack")
        import tpack
        tpack.install_as_tensorpack()
    """
    done = run("-c", textwrap.dedent(program))
    assert "ImportError: tensorpack was imported already, from somewhere: call" in done.stderr
