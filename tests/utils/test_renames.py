"""The core's hooks for older names: the annex is loaded when one is used, and not before."""

import importlib
import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf

from tests.helpers.source import ROOT
from tpack.legacy import table
from tpack.utils import logger, renames

LOADED = "sorted(name for name in sys.modules if name.startswith('tpack.legacy.'))"


@pytest.fixture
def lines(monkeypatch):
    """The lines that are logged in the test."""
    said = []
    monkeypatch.setattr(logger, "info", said.append)
    monkeypatch.setattr(table, "_said", set())
    return said


def loaded_by(code):
    """Return the modules of the annex that a program loads, run in a process of its own."""
    program = f"import sys\n{code}\nprint({LOADED})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_flows_of_today_load_no_older_names():
    code = """
from tpack.dataflow import DataFromList, MultiThreadMapData, ProxyDataFlow, ShardData, TestDataSpeed
import tpack.dataflow.batch, tpack.callbacks, tpack.utils.argtools, pickle
class Mine(ProxyDataFlow):
    def __iter__(self):
        return iter(self.ds)
    def __len__(self):
        return 2
flow = MultiThreadMapData(Mine(DataFromList([[1], [2]])), num_thread=2, map_func=list, strict=True)
assert hasattr(flow, "get_data") and len(flow) == 2
tpack.utils.argtools.get_data_format("NCHW", keras_mode=False)
"""
    assert loaded_by(code) == "[]"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from tpack.dataflow.base import DataFlow\nclass Old(DataFlow):\n def get_data(self): pass", "methods"),
        ("from tpack.utils.argtools import get_data_format\nget_data_format('NCHW', tfmode=True)", "arguments"),
        ("import tpack\ntpack.PrefetchDataZMQ", "table"),
        ("import tpack.dataflow.common", "table"),
        ("import tpack\ntpack.install_as_tensorpack()", "as_tensorpack"),
    ],
)
def test_an_older_name_loads_its_module(code, expected):
    assert f"tpack.legacy.{expected}" in loaded_by(code)


def test_a_predictor_of_several_inputs_takes_a_whole_data_point(lines):
    assert renames.point_of(([1, 2],), 2) == [1, 2]
    assert lines == ["tensorpack's older name predictor(data_point): today it is predictor(*data_point)"]
    assert renames.point_of((1, 2), 2) == (1, 2)
    for arguments, num_inputs in ((([1, 2],), 1), (([1, 2],), 3), ((np.ones(2),), 2)):
        assert renames.point_of(arguments, num_inputs) is arguments


def test_every_older_method_has_a_translation():
    translated = importlib.import_module("tpack.legacy.methods")._AS_TODAY
    assert {method.older for method in (*renames.FLOW_METHODS, *renames.MODEL_METHODS)} == translated.keys()


def test_a_call_by_an_older_method_name_is_logged_once(lines):
    class Base:
        def __init_subclass__(cls):
            renames.on_subclass(cls, renames.FLOW_METHODS)

    class Today(Base):
        def __len__(self):
            return 3

    assert (Today().size(), Today().size()) == (3, 3)
    assert Today.size.__qualname__.endswith("Today.size")
    assert lines == ["tensorpack's older name size(): today it is len()"]


def test_there_is_one_finder_and_it_finds_nothing_outside_of_tpack():
    finders = [finder for finder in sys.meta_path if type(finder).__name__ == "_OlderModules"]
    assert len(finders) == 1
    for name in ("dataflow.common", "tpacks.dataflow.common", "tpack", "tpack.nothing", "tpack.dataflow.nothing"):
        assert finders[0].find_spec(name) is None
    assert importlib.util.find_spec("tpack.dataflow.common").loader is finders[0]


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        (tensorflow, "placeholder", "tf.placeholder"),
        (tensorflow, "contrib", "tf.contrib"),
        (tf, "estimator", "tf.estimator"),
        (tf.layers, "dense", "tf.layers.dense"),
        (tf.nn.rnn_cell, "BasicLSTMCell", "tf.nn.rnn_cell.BasicLSTMCell"),
        (tensorflow, "placehodler", None),
        (tf, "reduce_meen", None),
        (renames, "contrib", None),
    ],
)
def test_a_name_that_tensorflow_2_lacks_is_told_with_what_to_write(module, name, expected):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    advice = renames.advice_for_lost_name(caught.value, "train.py")
    wanted = f"train.py: TensorFlow 2 has no {expected}, and TensorFlow is left as the script imports it: "
    assert (advice is None) is (expected is None)
    assert advice is None or advice.startswith(
        f"{wanted}write 'import tpack.tf1 as tf', or let 'tpack migrate train.py'"
    )
    assert renames.advice_for_lost_name(ValueError("x"), "train.py") is None
