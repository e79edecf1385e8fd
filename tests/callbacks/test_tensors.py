import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.toy_inference import make_trainer
from tpack.callbacks.tensors import ProcessTensors
from tpack.callbacks.trigger import PeriodicCallback
from tpack.errors import CallbackError


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
    with pytest.raises(CallbackError, match="wants tensor 'nothing:0'"):
        FakeTrainer().train([ProcessTensors(["nothing"], print)])
    callback = ProcessTensors(["score"], print)
    make_trainer().setup([callback])
    assert [tensor.name for tensor in callback._fetches.fetches] == ["score:0"]


def test_misuse_is_an_error():
    with pytest.raises(CallbackError, match="wants a list of names, got the string 'cost'"):
        ProcessTensors("cost", print)
    with pytest.raises(CallbackError, match="wants a function of the tensors' values, got None"):
        ProcessTensors(["cost"], None)
