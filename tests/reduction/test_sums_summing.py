"""Sums, and that they repeat bit by bit in the circumstances under which TensorFlow's own do not."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, run, slices, source
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.hierarchical import HierarchicalReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.sums import add_pair, sum_column, sum_tensors
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer


def test_sum_tensors_is_the_sum(session8: Any) -> None:
    assert run(session8, sum_tensors([source(x, "") for x in (1.0, 2.0, 4.0)])) == 7.0


@pytest.mark.parametrize(("op", "total"), [(ReduceOp.SUM, 9.0), (ReduceOp.MEAN, 3.0)])
def test_sum_column_takes_dense_and_sparse(op: ReduceOp, total: float, session8: Any) -> None:
    dense = sum_column([source(x, "") for x in (1.0, 2.0, 6.0)], op)
    sparse = sum_column([slices([[x]], [0], "") for x in (1.0, 2.0, 6.0)], op)
    dense, sparse = run(session8, (dense, sparse))
    assert dense == total
    assert sparse.values.sum() == total


@pytest.mark.parametrize(("dtype", "large"), [(tf.float16, 2048.0), (tf.bfloat16, 256.0)])
def test_16_bit_floats_are_added_in_float32(dtype: Any, large: float, session8: Any) -> None:
    # Added one by one in the 16-bit type, the small numbers are lost beside the large one.
    total = run(session8, sum_tensors([source(x, "", dtype=dtype) for x in (large, 1.0, 1.0, 1.0, 1.0)]))
    assert total.dtype == dtype.as_numpy_dtype
    assert float(total) == large + 4


def test_a_mean_of_float16_does_not_overflow(session8: Any) -> None:
    column = [source(60000.0, "", dtype=tf.float16) for _ in range(4)]
    total, mean = run(session8, [sum_column(column, op) for op in ReduceOp])
    assert total == np.inf
    assert mean == 60000.0


def test_sum_tensors_does_not_overwrite_its_inputs(session8: Any) -> None:
    inputs = [source(np.full(5000, float(k)), f"/device:CPU:{k}") * 2.0 for k in range(4)]
    total = sum_tensors(inputs)
    with tf.control_dependencies([total]):
        later = [tf.identity(value) for value in inputs]
    total, *later = run(session8, [total, *later])
    assert [value[0] for value in later] == [0.0, 2.0, 4.0, 6.0]
    assert total[0] == 12.0


def test_sum_tensors_is_not_joined_with_additions_beside_it(session8: Any) -> None:
    x, y, z = (source(np.full(5, k, np.float32), "") for k in range(3))
    total = sum_tensors([x + y, y, z]) + x
    session8.run(tf.global_variables_initializer())
    _, placed = run_with_devices(session8, total)
    assert {"add", "AddN", "add_1"} <= set(placed)


def test_chains_of_add_pair_stay_as_they_are_written(session8: Any) -> None:
    total = source(np.zeros(5, np.float32), "")
    for k in (1, 2, 3):
        total = add_pair(total, source(np.full(5, k, np.float32), ""))
    session8.run(tf.global_variables_initializer())
    value, placed = run_with_devices(session8, total)
    assert {"Add", "Add_1", "Add_2"} <= set(placed)
    assert value.tolist() == [6.0] * 5


REDUCERS: list[Reducer] = [
    OneDeviceReducer(),
    RoundRobinReducer(),
    HierarchicalReducer(),
    CollectiveReducer(),
    RingReducer(2),
    HalvingDoublingReducer(),
    ShuffleReducer(),
    GradientPackingReducer(RoundRobinReducer(), 2),
]


@pytest.mark.parametrize("reducer", REDUCERS, ids=lambda reducer: reducer.name)
def test_runs_repeat_bit_by_bit_whoever_else_reads_the_gradients(reducer: Reducer, rng: np.random.Generator) -> None:
    # Each gradient is an addition, which TensorFlow would join to the sum, and a fresh buffer, which it would overwrite
    # if the norms happen to be done with it. Without `fix_summation_order`, nearly every run of this differs.
    with tf.Graph().as_default() as graph:
        grads = []
        for device in cpu_devices(8):
            weights = [source(rng.standard_normal((64, 129)), device, dtype=tf.float32) for _ in range(6)]
            with tf.device(device):
                grads.append([tf.sin(w) + 1e-3 * tf.reduce_sum(tf.matmul(w, w, transpose_b=True)) for w in weights])
        norms = [tf.reduce_sum(grad) for tower in grads for grad in tower]
        reduced = reducer.reduce(grads)
        with cpu_session(graph) as session:
            session.run(tf.global_variables_initializer())
            seen = Counter(
                b"".join(value.tobytes() for tower in session.run((reduced, norms))[0] for value in tower)
                for _ in range(12)
            )
    assert len(seen) == 1
