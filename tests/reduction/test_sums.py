from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tests.helpers.tower_grads import run, slices, source
from tpack.reduction.sums import copy_to_each, on_device, on_device_of


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
