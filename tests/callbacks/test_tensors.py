import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tests.helpers.toy_inference import make_trainer
from tpack.callbacks import tensors
from tpack.callbacks.tensors import DumpTensors, ProcessTensors, TensorPrinter
from tpack.callbacks.trigger import PeriodicCallback
from tpack.errors import CallbackError, WrongTypeError


def make_steps():
    """Return a trainer whose tensors `before` and `twice` count its steps."""
    weight = tf.get_variable("w", initializer=0.0, use_resource=True)
    before = tf.identity(weight.read_value(), name="before")
    tf.multiply(before, 2.0, name="twice")
    with tf.control_dependencies([before]):
        return FakeTrainer(tf.assign_add(weight, 1.0).op)


def test_every_steps_values_reach_the_function(graph):
    seen = []
    make_steps().train([ProcessTensors(["before", "twice:0"], lambda *values: seen.append(values))])
    assert seen == [(0, 0), (1, 2), (2, 4), (3, 6)]


def test_only_steps_in_which_it_is_enabled_count(graph):
    seen = []
    callback = PeriodicCallback(ProcessTensors(["before"], seen.append), every_k_steps=2)
    make_steps().train([callback])
    assert seen == [1, 3]


def test_names_inside_the_training_tower_are_found(graph):
    with pytest.raises(CallbackError, match="got tensor 'nothing:0'"):
        FakeTrainer().train([ProcessTensors(["nothing"], print)])
    callback = ProcessTensors(["score"], print)
    make_trainer().setup([callback])
    assert [tensor.name for tensor in callback._fetches.fetches] == ["score:0"]


def test_misuse_is_an_error():
    with pytest.raises(WrongTypeError, match="names='cost': expected a list of text"):
        ProcessTensors("cost", print)
    with pytest.raises(WrongTypeError, match="fn=None: expected a function"):
        ProcessTensors(["cost"], None)


def test_values_are_logged_after_each_step(graph):
    with captured_log() as lines:
        tf.constant([1, 2], name="pair")
        FakeTrainer().train([TensorPrinter(["global_step", "pair:0"])], epochs=(1, 1))
    assert lines == ["global_step: 0", "pair:0: [1 2]", "global_step: 1", "pair:0: [1 2]"]


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
    with pytest.raises(CallbackError, match="got no logger directory"):
        FakeTrainer().setup([DumpTensors(["w"])])


def test_it_has_two_names():
    assert tensors.DumpTensor is DumpTensors
