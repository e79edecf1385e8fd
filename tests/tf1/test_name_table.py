"""Names of a package that are made elsewhere."""

import sys
from types import ModuleType

import pytest
import tensorflow.compat.v1 as tfv1

import tpack.tf1 as tf
from tpack.errors import MissingNameError
from tpack.models.fc import FullyConnected
from tpack.tf1.name_table import find, look_up


@pytest.fixture
def package():
    """An empty package."""
    made = ModuleType("tpack.tf1.contrib.made_up")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_a_place_is_in_tensorflow_or_in_tpack():
    assert find("tf.data.Dataset") is tfv1.data.Dataset
    assert find("tpack.models.fc") is sys.modules[FullyConnected.__module__]
    assert find("tpack.models.fc:FullyConnected") is FullyConnected


def test_a_name_is_kept_when_it_was_asked_for_once(package):
    load, list_names, public = look_up(package.__name__, {"Dataset": "tf.data.Dataset"}, own=["own"])
    assert public == ["Dataset", "own"]
    assert {"Dataset", "own"} <= set(list_names())
    assert load("Dataset") is package.Dataset is tfv1.data.Dataset
    with pytest.raises(MissingNameError, match=r"tf.contrib.made_up.Datase is not there: .*did you mean 'Dataset'\?"):
        load("Datase")


def test_what_tensorflow_has_is_the_same_object():
    for name in ("Session", "placeholder", "lookup", "train", "__version__"):
        assert getattr(tf, name) is getattr(tfv1, name)
        assert name in dir(tf)
    assert tf.nn.relu is tfv1.nn.relu
    assert "relu" in dir(tf.nn)
    own = {"compat", "contrib", "estimator", "layers", "nn"}
    assert set(tf.__all__) == own | {"leave_default_graph", "reset_default_graph"}


def test_cells_can_be_imported_by_the_name_of_their_module():
    from tpack.tf1.nn.rnn_cell import LSTMCell  # noqa: PLC0415 (importing it is the test)

    assert tf.nn.rnn_cell.LSTMCell is LSTMCell
