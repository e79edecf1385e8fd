"""The fixtures of ``conftest.py`` give what their docstrings promise."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests import conftest
from tests.helpers.sessions import cpu_session


def test_graph_is_fresh_and_current(graph):
    assert tf.get_default_graph() is graph
    assert graph.get_operations() == []


def test_session8_has_eight_devices_and_is_current(session8):
    names = [device.name for device in session8.list_devices()]
    assert [name for name in names if name.endswith("CPU:7")]
    assert tf.get_default_session() is session8
    with tf.device("/device:CPU:7"):
        assert session8.run(tf.add(1, 2)) == 3


def test_cpu_session_refuses_a_device_it_lacks(graph):
    with tf.device("/device:CPU:2"):
        total = tf.add(tf.constant(1), 2)
    with cpu_session(graph, num_cpus=2) as session, pytest.raises(tf.errors.InvalidArgumentError, match="CPU:2"):
        session.run(total)


def test_rng_repeats_itself(rng):
    np.testing.assert_array_equal(rng.integers(0, 100, 5), np.random.default_rng(20160916).integers(0, 100, 5))


def test_a_test_with_an_address_in_its_name_is_refused(request):
    named = types.SimpleNamespace(nodeid=f"test_that[{object()}]")
    with pytest.raises(pytest.UsageError, match=r"holds an address: test_that\[<object"):
        request.config.hook.pytest_itemcollected(item=named)


def test_a_module_that_leaves_a_default_graph_is_refused(graph):
    collecting = conftest.pytest_make_collect_report(types.SimpleNamespace(nodeid="tests/test_it.py"))
    next(collecting)
    with pytest.raises(pytest.UsageError, match=r"tests/test_it.py turns eager execution off"):
        collecting.send("report")
