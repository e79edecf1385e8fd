"""A float32 variable that is computed with in 16 bits: every way in which a model can use it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.tower.getters import CastVariable

# 1 + 2**-9 is a float32 that bfloat16 rounds to 1.
VALUES = np.array([[1 + 2**-9, 2.0], [3.0, 4.0], [-5.0, 6.0]], "float32")
ROUNDED = np.array([[1, 2], [3, 4], [-5, 6]], "float32")


@pytest.fixture
def variable(graph):
    return tf.get_variable("layer/W", initializer=VALUES, use_resource=True)


@pytest.fixture
def cast(variable):
    return CastVariable(variable, tf.bfloat16)


def run(tensors):
    with cpu_session(num_cpus=1) as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensors)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda w: tf.identity(w), ROUNDED),
        (lambda w: w + 1, ROUNDED + 1),
        (lambda w: 1 + w, ROUNDED + 1),
        (lambda w: w - 1, ROUNDED - 1),
        (lambda w: 1 - w, 1 - ROUNDED),
        (lambda w: 2 * w, 2 * ROUNDED),
        (lambda w: w / 2, ROUNDED / 2),
        (lambda w: 1 / w[1, 1], 0.25),
        (lambda w: w // 2, ROUNDED // 2),
        (lambda w: w**2, ROUNDED**2),
        (lambda w: -w, -ROUNDED),
        (lambda w: abs(w), abs(ROUNDED)),
        (lambda w: w[1], ROUNDED[1]),
        (lambda w: tf.cast(w > 1, tf.bfloat16), ROUNDED > 1),
        (lambda w: w @ tf.ones([2, 1], tf.bfloat16), ROUNDED.sum(1, keepdims=True)),
        (lambda w: tf.ones([1, 3], tf.bfloat16) @ w, ROUNDED.sum(0, keepdims=True)),
        (lambda w: np.float32(2) * w, 2 * ROUNDED),
        (lambda w: tf.add_n([w, w]), 2 * ROUNDED),
        (lambda w: tf.concat([w, w], 0), np.concatenate([ROUNDED, ROUNDED])),
        (lambda w: tf.cond(tf.constant(True), lambda: w + 1, lambda: tf.identity(w)), ROUNDED + 1),
        (lambda w: tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * w), [0, w.value()])[1], ROUNDED**3),
        (lambda w: tf.gather(w, [2, 0]), ROUNDED[[2, 0]]),
        (lambda w: tf.nn.embedding_lookup(w, [2, 0]), ROUNDED[[2, 0]]),
        (lambda w: tf.gather_nd(w, [[2, 0]]), ROUNDED[2, :1]),
    ],
)
def test_what_computes_with_it_gets_the_cast_value(cast, use, expected):
    result = use(cast)
    assert result.dtype == tf.bfloat16
    np.testing.assert_array_equal(run(result).astype("float32"), np.asarray(expected, "float32"))


def test_who_asks_for_its_own_dtype_gets_it_and_no_other(cast):
    np.testing.assert_array_equal(run(tf.convert_to_tensor(cast, tf.float32)), VALUES)
    with pytest.raises((TypeError, RuntimeError), match="int32"):
        tf.convert_to_tensor(cast, tf.int32)


def test_the_rest_is_the_variables(cast, variable):
    assert cast.variable is variable
    assert (cast.name, cast.op, cast.shape, cast.dtype) == (variable.name, variable.op, variable.shape, tf.float32)
    assert repr(cast) == "<CastVariable 'layer/W' (3, 2) as bfloat16>"
    with pytest.raises(AttributeError, match="_is_no_attribute"):
        cast._is_no_attribute  # noqa: B018
    with cpu_session(num_cpus=1) as session:
        cast.load(VALUES + 1, session)
        np.testing.assert_array_equal(session.run(variable), VALUES + 1)


@pytest.mark.parametrize(
    ("method", "expected"), [("assign", 0 * VALUES + 0.5), ("assign_add", VALUES + 0.5), ("assign_sub", VALUES - 0.5)]
)
def test_values_of_another_precision_can_be_assigned(cast, variable, method, expected):
    update = getattr(cast, method)(tf.fill([3, 2], tf.constant(0.5, tf.bfloat16)))
    with cpu_session(num_cpus=1) as session:
        session.run(tf.global_variables_initializer())
        session.run(update)
        np.testing.assert_array_equal(session.run(variable), expected)


def test_gradients_are_those_of_the_variable_in_float32(cast, variable):
    cost = tf.reduce_sum(tf.cast(tf.square(cast), tf.float32))
    (gradient,) = tf.gradients(cost, [variable])
    assert gradient.dtype == tf.float32
    np.testing.assert_array_equal(run(gradient), 2 * ROUNDED)


@pytest.mark.parametrize("lookup", [tf.gather, tf.nn.embedding_lookup])
def test_gradients_of_looked_up_rows_are_sparse(cast, variable, lookup):
    cost = tf.reduce_sum(tf.cast(lookup(cast, [2, 0, 2]), tf.float32))
    (gradient,) = tf.gradients(cost, [variable])
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.values.dtype == tf.float32
    values, indices = run([gradient.values, gradient.indices])
    np.testing.assert_array_equal(values, np.ones([3, 2]))
    np.testing.assert_array_equal(indices, [2, 0, 2])
