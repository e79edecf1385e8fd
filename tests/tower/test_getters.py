"""Custom getters: where variables are collected and cached."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tpack.errors import ConfigError
from tpack.tower.getters import (
    OverrideCachingDevice,
    custom_getter_scope,
    override_to_local_variable,
    to_local_collections,
)

GLOBAL, LOCAL = tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES


def names(variables):
    return [v.op.name for v in variables]


def test_custom_getter_scope_changes_no_name(graph):
    def double(getter, name, *args, **kwargs):
        return 2 * getter(name, *args, **kwargs)

    with tf.name_scope("ns"), tf.variable_scope("vs", auxiliary_name_scope=False):
        with custom_getter_scope(double):
            doubled = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
            inside = tf.constant(0).op.name
        outside = tf.get_variable("w", initializer=1.0, use_resource=True)
    assert names(tf.global_variables()) == ["vs/v", "vs/w"]
    assert inside == "ns/Const"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run([doubled, outside])
    np.testing.assert_array_equal(values[0], [2, 4])
    assert values[1] == 1


@pytest.mark.parametrize(
    ("collections", "expected"),
    [(None, [LOCAL]), ([], [LOCAL]), ([GLOBAL], [LOCAL]), ((GLOBAL, "a"), ["a", LOCAL]), (["a"], ["a", LOCAL])],
)
def test_to_local_collections_leaves_the_caller_his_arguments(collections, expected):
    kwargs = {"collections": collections, "other": 1}
    assert to_local_collections(kwargs) == {"collections": expected, "other": 1}
    assert kwargs == {"collections": collections, "other": 1}
    assert to_local_collections({}) == {"collections": [LOCAL]}


@pytest.mark.parametrize("collections", [None, [GLOBAL], ["mine", GLOBAL]])
def test_override_to_local_variable_makes_local_ones(session8, collections):
    with override_to_local_variable():
        tf.get_variable("a", initializer=3.0, collections=collections, use_resource=True)
    tf.get_variable("b", initializer=4.0, use_resource=True)
    assert names(tf.local_variables()) == ["a"]
    assert names(tf.global_variables()) == ["b"]
    session8.run(tf.local_variables_initializer())
    assert session8.run(tf.local_variables()) == [3.0]
    assert session8.run(tf.report_uninitialized_variables()).tolist() == [b"b"]


def test_override_to_local_variable_can_be_off(graph):
    with override_to_local_variable(enable=False):
        tf.get_variable("a", [])
    assert names(tf.global_variables()) == ["a"]
    assert tf.local_variables() == []


def make(getter, name, *args, **options):
    """Create a variable through `getter` and return the device that it is cached on."""
    with custom_getter_scope(getter):
        tf.get_variable(name, *args, use_resource=True, **options)
    (variable,) = (v for v in [*tf.global_variables(), *tf.local_variables()] if v.op.name == name)
    return variable.value().device


def test_caching_balances_bytes(graph):
    getter = OverrideCachingDevice(["/device:CPU:1", "/device:CPU:2"], "/device:CPU:0", 4)
    cached = [
        make(getter, "a", [100]),
        make(getter, "small", [3]),
        make(getter, "b", [60], tf.float64),
        make(getter, "at_threshold", [4]),
        make(getter, "half", [300], tf.float16),
        make(getter, "c", [1]),
    ]
    assert [tf.DeviceSpec.from_string(device).device_index for device in cached] == [1, 0, 2, 1, 1, 0]
    assert getter.sizes == [100 * 4 + 4 * 4 + 300 * 2, 60 * 8]
    assert getter.devices == ["/device:CPU:1", "/device:CPU:2"]


def test_a_cached_variable_is_read_from_its_device(session8):
    getter = OverrideCachingDevice(["/device:CPU:5"], "/device:CPU:0", 1)
    assert make(getter, "v", [2], initializer=tf.constant_initializer(3.0)).endswith("CPU:5")
    (variable,) = tf.trainable_variables()
    session8.run(variable.initializer)
    doubled = variable * 2.0
    np.testing.assert_array_equal(session8.run(doubled), [6, 6])
    assert placed_devices(session8, doubled)[variable.value().op.name] == "/device:CPU:5"


@pytest.mark.parametrize(("initial", "size"), [([1.0] * 8, 32), (np.ones([2, 4]), 64), (3.0, 4), ("tensor", 16)])
def test_an_initial_value_tells_its_size(graph, initial, size):
    getter = OverrideCachingDevice(["/device:CPU:1"], "/device:CPU:0", 1)
    value = tf.zeros([4]) if isinstance(initial, str) else initial
    assert make(getter, "v", initializer=value) == "/device:CPU:1"
    assert getter.sizes == [size]
    assert names(tf.global_variables()) == ["v"]


@pytest.mark.parametrize("collections", [None, [GLOBAL]])
def test_what_is_not_trainable_becomes_local_and_is_not_cached(graph, collections):
    getter = OverrideCachingDevice(["/device:CPU:1"], "/device:CPU:0", 1)
    assert make(getter, "v", [100], trainable=False, collections=collections) == ""
    assert names(tf.local_variables()) == ["v"]
    assert tf.global_variables() == []
    assert getter.sizes == [0]


def test_an_unknown_size_becomes_local_and_is_not_cached(graph):
    getter = OverrideCachingDevice(["/device:CPU:1"], "/device:CPU:0", 1)
    unknown = tf.placeholder(tf.float32, [None])
    assert make(getter, "v", initializer=unknown, validate_shape=False) == ""
    assert names(tf.local_variables()) == ["v"]


def test_no_device_to_cache_on_is_an_error():
    with pytest.raises(ConfigError, match="expected at least one device"):
        OverrideCachingDevice([], "/device:CPU:0", 1)
