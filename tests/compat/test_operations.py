"""Operations below the public interface of TensorFlow."""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.operations import (
    collective_all_reduce,
    compiled_kernels,
    is_marked_for_compilation,
    mark_for_compilation,
    nccl_all_sum,
    run_after,
)


def test_collective_all_reduce_sums_over_devices(session8, rng):
    values = rng.normal(size=(4, 3, 2)).astype("float32")
    sums = []
    for k, value in enumerate(values):
        with tf.device(f"/device:CPU:{k}"):
            summand = tf.constant(value)
            sums.append(collective_all_reduce(summand, group_size=4, group_key=1, instance_key=7))
    assert [t.op.device for t in sums] == [f"/device:CPU:{k}" for k in range(4)]
    for total in session8.run(sums):
        np.testing.assert_allclose(total, values.sum(0), rtol=1e-5)


def test_collective_all_reduce_passes_its_options_on(graph):
    total = collective_all_reduce(
        tf.constant([1.0]), group_size=2, group_key=3, instance_key=4, hint="ring", timeout_secs=1.5
    )
    attributes = ("group_size", "group_key", "instance_key", "communication_hint", "timeout_seconds", "merge_op")
    assert [total.op.get_attr(name) for name in attributes] == [2, 3, 4, b"ring", 1.5, b"Add"]


def test_nccl_all_sum_builds_one_op_on_each_device(graph):
    tensors = []
    for k in range(3):
        with tf.device(f"/device:GPU:{k}"):
            tensors.append(tf.constant([1.0, 2.0]))
    sums = nccl_all_sum(tensors)
    assert [t.op.type for t in sums] == ["NcclAllReduce"] * 3
    assert [t.device for t in sums] == [f"/device:GPU:{k}" for k in range(3)]
    assert len({t.op.get_attr("shared_name") for t in sums}) == 1
    assert {t.op.get_attr("reduction") for t in sums} == {b"sum"}
    assert {tuple(t.shape) for t in sums} == {(2,)}


def test_run_after_adds_an_order(graph):
    first, second = tf.constant(1), tf.constant(2)
    run_after(second.op, [first.op])
    assert second.op.control_inputs == [first.op]


def test_xla_compiles_what_is_marked_and_tells_for_which_dtypes(graph):
    product = tf.constant([[2.0]]) @ tf.placeholder(tf.float32, [1, 1])
    assert not is_marked_for_compilation(product.op)
    mark_for_compilation(product.op, "scope")
    assert is_marked_for_compilation(product.op)
    with tf.Session() as session:
        session.run(tf.no_op())
    dtypes = [kernel["T"] for kernel in compiled_kernels("MatMul", "CPU")]
    assert any(tf.float32.as_datatype_enum in each for each in dtypes)
    assert not any(tf.string.as_datatype_enum in each for each in dtypes)
    assert compiled_kernels("PyFunc", "CPU") == []
