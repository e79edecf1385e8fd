"""A remapped source supplies the inputs that are named, in any order; the others are fed."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFromList
from tpack.errors import ConfigError
from tpack.input_source import QueueInput, remap_input_source


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
    with pytest.raises(ConfigError, match=r"wants different names, got \['image', 'image'\]"):
        remap_input_source(source, ["image", "image"])
    with pytest.raises(ConfigError, match=r"the signature has no entry \['x'\], only \['image', 'label'\]"):
        remap_input_source(source, ["image", "x"]).setup(SIGNATURE)
