"""Batch normalisation of one tower against numpy; over towers: test_batch_statistics.py and tests/integration."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import FORMATS, assert_layer, to_format
from tests.helpers.norm_oracles import affine, normalized
from tpack.errors import ConfigError, TowerError
from tpack.graph_builder.towers import build_towers
from tpack.models.batch_norm import BatchNorm
from tpack.tfutils.argscope import argscope
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.getters import compute_in

KEYS = tf.GraphKeys


def other_axes(x):
    return tuple(range(x.ndim - 1))


# Values.


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(
    ("shape", "options"),
    [((3, 2, 5, 4), {}), ((6, 3), {}), ((6, 3), {"scale": False}), ((4, 3, 2, 2), {"center": False, "epsilon": 0.1})],
)
def test_a_batch_is_normalised_by_its_statistics(shape, options, data_format, rng):
    def build(x, data_format):
        return BatchNorm("bn", x, training=True, data_format=data_format, **options)

    def oracle(x, variables):
        return affine(normalized(x, other_axes(x), options.get("epsilon", 1e-5)), variables, "bn")

    assert_layer(build, rng.normal(size=shape, loc=2.0, scale=3.0), oracle, data_format)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("shape", [(3, 2, 5, 4), (6, 3)])
def test_frozen_statistics_normalise_and_gradients_pass(shape, data_format, rng):
    def build(x, data_format):
        # Variables are set to any numbers, so the variance needs to be made positive.
        with TrainTowerContext(""):
            return BatchNorm("bn", x, training=False, data_format=data_format, epsilon=10.0)

    def oracle(x, variables):
        deviation = np.sqrt(variables["bn/variance/EMA"] + 10.0)
        return affine((x - variables["bn/mean/EMA"]) / deviation, variables, "bn")

    assert_layer(build, rng.normal(size=shape), oracle, data_format)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("shape", [(4, 2, 3, 2), (6, 3)])
def test_virtual_batches_are_normalised_by_themselves(shape, data_format, rng):
    def build(x, data_format):
        return BatchNorm("bn", x, training=True, virtual_batch_size=2, data_format=data_format)

    def oracle(x, variables):
        groups = [normalized(part, other_axes(part)) for part in np.split(x, len(x) // 2)]
        return affine(np.concatenate(groups), variables, "bn")

    assert_layer(build, rng.normal(size=shape, loc=2.0), oracle, data_format)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("options", [{}, {"virtual_batch_size": 4}, {"training": False}])
def test_narrow_inputs_are_normalised_in_float32(session8, dtype, options, rng):
    x = tf.cast(rng.normal(size=(8, 3), loc=50.0), dtype)
    with TrainTowerContext(""), compute_in(dtype):
        y = BatchNorm("bn", x, **options)
    assert y.dtype == dtype
    assert {tf.convert_to_tensor(v).dtype for v in tf.global_variables()} == {tf.float32}
    session8.run(tf.global_variables_initializer())
    value, got = session8.run([tf.cast(x, tf.float64), tf.cast(y, tf.float64)])
    parts = np.split(value, 2) if "virtual_batch_size" in options else [value]
    expected = np.concatenate([normalized(part, (0,)) for part in parts]) if "training" not in options else value
    np.testing.assert_allclose(got, expected, rtol=0.01, atol=0.02)


# Moving averages.


def train_and_read(session, y, steps=3):
    session.run(tf.global_variables_initializer())
    for _ in range(steps):
        session.run([y, tf.get_collection(KEYS.UPDATE_OPS)])
    return session.run({v.op.name: v for v in tf.global_variables()})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("shape", [(3, 2, 5, 4), (6, 4), (1, 4)])
@pytest.mark.parametrize("ema_update", ["default", "internal"])
def test_averages_move_to_the_mean_and_the_unbiased_variance(session8, rng, ema_update, shape, data_format, dtype):
    x = rng.normal(size=shape, loc=3.0, scale=2.0).astype(dtype)
    with TrainTowerContext(""):
        y = BatchNorm(
            "bn", tf.constant(to_format(x, data_format)), momentum=0.8, data_format=data_format, ema_update=ema_update
        )
    assert len(tf.get_collection(KEYS.UPDATE_OPS)) == (2 if ema_update == "default" else 0)
    values = train_and_read(session8, y)
    count = x.size // 4
    mean, variance = x.mean(other_axes(x)), x.var(other_axes(x)) * count / max(count - 1, 1)
    np.testing.assert_allclose(values["bn/mean/EMA"], mean * (1 - 0.8**3), rtol=1e-5)
    np.testing.assert_allclose(values["bn/variance/EMA"], 0.8**3 + variance * (1 - 0.8**3), rtol=1e-5)


def test_averages_get_the_mean_of_virtual_batches(session8, rng):
    x = rng.normal(size=(6, 3))
    with TrainTowerContext(""):
        y = BatchNorm("bn", tf.constant(x), momentum=0.0, virtual_batch_size=3)
    values = train_and_read(session8, y, steps=1)
    parts = np.split(x, 2)
    np.testing.assert_allclose(values["bn/mean/EMA"], x.mean(0))
    np.testing.assert_allclose(values["bn/variance/EMA"], np.mean([part.var(0, ddof=1) for part in parts], 0))


@pytest.mark.parametrize(
    ("context", "options"),
    [
        (TrainTowerContext(""), {"ema_update": "skip"}),
        (TrainTowerContext(""), {"training": False, "ema_update": "internal"}),
        (PredictTowerContext(""), {"training": True, "ema_update": "internal"}),
        (PredictTowerContext(""), {}),
    ],
)
def test_averages_stay_where_they_should(session8, context, options, rng):
    with context:
        y = BatchNorm("bn", tf.constant(rng.normal(size=(6, 3))), **options)
        tf.identity(y)
    assert y.name == "bn/output:0"
    values = train_and_read(session8, y)
    np.testing.assert_array_equal(values["bn/mean/EMA"], np.zeros(3))
    np.testing.assert_array_equal(values["bn/variance/EMA"], np.ones(3))


def test_averages_that_towers_share_are_moved_by_the_first(session8, rng):
    batches = iter(rng.normal(size=(2, 4, 3)))
    outputs = build_towers(
        lambda: BatchNorm("bn", tf.constant(next(batches)), momentum=0.0, ema_update="internal"),
        ["/cpu:0", "/cpu:1"],
        [False, False],
    ).outputs
    first = np.random.default_rng(20160916).normal(size=(2, 4, 3))[0]
    values = train_and_read(session8, outputs, steps=1)
    np.testing.assert_allclose(values["bn/mean/EMA"], first.mean(0))


def test_averages_belong_to_the_model_once(graph):
    def func():
        return BatchNorm("bn", tf.zeros([4, 3]))

    build_towers(func, ["/cpu:0", "/cpu:1"], [True, True])
    assert [v.op.name for v in tf.model_variables()] == ["bn/mean/EMA", "bn/variance/EMA"]
    assert [v.op.name for v in tf.local_variables()][:2] == ["tower1/bn/gamma", "tower1/bn/beta"]
    assert len(tf.get_collection(KEYS.UPDATE_OPS)) == 4


# Names and arguments.


@pytest.mark.parametrize("shape", [[2, 3, 3, 4], [2, 4]])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16])
@pytest.mark.parametrize("options", [{}, {"ema_update": "internal"}, {"training": False}, {"virtual_batch_size": 1}])
def test_variables_and_output_have_tensorpack_s_names(graph, shape, dtype, options):
    with TrainTowerContext(""):
        y = BatchNorm("bn", tf.zeros(shape, dtype), **options)
    assert {v.op.name: v.shape.as_list() for v in tf.global_variables()} == {
        f"bn/{name}": [4] for name in ("gamma", "beta", "mean/EMA", "variance/EMA")
    }
    assert [v.op.name for v in tf.trainable_variables()] == ["bn/gamma", "bn/beta"]
    assert (y.name, y.shape.as_list()) == ("bn/output:0", shape)
    assert [v.op.name for v in y.variables.all()] == ["bn/mean/EMA", "bn/variance/EMA", "bn/gamma", "bn/beta"]


def test_a_feature_map_takes_few_operations(graph):
    x = tf.placeholder(tf.float32, [None, 3, 3, 4])
    with PredictTowerContext(""):
        y = BatchNorm("bn", x)
    assert y.op.type == "FusedBatchNormV3"


@pytest.mark.parametrize(
    ("shape", "axis", "is_first"), [([2, 3, 4, 5], 1, True), ([2, 3, 4, 5], -1, False), ([2, 5], 1, False)]
)
def test_the_axis_may_be_given(graph, shape, axis, is_first):
    y = BatchNorm("bn", tf.zeros(shape), axis, training=False)
    assert y.variables.beta.shape == [3 if is_first else 5]


def test_older_names_of_arguments_are_known(graph):
    with argscope(BatchNorm, decay=0.5, use_scale=False, use_bias=False):
        y = BatchNorm("bn", tf.zeros([2, 3]), use_local_stat=True, internal_update=True)
    assert len(y.variables.all()) == 2
    assert y.op.type == "Identity"
    BatchNorm("other", tf.zeros([2, 3]), use_local_stat=np.True_, internal_update=False)
    assert len(tf.get_collection(KEYS.UPDATE_OPS)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ema_update": "sometimes"}, "BatchNorm 'bn' got ema_update='sometimes': expected one of default, "),
        (
            {"ema_update": "skip", "internal_update": True},
            "internal_update=True: expected None beside ema_update='skip'",
        ),
        ({"sync_statistics": "horovod"}, "got sync_statistics='horovod': .*; use 'workers', or True for"),
        ({"sync_statistics": "all"}, "got sync_statistics='all': expected None, True, 'towers', 'nccl' or 'workers'"),
        (
            {"sync_statistics": True, "virtual_batch_size": 2},
            "sync_statistics=True and virtual_batch_size=2: expected one",
        ),
        ({"virtual_batch_size": 4}, "got virtual_batch_size=4: expected a divisor of the batch"),
        ({"axis": 2}, r"got axis=2: expected 1 or the last one of shape \(6, 3\)"),
        ({"training": "yes"}, "got training='yes': expected True or False"),
    ],
)
def test_options_that_cannot_work_are_errors(graph, options, message):
    with TrainTowerContext(""), pytest.raises(ConfigError, match=message):
        BatchNorm("bn", tf.zeros([6, 3]), **options)
    assert tf.global_variables() == []


def test_inputs_that_cannot_be_normalised_are_errors(graph):
    with pytest.raises(ConfigError, match=r"BatchNorm .a. got an input of shape .*: expected 2 or 4 dim"):
        BatchNorm("a", tf.zeros([2, 3, 4]), training=True)
    with pytest.raises(ConfigError, match="BatchNorm 'b' got an input .*: expected a known number of channels"):
        BatchNorm("b", tf.placeholder(tf.float32, [2, None]), training=True)
    with pytest.raises(TowerError, match="no tower is current"):
        BatchNorm("c", tf.zeros([2, 3]))


@pytest.mark.parametrize("momentum", [-0.1, 2.0, 90])
def test_a_momentum_outside_of_0_to_1_is_refused(graph, momentum):
    with pytest.raises(ConfigError, match=r"BatchNorm got momentum=.*: expected a number in \[0, 1\]"):
        BatchNorm("bn", tf.zeros([2, 3]), momentum=momentum, training=True)
    assert not tf.global_variables()
