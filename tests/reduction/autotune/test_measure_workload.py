import json

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ReductionError
from tpack.reduction.autotune.measure import Workload, make_workload


def test_devices_shapes_and_dtypes_become_plain_data():
    workload = make_workload(["/cpu:0", "/gpu:1"], [tf.TensorShape([2, 3]), [], (0, 4)], [tf.float32, "int32", tf.half])
    assert workload.devices == ("/device:CPU:0", "/device:CPU:1")
    assert workload.shapes == ((2, 3), (), (0, 4))
    assert workload.dtypes == ("float32", "int32", "float16")
    assert workload.size_bytes == 6 * 4 + 4
    assert workload.has_integers
    assert Workload.from_json(json.loads(json.dumps(workload.as_json()))) == workload


def test_one_dtype_is_that_of_all():
    workload = make_workload(cpu_devices(2), [[2], [3]], "bfloat16")
    assert workload.dtypes == ("bfloat16", "bfloat16")
    assert workload.size_bytes == 10
    assert not workload.has_integers


def test_devices_of_other_processes_are_known():
    assert make_workload(["/job:localhost/task:0/cpu:0", "/cpu:1"], []).is_local
    assert not make_workload(["/cpu:0", "/job:worker/task:0/cpu:0"], []).is_local
    assert not make_workload(["/task:1/cpu:0"], []).is_local


@pytest.mark.parametrize("devices", [[], ["/cpu:0", "/cpu:0"], ["/cpu:0", "/device:CPU:0"], ["/cpu:0", ""]])
def test_each_tower_has_a_device_of_its_own(devices):
    with pytest.raises(ReductionError, match="got devices=.*: expected a device of its own for each tower"):
        make_workload(devices, [])


def test_unknown_shapes_and_missing_dtypes_are_refused():
    with pytest.raises(ReductionError, match=r"gradient 1 has shape \(None, 3\): expected a fully defined shape"):
        make_workload(cpu_devices(2), [[2], [None, 3]])
    with pytest.raises(ReductionError, match="got 1 dtypes for 2 shapes"):
        make_workload(cpu_devices(2), [[2], [3]], ["float32"])
