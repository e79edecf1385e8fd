"""Assigning arrays to variables: also when several share their initial value."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables
from tests.helpers.strategies import ON_READ, SUM, in_scope
from tpack.tfutils.variable_values import assign_values, fit_values


def test_assign_values_serves_variables_that_share_their_initial_value(session8: Any) -> None:
    shared = tf.constant(1.0)
    variables = [tf.Variable(shared, use_resource=True, name=f"v{k}") for k in range(3)]
    assert len({v.initializer.inputs[1].name for v in variables}) == 1
    assign_values(session8, [(v, np.float32(k)) for k, v in enumerate(variables)])
    assert session8.run(variables) == [0, 1, 2]


def test_assign_values_serves_ref_variables(session8: Any) -> None:
    variable = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=False)
    assign_values(session8, [(variable, np.array([3, 4], "float32"))])
    np.testing.assert_array_equal(session8.run(variable), [3, 4])


def test_fit_values_takes_any_size_for_an_unknown_dimension(graph: Any) -> None:
    variable = tf.Variable(
        tf.zeros([1]), use_resource=True, validate_shape=False, shape=tf.TensorShape([None]), name="v"
    )
    pairs = [(variable, np.arange(5, dtype="float32"))]
    assert fit_values(pairs, cast=False, skip_mismatch=False, source="here") == pairs


def test_fit_values_casts_bfloat16(graph: Any) -> None:
    variable = make_variables({"v": np.zeros(2, "float32")})["v"]
    value = np.array([1.5, 2], tf.bfloat16.as_numpy_dtype)
    ((_, fitted),) = fit_values([(variable, value)], cast=True, skip_mismatch=False, source="here")
    assert fitted.dtype == np.float32
    np.testing.assert_array_equal(fitted, [1.5, 2])


def test_assign_values_reaches_every_device_of_a_strategy(session8: Any) -> None:
    with in_scope(2):
        variables = [tf.get_variable("v", [2]), tf.get_variable("n", [], synchronization=ON_READ, aggregation=SUM)]
    assign_values(session8, list(zip(variables, [np.float32([1, 2]), np.float32(6)], strict=True)))
    mirrors, parts = session8.run([variable.components for variable in variables])
    np.testing.assert_array_equal(mirrors, [[1, 2], [1, 2]])
    assert parts == [3, 3]
