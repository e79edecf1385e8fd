"""Sums, and that they repeat bit by bit in the circumstances under which TensorFlow's own do not."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices, run_with_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, run, slices, source
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.sums import (
    add_pair,
    concat_slices,
    copy_slices_to_each,
    copy_to_each,
    divide,
    on_device,
    on_device_of,
    sum_column,
    sum_tensors,
    widened,
)
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer


def test_on_device_ignores_outer_scopes(graph: Any) -> None:
    with tf.device("/device:CPU:5"), tf.device(lambda op: "/device:CPU:6"), on_device("/device:CPU:1"):
        op = tf.no_op()
    assert op.device == "/device:CPU:1"


def test_on_device_ignores_colocation(graph: Any) -> None:
    other = source(1.0, "/device:CPU:5")
    with tf.get_default_graph().colocate_with(other.op), on_device("/device:CPU:1"):
        op = tf.no_op()
    assert op.device == "/device:CPU:1"
    assert op.colocation_groups() == [b"loc:@" + op.name.encode()]


def test_on_device_of_follows_tensors_slices_and_variables(graph: Any) -> None:
    with tf.device("/device:CPU:3"):
        variable = tf.Variable(1.0, use_resource=True)
    for value in (source(1.0, "/device:CPU:3"), slices([[1.0]], [0], "/device:CPU:3"), variable):
        with tf.device("/device:CPU:1"), on_device_of(value):
            assert tf.no_op().device == "/device:CPU:3"


def test_on_device_of_an_unplaced_value_runs_beside_it(session8: Any) -> None:
    # Nothing places this tensor until it is colocated with something that has a place.
    with session8.graph.colocate_with(source(1.0, "/device:CPU:4").op):
        unplaced = source(2.0, None)
    session8.graph.get_operation_by_name(unplaced.op.name)._set_device("")
    with tf.device("/device:CPU:1"), on_device_of(unplaced):
        beside = unplaced * 3.0
    run(session8, beside)
    placed = placed_devices(session8, [beside, unplaced])
    assert beside.device == ""
    assert placed[beside.op.name] == placed[unplaced.op.name]


def test_copy_to_each_puts_a_copy_beside_each_member(session8: Any) -> None:
    column = [source(0.0, f"/device:CPU:{k}") for k in (2, 0, 7)]
    copies = copy_to_each(source(5.0, "/device:CPU:1"), column)
    assert run(session8, copies) == [5.0] * 3
    placed = placed_devices(session8, copies)
    assert [placed[copy.op.name] for copy in copies] == ["/device:CPU:2", "/device:CPU:0", "/device:CPU:7"]


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


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_a_pair_of_16_bit_floats_has_one_sum_in_whichever_type_it_is_added(dtype: Any, rng: Any, session8: Any) -> None:
    bits = rng.integers(0, 2**16, size=(2, 10**6)).astype(np.uint16)
    left, right = (tf.placeholder(dtype, [None]) for _ in bits)
    sums = [tf.bitcast(total, tf.uint16) for total in (add_pair(left, right), sum_tensors([left, right]))]
    values = bits.view(dtype.as_numpy_dtype)
    own, widened = session8.run(sums, {left: values[0], right: values[1]})
    # What is no number has many representations.
    is_number = np.isfinite(values.astype(np.float32)).all(axis=0)
    np.testing.assert_array_equal(own[is_number], widened[is_number])
    assert is_number.sum() > 8 * 10**5


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
        with cpu_session(graph, rewrites=True) as session:
            session.run(tf.global_variables_initializer())
            seen = Counter(
                b"".join(value.tobytes() for tower in session.run((reduced, norms))[0] for value in tower)
                for _ in range(12)
            )
    assert len(seen) == 1


def test_divide_by_one_adds_nothing(graph: Any) -> None:
    tensor = tf.constant(2.0)
    assert divide(tensor, 1) is tensor


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64])
def test_divide_keeps_the_dtype(dtype: Any, session8: Any) -> None:
    quotient = divide(source([3.0, 6.0], "", dtype=dtype), 3)
    assert quotient.dtype == dtype
    assert run(session8, tf.cast(quotient, tf.complex128)).tolist() == pytest.approx([1.0, 2.0], rel=2**-7)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_widened_makes_16_bit_floats_wide(dtype: Any, graph: Any) -> None:
    assert widened(tf.ones([2], dtype)).dtype == tf.float32


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64, tf.complex64])
def test_widened_leaves_other_types_as_they_are(dtype: Any, graph: Any) -> None:
    tensor = tf.ones([2], dtype)
    assert widened(tensor) is tensor


def test_concat_slices_keeps_the_order_of_towers_and_duplicates(session8: Any) -> None:
    column = [slices([[1.0], [2.0]], [3, 3], ""), slices(np.zeros((0, 1)), [], ""), slices([[4.0]], [3], "")]
    total = run(session8, concat_slices(column))
    assert total.values.tolist() == [[1.0], [2.0], [4.0]]
    assert total.indices.tolist() == [3, 3, 3]
    assert total.dense_shape is None


def test_concat_slices_divides_the_values(session8: Any) -> None:
    total = run(session8, concat_slices([slices([[1.0]], [0], ""), slices([[3.0]], [2], "", rows=5)], 2))
    assert total.values.tolist() == [[0.5], [1.5]]
    assert total.dense_shape.tolist() == [5, 1]


def test_copy_slices_to_each_keeps_each_dense_shape(session8: Any) -> None:
    column = [slices([[1.0]], [0], "/device:CPU:1", rows=4), slices([[1.0]], [0], "/device:CPU:2")]
    copies = copy_slices_to_each(concat_slices(column), column)
    assert [copy.device for copy in copies] == ["/device:CPU:1", "/device:CPU:2"]
    assert [copy.indices.device for copy in copies] == ["/device:CPU:1", "/device:CPU:2"]
    assert [copy.dense_shape.tolist() for copy in run(session8, copies)] == [[4, 1], [4, 1]]


def test_copy_slices_to_each_without_any_dense_shape(session8: Any) -> None:
    column = [slices([[1.0]], [0], "/device:CPU:1"), slices([[2.0]], [1], "/device:CPU:2")]
    copies = copy_slices_to_each(concat_slices(column), column)
    assert all(isinstance(copy, tf.IndexedSlices) and copy.dense_shape is None for copy in copies)
