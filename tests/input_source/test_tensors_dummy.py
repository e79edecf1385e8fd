"""Constants: zeros of the wanted shapes on each tower's device."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.errors import ConfigError
from tpack.input_source import DummyConstantInput


def test_every_tower_has_zeros_on_its_device(graph):
    signature = [*SIGNATURE, tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([], tf.bool, "flag")]
    with running(DummyConstantInput([[4, 2], (), (1,), ()]), signature, num_towers=2) as run:
        for image, label, text, flag in run.step():
            np.testing.assert_array_equal(image, np.zeros([4, 2], np.float32))
            assert (label, text.tolist(), flag) == (0, [b""], False)
    assert [tower[0].device for tower in run.inputs] == ["/device:CPU:0", "/device:CPU:1"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(4, 2)], "has 1 shapes, the signature has 2 entries"),
        ([(4, 3), ()], r"has the shape \(4, 3\) for 'image', the signature wants \(None, 2\)"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error(graph, shapes, message):
    with pytest.raises(ConfigError, match=message):
        DummyConstantInput(shapes).setup(SIGNATURE)
