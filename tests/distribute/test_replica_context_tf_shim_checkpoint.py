"""``tf.train.init_from_checkpoint`` in towers and across them: first values of all devices come from a checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import ON_READ, SUM, devices_of, mirrored, started
from tpack.distribute.strategies import OneDeviceStrategy, ParameterServerStrategy
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SyncMultiGPUParameterServerBuilder

STRATEGIES = {
    "mirrored": mirrored,
    "one mirror": lambda: mirrored(1),
    "parameter server": lambda: ParameterServerStrategy(devices=devices_of(2)),
    "one device": lambda: OneDeviceStrategy("/cpu:1"),
}
BIAS = np.array([5.0, 7.0], dtype="float32")


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Return a checkpoint of a model whose kernel was partitioned, as TensorFlow 1 wrote it."""
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        with tf.variable_scope("old", use_resource=True):
            with tf.variable_scope("part", partitioner=tf.fixed_size_partitioner(2)):
                tf.get_variable("kernel", [4, 2], initializer=tf.random_uniform_initializer())
            tf.get_variable("bias", initializer=BIAS)
            tf.get_variable("count", initializer=4.0)
        return tf.train.Saver().save(started(session), str(tmp_path / "model"))


def _make() -> tuple[Any, Any, Any]:
    with tf.variable_scope("new", use_resource=True):
        with tf.variable_scope("part"):
            kernel = tf.get_variable("kernel", [4, 2], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
        count = tf.get_variable(
            "count", [], initializer=tf.zeros_initializer(), synchronization=ON_READ, aggregation=SUM
        )
    return kernel, bias, count


ASSIGNMENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scope": lambda kernel, bias, count: {"old/": "new/"},
    "name": lambda kernel, bias, count: {
        "old/part/kernel": "new/part/kernel",
        "old/bias": "new/bias",
        "old/count": "new/count",
    },
    "variable": lambda kernel, bias, count: {"old/part/kernel": kernel, "old/bias": bias, "old/count": count},
    "pairs": lambda kernel, bias, count: [("old/bias", bias), ("old/part/kernel", kernel), ("old/count", count)],
}


def _fine_tune(path: str, by: str) -> None:
    tf.train.init_from_checkpoint(path, ASSIGNMENTS[by](*_make()))


def _check(session: Any, checkpoint: str) -> None:
    kernel = tf.train.load_checkpoint(checkpoint).get_tensor("old/part/kernel")
    assert np.unique(kernel).size == 8
    session.run(tf.global_variables_initializer())
    variables = {v.op.name: v for v in tf.global_variables()}
    for name, wanted in {"new/part/kernel": kernel, "new/bias": BIAS}.items():
        for component in getattr(variables[name], "components", [variables[name]]):
            np.testing.assert_array_equal(session.run(component), wanted)
        np.testing.assert_array_equal(session.run(variables[name].initial_value), wanted)
    assert session.run(variables["new/count"]) == 4.0


@pytest.mark.parametrize("in_tower", [True, False])
@pytest.mark.parametrize("by", ASSIGNMENTS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_component_begins_with_what_a_checkpoint_holds(
    name: str, by: str, in_tower: bool, checkpoint: str, session8: Any
) -> None:
    with STRATEGIES[name]().scope() as strategy:
        if in_tower:
            strategy.call_for_each_tower(_fine_tune, checkpoint, by)
        else:
            _fine_tune(checkpoint, by)
    _check(session8, checkpoint)


def test_what_is_made_from_first_values_follows(checkpoint: str, session8: Any) -> None:
    def tower() -> Any:
        _fine_tune(checkpoint, "scope")
        (bias,) = tf.trainable_variables("new/bias")
        copy = tf.get_variable("copy", initializer=bias.initialized_value(), use_resource=True)
        with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(bias))]):
            return copy.read_value()

    with mirrored().scope() as strategy:
        copies = strategy.unwrap(strategy.call_for_each_tower(tower))
    session8.run(tf.global_variables_initializer())
    assert [copy.tolist() for copy in session8.run(copies)] == [BIAS.tolist()] * 2
    (bias,) = tf.trainable_variables("new/bias")
    assert [each.tolist() for each in session8.run(bias.components)] == [(BIAS - 0.5).tolist()] * 2


def test_slots_of_all_devices_begin_with_a_checkpoint_of_tensorflow(tmp_path: Path, session8: Any) -> None:
    def model() -> Any:
        weight = tf.get_variable("dense/kernel", [2], initializer=tf.ones_initializer(), use_resource=True)
        return tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(weight**2))

    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        train_op = model()
        started(session).run(train_op)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        saved = {v.op.name: session.run(v) for v in tf.global_variables()}
    with mirrored().scope() as strategy:
        strategy.call_for_each_tower(model)
        tf.train.init_from_checkpoint(path, {"/": "/"})
    session8.run(tf.global_variables_initializer())
    for variable in tf.global_variables():
        if variable.op.name.startswith("dense"):
            for component in variable.components:
                np.testing.assert_array_equal(session8.run(component), saved[variable.op.name])
    tf.train.Saver().restore(session8, path)
    for variable in tf.global_variables():
        for component in variable.components:
            np.testing.assert_array_equal(session8.run(component), saved[variable.op.name])


@pytest.mark.parametrize(
    ("assignment", "said"), [({"no": "new/bias"}, "no is not found"), ({"old/part/kernel": "new/bias"}, "Shape")]
)
def test_what_does_not_fit_is_an_error_in_towers(assignment: Any, said: str, checkpoint: str, graph: Any) -> None:
    def tower() -> None:
        _make()
        tf.train.init_from_checkpoint(checkpoint, assignment)

    with mirrored().scope() as strategy, pytest.raises(ValueError, match=said):
        strategy.call_for_each_tower(tower)


@pytest.mark.parametrize("builder", [SyncMultiGPUReplicatedBuilder(2), SyncMultiGPUParameterServerBuilder(2)])
def test_every_tower_of_a_trainer_begins_with_what_a_checkpoint_holds(
    builder: Any, checkpoint: str, session8: Any
) -> None:
    def gradients() -> Any:
        with tf.variable_scope("new", use_resource=True):
            bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
        tf.train.init_from_checkpoint(checkpoint, {"old/bias": bias})
        return tf.gradients(tf.reduce_sum(bias), [bias]), [bias]

    def pairs() -> Any:
        return list(zip(*gradients(), strict=True))

    result = builder.build(pairs, lambda: tf.train.GradientDescentOptimizer(0.5))
    started(session8)
    if result.init_op is not None:
        session8.run(result.init_op)
    session8.run(result.train_op)
    copies = [*tf.global_variables(), *tf.local_variables()]
    assert [each.tolist() for each in session8.run(copies)] == [(BIAS - 0.5).tolist()] * len(copies)
