"""Operations below the public interface of TensorFlow."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.compat import operations
from tpack.compat.operations import (
    add_nodes,
    collective_all_reduce,
    compiled_kernels,
    is_marked_for_compilation,
    loop_in_graph,
    mark_for_compilation,
    nccl_all_sum,
    run_after,
    serialized_graph,
)
from tpack.errors import DependencyError


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


@pytest.mark.parametrize("missing", [(), ("Graph._c_graph",)])
def test_nodes_are_added_outside_of_all_open_blocks(graph, monkeypatch, missing):
    monkeypatch.setattr(operations, "missing_names", lambda feature: missing)
    first, given = tf.no_op("first"), tf.constant([1.0, 2.0], name="given")
    nodes = tf.GraphDef()
    node = nodes.node.add(name="scope/sum", op="AddV2", input=["given", "other:0", "^first"], device="/device:CPU:1")
    node.attr["T"].type = tf.float32.as_datatype_enum
    with tf.name_scope("open"), tf.device("/device:CPU:0"), tf.control_dependencies([tf.no_op("around")]):
        (added,) = add_nodes(graph, nodes, {"given": given, "other:0": given}, {"first": first})
    assert (added.name, added.device) == ("scope/sum", "/device:CPU:1")
    assert list(added.inputs) == [given, given]
    (control,) = added.control_inputs
    assert first in (control, *control.control_inputs)
    assert tf.GraphDef.FromString(serialized_graph(graph)).node[-1].name == "scope/sum"


def test_nodes_beside_others_need_what_is_missing(graph, monkeypatch):
    monkeypatch.setattr(operations, "missing_names", lambda feature: ("Graph._c_graph",))
    tf.no_op("there")
    nodes = tf.GraphDef()
    nodes.node.add(name="new", op="NoOp").attr["_class"].list.s.append(b"loc:@there")
    with pytest.raises(
        DependencyError, match="many operations at once got TensorFlow .* without Graph._c_graph: expected"
    ):
        add_nodes(graph, nodes, {}, {})


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_loop_in_the_graph_makes_its_turns(session8, monkeypatch, is_missing):
    if is_missing:
        monkeypatch.setattr(operations, "control_flow_ops", None)
        monkeypatch.setattr(tf, "control_flow_v2_enabled", lambda: False)
    turns = loop_in_graph(lambda n, total: n < 4, lambda n, total: (n + 1, total + n), (tf.constant(0), tf.constant(0)))
    assert session8.run(turns) == (4, 6)
