"""State of optimizers under a mirrored strategy: on every device, kept equal, and saved as if there were one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import start
from tests.helpers.partition_graphs import placed_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.values import PerDevice
from tpack.distribute.variables.replicated import MirroredVariable
from tpack.errors import TowerMismatchError
from tpack.tfutils.gradproc import MapGradient, ScaleGradient, SummaryGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, PostProcessOptimizer, apply_grad_processors
from tpack.tower.collections import MOVING_SUMMARY_OPS_KEY

K = 3
DEVICES = cpu_devices(K)


def _variables() -> tuple[Any, Any]:
    ones = tf.ones_initializer()
    return tf.get_variable("w", [2], initializer=ones), tf.get_variable("rows", [5, 1], initializer=ones)


def _constants(values: Any) -> PerDevice:
    """Return a value that holds array k on device k, without variables as `per_device` has."""
    by_device = {}
    for device, value in zip(DEVICES, values, strict=True):
        with tf.device(device):
            by_device[device] = tf.constant(value, tf.float32)
    return PerDevice(by_device)


def _slices() -> PerDevice:
    values = _constants([[[float(k)]] * 2 for k in range(K)])
    return PerDevice({d: tf.IndexedSlices(v, tf.constant([k, 0])) for k, (d, v) in enumerate(values.index.items())})


def _train_op(strategy: MirroredStrategy, optimizer: Any) -> Any:
    w, rows = _variables()
    grads = _constants([[1, 2], [3, 4], [5, 9]]), _slices()
    return strategy.apply_gradients(optimizer, list(zip(grads, (w, rows), strict=True)), name="train")


def _plain_train_op() -> Any:
    """Do to plain variables what `_train_op` does with Adam to mirrored ones."""
    w, rows = _variables()
    sparse = tf.IndexedSlices(tf.constant([[0.0], [0], [1], [1], [2], [2]]) / K, [0, 0, 1, 0, 2, 0], [5, 1])
    return tf.train.AdamOptimizer(0.1).apply_gradients([(tf.constant([3.0, 5.0]), w), (sparse, rows)])


def _values(session: Any) -> dict[str, Any]:
    """Return all variables, after a check that mirrors are equal."""
    values = {}
    for variable in tf.global_variables():
        mirrors = session.run(getattr(variable, "components", [variable]))
        assert all(mirror.tobytes() == mirrors[0].tobytes() for mirror in mirrors), variable
        values[variable.op.name] = mirrors[0]
    return values


def _assert_same(values: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert values.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-6, err_msg=name)


def test_state_is_that_of_one_optimizer_on_every_device(session8: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        train_op = _train_op(strategy, tf.train.AdamOptimizer(0.1))
    with tf.Graph().as_default() as plain, cpu_session(plain) as session:
        plain_op = _plain_train_op()
        start(session)
        for _ in range(3):
            session.run(plain_op)
        wanted = _values(session)
    assert all(isinstance(v, MirroredVariable) and v.devices == DEVICES for v in tf.global_variables())
    assert tf.local_variables() == []
    start(session8)
    for _ in range(3):
        session8.run(train_op)
    _assert_same(_values(session8), wanted)
    placed = placed_devices(session8, train_op)
    slots = [m for v in tf.global_variables() for m in v.components]
    assert {placed[m.op.name] for m in slots} == set(DEVICES)
    assert all(placed[m.op.name] == m.device for m in slots)


def test_checkpoints_move_between_mirrored_and_plain_variables(tmp_path: Path) -> None:
    def run(strategy: Any, restore: str | None, save: str) -> dict[str, Any]:
        with tf.Graph().as_default() as graph, cpu_session(graph) as session:
            if strategy is None:
                train_op = _plain_train_op()
            else:
                with strategy.scope():
                    train_op = _train_op(strategy, tf.train.AdamOptimizer(0.1))
            saver = tf.train.Saver()
            start(session)
            if restore is not None:
                saver.restore(session, str(tmp_path / restore))
            session.run(train_op)
            saver.save(session, str(tmp_path / save))
            return _values(session)

    run(MirroredStrategy(DEVICES), None, "mirrored")
    run(None, None, "plain")
    _assert_same(run(None, "mirrored", "plain2"), run(MirroredStrategy(DEVICES), "plain", "mirrored2"))


def test_an_optimizer_that_is_used_again_goes_on_with_its_state(session8: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.5)
    with strategy.scope():
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        grad = _constants([1, 2, 3])
        first = strategy.apply_gradients(optimizer, [(grad, w)])
        second = strategy.apply_gradients(optimizer, [(grad, w)])
    assert {v.op.name for v in tf.global_variables()} == {"w", "w/Momentum"}
    start(session8)
    session8.run(first)
    session8.run(second)
    np.testing.assert_allclose(session8.run(w.components), [-0.1 * (2 + 3)] * K)


def test_plain_variables_and_those_on_other_devices_have_optimizers_of_their_own(session8: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with tf.device("/cpu:6"):
        plain = tf.get_variable("plain", [], initializer=tf.zeros_initializer(), use_resource=True)
    with strategy.scope():
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        with strategy.colocate_vars_with("/cpu:1"):
            alone = tf.get_variable("alone", [], initializer=tf.zeros_initializer())
        grad = _constants([1, 2, 3])
        train_op = strategy.apply_gradients(
            tf.train.AdamOptimizer(0.5), [(grad, variable) for variable in (w, alone, plain)]
        )
    start(session8)
    for _ in range(2):
        session8.run(train_op)
    slots = [v for v in tf.global_variables() if v.op.name.startswith("plain/")]
    assert [v.device for v in slots] == ["/device:CPU:6"] * 2
    assert not any(isinstance(v, MirroredVariable) for v in slots)
    for variable in (*w.components, *alone.components, plain):
        np.testing.assert_allclose(session8.run(variable), -1.0, rtol=1e-5)
    assert len(alone.components) == 1


def test_wrapped_optimizers_are_cloned_whole(session8: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.5), 2)
        train_op = strategy.apply_gradients(optimizer, [(_constants([1, 2, 3]), w)])
    start(session8)
    seen = []
    for _ in range(4):
        session8.run(train_op)
        seen.append(session8.run(w.components))
    np.testing.assert_allclose(seen, np.outer([0, -1, -1, -2], np.ones(K)))


class _Uneven(tf.train.GradientDescentOptimizer):
    """Makes a variable on the first device only."""

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
        if grads_and_vars[0][1].device == DEVICES[0]:
            tf.Variable(1.0, name="extra")
        return super().apply_gradients(grads_and_vars, global_step, name)


def test_optimizers_that_differ_between_devices_are_refused(graph: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        w = tf.get_variable("w", [])
        with pytest.raises(TowerMismatchError, match="on /device:CPU:0 created extra, and the optimizer on"):
            strategy.apply_gradients(_Uneven(0.1), [(_constants([1, 2, 3]), w)])


def test_what_goes_by_names_does_the_same_on_every_device(session8: Any) -> None:
    """Mirrors are called otherwise than their variable, and users write the names of variables."""
    posts: list[str] = []

    def by_name(grad: Any, variable: Any) -> Any:
        return grad * 10.0 if variable.op.name == "scope/w" else grad

    def halve(variable: Any) -> Any:
        posts.append(variable.op.name)
        return variable.assign(variable / 2.0) if variable.op.name.endswith("w") else None

    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        with tf.variable_scope("scope"):
            w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        processors = [ScaleGradient(("scope/w", 2.0)), MapGradient(by_name), SummaryGradient("scope/w")]
        optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(0.5), processors)
        train_op = strategy.apply_gradients(PostProcessOptimizer(optimizer, halve), [(_constants([1, 2, 3]), w)])
    assert posts == ["scope/w"] * K
    start(session8).run(train_op)
    assert session8.run(w.components) == [-10.0] * K


def test_summaries_are_of_the_first_device_only(graph: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        w = tf.get_variable("w", [])
        optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(0.5), [SummaryGradient()])
        strategy.apply_gradients(optimizer, [(_constants([1, 2, 3]), w)])
    summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
    assert [summary.op.name.split("/")[0] for summary in summaries] == ["SummaryGradient"] * 2
    assert len(tf.get_collection(MOVING_SUMMARY_OPS_KEY)) == 1
