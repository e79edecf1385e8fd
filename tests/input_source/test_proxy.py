"""A proxy is its inner source; a remapped source supplies the inputs that are named, the others are fed."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFromList
from tpack.errors import ConfigError
from tpack.input_source import QueueInput, remap_input_source
from tpack.input_source.proxy import ProxyInput


def source():
    return QueueInput(DataFromList([[np.zeros([1, 2]), k] for k in range(3)], shuffle=False))


def test_everything_is_handed_on(graph):
    inner = source()
    with running(ProxyInput(inner), num_towers=2) as run:
        assert run.labels(2) == [0, 1, 2, 0]
        run.source.reset_state()
        assert run.labels(1) == [0, 1]
        assert run.source.size() == 3
        assert inner.setup_done()


def test_the_inner_source_is_reset_once_before_training(graph):
    inner = source()
    callbacks = ProxyInput(inner).setup(SIGNATURE)
    assert all(one is other for one, other in zip(callbacks, inner.get_callbacks(), strict=True))


def test_something_else_than_a_source_is_an_error():
    with pytest.raises(ConfigError, match="ProxyInput got input=3: expected an InputSource; QueueInput"):
        ProxyInput(3)


def test_other_inputs_are_placeholders(graph):
    signature = [*SIGNATURE, tf.TensorSpec([], tf.float32, "weight")]
    ds = DataFromList([[k, np.full([1, 2], k)] for k in range(3)], shuffle=False)
    with running(remap_input_source(QueueInput(ds), ["label", "image"]), signature, num_towers=2) as run:
        weight = run.inputs[0][2]
        values = run.step({weight: 0.5})
    assert weight.name == "weight:0"
    assert run.inputs[1][2] is weight
    assert [(image.tolist(), label, w) for image, label, w in values] == [([[0, 0]], 0, 0.5), ([[1, 1]], 1, 0.5)]


def test_names_that_cannot_be_are_errors(graph):
    source = QueueInput(DataFromList([]))
    with pytest.raises(ConfigError, match=r"remap_input_source got names=\['image', 'image'\]: expected each once"):
        remap_input_source(source, ["image", "image"])
    with pytest.raises(ConfigError, match=r"the signature has no entry \['x'\], only \['image', 'label'\]"):
        remap_input_source(source, ["image", "x"]).setup(SIGNATURE)
