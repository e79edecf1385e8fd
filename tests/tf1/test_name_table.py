"""Names of a package that are made elsewhere."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest
import tensorflow.compat.v1 as tfv1

import tpack.tf1 as tf
from tests.helpers.source import ROOT, assert_none
from tpack.compat.runtime import lookup_ops
from tpack.errors import MissingNameError
from tpack.models.fc import FullyConnected
from tpack.tf1.name_table import MODULES, look_up


@pytest.fixture
def package():
    """An empty package."""
    made = ModuleType("tpack.tf1.contrib.made_up")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_a_name_is_in_tensorflow_or_in_tpack(package):
    table = {
        "tensorflow.compat.v1.data": "Dataset Data=Dataset",
        "tpack.models.fc": "fc= FullyConnected",
        "tpack.tf1.rnn_cell": "*",
        "tpack.compat.runtime": "HashTable=lookup_ops.HashTable",
    }
    load, _, public = look_up(package.__name__, table)
    assert load("Dataset") is load("Data") is tfv1.data.Dataset
    assert load("fc") is sys.modules[FullyConnected.__module__]
    assert load("FullyConnected") is FullyConnected
    assert load("HashTable") is lookup_ops.HashTable
    assert set(tf.nn.rnn_cell.__all__) < set(public)


def test_a_name_is_kept_when_it_was_asked_for_once(package):
    load, list_names, public = look_up(package.__name__, {"tensorflow.compat.v1.data": "Dataset"}, own=["own"])
    assert public == ["Dataset", "own"]
    assert {"Dataset", "own"} <= set(list_names())
    assert load("Dataset") is package.Dataset is tfv1.data.Dataset
    with pytest.raises(MissingNameError, match=r"tf.contrib.made_up.Datase is not there: .*did you mean 'Dataset'\?"):
        load("Datase")


def test_what_tensorflow_has_is_the_same_object():
    for name in ("Variable", "placeholder", "lookup", "__version__"):
        assert getattr(tf, name) is getattr(tfv1, name)
        assert name in dir(tf)
    assert tf.nn.relu is tfv1.nn.relu
    assert "relu" in dir(tf.nn)
    assert tf.train.AdamOptimizer is tfv1.train.AdamOptimizer
    own = {"app", "compat", "contrib", "estimator", "flags", "layers", "nn"}
    sessions = {"InteractiveSession", "Session", "train"}
    assert set(tf.__all__) == own | sessions | {"leave_default_graph", "reset_default_graph"}


def test_cells_can_be_imported_by_the_name_of_their_module():
    from tpack.tf1.nn.rnn_cell import LSTMCell  # noqa: PLC0415 (importing it is the test)

    assert tf.nn.rnn_cell.LSTMCell is LSTMCell


@pytest.mark.parametrize("path", MODULES)
def test_a_module_without_a_file_is_imported_by_its_name(path):
    name = f"tpack.tf1.{path}"
    module = importlib.import_module(name)
    parent, _, last = name.rpartition(".")
    above = importlib.import_module(parent)
    assert getattr(above, last) is sys.modules[name] is module or last in ("rnn_cell", "all_reduce")
    assert set(module.__all__) <= set(dir(module))
    assert_none(name for name in module.__all__ if getattr(module, name) is None)
    with pytest.raises(MissingNameError):
        _ = module.a_name_of_nobody
    assert not hasattr(module, "__wrapped__")


def test_modules_without_a_file_are_imported_in_a_new_process():
    lines = [f"import tpack.tf1.{path}" for path in MODULES]
    lines += [
        "from tpack.tf1.contrib.distribute.python.values import PerDevice",
        "from tpack.tf1.contrib import signal",
    ]
    code = "; ".join([*reversed(lines), "assert tpack.tf1.contrib.distribute.python.values.PerDevice is PerDevice"])
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
