"""How the gradients of all towers are reduced and steps are counted, and what losses say of it."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import MEAN, SUM, per_device, per_device_slices, start
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.strategy import get_loss_reduction
from tpack.distribute.values import Mirrored, PerDevice
from tpack.errors import GraphBuildError, ReductionError, TowerMismatchError

DEVICES = cpu_devices(3)


def _tower_local(name: str) -> Any:
    return tf.get_variable(
        name, [], synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM
    )


def test_gradients_go_to_their_variables(session8: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with tf.device("/cpu:6"):
        plain = tf.get_variable("plain", [], use_resource=True)
    with strategy.scope():
        mirrored, rows, unused = tf.get_variable("m", [2]), tf.get_variable("rows", [5, 1]), tf.get_variable("u", [])
        arrays = np.float32([[1, 2], [3, 4], [5, 9]])
        pairs = [
            (per_device(arrays), mirrored),
            (per_device(np.float32([1, 2, 6])), plain),
            (None, unused),
            (per_device_slices(3), rows),
        ]
        reduced = strategy._reduce_gradients(pairs)
    (dense, _), (alone, _), (sparse, _) = reduced
    assert [variable for _, variable in reduced] == [mirrored, plain, rows]
    assert isinstance(dense, Mirrored)
    assert isinstance(sparse.get(DEVICES[2]), tf.IndexedSlices)
    assert alone.device == "/device:CPU:6"
    got = start(session8).run([list(dense.index.values()), alone])
    assert np.array_equal(got[0], [[3, 5]] * 3)
    assert got[1] == 3


def test_a_loss_that_is_a_sum_has_its_gradients_summed(session8: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        variable = tf.get_variable("v", [])
        tf.losses.mean_squared_error(1.0, 2.0, reduction=tf.losses.Reduction.SUM)
        ((grad, _),) = strategy._reduce_gradients([(per_device(np.float32([1, 2, 6])), variable)])
    assert start(session8).run(list(grad.index.values())) == [9, 9, 9]


def test_gradients_that_cannot_be_applied_are_refused(graph: Any) -> None:
    strategy = MirroredStrategy(DEVICES)
    with strategy.scope():
        variable, local = tf.get_variable("v", [2]), _tower_local("local")
        grads = per_device(np.zeros((3, 2), np.float32))
        partial = PerDevice({**grads.index, DEVICES[1]: None})
        with pytest.raises(TowerMismatchError, match="v has a gradient in some towers, and none on /device:CPU:1"):
            strategy._reduce_gradients([(partial, variable)])
        with pytest.raises(GraphBuildError, match=r"none of 1 variable\(s\) has a gradient"):
            strategy._reduce_gradients([(None, variable)])
        with pytest.raises(GraphBuildError, match="local.* is another variable on each device"):
            strategy._reduce_gradients([(grads, local)])
        mixed = PerDevice({**grads.index, DEVICES[1]: tf.IndexedSlices(tf.ones([1]), tf.constant([0]))})
        with pytest.raises(ReductionError, match="IndexedSlices"):
            strategy._reduce_gradients([(mixed, variable)])


@pytest.mark.parametrize("strategy", [MirroredStrategy(DEVICES), DEFAULT_STRATEGY], ids=["mirrored", "default"])
def test_steps_are_counted_after_the_update(strategy: Any, session8: Any) -> None:
    with strategy.scope():
        counter = tf.get_variable("c", [], tf.int64, initializer=tf.zeros_initializer(), use_resource=True)
        seen = tf.get_variable("seen", [], tf.int64, initializer=tf.ones_initializer(), use_resource=True)
        step = strategy._advance(counter, strategy.unwrap(seen.assign(counter)), "count")
        counters, all_seen = strategy.unwrap(counter), strategy.unwrap(seen)
    assert step.name == "count"
    start(session8)
    for number in range(3):
        session8.run(step)
        assert session8.run(counters) == [number + 1] * len(counters)
        assert session8.run(all_seen) == [number] * len(counters)


def test_without_a_loss_it_is_the_mean(graph: Any) -> None:
    assert get_loss_reduction() == MEAN


@pytest.mark.parametrize("reduction", tf.losses.Reduction.all())
def test_it_goes_with_the_last_loss(graph: Any, reduction: str) -> None:
    tf.losses.mean_squared_error([1.0], [2.0])
    tf.losses.mean_squared_error([1.0], [2.0], reduction=reduction)
    assert get_loss_reduction() == (SUM if reduction == tf.losses.Reduction.SUM else MEAN)
