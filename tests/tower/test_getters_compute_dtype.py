"""The dtype that a model computes in: which variables are cast, and where they are not."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.getters import CastVariable, compute_in, current_compute_dtype, full_precision


def dtypes():
    return {variable.op.name: variable.dtype.base_dtype for variable in tf.global_variables()}


@pytest.mark.parametrize("compute", [tf.float16, tf.bfloat16])
def test_every_float_variable_is_float32_and_cast(graph, compute):
    with compute_in(compute):
        weights = [
            tf.get_variable("default", [2]),
            tf.get_variable("frozen", [2], trainable=False),
            tf.get_variable("half", [2], tf.float16),
            tf.get_variable("brain", [2], tf.bfloat16, tf.ones_initializer()),
            tf.get_variable("tensor", initializer=tf.constant(1.5, tf.bfloat16)),
            tf.get_variable("array", initializer=np.array([1.5, 2], "float16")),
            tf.get_variable("number", initializer=0.1),
        ]
    assert set(dtypes().values()) == {tf.float32}
    assert {type(weight) for weight in weights} == {CastVariable}
    assert {tf.convert_to_tensor(weight).dtype for weight in weights} == {compute}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(weight.variable).tolist() for weight in weights[-3:-1]] == [1.5, [1.5, 2.0]]


def test_other_variables_are_left_alone(graph):
    with compute_in(tf.bfloat16):
        integer = tf.get_variable("integer", initializer=3, trainable=False)
        double = tf.get_variable("double", [2], tf.float64)
    assert dtypes() == {"integer": tf.int32, "double": tf.float64}
    assert not isinstance(integer, CastVariable)
    assert not isinstance(double, CastVariable)


def test_full_precision_gives_the_variable_itself(graph):
    assert current_compute_dtype() is None
    with compute_in(tf.float16):
        assert current_compute_dtype() == tf.float16
        with full_precision():
            assert current_compute_dtype() is None
            gamma = tf.get_variable("gamma", [2], tf.float16)
        weight = tf.get_variable("weight", [2])
    assert not isinstance(gamma, CastVariable)
    assert gamma.dtype.base_dtype == tf.float32
    assert isinstance(weight, CastVariable)
    assert current_compute_dtype() is None
    assert not isinstance(tf.get_variable("outside", [2]), CastVariable)


def test_an_error_ends_the_block(graph):
    with pytest.raises(ZeroDivisionError, match="division"), compute_in(tf.float16), full_precision():
        1 / 0  # noqa: B018
    assert current_compute_dtype() is None


def test_other_threads_compute_as_they_did(graph):
    seen = []
    with compute_in(tf.float16):
        thread = threading.Thread(target=lambda: seen.append(current_compute_dtype()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_getters_of_the_model_see_the_variables_name(graph):
    seen = []

    def getter(getter, name, *args, **kwargs):
        variable = getter(name, *args, **kwargs)
        seen.append((variable.op.name, tf.stop_gradient(variable).dtype))
        return variable

    with compute_in(tf.bfloat16), tf.variable_scope("layer", custom_getter=getter):
        tf.get_variable("W", [2])
    assert seen == [("layer/W", tf.bfloat16)]


def test_towers_share_the_same_variable(graph):
    for tower in (TrainTowerContext("tower0"), PredictTowerContext("predict", reuse=True)):
        with tower, compute_in(tf.bfloat16):
            assert tf.convert_to_tensor(tf.get_variable("w", [2])).dtype == tf.bfloat16
    assert dtypes() == {"w": tf.float32}


def test_casts_are_made_in_the_name_scope_of_the_tower(graph):
    with tf.name_scope("tower1"), compute_in("bfloat16"):
        value = tf.get_variable("v", [2])
        table = tf.nn.embedding_lookup(tf.get_variable("table", [3, 2]), [0, 1])
    assert value.value().op.name == "tower1/v_cast/Cast"
    assert table.op.name.startswith("tower1/")
