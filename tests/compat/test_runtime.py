"""Versions, devices, sessions and profiles, against public means to the same end."""

import json

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf

from tpack.compat import runtime
from tpack.compat.private_names import private_module
from tpack.compat.runtime import (
    chrome_trace,
    get_tf_version_tuple,
    is_mixed_precision_rewrite_enabled,
    is_onednn_enabled,
    is_tfv2,
    list_local_devices,
    make_callable,
    make_multi_device_iterator,
    silent_deprecations,
    tfv1,
)


def test_version_is_the_installed_one(monkeypatch):
    assert get_tf_version_tuple() == tuple(int(part) for part in tensorflow.__version__.split(".")[:2])
    assert is_tfv2()
    monkeypatch.setattr(tensorflow, "__version__", "2.17.0-rc1")
    assert get_tf_version_tuple() == (2, 17)
    monkeypatch.setattr(tensorflow, "__version__", "1.15.5")
    assert not is_tfv2()


def test_tfv1_is_the_compatible_interface():
    assert tfv1 is tf


def test_a_multi_device_iterator_deals_elements_out(session8):
    devices = ["/device:CPU:1", "/device:CPU:2"]
    iterator = make_multi_device_iterator(tf.data.Dataset.range(5), devices, buffer_size=2)
    elements = iterator.get_next()
    session8.run(iterator.initializer)
    assert [element.device for element in elements] == devices
    assert [session8.run(elements), session8.run(elements)] == [[0, 1], [2, 3]]


@pytest.fixture(params=["", "public"])
def way(request, monkeypatch):
    """Calls by the private method of sessions, and by the public ones that take its place where it is missing."""
    if request.param:
        monkeypatch.delattr(tf.Session.__mro__[1], "_make_callable_from_options")
        monkeypatch.setattr(runtime, "missing_names", lambda feature: ("Session._make_callable_from_options",))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("in_caller_thread", [False, True])
def test_make_callable_gives_what_session_run_gives(session8, rng, in_caller_thread):
    a, b = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [3])
    count = tf.get_variable("count", initializer=0, use_resource=True)
    fetches = [a * b, tf.reduce_sum(a)]
    session8.run(count.initializer)
    call = make_callable(
        session8, feeds=[a, b], fetches=fetches, targets=[count.assign_add(1).op], in_caller_thread=in_caller_thread
    )
    for step in range(1, 4):
        arrays = rng.normal(size=(step, 3)).astype("float32"), rng.normal(size=3).astype("float32")
        for got, expected in zip(call(*arrays), session8.run(fetches, {a: arrays[0], b: arrays[1]}), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert session8.run(count) == step


def test_make_callable_wakes_up_when_another_thread_feeds_a_queue(session8):
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    enqueue, dequeue = queue.enqueue(7), queue.dequeue()
    call = make_callable(session8, fetches=[dequeue], in_caller_thread=True)
    coordinator = tf.train.Coordinator()
    thread = tf.train.LooperThread(
        coordinator, None, target=lambda: (session8.run(enqueue), coordinator.request_stop())
    )
    thread.start()
    assert call() == [7]
    thread.join()


@pytest.mark.usefixtures("way")
def test_make_callable_gives_up_after_its_timeout(session8):
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    call = make_callable(session8, fetches=[queue.dequeue()], timeout_in_ms=20)
    with pytest.raises(tf.errors.DeadlineExceededError):
        call()


def test_chrome_trace_names_the_operations_of_the_run(session8):
    metadata = tf.RunMetadata()
    matrix, traced = tf.placeholder(tf.float32, [2, 2]), tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    product = tf.matmul(matrix, matrix, name="product")
    session8.run(product, {matrix: np.eye(2)}, options=traced, run_metadata=metadata)
    events = json.loads(chrome_trace(metadata))["traceEvents"]
    assert "product" in {event.get("args", {}).get("name") for event in events}


def test_local_devices_are_those_of_a_session_with_the_same_config(graph):
    config = tf.ConfigProto(device_count={"CPU": 3})
    with tf.Session(config=config) as session:
        wanted = [device.name.replace("/job:localhost/replica:0/task:0", "") for device in session.list_devices()]
    assert [device.name for device in list_local_devices(config)] == wanted
    assert "/device:CPU:0" in [device.name for device in list_local_devices()]


def test_onednn_is_enabled_where_pooling_works_with_the_channels_first(session8):
    with tf.device("/device:CPU:0"):
        pooled = tf.nn.max_pool2d(tf.Variable(tf.ones([1, 1, 2, 2])), 2, 2, "VALID", data_format="NCHW")
    session8.run(tf.global_variables_initializer())
    try:
        session8.run(pooled)
    except tf.errors.InvalidArgumentError:
        assert not is_onednn_enabled()
    else:
        assert is_onednn_enabled()


def test_settings_that_cannot_be_read_count_as_switched_off(monkeypatch):
    for name in ("util_port", "mixed_precision_global_state", "deprecation"):
        monkeypatch.setattr(runtime, name, private_module("tensorflow.python.no_such_module"))
    assert not is_onednn_enabled()
    assert not is_mixed_precision_rewrite_enabled()
    with silent_deprecations():
        assert tf.constant(1) is not None
