"""Gradients of shared variables are summed where the variables are."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.tower_optimizer import sum_tower_gradients


def slices(rows, indices):
    return tf.IndexedSlices(tf.constant(rows, tf.float32), tf.constant(indices), tf.constant([4, 2]))


def test_sums_dense_sparse_and_mixed(session8, rng):
    variables = []
    for k, name in enumerate(["dense", "sparse", "mixed", "partly", "unused"]):
        with tf.device(f"/device:CPU:{k + 1}"):
            variables.append(tf.get_variable(name, [4, 2], use_resource=True))
    dense = [rng.normal(size=(4, 2)).astype("float32") for _ in range(5)]
    rows = rng.normal(size=(2, 2)).astype("float32")
    first = [tf.constant(dense[0]), slices(rows, [1, 3]), slices(rows, [0, 0]), None, None]
    second = [tf.constant(dense[1]), slices(rows, [1, 1]), tf.constant(dense[2]), tf.constant(dense[3]), None]
    towers = [list(zip(grads, variables, strict=True)) for grads in (first, second)]
    summed = sum_tower_gradients(towers)
    assert [variable.op.name for _, variable in summed] == ["dense", "sparse", "mixed", "partly"]
    assert [isinstance(grad, tf.IndexedSlices) for grad, _ in summed] == [False, True, False, False]
    assert [grad.device for grad, _ in summed[:3]] == [variable.device for variable in variables[:3]]
    values = session8.run([tf.convert_to_tensor(grad) for grad, _ in summed])
    np.testing.assert_allclose(values[0], dense[0] + dense[1], rtol=1e-6)
    np.testing.assert_allclose(values[1], [[0, 0], rows.sum(0) + rows[0], [0, 0], rows[1]], rtol=1e-6)
    np.testing.assert_allclose(values[2], dense[2] + [rows.sum(0), [0, 0], [0, 0], [0, 0]], rtol=1e-6)
    np.testing.assert_array_equal(values[3], dense[3])


def test_no_gradient_at_all_is_refused(graph):
    variable = tf.get_variable("left_alone", [2], use_resource=True)
    with pytest.raises(ConfigError, match="no tower has a gradient.*left_alone"):
        sum_tower_gradients([[(None, variable)], [(None, variable)]])
