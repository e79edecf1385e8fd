"""The all-reduce functions of ``tf.contrib``, against sums."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.errors import ReductionError
from tpack.tf1.contrib.all_reduce.python import all_reduce

ARRAYS = [np.arange(6.0) * (k + 1) for k in range(4)]
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(4)]


def on_devices():
    tensors = []
    for array, device in zip(ARRAYS, DEVICES, strict=True):
        with tf.device(device):
            tensors.append(tf.constant(array))
    return tensors


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("build_ring_all_reduce", (1, 1, [0, 1, 2, 3])),
        ("build_ring_all_reduce", (2, 2, [1, 0])),
        ("build_recursive_hd_all_reduce", ()),
        ("build_shuffle_all_reduce", (DEVICES[:2],)),
    ],
)
def test_each_device_gets_the_sum(name, arguments, session8):
    reduced = getattr(tf.contrib.all_reduce, name)(on_devices(), *arguments, tf.add, lambda total: total / 4)
    assert [tensor.device for tensor in reduced] == DEVICES
    for value in session8.run(reduced):
        np.testing.assert_allclose(value, np.mean(ARRAYS, 0))


def test_what_is_no_sum_is_refused(graph):
    assert all(
        getattr(tf.contrib.all_reduce, name) is getattr(all_reduce, name) for name in tf.contrib.all_reduce.__all__
    )
    with pytest.raises(ReductionError, match="got red_op='multiply': expected tf.add"):
        all_reduce.build_recursive_hd_all_reduce(on_devices(), tf.multiply)
    with pytest.raises(ReductionError, match=r"4 tensors, num_workers=2 and gpu_perm=\[0\]: expected an order"):
        all_reduce.build_ring_all_reduce(on_devices(), 2, 1, [0], tf.add)
    # Without GPUs there is nothing for NCCL.
    with pytest.raises(ReductionError):
        all_reduce.build_nccl_all_reduce(on_devices(), tf.add)
