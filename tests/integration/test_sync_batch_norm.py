"""Towers whose batch normalisation is synchronised train like one tower that has the whole batch."""

from functools import lru_cache

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.models.batch_norm import BatchNorm
from tpack.models.fc import FullyConnected
from tpack.tower.context import current_tower_context

STEPS, ROWS = 3, 16

BUILDERS = {"replicated": SyncMultiGPUReplicatedBuilder, "parameter server": SyncMultiGPUParameterServerBuilder}


@lru_cache
def data():
    rng = np.random.default_rng(11)
    return rng.normal(size=(STEPS, ROWS, 3, 2, 2), loc=1.0, scale=2.0), rng.normal(size=(STEPS, ROWS, 3))


def model(x, y, *, data_format="channels_last", dtype=tf.float64, sync=(True, "nccl")):
    """Return outputs of two synchronised layers, of both ranks and formats, and the cost."""
    weights = tf.constant_initializer(np.random.default_rng(4).normal(size=(3, 2, 2)))
    x = tf.cast(x, dtype) * tf.get_variable("weights", [3, 2, 2], dtype, weights)
    x = tf.transpose(x, [0, 3, 1, 2]) if data_format == "channels_first" else x
    first = BatchNorm("bn0", x, sync_statistics=sync[0], data_format=data_format, ema_update="internal")
    initializer = tf.constant_initializer(np.random.default_rng(5).normal(size=(12, 3), scale=0.3))
    hidden = tf.tanh(FullyConnected("fc", tf.nn.softplus(first), 3, kernel_initializer=initializer))
    second = BatchNorm("bn1", hidden, sync_statistics=sync[1], momentum=0.5)
    return first, second, tf.reduce_mean(tf.square(second * tf.sigmoid(second) - tf.cast(y, dtype)))


def train(builder, num_towers, data_format="channels_last", dtype=tf.float64, rate=0.1, sync=(True, "nccl")):
    """Return outputs of each step and tower, and the final values of all variables of each tower."""
    xs, ys = data()
    with tf.Graph().as_default() as graph:
        step = tf.placeholder(tf.int32, [])
        made = []

        def grad_fn():
            tower = current_tower_context()
            part = slice(tower.index * ROWS // tower.total, (tower.index + 1) * ROWS // tower.total)
            outputs = model(
                tf.constant(xs[:, part])[step],
                tf.constant(ys[:, part])[step],
                data_format=data_format,
                dtype=dtype,
                sync=sync,
            )
            made.append(outputs)
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(outputs[-1], variables), variables, strict=True))

        optimizer = tf.train.MomentumOptimizer(rate, 0.9)
        result = builder.build(grad_fn, lambda: optimizer)
        fetches = [made, result.train_op, tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            steps = [session.run(fetches, {step: number})[0] for number in range(STEPS)]
            variables = [{v.op.name: v for v in tf.global_variables()}]
            for tower in result.towers[1:]:
                copies = {v.op.name.partition("/")[2]: v for v in tower.recorder.variables}
                variables.append(copies or variables[0])
            return steps, session.run(variables)


@lru_cache
def oracle(data_format):
    return train(SimpleBuilder(), 1, data_format)


@pytest.mark.parametrize(
    ("num_towers", "data_format"),
    [(2, "channels_last"), (4, "channels_last"), (4, "channels_first"), (8, "channels_last")],
)
@pytest.mark.parametrize("builder", BUILDERS)
def test_three_steps_are_those_of_the_whole_batch(builder, num_towers, data_format):
    steps, values = train(BUILDERS[builder](num_towers), num_towers, data_format)
    one_tower_steps, (expected,) = oracle(data_format)
    for towers, ((first, second, cost),) in zip(steps, one_tower_steps, strict=True):
        np.testing.assert_allclose(np.concatenate([outputs[0] for outputs in towers]), first, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(np.concatenate([outputs[1] for outputs in towers]), second, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(np.mean([outputs[2] for outputs in towers]), cost, rtol=1e-10)
    assert {"bn0/mean/EMA", "bn0/variance/EMA", "bn1/mean/EMA", "fc/W", "fc/W/Momentum"} <= set(expected)
    assert len(values) == num_towers
    for tower in values:
        assert set(tower) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(tower[name], value, rtol=1e-8, atol=1e-12, err_msg=name)
            np.testing.assert_array_equal(tower[name], values[0][name], err_msg=name)


def test_all_workers_of_a_process_that_is_alone_are_its_towers():
    builder = SyncMultiGPUReplicatedBuilder(2)
    steps, values = train(builder, 2, sync=("workers", "workers"))
    expected_steps, expected = train(builder, 2)
    np.testing.assert_equal(steps, expected_steps)
    np.testing.assert_equal(values, expected)
    steps, values = train(SimpleBuilder(), 1, sync=("workers", "workers"))
    np.testing.assert_equal(steps, oracle("channels_last")[0])


def test_the_fused_operation_of_one_tower_gives_the_same(graph):
    steps, values = train(SyncMultiGPUReplicatedBuilder(4), 4, dtype=tf.float32)
    one_tower_steps, (expected,) = train(SimpleBuilder(), 1, dtype=tf.float32)
    for towers, ((first, _, _),) in zip(steps, one_tower_steps, strict=True):
        np.testing.assert_allclose(np.concatenate([outputs[0] for outputs in towers]), first, rtol=1e-3, atol=1e-4)
    for name, value in expected.items():
        np.testing.assert_allclose(values[0][name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_towers_that_update_without_waiting_normalise_together_too():
    steps, (values, *_) = train(AsyncMultiGPUBuilder(4), 4, rate=0.0)
    one_tower_steps, (expected,) = train(SimpleBuilder(), 1, rate=0.0)
    for towers, ((first, _, _),) in zip(steps, one_tower_steps, strict=True):
        np.testing.assert_allclose(np.concatenate([outputs[0] for outputs in towers]), first, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(values["bn0/variance/EMA"], expected["bn0/variance/EMA"])
