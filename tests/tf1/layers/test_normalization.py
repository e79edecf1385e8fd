"""Batch normalisation: equal to TensorFlow's own, and to numpy where that has changed since 1.15."""

from typing import Any

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers import tf1_layer_cases as cases
from tests.helpers.tf1_oracle import assert_same, original, run_case
from tpack.errors import ConfigError


@pytest.mark.parametrize("name", cases.names_of("batch_normalization"))
def test_layers_equal_the_original(name: str) -> None:
    assert_same(run_case(tf, cases.CASES[name]), original(cases.__file__)[name])


@pytest.mark.parametrize("name", [name for name in cases.OTHER_NAMES if name.startswith("batch_normalization")])
def test_training_that_is_decided_when_it_runs_equals_the_original(name: str) -> None:
    assert_same(run_case(tf, cases.CASES[name]), original(cases.__file__)[name], names=False)


def test_volumes_move_the_average_to_the_variance_of_the_batch(graph: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=[2, 3, 2, 2, 4]).astype("float32")
    layer = tf.layers.BatchNormalization(momentum=0.25)
    layer(tf.constant(x), training=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        mean, variance = session.run([layer.moving_mean, layer.moving_variance])
    np.testing.assert_allclose(mean, 0.75 * x.mean(axis=(0, 1, 2, 3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, 0.25 + 0.75 * x.var(axis=(0, 1, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize(
    ("kwargs", "shape", "message"),
    [
        ({"axis": [1, -1]}, [2, 3], r"got axis=\[1, -1\] for inputs of 2 dimensions"),
        ({}, [2, None], "expected known sizes of the axes"),
        ({"axis": 0, "virtual_batch_size": 2}, [4, 3], "cannot keep axis 0"),
        ({"virtual_batch_size": 0}, [4, 3], "got virtual_batch_size=0"),
        ({"renorm_clipping": {"max": 1}}, [4, 3], "got renorm_clipping"),
        ({"adjustment": 3}, [4, 3], "got adjustment=3"),
    ],
)
def test_arguments_that_cannot_work_are_refused(graph: Any, kwargs: Any, shape: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tf.layers.batch_normalization(tf.placeholder(tf.float32, shape), **kwargs)
    assert tf.global_variables() == []
