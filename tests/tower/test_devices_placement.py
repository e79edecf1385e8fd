"""Variables go to the least loaded device: judged by where TensorFlow ran them, not by what was asked for."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.partition_graphs import placed_devices
from tpack.errors import ConfigError, DeviceError
from tpack.tower import devices
from tpack.tower.devices import LeastLoaded, LeastLoadedDeviceSetter


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", list)


def expected_devices(sizes, num_devices):
    loads, chosen = np.zeros(num_devices, int), []
    for size in sizes:
        chosen.append(int(np.argmin(loads)))
        loads[chosen[-1]] += size
    return chosen, loads.tolist()


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_run_where_the_bytes_balance(session8, rng, use_resource):
    shapes = [(int(n), 3) for n in rng.integers(1, 50, 20)]
    dtypes = [(tf.float32, tf.float64, tf.float16)[k % 3] for k in range(20)]
    setter = LeastLoadedDeviceSetter("/gpu:0", [f"/gpu:{k}" for k in range(1, 6)])
    with tf.device(setter):
        variables = [
            tf.get_variable(f"v{k}", shape, dtype, tf.ones_initializer(), use_resource=use_resource)
            for k, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
        ]
    sizes = [np.prod(shape) * dtype.size for shape, dtype in zip(shapes, dtypes, strict=True)]
    chosen, loads = expected_devices(sizes, 5)
    placed = placed_devices(session8, [v.initializer for v in variables])
    assert [placed[f"v{k}"] for k in range(20)] == [f"/device:CPU:{index + 1}" for index in chosen]
    assert setter.ps_sizes == loads
    assert max(loads) - min(loads) <= max(sizes)


def test_computation_runs_on_the_worker(session8):
    with tf.device(LeastLoadedDeviceSetter("/gpu:2", ["/gpu:5"])):
        variable = tf.get_variable("v", [4], initializer=tf.ones_initializer(), use_resource=True)
        placeholder = tf.placeholder_with_default(np.ones(4, "float32"), [4])
        total = tf.multiply(variable, placeholder, name="product")
    session8.run(variable.initializer)
    placed = placed_devices(session8, total)
    assert placed["product"] == "/device:CPU:2"
    assert placed["v"] == "/device:CPU:5"


def test_a_device_asked_for_inside_stays(graph):
    setter = LeastLoadedDeviceSetter("/gpu:0", ["/gpu:1"])
    with tf.device(setter), tf.device("/cpu:7"):
        variable = tf.get_variable("v", [4], use_resource=True)
        constant = tf.constant(1)
    assert variable.device == constant.device == "/device:CPU:7"
    assert setter.ps_sizes == [0]


def test_unknown_shapes_count_as_nothing_with_one_warning(graph):
    setter = LeastLoadedDeviceSetter("/cpu:0", ["/cpu:1", "/cpu:2"])
    unknown = tf.placeholder(tf.float32, [None, 2])
    with captured_log() as lines, tf.device(setter):
        first = tf.Variable(unknown, validate_shape=False, use_resource=True, name="first", shape=tf.TensorShape(None))
        tf.Variable(unknown, validate_shape=False, use_resource=False, name="second")
        known = tf.get_variable("known", [3], tf.float64, use_resource=True)
    warnings = [line for line in lines if "of unknown size" in line]
    assert len(warnings) == 1
    assert "counts first and other variables" in warnings[0]
    assert first.device == known.device == "/device:CPU:1"
    assert setter.ps_sizes == [24, 0]


def test_place_with_balance_can_be_asked_directly(graph):
    setter = LeastLoadedDeviceSetter("", ["/gpu:1", "/gpu:3"])
    ops = [tf.get_variable(f"v{k}", [k + 1], use_resource=True).handle.op for k in range(3)]
    assert [setter.place_with_balance(op) for op in ops] == ["/device:CPU:1", "/device:CPU:3", "/device:CPU:1"]
    assert setter.ps_sizes == [16, 8]


def test_lists_are_copies_and_the_name_is_the_worker():
    setter = LeastLoadedDeviceSetter("/gpu:1", ["/gpu:0", "/cpu:2"])
    setter.ps_sizes.append(1)
    setter.ps_devices.clear()
    assert setter.ps_devices == ["/device:CPU:0", "/device:CPU:2"]
    assert setter.ps_sizes == [0, 0]
    assert str(setter) == "LeastLoadedDeviceSetter-/device:CPU:1"


def test_no_device_for_variables_is_an_error():
    with pytest.raises(ConfigError, match="at least one device"):
        LeastLoadedDeviceSetter("/cpu:0", [])


@pytest.mark.parametrize(("worker", "ps"), [("/gpu:9", ["/cpu:0"]), ("/cpu:0", ["/gpu:0", "/gpu:9"])])
def test_a_gpu_that_the_machine_lacks_is_an_error(monkeypatch, worker, ps):
    monkeypatch.setattr(devices, "list_gpus", lambda: ["/device:GPU:0"])
    with pytest.raises(DeviceError, match="there is no GPU 9"):
        LeastLoadedDeviceSetter(worker, ps)


def test_take_gives_equal_loads_to_the_first():
    load = LeastLoaded(["a", "b", "c"])
    assert [load.take(1) for _ in range(4)] == ["a", "b", "c", "a"]
    assert load.sizes == [2, 1, 1]


def test_take_keeps_loads_within_the_largest_item(rng):
    load, expected = LeastLoaded("abcd"), np.zeros(4, int)
    for size in rng.integers(1, 1000, 200).tolist():
        least = int(np.argmin(expected))
        assert load.take(size) == "abcd"[least]
        expected[least] += size
    assert load.sizes == expected.tolist()
    assert max(load.sizes) - min(load.sizes) <= 1000


def test_no_device_is_an_error():
    with pytest.raises(ConfigError, match="at least one device"):
        LeastLoaded([])
