import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.graph_builder.cost import GradientOptions, check_cost, make_grad_fn
from tpack.tower.context import TrainTowerContext
from tpack.tower.tower_func import TowerFunc


def grad_fn_of(model, optimizer_fn=lambda: tf.train.GradientDescentOptimizer(0.1), **options):
    tower_func = TowerFunc(model, [tf.TensorSpec([2], tf.float32, "x")])
    return make_grad_fn(lambda: [tf.constant([1.0, 2.0])], tower_func, optimizer_fn, GradientOptions(**options))


def test_gradients_are_those_of_the_cost(graph):
    grad_fn = grad_fn_of(lambda x: tf.reduce_sum(x * x * tf.get_variable("w", [2])))
    with TrainTowerContext("tower0"):
        [(grad, variable)] = grad_fn()
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(grad), [1.0, 4.0])
    assert variable.op.name == "w"


@pytest.mark.parametrize("options", [{"gate_gradients": True}, {"colocate_gradients_with_ops": False}])
def test_options_reach_compute_gradients(graph, options, monkeypatch):
    seen = {}
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    original = optimizer.compute_gradients

    def spy(cost, **kwargs):
        seen.update(kwargs)
        return original(cost, **kwargs)

    monkeypatch.setattr(optimizer, "compute_gradients", spy)
    with TrainTowerContext(""):
        grad_fn_of(lambda x: tf.reduce_sum(x * tf.get_variable("w", [2])), lambda: optimizer, **options)()
    assert seen["colocate_gradients_with_ops"] is options.get("colocate_gradients_with_ops", True)
    expected = tf.train.Optimizer.GATE_GRAPH if "gate_gradients" in options else tf.train.Optimizer.GATE_NONE
    assert seen["gate_gradients"] == expected


def test_the_optimizer_is_made_outside_the_tower(graph):
    def optimizer_fn():
        return tf.train.GradientDescentOptimizer(tf.get_variable("learning_rate", initializer=0.1, trainable=False))

    context = TrainTowerContext("tower1", "tower1", index=1, total=2)
    with context:
        grad_fn_of(lambda x: tf.reduce_sum(x * tf.get_variable("w", [2])), optimizer_fn)()
    assert {variable.op.name for variable in tf.global_variables()} == {"learning_rate"}
    assert [variable.op.name for variable in context.recorder.variables] == ["tower1/w"]


def test_a_variable_without_gradient_is_left_out_with_a_warning(graph, caplog):
    def model(x):
        tf.get_variable("unused", [])
        return tf.reduce_sum(x * tf.get_variable("w", [2]))

    logging.getLogger("tpack").addHandler(caplog.handler)
    try:
        with TrainTowerContext(""):
            grads = grad_fn_of(model)()
    finally:
        logging.getLogger("tpack").removeHandler(caplog.handler)
    assert [variable.op.name for _, variable in grads] == ["w"]
    assert "unused" in caplog.text


def test_a_cost_that_depends_on_no_variable_is_an_error(graph):
    def model(x):
        tf.get_variable("unused", [])
        return tf.reduce_sum(x)

    with TrainTowerContext(""), pytest.raises(GraphBuildError, match="depends on none .*unused"):
        grad_fn_of(model)()


def test_nothing_to_train_is_an_error(graph):
    with TrainTowerContext("tower0"), pytest.raises(GraphBuildError, match="'tower0'.* has no trainable variables"):
        grad_fn_of(tf.reduce_sum)()


def test_variables_that_the_first_tower_keeps_to_itself_are_an_error_in_the_second(graph):
    kept = []

    def model(x):
        if not kept:
            kept.append(tf.get_variable("w", [2]))
        return tf.reduce_sum(x * kept[0])

    grad_fn = grad_fn_of(model)
    with TrainTowerContext("tower0", total=2, has_own_variables=True):
        grad_fn()
    with (
        TrainTowerContext("tower1", "tower1", index=1, total=2),
        pytest.raises(GraphBuildError, match="'tower1'.* must create its variables anew in each tower"),
    ):
        grad_fn()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: None, "returned None"),
        (lambda: 3.0, "returned 3.0"),
        (lambda: tf.ones([2], name="cost"), r"cost:0 with shape \(2,\)"),
        (lambda: tf.constant(1, name="cost"), "dtype int32"),
        (lambda: tf.placeholder(tf.float32, name="cost"), "shape <unknown>"),
    ],
)
def test_a_cost_that_cannot_be_minimised_is_an_error(graph, make, message):
    with pytest.raises(GraphBuildError, match=message):
        check_cost(make())


def test_keras_optimizers_are_refused(graph):
    class KerasLike:
        pass

    with TrainTowerContext(""), pytest.raises(GraphBuildError, match="KerasLike"):
        grad_fn_of(lambda x: tf.reduce_sum(x * tf.get_variable("w", [2])), KerasLike)()
