import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks import tensors
from tpack.callbacks.tensors import DumpTensors
from tpack.errors import CallbackError


def test_each_step_is_a_file_of_its_number(graph, log_dir):
    step = tf.get_variable("count", initializer=0.0, use_resource=True)
    value = step.read_value()
    with tf.name_scope("tower"):
        tf.stack([value, value + 1], name="pair")
    with tf.control_dependencies([value]):
        train_op = tf.assign_add(step, 1.0).op
    FakeTrainer(train_op).train([DumpTensors(["tower/pair", "tower/pair:0"])], epochs=(1, 1), global_step=10)
    files = sorted(path.name for path in log_dir.glob("DumpTensor-*"))
    assert files == ["DumpTensor-11.npz", "DumpTensor-12.npz"]
    for path, first in zip(files, (0, 1), strict=True):
        found = dict(np.load(log_dir / path).items())
        assert {name: value.tolist() for name, value in found.items()} == {
            "tower/pair": [first, first + 1],
            "tower/pair:0": [first, first + 1],
        }


def test_a_step_that_was_not_fetched_writes_nothing(graph, log_dir):
    callback = DumpTensors(["w"])
    FakeTrainer().setup([callback])
    callback.trigger_step()
    assert list(log_dir.glob("DumpTensor-*")) == []


def test_without_a_directory_there_is_an_error(graph):
    with pytest.raises(CallbackError, match="writes into the logger's directory, and none is set"):
        FakeTrainer().setup([DumpTensors(["w"])])


def test_it_has_two_names():
    assert tensors.DumpTensor is DumpTensors
