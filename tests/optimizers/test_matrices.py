"""What `test_contract.py` does not show: kernels, the size of the state, and which variables step how."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError
from tpack.optimizers.matrices import Adafactor, Muon


def step_of(optimizer, value, gradient):
    """Return the change of a variable by a first step."""
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        w = tf.get_variable("w", initializer=value, use_resource=True)
        train_op = optimizer.apply_gradients([(tf.constant(gradient), w)])
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        return session.run(w) - value


def test_a_kernel_is_the_matrix_of_its_outputs_and_all_else(rng):
    kernel, gradient = rng.normal(size=(2, 3, 3, 4, 6)).astype("float32")
    change = step_of(Muon(0.1, 0.0), kernel, gradient)
    flat = step_of(Muon(0.1, 0.0), kernel.reshape(36, 6), gradient.reshape(36, 6))
    np.testing.assert_allclose(change.reshape(36, 6), flat, rtol=1e-5)
    # All singular values are near to 1, times the rate and the size.
    values = np.linalg.svd(flat, compute_uv=False) / (0.1 * 0.2 * 6)
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_the_size_of_a_step_may_be_that_of_the_matrix(rng):
    kernel, gradient = rng.normal(size=(2, 4, 9)).astype("float32")
    change, scaled = step_of(Muon(0.1, 0.0, rms=None), kernel, gradient), step_of(Muon(0.1, 0.0), kernel, gradient)
    np.testing.assert_allclose(scaled, change * 0.2 * 3, rtol=1e-4)


def test_what_is_no_matrix_and_what_is_named_steps_by_adam():
    with tf.Graph().as_default():
        shapes = {"hidden/W": [4, 3], "hidden/b": [3], "row": [1, 5], "Embedding/table": [4, 3], "out/W": [4, 3]}
        variables = [tf.get_variable(name, shape, use_resource=True) for name, shape in shapes.items()]
        optimizer = Muon(0.1, by_adam=["(?i)embed", "^out/"])
        optimizer.apply_gradients([(tf.ones_like(v), v) for v in variables])
        with_second = {v.op.name for v in variables if optimizer.get_slot(v, "v") is not None}
        assert with_second == {"hidden/b", "row", "Embedding/table", "out/W"}
        assert all(optimizer.get_slot(v, "m") is not None for v in variables)


def test_matrices_alone_need_no_counters_of_adam(rng):
    kernel, gradient = rng.normal(size=(2, 4, 9)).astype("float32")
    assert np.abs(step_of(Muon(0.1), kernel, gradient)).max() > 0.01
    with tf.Graph().as_default():
        w = tf.get_variable("w", [3, 3], use_resource=True)
        Muon(0.1).apply_gradients([(tf.ones_like(w), w)])
        assert {v.op.name for v in tf.global_variables()} == {"w", "w/Muon"}


def test_the_state_of_adafactor_is_that_of_rows_and_columns():
    with tf.Graph().as_default():
        shapes = {"w": [40, 30], "kernel": [3, 3, 8, 16], "b": [30]}
        variables = [tf.get_variable(name, shape, use_resource=True) for name, shape in shapes.items()]
        optimizer = Adafactor()
        optimizer.apply_gradients([(tf.ones_like(v), v) for v in variables])
        state = {v.op.name: v.shape.as_list() for v in optimizer.variables()}
    assert state == {
        "Adafactor_step": [],
        "w/Adafactor": [40],
        "w/Adafactor_1": [30],
        "kernel/Adafactor": [3, 3, 8],
        "kernel/Adafactor_1": [3, 3, 16],
        "b/Adafactor": [30],
    }


@pytest.mark.parametrize("optimizer", [Muon(0.1), Adafactor(0.1)], ids=["muon", "adafactor"])
def test_small_gradients_in_half_precision_are_no_zeros(rng, optimizer):
    kernel = rng.normal(size=(4, 9)).astype("float16")
    change = step_of(optimizer, kernel, np.full_like(kernel, 1e-5))
    assert np.isfinite(change).all()
    assert (change < 0).mean() > 0.5


@pytest.mark.parametrize("make", [Muon, Adafactor])
def test_a_part_of_a_matrix_is_refused(make):
    with tf.Graph().as_default():
        partitioner = tf.fixed_size_partitioner(2)
        w = tf.get_variable("w", [4, 3], use_resource=True, partitioner=partitioner)
        with pytest.raises(ConfigError, match=f"{make.__name__} got w/part_0, a part of a variable"):
            make(0.1).apply_gradients([(tf.ones_like(part), part) for part in w])


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="num_iterations=0"):
        Muon(num_iterations=0)
    with pytest.raises(ConfigError, match="beta2_decay=0.5"):
        Adafactor(beta2_decay=0.5)
    with pytest.raises(ConfigError, match="rms=-1"):
        Muon(rms=-1)
